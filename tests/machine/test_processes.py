"""Identities, tokens, and ending exactly what is meant."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys

import pytest
from nfslab.machine import processes
from nfslab.machine.processes import (
    Identity,
    Status,
    end_all,
    find_ours,
    identity_of,
    parse_status,
)

# From proc_pid_stat(5), with a name made to confuse: fields 1 to 24.
CONFUSING = (
    "4242 (a) S 1 (x) S 7 4242 4240 34816 4242 4194304 1 2 3 4 150 25 30 5 20 0 3 0 987654 4096 100"
)


def child(*code: str, token: str = "") -> subprocess.Popen[bytes]:
    """A Python child that says "ready" once its code has run."""
    source = "\n".join([*code, "print('ready', flush=True)", "import signal; signal.pause()"])
    environment = os.environ | ({processes.TOKEN_VARIABLE: token} if token else {})
    started = subprocess.Popen(
        [sys.executable, "-c", source],
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == b"ready\n"
    return started


def ended(started: subprocess.Popen[bytes]) -> int:
    assert started.stdout is not None
    code = started.wait()
    started.stdout.close()
    return code


@pytest.fixture
def token() -> str:
    """Of this test alone: others run beside it, and what carries a token is ended."""
    return secrets.token_hex(8)


def test_status_survives_blanks_and_parentheses_in_a_name() -> None:
    status = parse_status(CONFUSING)
    assert status.identity == Identity(4242, 987654)
    assert status.name == "a) S 1 (x"
    assert (status.state, status.parent, status.group, status.session) == ("S", 7, 4242, 4240)
    assert (status.user_ticks, status.system_ticks) == (150, 25)
    assert (status.waited_user_ticks, status.waited_system_ticks) == (30, 5)


def test_who_has_begun_to_end_is_exiting() -> None:
    """The seventh field after the name has the flags; 4 is PF_EXITING (include/linux/sched.h)."""
    usual = "7 (a) D 1 7 7 0 -1 4194560 0 0 0 0 1 2 3 4 20 0 1 0 99 0 0"
    assert not parse_status(usual).exiting
    assert parse_status(usual.replace("4194560", "4194564")).exiting


@pytest.mark.system
def test_a_zombie_is_not_alive() -> None:
    started = subprocess.Popen(["true"])
    os.waitid(os.P_PID, started.pid, os.WEXITED | os.WNOWAIT)
    assert processes.status_of(started.pid) is not None
    assert identity_of(started.pid) is None
    started.wait()


@pytest.mark.system
def test_a_signal_never_reaches_another_process_of_that_number() -> None:
    started = child()
    real = identity_of(started.pid)
    assert real is not None
    earlier = Identity(real.pid, real.start_ticks - 1)
    assert processes.send_signal(earlier, signal.SIGKILL) is False
    assert identity_of(started.pid) == real
    assert processes.send_signal(real, signal.SIGKILL) is True
    assert ended(started) == -signal.SIGKILL
    assert processes.send_signal(real, signal.SIGKILL) is False


@pytest.mark.system
def test_what_carries_the_token_is_found_and_nothing_else(token: str) -> None:
    ours, other = child(token=token), child(token=f"{token[:-1]}-")
    plain = child(f"import os; os.environ[{processes.TOKEN_VARIABLE!r}] = 'x'")
    try:
        found = {status.identity.pid for status in find_ours(token)}
        assert found == {ours.pid}
    finally:
        for started in (ours, other, plain):
            started.kill()
            ended(started)


@pytest.mark.system
def test_children_that_dropped_the_token_are_found_through_their_parent(token: str) -> None:
    """As PostgreSQL's backends, which overwrite their environment and change session."""
    source = (
        "import subprocess, sys",
        "grandchild = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'],"
        " env={}, start_new_session=True)",
    )
    ours = child(*source, token=token)
    found = find_ours(token)
    assert len(found) == 2
    gone, stuck = end_all(lambda: find_ours(token, [s.identity for s in found]))
    assert stuck == []
    assert {s.identity for s in gone} == {s.identity for s in found}
    assert ended(ours) == -signal.SIGTERM


@pytest.mark.system
def test_who_ignores_the_first_signal_gets_the_last_one(token: str) -> None:
    stubborn = child("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)", token=token)
    gone, stuck = end_all(lambda: find_ours(token), grace_s=0.05)
    assert [s.identity.pid for s in gone] == [stubborn.pid]
    assert stuck == []
    assert ended(stubborn) == -signal.SIGKILL


@pytest.mark.system
def test_a_first_look_that_takes_long_is_no_grace(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where who looks gets no processor meanwhile: nobody has been asked to end by then."""
    ours, now = child(token=token), 1000.0

    def find() -> list[Status]:
        nonlocal now
        now += 2 * processes.GRACE_S if now == 1000.0 else 0.0
        return find_ours(token)

    with monkeypatch.context() as patch:
        patch.setattr(processes.clock, "monotonic", lambda: now)
        assert end_all(find)[1] == []
    assert ended(ours) == -signal.SIGTERM


def test_we_never_end_ourselves(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own environment may carry a token: nfslab run by the workload of another one."""
    own = processes.status_of(os.getpid())
    assert own is not None
    assert find_ours("", [own.identity]) == []
    monkeypatch.setattr(processes, "carries_token", lambda pid, token: pid == os.getppid())
    assert find_ours(token) == []
