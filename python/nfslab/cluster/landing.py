"""What comes home from a host: below one new folder, and nowhere else.

Only plain files and folders are made, each of them new, by names that are checked: so nothing of it
is ever a link that a later piece could be led through.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final, Self

from nfslab.cluster.base import FOLDER_BYTES_MAX
from nfslab.errors import RunFailed, one_line

if TYPE_CHECKING:
    from pathlib import Path

ENTRIES_MAX: Final = 100_000
DEPTH_MAX: Final = 32
PATH_CHARACTERS_MAX: Final = 4000


class Landing:
    """One folder that comes home; RunFailed, and then nothing of it stays."""

    def __init__(self, destination: Path, host: str, *, bytes_most: int = FOLDER_BYTES_MAX) -> None:
        self._destination = destination
        self._host = host
        self._left_bytes = bytes_most
        self._left_entries = ENTRIES_MAX

    def __enter__(self) -> Self:
        try:
            self._destination.mkdir()
        except OSError as error:
            raise self._failed(error) from error
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None:
            shutil.rmtree(self._destination, ignore_errors=True)
        if isinstance(error, OSError):
            raise self._failed(error) from error

    def folder(self, path: str) -> None:
        """Make one."""
        os.mkdir(self._checked(path))

    def piece(self, path: str, content: bytes, *, is_first: bool) -> None:
        """The next piece of a file."""
        self._left_bytes -= len(content)
        if self._left_bytes < 0:
            raise self._refused("it left more than is taken")
        begun = os.O_CREAT | os.O_EXCL if is_first else os.O_APPEND
        flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | begun
        target = self._checked(path) if is_first else self._destination / path
        with open(os.open(target, flags, 0o644), "wb") as file:
            file.write(content)

    def _checked(self, path: str) -> Path:
        """Where it goes."""
        self._left_entries -= 1
        if self._left_entries < 0:
            raise self._refused(f"it left more than {ENTRIES_MAX} files")
        parts = path.split("/")
        if len(path) > PATH_CHARACTERS_MAX or len(parts) > DEPTH_MAX:
            raise self._refused(f"a path of {len(path)} characters, {len(parts)} deep")
        if "\0" in path or any(part in ("", ".", "..") for part in parts):
            raise self._refused(f"it named a path outside its own folder: {path[:100]!r}")
        return self._destination.joinpath(*parts)

    def _refused(self, why: str) -> RunFailed:
        return RunFailed(
            f"what {self._host} sent is not taken",
            why=why,
            fix="see who else can do as nfslab there; a load must leave fewer and smaller files",
        )

    def _failed(self, error: OSError) -> RunFailed:
        return RunFailed(
            f"cannot bring home what {self._host} measured",
            why=one_line(error),
            fix="make room in the results folder",
        )
