"""A MariaDB of a test's own: its folder, its server on a socket, what it counts, and its end."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.waiting import until

PAGE_BYTES = 16384
SERVER, CLIENT, INSTALL = "mariadbd", "mariadb", "mariadb-install-db"
END_S = 60
"""After it a server that was asked to end is killed."""
USER = "nobody"
"""mariadbd refuses to run as root without a user to become."""
UNDO = ("--innodb-undo-tablespaces=2",)
"""Files of their own; else the undo log lies in the system tablespace (10.11)."""
CHECKPOINTS = "log_checkpoints"
"""A metric of InnoDB's that is to be switched on."""
QUIET = (
    # Nothing is written but for the statements that a test gives: no statistics of tables, no
    # pages of a pool that is dumped or filled, none that are flushed because nobody is at work.
    "--innodb-stats-persistent=OFF", "--innodb-buffer-pool-dump-at-shutdown=OFF",
    "--innodb-buffer-pool-load-at-startup=OFF", "--innodb-max-dirty-pages-pct-lwm=0",
)  # fmt: skip


def missing() -> str:
    """Why there can be none here; empty where there can."""
    needed = {SERVER: "mariadb-server-core", INSTALL: "mariadb-server-core",
              CLIENT: "mariadb-client-core"}  # fmt: skip
    # Servers are in sbin, which is not everybody's PATH.
    for program, package in needed.items():
        if not path_of(program):
            return f"{program} is not installed (Debian: {package})"
    return ""


def path_of(program: str) -> str:
    """Empty when it is not there."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    return shutil.which(program, path=path) or ""


class Cluster:
    """A data folder, and where its server is to be reached."""

    def __init__(self, root: Path) -> None:
        self.data, self.socket, self.log = root / "data", root / "socket", root / "log.err"
        if os.geteuid() == 0:
            shutil.chown(root, USER)
        made = subprocess.run(
            [path_of(INSTALL), "--no-defaults", f"--datadir={self.data}", *self._user(),
             "--auth-root-authentication-method=normal", "--skip-test-db",
             "--innodb-use-native-aio=OFF", *UNDO],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout + made.stderr

    def _user(self) -> list[str]:
        return [f"--user={USER}"] if os.geteuid() == 0 else []

    def argv(self, *more: str) -> list[str]:
        """Of a server: each commit is synced, the binary log's, too."""
        return [
            path_of(SERVER), "--no-defaults", f"--datadir={self.data}", *self._user(),
            f"--socket={self.socket}", "--skip-networking", f"--log-error={self.log}",
            f"--pid-file={self.socket.parent / 'pid'}", f"--tmpdir={self.socket.parent}",
            "--log-bin=binlog", "--server-id=1", "--sync-binlog=1", "--innodb-doublewrite=ON",
            "--innodb-flush-log-at-trx-commit=1", *UNDO, *QUIET,
            f"--innodb-monitor-enable={CHECKPOINTS}", *more,
        ]  # fmt: skip

    @contextmanager
    def server(self, *more: str) -> Iterator[Server]:
        """It runs meanwhile."""
        with self.started(self.argv(*more)) as server:
            yield server

    @contextmanager
    def started(self, argv: Sequence[str]) -> Iterator[Server]:
        """Of a command that starts it. Whatever happens, no server is left."""
        self.log.unlink(missing_ok=True)
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True,
        )  # fmt: skip
        server = Server(self, process)
        try:
            server.await_ready()
            yield server
        finally:
            self._end()
            process.communicate()

    def _end(self) -> None:
        """Who has our folder as its own is ours."""
        for pid in self._servers():
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                descriptor = os.pidfd_open(pid)
                try:
                    if pid in self._servers():  # still the same process
                        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
                        if not select.select([descriptor], [], [], END_S)[0]:
                            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                finally:
                    os.close(descriptor)

    def _servers(self) -> list[int]:
        mark = f"--datadir={self.data}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if words[0].endswith(SERVER.encode()) and mark in words:
                    found.append(int(path.parent.name))
        return found


class Server:
    """One that runs, and what is asked of it."""

    def __init__(self, cluster: Cluster, process: subprocess.Popen[str]) -> None:
        self.cluster, self.process = cluster, process

    def ask(self, sql: str) -> list[list[str]]:
        """Rows of all statements."""
        done = self._client(sql)
        assert done.returncode == 0, done.stderr
        return [line.split("\t") for line in done.stdout.splitlines()]

    def _client(self, sql: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [path_of(CLIENT), "--no-defaults", f"--socket={self.cluster.socket}", "--user=root",
             "--batch", "--skip-column-names"],
            input=sql, capture_output=True, text=True, check=False,
        )  # fmt: skip

    def await_ready(self) -> None:
        while self._client("SELECT 1").returncode != 0:
            assert self.process.poll() is None, self.said()

    def said(self) -> str:
        """Its log of errors."""
        log = self.cluster.log
        return log.read_text(errors="replace") if log.exists() else ""

    def status(self) -> Counters:
        """What it has counted so far."""
        rows = self.ask(
            "SHOW GLOBAL STATUS; SELECT name, count FROM information_schema.innodb_metrics "
            f"WHERE name = '{CHECKPOINTS}'"
        )
        return Counters({name: int(value) for name, value in rows if value.isdigit()})

    def settled(self) -> Counters:
        """The same, when all of the log is on the disk: the second's own flush has been."""
        while (now := self.status())["Innodb_lsn_current"] != now["Innodb_lsn_flushed"]:
            pass
        return now

    def flush_pages(self) -> None:
        """Every changed page goes to its file, by the doublewrite buffer."""
        self.ask("SET GLOBAL innodb_max_dirty_pages_pct = 0")
        until(lambda: not self.status()["Innodb_buffer_pool_pages_dirty"])
        self.ask("SET GLOBAL innodb_max_dirty_pages_pct = 90")


class Counters(dict[str, int]):
    """Of a server's status, by name."""

    def since(self, before: Mapping[str, int]) -> Counters:
        """How much each has grown."""
        return Counters({name: value - before.get(name, 0) for name, value in self.items()})
