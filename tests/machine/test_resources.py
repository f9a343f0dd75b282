"""Nothing outlives its run: undone at the end, or by the next start after a kill.

What a crash at each operation leaves is walked through in `tests/experiment/test_kill_and_resume`,
with folders. Here is what else a journal knows of: processes, in a table of the test's own; and
once all of it for real, made by a child process (`victim`) that is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.hosts.local import LocalHost
from nfslab.machine import journal as journals
from nfslab.machine import processes, trees, undo
from nfslab.machine.mounts import mount_by_name, mounts
from nfslab.machine.processes import (
    TOKEN_VARIABLE,
    Identity,
    Status,
    all_statuses,
    identity_of,
    status_of,
)
from nfslab.machine.resources import Resources, recover

from tests.machine import needs
from tests.machine.victim import LOOPS
from tests.simulated_clock import SimulatedClock
from tests.stopping import stop
from tests.waiting import until

REPOSITORY = Path(__file__).resolve().parents[2]


class Site:
    """Where a victim builds, and what may be left of it anywhere on the machine."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.folder = folder
        self.state = state

    def start(self) -> subprocess.Popen[bytes]:
        environment = os.environ | {"NFSLAB_STATE": str(self.state)}
        victim = subprocess.Popen(
            [sys.executable, "-m", "tests.machine.victim", str(self.folder)],
            cwd=REPOSITORY,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"ready\n"
        return victim

    def journals(self) -> list[Path]:
        folder = self.state / "journals"
        return [p for p in folder.iterdir() if p.name != ".lock"] if folder.is_dir() else []

    def processes(self) -> list[str]:
        """Processes that were started from this site (they inherit NFSLAB_STATE)."""
        marker = f"NFSLAB_STATE={self.state}".encode()
        found = []
        for status in all_statuses():
            if status.alive and status.identity.pid != os.getpid():
                try:
                    environ = Path(f"/proc/{status.identity.pid}/environ").read_bytes()
                except OSError:
                    continue
                if marker in environ.split(b"\0"):
                    found.append(f"{status.identity.pid} {status.name}")
        return found

    def left(self) -> list[str]:
        """Everything that is there, without asking nfslab: empty means clean."""
        found = []
        for name in Path("/sys/block").glob("loop*/loop/backing_file"):
            with suppress(OSError):  # detached meanwhile
                found.append(f"{name}: {name.read_text('utf-8').strip()}")
        found = [line for line in found if f"{self.folder}/nfslab-" in line]
        table = Path("/proc/mounts").read_text()
        found += [line for line in table.splitlines() if f"{self.folder}/nfslab-" in line]
        found += [str(path) for path in self.folder.glob("nfslab-*")]
        found += self.processes()
        for path in self.journals():
            found += groups_of(path.stem)
        return found


def groups_of(token: str) -> list[str]:
    """Control groups of a run. os.walk passes over folders that go meanwhile; Path.glob would end
    with an error, for groups of others, and those that the victim just undoes, come and go."""
    name = f"nfslab-{token}"
    walked = os.walk("/sys/fs/cgroup")
    return [f"{folder}/{name}" for folder, below, _ in walked if name in below]


@pytest.fixture
def site(scratch: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    made = Site(scratch, state)
    (scratch / "precious").mkdir()
    (scratch / "precious" / "file").write_text("kept")
    yield made
    recover()
    assert (scratch / "precious" / "file").read_text() == "kept", "a link was followed"


def recovered_clean(site: Site) -> None:
    """After one recovery nothing is left, neither things nor journals."""
    groups = [p.stem for p in site.journals()]
    told = recover()
    assert site.left() == [], told
    assert site.journals() == [], told
    for token in groups:
        assert groups_of(token) == []
    assert not any("could not" in line for line in told), told


def killed_with(victim: subprocess.Popen[bytes], there: Callable[[], bool]) -> None:
    """Kills it while this is there: it is stopped before, for the next moment it undoes all."""
    found = False
    while not found:
        while not there():
            assert victim.poll() is None
        stop(victim.pid)
        found = there()
        victim.send_signal(signal.SIGKILL if found else signal.SIGCONT)
    victim.wait()


@dataclass
class Table:
    """Processes that are not there, but for those who ask nfslab."""

    rows: dict[int, Status] = field(default_factory=dict)
    tokens: dict[int, str] = field(default_factory=dict)
    signals: list[tuple[int, int]] = field(default_factory=list)
    deaf: set[int] = field(default_factory=set)
    """They end of SIGKILL alone."""

    def add(self, pid: int, token: str = "", parent: int = 1, start: int = 7) -> int:
        like = status_of(os.getpid())
        assert like is not None
        self.rows[pid] = replace(
            like, identity=Identity(pid, start), parent=parent, name=f"p{pid}", state="S"
        )
        self.tokens[pid] = token
        return pid

    def send(self, identity: Identity, number: int) -> bool:
        self.signals.append((identity.pid, number))
        if identity.pid not in self.deaf or number == signal.SIGKILL:
            del self.rows[identity.pid]
        return True


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    """Process ids beyond what a kernel gives, so that nobody real is meant."""
    made = Table()
    monkeypatch.setattr(processes, "all_statuses", lambda: list(made.rows.values()))
    monkeypatch.setattr(processes, "carries_token", lambda pid, token: made.tokens[pid] == token)
    monkeypatch.setattr(processes, "send_signal", made.send)
    monkeypatch.setattr(
        processes, "wait_for_change", lambda _processes, timeout_s: clock.sleep(timeout_s)
    )
    return made


FIRST = 1 << 23
"""A process id that no kernel gives (PID_MAX_LIMIT is 1 << 22)."""


def bound(resources: Resources, pid: int, start: int = 7, **what: object) -> None:
    """A process of a run, as its journal has it."""
    entry = resources.process(None, ["program"], **what)  # type: ignore[arg-type]
    entry.bind(pid=pid, start_ticks=start)


def abandoned(resources: Resources, *changes: tuple[str, str]) -> Path:
    """The journal of a runner that is dead; with other texts in it."""
    resources._journal.close()
    path = resources._journal.path
    text = path.read_text()
    for old, new in ((f'"pid":{os.getpid()},"start', '"pid":1,"start'), *changes):
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


def test_strays_end_first_then_processes_newest_first(site: Site, table: Table) -> None:
    """With their children; what carries another token, or none, is left alone."""
    dead = Resources("dead")
    bound(dead, table.add(FIRST, dead.token))
    bound(dead, table.add(FIRST + 1, dead.token), stop_signal=signal.SIGINT)
    table.add(FIRST + 2, parent=FIRST + 1)
    table.add(FIRST + 3, dead.token)
    table.add(FIRST + 4, "0123456789abcdef")
    table.add(FIRST + 5)
    abandoned(dead)
    told = recover()
    assert table.signals == [
        (FIRST + 3, signal.SIGTERM),
        (FIRST + 1, signal.SIGINT),
        (FIRST + 2, signal.SIGINT),
        (FIRST, signal.SIGTERM),
    ]
    assert set(table.rows) == {FIRST + 4, FIRST + 5}
    assert len(told) == 3
    assert site.journals() == []


def test_what_does_not_end_is_killed_after_its_grace(
    site: Site, table: Table, simulated_clock: SimulatedClock
) -> None:
    dead = Resources("dead")
    bound(dead, table.add(FIRST, dead.token))
    table.deaf.add(FIRST)
    abandoned(dead)
    began = clock.monotonic()
    recover()
    assert table.signals == [(FIRST, signal.SIGTERM), (FIRST, signal.SIGKILL)]
    assert clock.monotonic() - began == pytest.approx(processes.GRACE_S, abs=0.1)
    assert site.journals() == []


def test_what_cannot_be_ended_stays_in_the_journal(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = Resources("dead")
    bound(dead, table.add(FIRST, dead.token))
    path = abandoned(dead)
    with monkeypatch.context() as patch:
        patch.setattr(processes, "send_signal", lambda _identity, _number: True)
        assert any("cannot be ended" in line for line in recover())
    assert site.journals() == [path]
    recover()
    assert site.journals() == []
    assert table.rows == {}


def test_a_reused_process_number_is_not_ours(site: Site, table: Table) -> None:
    """A dead runner's process whose number somebody else has now."""
    dead = Resources("dead")
    bound(dead, table.add(FIRST, start=8))
    abandoned(dead)
    assert recover() == []
    assert table.signals == []
    assert site.journals() == []


def test_after_a_reboot_process_numbers_mean_nothing(site: Site, table: Table) -> None:
    """The boot differs: the recorded process, though it fits, is somebody else's now."""
    dead = Resources("before the reboot")
    bound(dead, table.add(FIRST))
    folder = dead.make_directory(site.folder / dead.name)
    abandoned(dead, (journals.boot_id(), "another-boot"))
    assert recover() == [f"removed {folder.path} (left by before the reboot)"]
    assert table.signals == []
    assert not folder.path.exists(), "folders outlive a reboot and are removed"
    assert site.journals() == []


def test_what_a_living_runner_has_is_left_alone(
    site: Site, resources: Resources, table: Table
) -> None:
    bound(resources, table.add(FIRST, resources.token))
    living = resources.make_directory(site.folder / resources.name)
    assert recover() == []
    assert table.signals == []
    assert living.path.is_dir()
    assert [p.stem for p in site.journals()] == [resources.token]
    assert len(resources.close()) == 2
    assert site.journals() == []


def test_a_lock_that_is_held_a_moment_longer_is_waited_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a child between fork and exec, or by another start that cleans up."""
    dead = Resources("dead")
    folder = dead.make_directory(site.folder / dead.name)
    held = os.dup(dead._journal._descriptor)
    abandoned(dead)
    naps = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            os.close(held)

    with monkeypatch.context() as patch:
        patch.setattr(clock, "sleep", sleep)
        assert recover() == [f"removed {folder.path} (left by dead)"]
    assert len(naps) == 3
    assert site.journals() == []


def test_a_lock_that_stays_is_told(site: Site) -> None:
    dead = Resources("dead")
    held = os.dup(dead._journal._descriptor)
    path = abandoned(dead)
    assert any("locked though its runner is dead" in line for line in recover())
    assert site.journals() == [path]
    os.close(held)
    recover()
    assert site.journals() == []


def test_something_mounted_below_protects_a_folder(
    site: Site, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bind mount looks like a folder of ours; its files are not."""
    base = resources.make_directory(site.folder / resources.name)
    point = base.path / "bound"
    point.mkdir()
    below = replace(mount_by_name(point), mount_point=point)
    with monkeypatch.context() as patch:
        patch.setattr(trees, "mounts_below", lambda path: [below] if path == base.path else [])
        with pytest.raises(RunFailed, match="still mounted"):
            base.undo()
    assert point.is_dir()
    base.undo()
    assert not base.path.exists()


def test_a_folder_on_a_disk_that_is_not_mounted_now_is_kept_in_the_journal(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = Resources("dead")
    folder = dead.make_directory(site.folder / dead.name).path
    path = abandoned(dead)
    elsewhere = folder.rename(folder.with_name("on the disk"))
    other = replace(mount_by_name(folder), mount_point=Path("/another"))
    with monkeypatch.context() as patch:
        patch.setattr(undo, "mount_by_name", lambda _path: other)
        assert any("is not mounted now" in line for line in recover())
    assert site.journals() == [path]
    elsewhere.rename(folder)
    assert recover() == [f"removed {folder} (left by dead)"]
    assert not folder.exists()
    assert site.journals() == []


def test_another_machines_journal_is_left_alone(site: Site) -> None:
    """A home folder on NFS: the runner may live elsewhere, and its lock be invisible."""
    other = Resources("elsewhere")
    folder = other.make_directory(site.folder / other.name)
    other._journal.close()
    path = other._journal.path
    text = path.read_text()
    path.write_text(
        text.replace(journals.machine_id(), "another-machine").replace(
            journals.boot_id(), "another-boot"
        )
    )
    assert any("another machine" in line for line in recover())
    assert folder.path.is_dir()
    path.write_text(text.replace(f'"pid":{os.getpid()}', '"pid":1'))
    recover()
    assert not folder.path.exists()


def test_a_damaged_or_renamed_journal_undoes_nothing(site: Site) -> None:
    folder = site.state / "journals"
    folder.mkdir(parents=True)
    precious = site.folder / "precious"
    (folder / "00112233445566ff.jsonl").write_text("no journal\n")
    token = "precious"  # A token that would fit a folder's name.
    lines = (
        '{"nfslab_journal":1,"token":"%s","pid":1,"start_ticks":1,"boot_id":"x","machine":"%s"}\n'
        '{"op":"intent","id":1,"kind":"directory","what":{"path":"%s"}}\n'
    )
    (folder / f"{token}.jsonl").write_text(lines % (token, journals.machine_id(), precious))
    told = recover()
    assert len(told) == 2
    assert all("left alone" in line for line in told)
    assert (precious / "file").exists()
    for path in folder.glob("*.jsonl"):
        path.unlink()


def test_a_path_without_the_token_is_never_removed(site: Site, resources: Resources) -> None:
    precious = site.folder / "precious"
    with pytest.raises(ValueError, match="token"):
        resources.directory(precious)
    with pytest.raises(ValueError, match="token"):
        resources.mount(precious)
    with pytest.raises(ValueError, match="token"):
        resources.loop(precious / "file")
    entry = resources.directory(site.folder / resources.name)
    entry.what["path"] = str(precious)  # As if the journal had been tampered with.
    assert any("does not carry our token" in line for line in resources.close())
    assert (precious / "file").exists()
    resources._journal.path.unlink()


def test_a_folder_that_became_a_link_is_left_alone(site: Site, resources: Resources) -> None:
    entry = resources.make_directory(site.folder / resources.name)
    entry.path.rmdir()
    entry.path.symlink_to(site.folder / "precious")
    with pytest.raises(RunFailed, match="not a folder"):
        entry.undo()
    entry.path.unlink()
    entry.undo()


def test_an_existing_folder_cannot_be_claimed(site: Site, resources: Resources) -> None:
    path = site.folder / resources.name
    path.mkdir()
    with pytest.raises(RunFailed, match="exists already"):
        resources.make_directory(path)
    assert path.is_dir()


def test_undoing_is_newest_first_and_goes_on_after_a_failure(
    site: Site, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def undone(what: dict[str, object], scope: object) -> str:
        order.append(str(what["path"]))
        if str(what["path"]).endswith("second"):
            raise OSError("stuck")
        return f"undid {what['path']}"

    monkeypatch.setitem(undo.UNDO, "directory", undone)
    paths = [site.folder / f"{resources.name}-{name}" for name in ("first", "second", "third")]
    for path in paths:
        resources.directory(path)
    told = resources.close()
    assert order == [str(path) for path in reversed(paths)]
    assert len(told) == 3
    assert "stuck" in told[1]
    assert len(site.journals()) == 1, "what is left is for the next start"
    monkeypatch.undo()
    monkeypatch.setenv("NFSLAB_STATE", str(site.state))
    with pytest.raises(RunFailed, match="closed"):
        resources.process(None, ["late"])
    assert resources.close() == []
    site.journals()[0].unlink()


@pytest.mark.system
@needs.mount
def test_a_busy_mount_goes_all_the_same(
    site: Site, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody stands in the mounted folder who is no process of ours."""
    monkeypatch.setattr(undo, "BUSY_LIMIT_S", 0.1)
    base = resources.make_directory(site.folder / resources.name)
    point = base.path / "mounted"
    point.mkdir()
    resources.mount(point)
    host = LocalHost()
    argv = ["mount", "-t", "tmpfs", "none", str(point)]
    host.run(argv, resources=resources, timeout_s=60)
    bystander = subprocess.Popen(["sleep", "1000"], cwd=point)
    try:
        told = resources.close()
        assert any("lazily" in line for line in told)
        assert bystander.poll() is None
        assert not any(mount.mount_point == point for mount in mounts())
        assert not base.path.exists()
    finally:
        bystander.kill()
        bystander.wait()


def test_closing_again_after_an_interrupt(
    site: Site, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = resources.make_directory(site.folder / resources.name)

    def interrupted(what: object, scope: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setitem(undo.UNDO, "directory", interrupted)
        with pytest.raises(KeyboardInterrupt):
            resources.close()
    assert entry.path.is_dir()
    assert resources.close() == [f"removed {entry.path}"]
    assert site.journals() == []


@pytest.mark.system
def test_everything_that_a_killed_runner_leaves_is_undone(site: Site) -> None:
    """One of each kind that this user may make; without cleaning up, the search finds it."""
    like_ours = site.folder / "other-0123456789abcdef"
    like_ours.mkdir()
    environment = {"PATH": os.environ["PATH"], TOKEN_VARIABLE: "0123456789abcdef"}
    with subprocess.Popen(["sleep", "1000"], env=environment) as foreign:
        try:
            victim = site.start()
            killed_with(victim, lambda: all_is_there(site))
            assert victim.stdout is not None
            victim.stdout.close()
            assert any("nfslab-" in line for line in site.left())
            recovered_clean(site)
            assert like_ours.is_dir()
            assert foreign.poll() is None
        finally:
            foreign.kill()


def all_is_there(site: Site) -> bool:
    wanted = {"directory", "process"} | ({"loop", "mount"} if LOOPS else set())
    kinds = {entry.kind for path in site.journals() for entry in opened(path)}
    return kinds >= wanted and any(line.endswith(" sleep") for line in site.left())


@pytest.mark.system
@needs.setpriv
def test_programs_die_with_their_runner_before_any_recovery(site: Site) -> None:
    """The kernel ends what the runner's main thread started."""
    victim = site.start()

    def leaders() -> list[Identity]:
        assert victim.poll() is None
        entries = [entry for path in site.journals() for entry in opened(path)]
        found = [undo.process_root(e.what) for e in entries if "1000" in e.what.get("command", "")]
        return [one for one in found if one is not None and is_itself(one.pid)]

    started = until(leaders)
    victim.kill()
    victim.wait()
    assert victim.stdout is not None
    victim.stdout.close()
    for one in started:
        until(lambda one=one: identity_of(one.pid) != one)  # type: ignore[misc]
    recovered_clean(site)


def is_itself(pid: int) -> bool:
    """Past the wrappers: what asks for the signal has run, and become the program."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"sleep" in command and b"setpriv" not in command and b"nfslab-join" not in command


def opened(path: Path) -> list[journals.OpenEntry]:
    content = journals.content_of(path)
    return content.open if content is not None else []
