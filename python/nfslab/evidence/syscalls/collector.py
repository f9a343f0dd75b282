"""System calls on files: every fsync timed (`fsync`), and all file calls counted (`syscalls`).

    a database's server    its processes are watched from now on (eBPF); else it preloads what
                           records, from its launch on; else its own views are read
    a program (`command`,  its launch is watched (`nfslab.machine.watched_launch`): suspended before
    `files`)               its first instruction (eBPF), or preloaded

Decisions. The way is chosen when watching starts (`ways`), and the summary says
which, what was in the way of the others, and what it is known to cost. Files have their class when
they are stored, so that a report needs nothing but the folder. Totals count from the timed start.
Which device is a target of our own NFS client, which export of which server lies behind it, and
which disks lie below one, is asked while the places are up: the report joins syncs to WRITEs and
COMMITs, and to block requests, by it.

Cost: docs/syscalls.md; Evidence.cpu_s is the threads that take the records, not what the probes
add to the calls themselves.

Limits: one of the two collectors at a time (`syscalls` has the syncs, too). Workloads that make
their calls in nfslab's own process (sfs) are not watched. mmap and io_uring are not seen.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field

from nfslab.errors import Unavailable
from nfslab.evidence.collector import Collector, CollectorParameters, Evidence
from nfslab.evidence.syscalls.ways import Asked, Choice, Subject, Way, choose
from nfslab.machine.availability import Availability

if TYPE_CHECKING:
    from nfslab.databases.postgres.relations import RelationNames
    from nfslab.evidence.syscalls.watch import SyscallWatch
    from nfslab.machine.watched_launch import LaunchWatcher
    from nfslab.workloads.base import RunContext, Workload


NOT_COUNTED: Final = "sessions of the load outlived it: what they did last is not counted"


def _subject(context: RunContext) -> Subject | None:
    """Processes of the workload's own server; None: it has none."""
    database = context.services.database
    pids = context.services.server_pids()
    has_views = database is not None and database.has_views
    return Subject(pids=pids, has_views=has_views) if pids else None


def _server(engine: str) -> Subject:
    """The server that a workload is going to start."""
    return Subject(argv=(engine,), has_views=engine == "postgres")


class FsyncParameters(CollectorParameters):
    """What `[collectors.fsync]` may hold."""

    blocks: bool = False
    """Block requests, too: what a sync on a local disk waits for."""
    classes: Path | None = None
    """A file of classes instead of those that come with nfslab."""
    by_relation: bool = False
    """Each table and index of a PostgreSQL a class of its own, as its catalog names them."""
    way: Way | None = None
    """ebpf, shim or views; the first that can be used when it is left out."""


class SyscallsParameters(FsyncParameters):
    """What `[collectors.syscalls]` may hold."""

    level: Literal["counts", "events"] = "counts"
    lseek: bool = Field(default=False)
    """Count lseek, too: it is the most frequent call of many programs."""


class _SystemCalls(Collector):
    """What both collectors do."""

    parameters: FsyncParameters

    def _asked(self) -> Asked:
        raise NotImplementedError

    @classmethod
    def available(cls) -> Availability:
        """Is there a way at all: for a program of one's own, if nothing else?"""
        return _answer(Asked(), Subject(argv=("true",), has_views=True))

    def expected(self, workload: Workload) -> Availability:
        """By which way: a server's files are used where it runs, a program's by itself."""
        if workload.engine:
            return _answer(self._asked(), _server(workload.engine))
        return _answer(self._asked(), Subject(argv=("true",)))

    def ready(self, context: RunContext) -> None:
        """A server of the workload is watched from its launch on where eBPF cannot come later."""
        if context.services.server_watcher is None:
            self._watch = run = _Run(context, self.parameters, self._asked())
            run.await_server()

    def abandon(self) -> None:
        """What was made for the server's launch goes."""
        super().stop()

    def applies(self, context: RunContext) -> Availability:
        """Can this run's processes be watched?"""
        if context.services.syscalls_by not in ("", self.kind):
            return Availability(
                False,
                f"the collector {context.services.syscalls_by} watches system calls already",
                "leave fsync out: the collector syscalls has the syncs, too",
            )
        subject = _subject(context)
        if subject is None:
            return self.available()
        if isinstance(self._watch, _Run) and self._watch.has_launched(subject.pids[0]):
            return Availability(True)
        return _answer(self._asked(), subject)

    def start(self, context: RunContext) -> None:
        """Watch from now on, or from the start of the workload's program; RunFailed."""
        run = self._watch
        if not isinstance(run, _Run):
            self._watch = run = _Run(context, self.parameters, self._asked())
        run.begin()
        context.services.syscalls_by = self.kind


class FsyncCollector(_SystemCalls):
    """Every call that makes bytes durable."""

    kind: ClassVar[str] = "fsync"
    summary: ClassVar[str] = "every fsync, fdatasync, synchronous write: which file, how long"
    Parameters: ClassVar[type[CollectorParameters]] = FsyncParameters

    def _asked(self) -> Asked:
        return Asked("sync", blocks=self.parameters.blocks, way=self.parameters.way)


class SyscallsCollector(_SystemCalls):
    """Calls on files, counted by file, and the syncs."""

    kind: ClassVar[str] = "syscalls"
    summary: ClassVar[str] = "system calls by class of files: counts, bytes, times; and every sync"
    Parameters: ClassVar[type[CollectorParameters]] = SyscallsParameters
    parameters: SyscallsParameters

    def _asked(self) -> Asked:
        p = self.parameters
        return Asked(p.level, lseek=p.lseek, blocks=p.blocks, way=p.way)


class _Run:
    """One run's watch."""

    def __init__(self, context: RunContext, p: FsyncParameters, asked: Asked) -> None:
        from nfslab.storage.file_classes import read_file_classes

        self._context, self._asked = context, asked
        # Read now: a file of classes with a mistake in it must not cost a run.
        self._classes = read_file_classes(p.classes)
        self._watch: SyscallWatch | None = None
        self._watcher: LaunchWatcher | None = None
        # Asked while the places are up.
        self._places = {"targets": _targets(context), "exports": _exports(context)}
        self._by_relation = p.by_relation
        self._relations: RelationNames | None = None
        self._server: LaunchWatcher | None = None

    def await_server(self) -> None:
        """Have the workload's server, if it starts one, preload what records."""
        from nfslab.machine.watched_launch import LaunchWatcher

        with contextlib.suppress(Unavailable):  # `start` tells what is in the way
            choice = choose(self._asked, _server("server"))
            if choice.way == "shim":
                self._server = LaunchWatcher(lambda argv: self._open(choice, Subject(argv=argv)))
                self._context.services.server_watcher = self._server

    def has_launched(self, pid: int) -> bool:
        """Is it watched from its launch on?"""
        if self._server is None or self._server.problem or self._server.process is None:
            return False
        return self._server.process.pid == pid

    def begin(self) -> None:
        subject, postgres = _subject(self._context), self._context.services.postgres
        if subject is not None:
            if self._by_relation and postgres is not None:
                from nfslab.databases.postgres.relations import RelationNames

                self._relations = RelationNames(postgres.conninfo)
                self._relations.read()
            if self._watch is not None and self.has_launched(subject.pids[0]):
                self._context.timed.at_start(self._watch.mark)
                return
            self._attach(subject, postgres.conninfo if postgres is not None else "")
            return
        from nfslab.machine.watched_launch import LaunchWatcher

        self._watcher = self._context.timed.watcher = LaunchWatcher(
            lambda argv: self._open(choose(self._asked, Subject(argv=argv)), Subject(argv=argv))
        )

    def _attach(self, subject: Subject, conninfo: str) -> None:
        from nfslab._core import CoreError
        from nfslab.evidence.syscalls.watch import SyscallWatch, attach_error

        choice = choose(self._asked, subject)
        watch = SyscallWatch(choice, self._asked, subject, conninfo)
        try:
            watch.attach()
        except CoreError as error:
            raise attach_error(choice, error) from error
        self._context.timed.at_start(watch.mark)
        self._watch = watch

    def _open(self, choice: Choice, subject: Subject) -> SyscallWatch:
        from nfslab.evidence.syscalls.watch import SyscallWatch

        self._watch = SyscallWatch(choice, self._asked, subject)
        return self._watch

    def end(self) -> Evidence:
        problem = ""
        if self._watcher is not None:
            problem = self._watcher.problem
            self._context.timed.watcher = None
        if self._server is not None:
            problem = problem or self._server.problem
            self._context.services.server_watcher = None
        if self._watch is None:
            problem = problem or "the workload started no program in its timed part"
            return Evidence(summary={"incomplete": problem, "notes": [problem]}, wall_s=0.0)
        from nfslab.evidence.syscalls.seen import evidence_tables, summary_of
        from nfslab.evidence.syscalls.tables import PREFIX

        counted = self._watch.choice.way != "views" or self._clients_are_gone()
        seen = self._watch.end()
        if not counted:
            seen.notes.append(NOT_COUNTED)
        problem = problem or seen.nothing
        zero_ns, end_ns = self._context.timed.start_or(0), self._context.timed.end_ns or 0
        summary = summary_of(self._watch.choice, self._asked, seen)
        summary |= self._places
        summary["timed_ns"] = max(0, end_ns - zero_ns)
        if problem:
            summary |= {"incomplete": problem, "notes": [*summary["notes"], problem]}
        tables = evidence_tables(seen, self._classes, zero_ns, end_ns)
        if self._relations is not None:
            self._relations.name(tables, summary)
        elif self._by_relation:
            summary["notes"] = [*summary["notes"], "by_relation: this run has no PostgreSQL"]
        self._context.notes.extend(f"system calls: {note}" for note in summary["notes"])
        named = {PREFIX + name: table for name, table in tables.items()}
        return Evidence(named, summary, seen.cpu_s, seen.wall_s)

    def _clients_are_gone(self) -> bool:
        """PostgreSQL's sessions tell its views what they did when they go."""
        import psycopg

        from nfslab.databases.postgres.clients import clients_are_gone

        if (postgres := self._context.services.postgres) is None:
            return True
        try:
            with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
                return clients_are_gone(connection, postgres.client_name, postgres.major)
        except psycopg.Error:
            return True  # who reads the views says so


def _answer(asked: Asked, subject: Subject) -> Availability:
    """Whether, and by which way."""
    try:
        return Availability(True, how=choose(asked, subject).how)
    except Unavailable as error:
        return Availability(False, error.why, error.fix or "run as root")


def _targets(context: RunContext) -> dict[str, str]:
    from nfslab.storage.file_devices import device_of

    ours = context.services.rpc_recorders
    found = {}
    for place in context.places.values():
        if place.target in ours:
            found[device_of(place.path)] = place.target
    return found


def _exports(context: RunContext) -> dict[str, dict[str, Any]]:
    from nfslab.captures.exports import described_exports

    places = {place.target: place for place in context.places.values()}
    return described_exports(
        {name: place.path for name, place in places.items()},
        {name: place.facts.get("nfs", {}) for name, place in places.items()},
    )
