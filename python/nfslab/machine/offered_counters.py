"""Counters of a living process of ours, for other processes of the same user: a socket each.

    owner: offered(read) ── STATE/counters/PID-TOKEN.sock ── reader: taken() ─> a line of JSON each

A connection is answered with what `read` gives at that moment, and closed. Nobody asks, nothing is
read: the owner's thread waits in accept(2). `instance` in an answer is the socket's name: no other
owner ever has it. The folder is its user's alone. A socket that a killed owner left refuses
connections: the next reader removes it.

Bounds: one reader at a time, of LIMIT_S each; an answer has ANSWER_BYTES_MAX at most.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import NfslabError
from nfslab.machine.journal import state_folder, state_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

FOLDER: Final = "counters"
LIMIT_S: Final = 0.25
SILENT: Final = "silent"
"""The one key, beside `instance`, of the answer of an owner that lives and says nothing in time."""
ANSWER_BYTES_MAX: Final = 1 << 20
WAITING_MOST: Final = 4
TOKEN_BYTES: Final = 4
SUFFIX: Final = ".sock"


@contextlib.contextmanager
def offered(read: Callable[[], dict[str, Any]]) -> Iterator[None]:
    """While the block runs `read` answers who asks; what it raises leaves that one unanswered.

    Where there can be no socket there is none: what is offered does not depend on it.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, NfslabError):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            folder = state_folder() / FOLDER
            folder.mkdir(mode=0o700, exist_ok=True)
            name = f"{os.getpid()}-{os.urandom(TOKEN_BYTES).hex()}{SUFFIX}"
            with _short(folder) as short:
                listener.bind(f"{short}/{name}")
            stack.callback((folder / name).unlink, missing_ok=True)
            listener.listen(WAITING_MOST)
            thread = threading.Thread(
                target=_answer, args=(listener, read), name="counters", daemon=True
            )
            thread.start()
            stack.callback(thread.join)
            # Ends a wait in accept(2), which closing does not.
            stack.callback(listener.shutdown, socket.SHUT_RDWR)
        yield


def taken(limit_s: float = LIMIT_S) -> list[dict[str, Any]]:
    """What every living process of ours offers now, in the order of the sockets' names.

    `limit_s`: how long each may take; then it is silent.
    """
    return [
        answer
        for folder in state_folders()
        for path in sorted((folder / FOLDER).glob(f"*{SUFFIX}"))
        if (answer := _asked(path, limit_s)) is not None
    ]


def _answer(listener: socket.socket, read: Callable[[], dict[str, Any]]) -> None:
    while True:
        try:
            asked, _ = listener.accept()
        except OSError:
            return
        with asked, contextlib.suppress(Exception):
            asked.settimeout(LIMIT_S)
            asked.sendall(json.dumps(read()).encode() + b"\n")


def _asked(path: Path, limit_s: float) -> dict[str, Any] | None:
    """None: its owner has gone, or has nothing that can be read."""
    with contextlib.suppress(OSError, ValueError), socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(limit_s)
        try:
            with _short(path.parent) as short:
                asking.connect(f"{short}/{path.name}")
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return None
        except (BlockingIOError, TimeoutError):
            # Those who asked before stand in its way: it has accepted none of them.
            return {SILENT: True, "instance": path.name}
        try:
            with asking.makefile("rb") as file:
                answer = json.loads(file.readline(ANSWER_BYTES_MAX))
        except TimeoutError:
            answer = {SILENT: True}
        return answer | {"instance": path.name} if isinstance(answer, dict) else None
    return None


@contextlib.contextmanager
def _short(folder: Path) -> Iterator[str]:
    """A name of the folder that fits the 108 bytes of a socket's address."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
