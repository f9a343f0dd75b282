"""What comes home from a machine that may be hostile: below one new folder, and nowhere else.

Pieces name a path below it. Only plain files and folders are made, each of them new, by names that
are checked: so nothing of it is ever a link that a later piece could be led through.
"""

from __future__ import annotations

import os
import shutil
from typing import IO, TYPE_CHECKING, Any, Final

from nfslab.cluster.base import FOLDER_BYTES_MAX
from nfslab.errors import RunFailed, one_line

if TYPE_CHECKING:
    from pathlib import Path

ENTRIES_MAX: Final = 100_000
DEPTH_MAX: Final = 32
PATH_CHARACTERS_MAX: Final = 4000
KINDS: Final = frozenset({"folder", "file", "more", "all", "error"})


class Landing:
    """One folder that comes home."""

    def __init__(self, destination: Path, host: str, *, bytes_most: int = FOLDER_BYTES_MAX) -> None:
        self._destination = destination
        self._host = host
        self._left_bytes = bytes_most
        self._bytes_most = bytes_most
        self._entries = 0
        self._open: tuple[str, IO[bytes]] | None = None
        try:
            destination.mkdir()
        except OSError as error:
            raise self._failed(error) from error

    def take(self, piece: dict[str, Any]) -> bool:
        """Write it; whether it was the last. RunFailed: nothing of the folder stays."""
        try:
            return self._take(piece)
        except OSError as error:
            self.drop()
            raise self._failed(error) from error
        except RunFailed:
            self.drop()
            raise

    def _take(self, piece: dict[str, Any]) -> bool:
        kind, path, content = piece.get("kind"), piece.get("path"), piece.get("bytes")
        if kind not in KINDS or not isinstance(path, str) or not isinstance(content, bytes):
            raise self._hostile("it sent something that is no piece of a folder")
        if kind == "error":
            raise RunFailed(
                f"{self._host} cannot send what was measured there",
                why=content.decode(errors="replace")[:500],
                fix="see that its disk can be read",
            )
        if kind == "more":
            if self._open is None or self._open[0] != path:
                raise self._hostile(f"it went on with a file that was not begun: {path[:100]!r}")
            self._write(content)
            return False
        self._close()
        if kind == "all":
            return True
        target = self._checked(path)
        if kind == "folder":
            os.mkdir(target)
            return False
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._open = (path, open(os.open(target, flags, 0o644), "wb"))  # noqa: SIM115
        self._write(content)
        return False

    def drop(self) -> None:
        """What has come so far is no folder."""
        self._close()
        shutil.rmtree(self._destination, ignore_errors=True)

    def _write(self, content: bytes) -> None:
        assert self._open is not None
        self._left_bytes -= len(content)
        if self._left_bytes < 0:
            raise self._hostile(f"it sent more than {self._bytes_most} bytes")
        self._open[1].write(content)

    def _close(self) -> None:
        was, self._open = self._open, None
        if was is not None:
            was[1].close()

    def _checked(self, path: str) -> Path:
        """Where it goes."""
        self._entries += 1
        if self._entries > ENTRIES_MAX:
            raise self._hostile(f"it sent more than {ENTRIES_MAX} files")
        parts = path.split("/")
        if len(path) > PATH_CHARACTERS_MAX or len(parts) > DEPTH_MAX:
            raise self._hostile(f"a path of {len(path)} characters, {len(parts)} deep")
        if "\0" in path or any(part in ("", ".", "..") for part in parts):
            raise self._hostile(f"it named a path outside its own folder: {path[:100]!r}")
        return self._destination.joinpath(*parts)

    def _hostile(self, why: str) -> RunFailed:
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
