"""Starting programs: where, as whom, with what, and how they end."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from nfslab.errors import Interrupted, RunFailed, Unavailable
from nfslab.hosts import base as base_host
from nfslab.hosts import local as hosts
from nfslab.hosts.local import LocalHost
from nfslab.machine import launch, processes
from nfslab.machine.cgroup import memory_cgroup
from nfslab.machine.processes import status_of
from nfslab.machine.resources import Resources
from nfslab.machine.started import Process
from nfslab.machine.users import primary_group, unprivileged_user

from tests.machine import needs
from tests.waiting import NO_LIMIT_S, until

pytestmark = pytest.mark.system

HOST = LocalHost()
PAUSE = "echo ready; while :; do sleep 1000; done"


def wait_for_line(path: Path, line: str) -> None:
    """Until the program has written this line."""
    until(lambda: path.exists() and line in path.read_text().splitlines())


def test_arguments_arrive_as_they_are(resources: Resources) -> None:
    hostile = ["$(id)", "a b", "; rm -rf /", "", "'\"", "-n", "*"]
    completed = HOST.run(["printf", "%s\n", *hostile], resources=resources, timeout_s=NO_LIMIT_S)
    assert completed.stdout.split("\n")[:-1] == hostile
    assert completed.returncode == 0


def test_input_environment_and_folder(resources: Resources, tmp_path: Path) -> None:
    completed = HOST.run(
        ["sh", "-c", 'cat; pwd; printf %s "$WORD:$NFSLAB_RUN"'],
        resources=resources,
        timeout_s=NO_LIMIT_S,
        stdin=b"given\n",
        env={"WORD": "x y"},
        cwd=tmp_path,
    )
    assert completed.stdout == f"given\n{tmp_path}\nx y:{resources.token}"


def test_no_input_is_an_empty_one_and_much_output_does_not_block(resources: Resources) -> None:
    completed = HOST.run(
        ["sh", "-c", "cat; head -c 3000000 /dev/zero | tr '\\0' x; echo err >&2"],
        resources=resources,
        timeout_s=NO_LIMIT_S,
    )
    assert completed.stdout == "x" * 3_000_000
    assert completed.stderr == "err\n"


def test_output_beyond_the_limit_is_marked(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "OUTPUT_LIMIT_BYTES", 4)
    completed = HOST.run(["printf", "0123456789"], resources=resources, timeout_s=NO_LIMIT_S)
    assert completed.stdout == "[the first 6 bytes are left out]\n6789"


def test_a_failure_shows_the_last_lines(resources: Resources, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(RunFailed, match="exit code 7") as failed:
        HOST.run(
            ["sh", "-c", "seq 100; echo the reason >&2; exit 7"],
            resources=resources,
            timeout_s=NO_LIMIT_S,
            log=log,
        )
    lines = failed.value.why.splitlines()
    assert lines[-1].strip() == "the reason"
    assert len(lines) == base_host.TAIL_LINES
    assert "the reason" in log.read_text()
    assert "[exit code 7]" in log.read_text()
    with pytest.raises(RunFailed, match="SIGUSR1"):
        HOST.run(["sh", "-c", "kill -USR1 $$"], resources=resources, timeout_s=NO_LIMIT_S)
    unchecked = HOST.run(["false"], resources=resources, timeout_s=NO_LIMIT_S, check=False)
    assert unchecked.returncode == 1


def test_a_missing_program_is_named(resources: Resources) -> None:
    with pytest.raises(RunFailed, match="nonesuch") as failed:
        HOST.run(["nonesuch-program"], resources=resources, timeout_s=NO_LIMIT_S)
    assert failed.value.fix
    with pytest.raises(RunFailed, match="/nonexistent/program"):
        HOST.spawn(["/nonexistent/program"], resources=resources)
    assert resources.close() == [], "nothing was left in the journal"


def test_the_time_limit_ends_the_whole_group(resources: Resources, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sleep 1000 & echo waiting; echo $! > {pids}.new; mv {pids}.new {pids}; wait"

    def left_s() -> float:
        return 0.0 if pids.exists() else NO_LIMIT_S

    with pytest.raises(RunFailed, match=r"after \d+\.\d s: ") as failed:
        HOST.run(["sh", "-c", script], resources=resources, timeout_s=NO_LIMIT_S, cancelled=left_s)
    assert "waiting" in failed.value.why
    background = int(pids.read_text())
    # Killed, it needs a processor to end.
    until(lambda: (status := status_of(background)) is None or not status.alive)
    with pytest.raises(RunFailed, match=r"after \d+\.\d s: "):
        HOST.run(["sleep", "1000"], resources=resources, timeout_s=0.1)


def test_cancelling_ends_it_and_the_reason_goes_on(resources: Resources) -> None:
    asked = []

    def cancelled() -> float:
        asked.append(time.monotonic())
        if len(asked) == 3:
            raise Interrupted("stop")
        return 100.0

    with pytest.raises(Interrupted):
        HOST.run(["sleep", "1000"], resources=resources, timeout_s=NO_LIMIT_S, cancelled=cancelled)
    assert resources.close() == []
    with pytest.raises(RunFailed, match=r"after \d+\.\d s: "), Resources() as short:
        HOST.run(["sleep", "1000"], resources=short, timeout_s=NO_LIMIT_S, cancelled=lambda: 0.0)


def test_cpu_time_is_that_of_the_program_and_its_children(resources: Resources) -> None:
    """A child burns a known amount; wait4 must see it, and wall time must not count."""
    burn = "import time\nwhile time.process_time() < 0.25: pass"
    script = '"$0" -S -c "$1"; true'
    completed = HOST.run(
        ["sh", "-c", script, sys.executable, burn], resources=resources, timeout_s=NO_LIMIT_S
    )
    used = completed.user_s + completed.system_s
    assert used >= 0.25, "what the child of the program used by its own clock"
    assert used <= completed.wall_s * (os.cpu_count() or 1) + 0.02
    idle = HOST.run(["sleep", "0.2"], resources=resources, timeout_s=NO_LIMIT_S)
    assert idle.wall_s >= 0.2
    assert idle.user_s + idle.system_s <= idle.wall_s - 0.2 + 0.02, "it slept all that time"


def test_a_spawned_program_runs_in_its_own_session_and_logs(
    resources: Resources, tmp_path: Path
) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    process = HOST.spawn(
        ["sh", "-c", f"echo said >&2; {PAUSE}"], resources=resources, log=log, stdout=out
    )
    wait_for_line(out, "ready")
    status = status_of(process.pid)
    assert status is not None
    assert (status.session, status.group) == (process.pid, process.pid)
    assert log.read_text() == "said\n"
    assert process.poll() is None
    with pytest.raises(RunFailed, match="still runs"):
        process.wait(0.01)
    assert process.stop() == -signal.SIGTERM
    assert process.poll() == -signal.SIGTERM
    assert process.stop() == -signal.SIGTERM, "stopping twice is harmless"
    assert resources.close() == []


def test_stop_insists(resources: Resources, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = HOST.spawn(["sh", "-c", f"trap '' TERM; {PAUSE}"], resources=resources, stdout=out)
    wait_for_line(out, "ready")
    assert process.stop(grace_s=0.05) == -signal.SIGKILL


def test_the_stop_signal_is_the_programs_own(
    resources: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A shell that has no processor for 2 s would be killed before its trap.
    monkeypatch.setitem(processes.end_all.__kwdefaults__, "grace_s", NO_LIMIT_S)
    out = tmp_path / "out"
    script = f"trap 'echo asked; exit 3' USR2; {PAUSE} & wait"
    process = HOST.spawn(
        ["sh", "-c", script.replace("echo ready;", "", 1).replace("&", "& echo ready;", 1)],
        resources=resources,
        stdout=out,
        stop_signal=signal.SIGUSR2,
    )
    wait_for_line(out, "ready")
    told = resources.close()
    assert any(str(process.pid) in line for line in told)
    assert process.wait(NO_LIMIT_S) == 3
    assert "asked" in out.read_text()


@pytest.mark.parametrize("in_thread", [False, True])
def test_death_with_the_runner_is_asked_for_in_the_main_thread_only(in_thread: bool) -> None:
    """The kernel counts the death of the thread: a worker's would end its programs."""
    command = launch.Launch(["true"], None, None, None, None, None, signal.SIGTERM)
    wrapped: list[list[str]] = []
    if in_thread:
        worker = threading.Thread(target=lambda: wrapped.append(command.wrapped(["/bin/true"])))
        worker.start()
        worker.join()
    else:
        wrapped.append(command.wrapped(["/bin/true"]))
    asks = "--pdeathsig" in wrapped[0]
    assert asks == (not in_thread and shutil.which("setpriv") is not None)


@needs.root
@needs.setpriv
def test_another_user_gets_only_its_own_powers(resources: Resources, scratch: Path) -> None:
    user = unprivileged_user()
    assert user is not None
    secret = scratch / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    script = 'id -u; id -g; id -G; pwd; echo "$HOME"; cat "$1" || echo refused'
    completed = HOST.run(
        ["sh", "-c", script, "sh", str(secret)],
        resources=resources,
        timeout_s=NO_LIMIT_S,
        user=user,
    )
    uid, gid, groups, folder, home, read = completed.stdout.splitlines()
    assert (int(uid), int(gid)) == (user, primary_group(user))
    assert groups == gid, "no supplementary groups"
    assert folder == "/"
    assert os.path.isdir(home)
    assert read == "refused"


def test_only_root_changes_users(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.geteuid()
    same = HOST.run(["id", "-u"], resources=resources, timeout_s=NO_LIMIT_S, user=own)
    assert int(same.stdout) == own
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(Unavailable, match="cannot run"):
        HOST.spawn(["true"], resources=resources, user=own)


@needs.memory_limit
@needs.root
@needs.setpriv
def test_a_program_is_in_its_group_from_its_first_instruction(
    resources: Resources, scratch: Path
) -> None:
    group = memory_cgroup(64 << 20, resources)
    completed = HOST.limited(group).run(
        ["sh", "-c", "id -u; cat /proc/self/cgroup"],
        resources=resources,
        timeout_s=NO_LIMIT_S,
        user=unprivileged_user(),
    )
    uid, *lines = completed.stdout.splitlines()
    assert int(uid) == unprivileged_user()
    assert any(line.endswith(f"/{resources.name}") for line in lines)
    group.remove()


def test_a_group_that_cannot_be_joined_stops_the_program(
    resources: Resources, tmp_path: Path
) -> None:
    class Nowhere:
        path = tmp_path / "nowhere"

    with pytest.raises(RunFailed, match="exit code"):
        HOST.limited(Nowhere()).run(["true"], resources=resources, timeout_s=NO_LIMIT_S)  # type: ignore[arg-type]


def test_a_process_outlives_its_waiters(resources: Resources) -> None:
    """Several threads may wait for one program; each gets the same answer."""
    process: Process = HOST.spawn(["sh", "-c", "exit 5"], resources=resources)
    codes: list[int] = []
    workers = [
        threading.Thread(target=lambda: codes.append(process.wait(NO_LIMIT_S))) for _ in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert codes == [5] * 4


def test_a_program_can_be_told_something_while_it_runs(
    resources: Resources, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    argv = ["sh", "-c", "while read line; do echo got $line; done; echo end"]
    process = HOST.spawn(argv, resources=resources, stdout=out, stdin="pipe")
    for word in ("one", "two"):
        process.tell(f"{word}\n".encode(), NO_LIMIT_S)
        wait_for_line(out, f"got {word}")
    assert process.poll() is None
    process.stop()
    with pytest.raises(RunFailed, match="cannot be told"):
        process.tell(b"three\n", NO_LIMIT_S)
    deaf = HOST.spawn(["sleep", "1000"], resources=resources, stdin="pipe")
    with pytest.raises(RunFailed, match=r"did not listen for 0\.1 s"):
        deaf.tell(bytes(1 << 21), 0.1)
    closed = HOST.spawn(
        ["sh", "-c", "exec <&-; echo closed; sleep 1000"],
        resources=resources, stdout=out, stdin="pipe",
    )  # fmt: skip
    wait_for_line(out, "closed")
    with pytest.raises(RunFailed, match="listens no more"):
        closed.tell(b"word\n", NO_LIMIT_S)
    without = HOST.spawn(["sleep", "1000"], resources=resources)
    with pytest.raises(RunFailed, match="cannot be told"):
        without.tell(b"word\n", NO_LIMIT_S)
    for one in (deaf, closed, without):
        one.stop()
    assert resources.close() == []
