"""The runner stamps what it makes on an emulated machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from nfslab.experiment import execution
from nfslab.results.emulation import is_stamped
from nfslab.results.outcomes import Outcomes

from tests.experiment.session_support import only_folder, run

Write = Callable[..., Path]


@pytest.mark.parametrize("here", [True, False])
def test_every_run_is_stamped_or_none(
    here: bool, experiment_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "is_emulated", lambda: here)
    file = experiment_file(("values = [1, 2, 4]", "values = [2]"))
    run(file)
    outcomes = Outcomes(only_folder(file))
    assert outcomes.counted
    assert {is_stamped(line.flags) for line in outcomes.catalogue.lines} == {here}
