"""Saved readings of a real server of the kernel in place of this machine's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from nfslab.storage import nfsd

READINGS = Path(__file__).parents[1] / "storage" / "nfsd"
"""See README.md there."""
KERNELS = sorted(path.name for path in READINGS.iterdir() if path.is_dir())


class Planted:
    """The kernel's files are what was last said."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir()
        monkeypatch.setattr(nfsd, "STATISTICS", str(folder / "nfsd"))
        monkeypatch.setattr(nfsd, "FILES", str(folder))

    def say(self, kernel: str, when: str) -> None:
        """`when`: start or end."""
        shutil.copytree(READINGS / kernel / when, self.folder, dirs_exist_ok=True)
