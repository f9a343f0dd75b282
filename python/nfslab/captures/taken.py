"""Has the tool taken all packets of the load from the kernel's buffer? Asked before it is ended.

A capture tool that is ended leaves in the buffer what it has not taken, and the kernel hands a
block of it over only when the block is full or a second is over. A fixed wait would be too
short on a busy machine and too long on an idle one, so the tool is watched:

* tcpdump tells its counts when it is asked (SIGUSR1). What the filter had let through at the
  first question is the load's; once the tool has taken as many, none of it is left. Packets
  that it passes over (the loopback interface's second copies) never come, so that it is also
  enough when the number has stood still for longer than a block may wait.
* dumpcap tells nothing: what comes out of it has to stand still for that long, while it waits for
  packets. One that does not sleep has something to take and no processor, or was stopped; one that
  waits for room in its pipe has a reader without a processor.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING

from nfslab import clock
from nfslab.machine.processes import status_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.captures.tool import Counts, Tool
    from nfslab.machine.started import Process

ASK_EVERY_S = 0.05
ANSWER_POLL_S = 0.002


def all_taken(
    tool: Tool,
    process: Process,
    *,
    said: Callable[[], str],
    written: Callable[[], int],
    limit_s: float,
) -> bool:
    """Wait until what the kernel holds now was taken; False when `limit_s` is over before.

    `said`: the tool's words so far; `written`: how much came out of it (bytes). True, too, when
    it has ended.
    """
    deadline = clock.monotonic() + limit_s
    if tool.answers:
        return _by_answers(tool, process, said, deadline)
    return _by_silence(tool, process, written, deadline)


def _by_answers(tool: Tool, process: Process, said: Callable[[], str], deadline: float) -> bool:
    goal: int | None = None
    taken, since = -1, clock.monotonic()
    while True:
        asked = clock.monotonic()
        answer = _ask(tool, process, said, deadline)
        if answer is None:
            return process.ended_within(0)
        captured = answer.captured or 0
        if goal is None:
            goal = captured + answer.waiting
        if captured != taken:
            taken, since = captured, asked
        if captured >= goal or asked - since > tool.hand_over_s:
            return True
        if process.ended_within(ASK_EVERY_S):
            return True


def _ask(tool: Tool, process: Process, said: Callable[[], str], deadline: float) -> Counts | None:
    """One answer; None when it has ended, or the time is over."""
    before = len(tool.answered(said()))
    with contextlib.suppress(OSError):
        if process.poll() is None:
            os.kill(process.pid, signal.SIGUSR1)
    while clock.monotonic() < deadline:
        answers = tool.answered(said())
        if len(answers) > before:
            return answers[-1]
        if process.ended_within(ANSWER_POLL_S):
            return None
    return None


def _by_silence(tool: Tool, process: Process, written: Callable[[], int], deadline: float) -> bool:
    seen, since = written(), clock.monotonic()
    while (now := clock.monotonic()) - since <= tool.hand_over_s:
        if process.ended_within(ASK_EVERY_S):
            return True
        if now > deadline:
            return False
        if (more := written()) != seen or not _waits_for_packets(process.pid):
            seen, since = more, now
    return True


def _waits_for_packets(pid: int) -> bool:
    """Where it sleeps is shown by the kernel (proc_pid_wchan(5)): anon_pipe_write since 6.13."""
    status = status_of(pid)
    if status is None:
        return True
    try:
        with open(f"/proc/{pid}/wchan", encoding="ascii") as file:
            where = file.read()
    except OSError:
        where = ""
    return status.state == "S" and "pipe_write" not in where
