"""Commands that measure by themselves say it when an emulated processor does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nfslab.cli import files, sfs
from nfslab.machine.emulation import SENTENCE

from tests.cli.invocation import nfslab

Capture = pytest.CaptureFixture[str]
SMALL = ("--load", "200", "--files", "60", "--time", "0.2s", "--warm-up", "0.1s")


@pytest.mark.parametrize("here", [True, False])
def test_files(
    here: bool, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "is_emulated", lambda: here)
    asked = ("files", tmp_path, "--size", "64k", "--phases", "block-write")
    assert (SENTENCE in nfslab(capsys, *asked).out) is here
    assert (SENTENCE in json.loads(nfslab(capsys, *asked, "--json").out)["flags"]) is here


@pytest.mark.parametrize("here", [True, False])
def test_sfs(here: bool, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sfs, "is_emulated", lambda: here)
    asked = ("sfs", "null", *SMALL)
    assert nfslab(capsys, *asked).out.startswith(SENTENCE) is here
    assert (json.loads(nfslab(capsys, *asked, "--json").out)["emulated"] == SENTENCE) is here
