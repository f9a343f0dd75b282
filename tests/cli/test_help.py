"""`nfslab --help`: every command with its line; `nfslab quickstart` has one, too."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from nfslab.shipped import experiment_files

from tests.cli.invocation import nfslab


def test_help(capsys: pytest.CaptureFixture[str], snapshot: Callable[[str, str], None]) -> None:
    said = nfslab(capsys, "--help")
    assert (said.code, said.err) == (0, "")
    snapshot("help.txt", said.out)


def test_quickstart_runs_the_experiment_of_that_name(capsys: pytest.CaptureFixture[str]) -> None:
    """All of it is run by .ci/minimal."""
    assert 'kind = "pgbench"' in experiment_files()["quickstart"].read_text()
    said = nfslab(capsys, "quickstart", "--help")
    assert (said.code, "nfslab quickstart" in said.out) == (0, True)
