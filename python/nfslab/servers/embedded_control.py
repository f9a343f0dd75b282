"""`nfslab serve --control`: the protocol of `nfslab.machine.agent`, each command answered.

    {"do": "record", "file": "X.parquet", "rows_max": 1000000}      rows_max may be left out
        -> {"event": "recording", "file": ..., "at_ns": ...}
    {"do": "end_recording"}
        -> {"event": "recorded", "file": ..., "rows": N, "lost": N, "left_out": N, "cpu_s": S,
            "at_ns": ...}
    anything else -> {"event": "error", "what": ..., "why": ..., "fix": ...}

Answers come in the order of the commands. `at_ns` is CLOCK_MONOTONIC: calls that were read and
answered between the two instants are in the file. `lost` came faster than they were taken,
`left_out` are those beyond `rows_max`, `cpu_s` is what taking and writing them cost (not the
server's own thread). What is wrong with a command ends nothing, nor does the end of input.

Bounds: a line has LINE_BYTES_MAX at most; of a longer one nothing is obeyed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.errors import NfslabError, UsageError
from nfslab.machine.agent import READ_BYTES, STDIN, WORDS_MAX, Lines, command_of
from nfslab.servers.embedded_records import Recording, records_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab._core import Server

LINE_BYTES_MAX: Final = 1 << 16
KNOWN: Final = {"record": frozenset({"file", "rows_max"}), "end_recording": frozenset[str]()}
FIX: Final = '{"do": "record", "file": "X.parquet"} or {"do": "end_recording"}'


class Control:
    """Obeys standard input; the recording that lasts, if one does."""

    def __init__(self, server: Server, say: Callable[[dict[str, Any]], None]) -> None:
        self.recording: Recording | None = None
        self._server = server
        self._say = say
        self._lines = Lines(LINE_BYTES_MAX)
        self._open = True
        # A signal's handler runs only between bytecodes: this ends a wait for input.
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._wake_before = signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)

    def close(self) -> None:
        """Listen no more; the recording goes on."""
        signal.set_wakeup_fd(self._wake_before)
        os.close(self._woken)
        os.close(self._wake)

    def obey(self, limit_s: float) -> None:
        """Wait for input or a signal, at most `limit_s`; obey, and move records on."""
        watched = [self._woken, STDIN] if self._open else [self._woken]
        ready, _, _ = select.select(watched, [], [], limit_s)
        if self._woken in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._woken, READ_BYTES)
        if STDIN in ready:
            self._hear()
        if self.recording is not None:
            self.recording.take()

    def _hear(self) -> None:
        try:
            heard = os.read(STDIN, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            heard = b""
        if not heard:
            self._open = False
            return
        for line in self._lines.feed(heard):
            try:
                if line is None:
                    raise UsageError(
                        f"a line of more than {LINE_BYTES_MAX} bytes", fix="one command a line"
                    )
                self._do(_command(line))
            except NfslabError as error:
                told = {"what": error.what, "why": error.why, "fix": error.fix}
                self._say({"event": "error"} | told)

    def _do(self, command: dict[str, Any]) -> None:
        if command["do"] == "record":
            self._record(Path(command["file"]), command.get("rows_max"))
        else:
            self._end_recording()

    def _record(self, path: Path, rows_max: int | None) -> None:
        if self.recording is not None:
            raise UsageError(
                f"calls are recorded already, to {self.recording.file.path}",
                fix='end that first: {"do": "end_recording"}',
            )
        recording = Recording(self._server, records_file(path), rows_max)
        recording.begin()
        self.recording = recording
        self._say({"event": "recording", "file": str(path), "at_ns": clock.monotonic_ns()})

    def _end_recording(self) -> None:
        recording, self.recording = self.recording, None
        if recording is None:
            raise UsageError(
                "no calls are recorded now", fix='begin with {"do": "record", "file": "X.parquet"}'
            )
        recording.end()
        answer = {
            "event": "recorded", "file": str(recording.file.path), "rows": recording.file.rows,
            "lost": self._server.counters()["records_lost"], "left_out": recording.left_out,
            "cpu_s": recording.cpu_s, "at_ns": recording.ended_ns,
        }  # fmt: skip
        self._say(answer)


def _command(line: bytes) -> dict[str, Any]:
    """What is asked for, whole and of the right types; UsageError."""
    asked = command_of(line, KNOWN, FIX)
    if asked["do"] == "record":
        shown = line[:WORDS_MAX].decode(errors="replace")
        file, rows_max = asked.get("file"), asked.get("rows_max", 0)
        why = ""
        if not isinstance(file, str) or not file or "\0" in file:
            why = "file has to be the name of a file"
        elif not isinstance(rows_max, int) or isinstance(rows_max, bool) or rows_max < 0:
            why = "rows_max has to be a number of rows"
        if why:
            raise UsageError(f"not a command: {shown}", why=why, fix=FIX)
    return asked
