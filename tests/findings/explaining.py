"""A real experiment, run and explained."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.cli.invocation import nfslab

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def explained(
    content: str, folder: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> dict[str, Any]:
    """What `nfslab explain --json` says of it; `options` of `nfslab run`."""
    file, results = folder / "experiment.toml", folder / "results"
    file.write_text(content)
    ran = nfslab(capsys, "run", file, "--results", results, *options)
    assert ran.code == 0, ran.out + ran.err
    (made,) = results.iterdir()
    told: dict[str, Any] = json.loads(nfslab(capsys, "explain", made, "--json").out)
    return told
