"""The class of the file behind each descriptor of a server (/proc/PID/fd), as it was seen.

InnoDB keeps its files open. Where a descriptor was one file's and then another's of another class
(more tables than `innodb_open_files`), the calls on it have no class.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from nfslab.evidence.mariadb.calls import SOCKET
from nfslab.evidence.syscalls.tables import is_no_plain_file
from nfslab.storage.file_classes import read_file_classes

DURABLE: Final = " (O_DSYNC)"
"""Behind the class of a file of which a write returns when its bytes are durable."""
O_DSYNC: Final = 0o10000


class Descriptors:
    """Looks at those of one process."""

    def __init__(self, pid: int) -> None:
        self._folder = Path("/proc") / str(pid)
        self._classes = read_file_classes()
        self._paths: dict[int, str] = {}
        self.class_of: dict[int, str] = {}
        self.mixed: set[int] = set()
        """Those of files of several classes."""

    def begin(self) -> None:
        """The timed part begins: what was open before, and is not now, is forgotten."""
        self._paths.clear()
        self.class_of.clear()
        self.mixed.clear()
        self.look()

    def look(self) -> None:
        """Now; nothing of a process that is gone, or is another user's."""
        found: dict[int, str] = {}
        try:
            for name in os.listdir(self._folder / "fd"):
                try:
                    found[int(name)] = os.readlink(self._folder / "fd" / name)
                except FileNotFoundError:  # closed meanwhile
                    continue
        except OSError:
            return
        fresh = {number: path for number, path in found.items() if self._paths.get(number) != path}
        self._paths |= fresh
        for number, path in fresh.items():
            self._note(number, self._class_of(number, path))

    def _note(self, number: int, name: str) -> None:
        if self.class_of.setdefault(number, name) != name:
            self.mixed.add(number)
            self.class_of[number] = ""

    def _class_of(self, number: int, path: str) -> str:
        from nfslab._core import classify_paths

        if is_no_plain_file(path):
            return SOCKET if path.startswith("socket:") else ""
        (name,) = classify_paths([path.removesuffix(" (deleted)")], self._classes)
        return (name or "") + (DURABLE if name and self._is_durable(number) else "")

    def _is_durable(self, number: int) -> bool:
        try:
            said = (self._folder / "fdinfo" / str(number)).read_text(encoding="ascii")
        except OSError:
            return False
        lines = [line.split() for line in said.splitlines() if line.startswith("flags:")]
        return bool(lines) and bool(int(lines[0][1], 8) & O_DSYNC)
