"""The worker's side of one agent: a child, its lines both ways, its folder piece by piece."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from typing import TYPE_CHECKING, Final

from nfslab.machine import children

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WINDOW_BYTES: Final = 4 << 20
"""Of what an agent said, how much is on its way to the prime before it has to wait."""
PIECE_BYTES: Final = 512 << 10
PIECES_AHEAD: Final = 4


class Hosted(asyncio.Protocol):
    """An agent on this machine; the protocol is that of its standard output."""

    def __init__(self, number: int, parent: Path, send: Callable[..., None]) -> None:
        self.number = number
        self._send = send
        self._folder = parent / tempfile.mkdtemp(prefix="agent-", dir=parent)
        self._unheard_bytes = 0
        self._pieces = asyncio.Semaphore(PIECES_AHEAD)
        self._left = False
        self._told: asyncio.Task[None] | None = None

    async def begin(self, module: str) -> None:
        """Start it; OSError."""
        loop = asyncio.get_running_loop()
        self._child = children.begin(module, cwd=self._folder)
        process = self._child.process
        self._input, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, process.stdin)
        self._output, _ = await loop.connect_read_pipe(lambda: self, process.stdout)

    def order(self, text: bytes) -> None:
        """Bytes for its standard input."""
        if not self._input.is_closing():
            self._input.write(text)

    def heard(self, size: int) -> None:
        """So much of its words has reached the prime."""
        self._unheard_bytes -= size
        if self._unheard_bytes <= WINDOW_BYTES:
            self._output.resume_reading()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._unheard_bytes += len(data)
        if self._unheard_bytes > WINDOW_BYTES:
            self._output.pause_reading()
        for begin in range(0, len(data), PIECE_BYTES):
            self._send("said", agent=self.number, bytes=data[begin : begin + PIECE_BYTES])

    def connection_lost(self, _error: Exception | None) -> None:
        """It closed its output: it has ended, or is about to."""
        if not self._left:
            self._told = asyncio.get_running_loop().create_task(self._tell_end())

    async def _tell_end(self) -> None:
        why = await asyncio.to_thread(self._child.fate)
        self._send("ended", agent=self.number, why=why)

    async def fetched(self) -> None:
        """Send what its folder holds, a few pieces ahead of the prime."""
        try:
            listed = await asyncio.to_thread(lambda: list(_listed(self._folder)))
            for path, is_folder in listed:
                if is_folder:
                    await self._piece(path, "folder", b"")
                else:
                    await self._file(path)
            await self._piece("", "all", b"")
        except OSError as error:
            self._send("piece", agent=self.number, kind="error", path="", bytes=str(error).encode())

    async def _file(self, path: str) -> None:
        # No link is followed: the agent's folder is its own, but the load may have been anybody's.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(self._folder / path, flags), "rb") as file:
            kind = "file"
            while (found := await asyncio.to_thread(file.read, PIECE_BYTES)) or kind == "file":
                await self._piece(path, kind, found)
                kind = "more"

    async def _piece(self, path: str, kind: str, content: bytes) -> None:
        await self._pieces.acquire()
        self._send("piece", agent=self.number, path=path, kind=kind, bytes=content)

    def more(self) -> None:
        """The prime took a piece."""
        self._pieces.release()

    async def end(self, patience_s: float) -> None:
        """Close its input, wait so long, kill it and what it started; its folder goes."""
        self._left = True
        self._input.close()
        if not await asyncio.to_thread(self._child.ends_within, patience_s):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.process.pid, signal.SIGKILL)
            await asyncio.to_thread(self._child.process.wait)
        self._output.close()
        if self._told is not None:
            await asyncio.wait([self._told])
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
        self._child.complaints.close()


def _listed(folder: Path) -> Iterator[tuple[str, bool]]:
    """Plain files and folders below a folder, folders before what is in them."""
    for here, folders, files in os.walk(folder):
        for name in sorted(folders):
            path = os.path.join(here, name)
            if not os.path.islink(path):
                yield os.path.relpath(path, folder), True
        for name in sorted(files):
            path = os.path.join(here, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield os.path.relpath(path, folder), False
