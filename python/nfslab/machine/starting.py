"""Start a program so that it cannot be forgotten: journalled first, then started, then bound.

It leads a session of its own (the terminal's Ctrl-C is ours to handle) and carries the token of
its resources. Hosts and the virtual machine start their programs here.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from typing import IO, TYPE_CHECKING

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.machine.started import Process

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.machine.launch import Launch
    from nfslab.machine.resources import Resources


def start(
    command: Launch,
    resources: Resources,
    out: IO[bytes] | int,
    err: IO[bytes] | int,
    inherited: Sequence[int] = (),
) -> Process:
    """Journal, start, bind; RunFailed, Unavailable.

    `out` and `err` as `subprocess.Popen` takes them; `inherited` are descriptors of ours that the
    program finds under the same numbers.
    """
    argv, environment = command.prepared(resources.token)
    # Before the journal entry: nothing is made when the program cannot be found.
    wrapped = command.wrapped(argv)
    with contextlib.ExitStack() as stack:
        source: IO[bytes] | int = subprocess.DEVNULL
        if command.stdin == "pipe":
            source = subprocess.PIPE
        elif command.stdin is not None:
            given = stack.enter_context(tempfile.TemporaryFile())
            given.write(command.stdin)
            given.seek(0)
            source = given
        entry = resources.process(None, argv, stop_signal=command.stop_signal)
        started_ns = clock.monotonic_ns()
        try:
            popen = subprocess.Popen(
                wrapped,
                stdin=source,
                stdout=out,
                stderr=err,
                env=environment,
                cwd=command.cwd or ("/" if command.user is not None else None),
                start_new_session=True,
                pass_fds=inherited,
            )
        except OSError as error:
            entry.release()
            raise RunFailed(
                f"cannot start {argv[0]}",
                why=f"{error.strerror} ({error.filename})",
                fix="see that it can be executed, and that the folder it starts in is there",
            ) from error
        process = Process(popen, argv, entry, command.stop_signal, started_ns)
        try:
            entry.bind(pid=popen.pid)
        except BaseException:
            process.stop(9)
            raise
        return process
