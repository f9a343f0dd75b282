"""A file in place of /proc/self/mountstats, for a run whose place is then on NFS."""

from __future__ import annotations

from pathlib import Path

import pytest
from nfslab.storage import mountstats
from nfslab.targets.base import Place

from tests.storage.mountstats_text import Written


class Planted:
    """A mount whose counters a test sets."""

    def __init__(self, file: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file, self.point = file, str(place.mount_point)
        place.filesystem = "nfs"
        monkeypatch.setattr(mountstats, "MOUNTSTATS", str(file))
        self.say()

    def say(self, age: int = 10, **operations: list[int]) -> None:
        """The counters from now on; of the connection each is the age."""
        made = Written(
            point=self.point, age=age, operations=operations, transports=[("tcp", [age] * 13)]
        )
        self.file.write_text("device tmpfs mounted on / with fstype tmpfs\n" + made.text())
