"""Nothing outlives its run: undone at the end, or by the next start after a kill.

The kills come from a child process (`victim`) that makes one of everything: at random
instants (seeded), and exactly at every line that it writes to its journal.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from nfslab.errors import RunFailed
from nfslab.hosts.local import LocalHost
from nfslab.machine import journal as journals
from nfslab.machine import undo
from nfslab.machine.mounts import mounts
from nfslab.machine.processes import TOKEN_VARIABLE, all_statuses, identity_of
from nfslab.machine.resources import Resources, recover

from tests.machine import needs
from tests.machine.victim import LOOPS
from tests.stopping import stop

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_S = 120
RANDOM_KILLS = 12
RANDOM_SEED = 2001
LONGEST_LIFE = 1.5
"""Rounds of the victim, each as long as the first was."""
LINES_MAX = 200


class Site:
    """Where a victim builds, and what may be left of it anywhere on the machine."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.folder = folder
        self.state = state

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {"NFSLAB_STATE": str(self.state)}
        victim = subprocess.Popen(
            [sys.executable, "-m", "tests.machine.victim", str(self.folder), *arguments],
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


def test_the_victim_makes_something_of_every_kind(site: Site) -> None:
    """The canary: without recovery the search finds what a kill leaves."""
    victim = site.start("--kill-at", "1000000")

    def all_is_there() -> bool:
        left = site.left()
        things = any("nfslab-" in line for line in left)
        return things and any(line.endswith("sleep") for line in left) and site.journals() != []

    killed_with(victim, all_is_there)
    assert victim.stdout is not None
    victim.stdout.close()
    assert site.journals() != []
    assert any("nfslab-" in line for line in site.left())
    recovered_clean(site)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_killed_at_random_instants(site: Site) -> None:
    instants = random.Random(RANDOM_SEED)
    began = time.monotonic()
    whole = site.start("--once")
    assert whole.wait() == 0
    round_s = time.monotonic() - began
    assert whole.stdout is not None
    whole.stdout.close()
    dirty = 0
    for _ in range(RANDOM_KILLS):
        victim = site.start()
        # The instant of the kill is what is varied here, not a synchronisation.
        time.sleep(instants.uniform(0.0, LONGEST_LIFE * round_s))
        victim.kill()
        assert victim.wait() == -signal.SIGKILL
        assert victim.stdout is not None
        victim.stdout.close()
        dirty += bool(site.left())
        recovered_clean(site)
    assert dirty > 0, "the kills came when there was something to clean up"


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("how", ["torn", pytest.param("after", marks=pytest.mark.long)])
def test_killed_at_every_line_of_the_journal(site: Site, how: str) -> None:
    """Also between an intent and the thing, between a thing and its bind, while undoing.

    A kill before a line is the same as one in the middle of it: the line does not count.
    """
    for number in range(1, LINES_MAX):
        victim = site.start("--once", "--kill-at", str(number), "--how", how)
        code = victim.wait()
        assert victim.stdout is not None
        victim.stdout.close()
        recovered_clean(site)
        if code == 0:
            assert number > (15 if LOOPS else 5), "it wrote as many lines as there are steps"
            return
        assert code == -signal.SIGKILL
    pytest.fail("the victim never came to its end")


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_killed_while_recovering(site: Site) -> None:
    """The next recovery ends what a killed one began."""
    for number in range(1, LINES_MAX):
        victim = site.start()
        killed_with(victim, lambda: any(one.endswith("sleep") for one in site.processes()))
        saviour = site.start("--recover", "--kill-at", str(number))
        code = saviour.wait()
        for process in (victim, saviour):
            assert process.stdout is not None
            process.stdout.close()
        recovered_clean(site)
        if code == 0:
            assert number > 1
            return
    pytest.fail("the recovery never came to its end")


def test_what_is_foreign_survives(site: Site, resources: Resources) -> None:
    """Names like ours, tokens of others, a live runner: all are left alone."""
    like_ours = site.folder / "other-0123456789abcdef"
    like_ours.mkdir()
    foreign = subprocess.Popen(
        ["sleep", "1000"], env=os.environ | {TOKEN_VARIABLE: "0123456789abcdef"}
    )
    living = resources.make_directory(site.folder / resources.name)
    process = LocalHost().spawn(["sleep", "1000"], resources=resources)
    try:
        victim = site.start()
        while len(site.journals()) < 2:
            assert victim.poll() is None
        victim.kill()
        victim.wait()
        assert victim.stdout is not None
        victim.stdout.close()
        recover()
        assert like_ours.is_dir()
        assert foreign.poll() is None
        assert living.path.is_dir()
        assert process.poll() is None
        assert [p.stem for p in site.journals()] == [resources.token]
    finally:
        foreign.kill()
        foreign.wait()
    assert len(resources.close()) == 2
    assert site.journals() == []


def test_a_reused_process_number_is_not_ours(site: Site) -> None:
    """A dead runner's process whose number somebody else has now."""
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        with Resources("dead") as dead:
            entry = dead.process(None, ["sleep"])
            entry.bind(pid=bystander.pid, start_ticks=1)
            dead.process(bystander.pid, ["sleep"]).release()
            dead._journal.close()
            text = dead._journal.path.read_text().replace(
                f'"pid":{os.getpid()},"start_ticks"', '"pid":1,"start_ticks"'
            )
            dead._journal.path.write_text(text)
            assert recover() == []
            assert bystander.poll() is None
            assert site.journals() == []
    finally:
        bystander.kill()
        bystander.wait()


def test_after_a_reboot_process_numbers_mean_nothing(site: Site) -> None:
    """The boot differs: the recorded process, though it fits, is somebody else's now."""
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        dead = Resources("before the reboot")
        dead.process(bystander.pid, ["sleep"])
        folder = dead.make_directory(site.folder / dead.name)
        dead._journal.close()
        path = dead._journal.path
        path.write_text(path.read_text().replace(journals.boot_id(), "another-boot"))
        told = recover()
        assert bystander.poll() is None
        assert not folder.path.exists(), "folders outlive a reboot and are removed"
        assert told == [f"removed {folder.path} (left by before the reboot)"]
        assert site.journals() == []
    finally:
        bystander.kill()
        bystander.wait()


def test_a_child_that_still_holds_the_lock_is_waited_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between fork and exec: the child has the lock a little longer than its runner."""
    monkeypatch.setattr(journals, "INHERITED_LOCK_LIMIT_S", PATIENCE_S)
    dead = Resources("dead")
    folder = dead.make_directory(site.folder / dead.name)
    path = dead._journal.path
    path.write_text(path.read_text().replace(f'"pid":{os.getpid()}', '"pid":1'))
    read_end, write_end = os.pipe()
    holder = subprocess.Popen(
        ["sh", "-c", "read line <&$0", str(read_end)],
        pass_fds=[dead._journal._descriptor, read_end],
    )
    dead._journal.close()
    told: list[str] = []
    recovery = threading.Thread(target=lambda: told.extend(recover()))
    recovery.start()
    assert folder.path.is_dir()
    os.write(write_end, b"exec\n")
    holder.wait()
    recovery.join()
    os.close(read_end)
    os.close(write_end)
    assert told == [f"removed {folder.path} (left by dead)"]
    assert site.journals() == []


def test_a_lock_that_stays_is_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "INHERITED_LOCK_LIMIT_S", 0.05)
    dead = Resources("dead")
    path = dead._journal.path
    path.write_text(path.read_text().replace(f'"pid":{os.getpid()}', '"pid":1'))
    assert any("locked though its runner is dead" in line for line in recover())
    assert site.journals() == [path]
    dead._journal.close()
    recover()
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


def test_two_recoveries_at_once_share_the_work(site: Site) -> None:
    victims = [site.start() for _ in range(2)]
    while len(site.journals()) < 2:
        assert all(victim.poll() is None for victim in victims)
    for victim in victims:
        victim.kill()
        victim.wait()
    saviours = [site.start("--recover") for _ in range(3)]
    assert [saviour.wait() for saviour in saviours] == [0, 0, 0]
    for process in victims + saviours:
        assert process.stdout is not None
        process.stdout.close()
    recovered_clean(site)


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


@needs.mount
def test_something_mounted_below_protects_a_folder(site: Site, resources: Resources) -> None:
    """A bind mount looks like a folder of ours; its files are not."""
    base = resources.make_directory(site.folder / resources.name)
    point = base.path / "bound"
    point.mkdir()
    subprocess.run(["mount", "--bind", site.folder / "precious", point], check=True)
    try:
        with pytest.raises(RunFailed, match="still mounted"):
            base.undo()
        assert (site.folder / "precious" / "file").exists()
    finally:
        subprocess.run(["umount", point], check=True)
    base.undo()
    assert not base.path.exists()


@needs.loop
@needs.mount
@needs.program("mkfs.ext4")
def test_a_folder_on_a_disk_that_is_not_mounted_now_is_kept_in_the_journal(site: Site) -> None:
    point = site.folder / "disk"
    point.mkdir()
    image = site.folder / "image"
    with image.open("wb") as file:
        file.truncate(4 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, point], check=True)
    try:
        dead = Resources("dead")
        folder = dead.make_directory(point / dead.name).path
        dead._journal.close()
        path = dead._journal.path
        path.write_text(path.read_text().replace(f'"pid":{os.getpid()}', '"pid":1'))
        subprocess.run(["umount", point], check=True)
        assert any("is not mounted now" in line for line in recover())
        assert site.journals() == [path]
        subprocess.run(["mount", "-o", "loop", image, point], check=True)
        assert folder.is_dir()
        assert recover() == [f"removed {folder} (left by dead)"]
        assert not folder.exists()
        assert site.journals() == []
    finally:
        subprocess.run(["umount", point], check=False, capture_output=True)


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


@needs.setpriv
def test_programs_die_with_their_runner_before_any_recovery(site: Site) -> None:
    """The kernel ends what the runner's main thread started."""
    victim = site.start()
    leaders: list[journals.OpenEntry] = []
    while not leaders:
        assert victim.poll() is None
        for path in site.journals():
            leaders = [e for e in opened(path) if "sleep 1000" in e.what.get("command", "")]
            leaders = [e for e in leaders if is_itself(e.what.get("pid", 0))]
    victim.kill()
    victim.wait()
    assert victim.stdout is not None
    victim.stdout.close()
    for entry in leaders:
        root = undo.process_root(entry.what)
        assert root is not None
        while identity_of(root.pid) == root:
            os.sched_yield()
    recovered_clean(site)


def is_itself(pid: int) -> bool:
    """Past the wrappers: what asks for the signal has run, and become the program."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"sleep" in command and b"setpriv" not in command and b"nfslab-join" not in command


def opened(path: Path) -> list[journals.OpenEntry]:
    try:
        content = journals.parse(path.read_bytes())
    except FileNotFoundError:
        return []
    return content.open if content is not None else []
