"""Web serving over the storage, in the manner of SPECweb99: the way of one run.

    prepare   documents written to the place, server up
    measure   (the search: a load for each step), then the timed load
    verify    server down; POSTs in the log, what was drawn, errors
    finish    whatever still runs is ended

The generator is a process of its own for each load, with its CPU time accounted apart. Time zero of
samples and evidence is the timed load's start, its warm-up included; metrics are of the window
behind it. The search's steps lie before: what collectors see from time zero on is one load. A load
whose generator was itself the limit fails the run.

On several client hosts the prime prepares and verifies, and each host measures with its processes'
part of every load (`hosts`).
"""

from __future__ import annotations

import json
import resource
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from nfslab.machine.availability import Availability, measuring_core
from nfslab.machine.users import primary_group, unprivileged_user
from nfslab.results.records import LoadShape
from nfslab.workloads.base import Outcome, Workload, refuse_debug_build, spent
from nfslab.workloads.web import checks, hosts, outcome
from nfslab.workloads.web.generators import Generators
from nfslab.workloads.web.hosts import PARTS_MAX
from nfslab.workloads.web.parameters import WebParameters
from nfslab.workloads.web.processes import begin
from nfslab.workloads.web.search import Found, search, step_of, together
from nfslab.workloads.web.servers.base import Served
from nfslab.workloads.web.servers.nginx import open_files
from nfslab.workloads.web.servers.registry import serving_class

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.context import HostPart, Share
    from nfslab.results.records import CheckRecord
    from nfslab.workloads.base import RunContext, WorkloadParameters
    from nfslab.workloads.web.generators import Made
    from nfslab.workloads.web.servers.base import WebServing

DIRECTORY_BYTES: Final = 5_120_000
"""Of the documents of one directory, at most."""
BLOCK_SLACK_BYTES: Final = 36 * 4096
"""What a file system may need beyond them, with blocks of 4 KiB."""
ASSUMED_FILL_BYTES_PER_S: Final = 100e6
ASSUMED_REQUESTS_PER_S: Final = 20_000
LOG_LINE_BYTES: Final = 200
STEPS_ASSUMED: Final = 10
LOAD_SPARE_S: Final = 1.5
"""Of each load: its process's start, and replies that are waited for."""
DRAIN_S: Final = 2.0
"""Behind the timed part of lines; of other loads beyond the time-out, so that each request has its
end. A step of the search waits for nothing: its lines are judged by then."""
EMBEDDED_CONNECTIONS_MAX: Final = 1 << 15
START_S: Final = 0.1
"""From the word to the processes of several hosts to the common start."""
STEP_LEAD_NS: Final = 1_000_000_000
"""Of a step of the search, from the instant at which all hosts met."""


class WebWorkload(Workload):
    """A web server over the storage, and its load."""

    kind: ClassVar[str] = "web"
    summary: ClassVar[str] = "web serving over the storage, in the manner of SPECweb99"
    Parameters: ClassVar[type[WorkloadParameters]] = WebParameters
    roles: ClassVar[tuple[str, ...]] = ("data", "log")
    files_on: ClassVar[Literal["client", "server"]] = "server"
    has_server: ClassVar[bool] = True
    parameters: WebParameters

    def __init__(self, parameters: WorkloadParameters) -> None:
        super().__init__(parameters)
        self._serving: WebServing | None = None
        self._served: Served | None = None
        self._address = ""
        self._host: str | None = None
        """Of the server, once it is known."""
        self._is_part = False
        """On one of several client hosts."""
        self._loads = 0
        """How many of this run were begun."""
        self._posts: dict[int, list[dict[str, Any]]] = {}
        """By process: of all its loads."""
        # Somebody else's server may be on this machine.
        setattr(self, "others_serve", self.parameters.is_external)  # noqa: B010

    @classmethod
    def available(cls) -> Availability:
        """Is the Rust core there, and fit for publishing figures?"""
        return measuring_core()

    def check(self) -> Availability:
        """Core, server, and the limit of open files."""
        p = self.parameters
        if self._is_part:
            return self.available()  # its open files are asked for by the core
        for answer in (self.available(), serving_class(p.server).available()):
            if not answer.ok:
                return answer
        if p.server == "embedded" and p.most_connections > EMBEDDED_CONNECTIONS_MAX:
            return Availability(
                False,
                f"the embedded server takes {EMBEDDED_CONNECTIONS_MAX:,} connections at once, not "
                f"{p.most_connections:,}",
                'take server = "nginx", or fewer connections',
            )
        return self._files_can_be_open()

    def _files_can_be_open(self) -> Availability:
        """The core raises the soft limit for itself; root can raise the hard one."""
        p = self.parameters
        needed = open_files(p) if not p.is_external else p.most_connections + 64
        _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # nginx and its workers run as an ordinary user.
        if hard == resource.RLIM_INFINITY or needed <= hard:
            return Availability(True)
        if p.server != "nginx" and _hard_limit_can_be(needed):
            return Availability(True)
        fewer = "connections_max" if p.load == "connections" else "connections"
        return Availability(
            False,
            f"{p.most_connections:,} connections need {needed:,} open files, the limit is {hard:,}",
            f"ulimit -Hn {needed} as root, or fewer connections (workload.{fewer})",
        )

    def check_hosts(self, hosts: int, processes: int) -> Availability:
        """Each thread of each process needs a connection."""
        p, of = self.parameters, hosts * processes
        if of > PARTS_MAX:
            return Availability(
                False, f"{hosts} client hosts with {processes} processes are {of:,} processes",
                f"ask for fewer hosts or processes: {PARTS_MAX:,} make one load at most",
            )  # fmt: skip
        if p.connections < of * p.threads:
            return Availability(
                False,
                f"{hosts} client hosts with {processes} processes of {p.threads} threads are "
                f"{of * p.threads}, the load begins with {p.connections} connections",
                "ask for fewer hosts, processes or threads, or for more of workload.connections: "
                "they are those of all hosts",
            )
        return Availability(True)

    def check_server(self, *, has_our_files: bool) -> Availability:
        """One that runs already is where it is."""
        if self.parameters.is_external:
            return Availability(
                False, f"{self.parameters.server} runs already", "leave out [server]"
            )
        return Availability(True)

    def connections(self, processes: int) -> int:
        """Of each host: at most all."""
        return self.parameters.most_connections

    def endpoint(self) -> dict[str, Any]:
        """Where the server is: hosts connect to nothing else."""
        return {"address": self._address, "host": self._host}

    def connect_to(self, endpoint: dict[str, Any]) -> None:
        """The server that is there is the one to load."""
        self._address, self._host = str(endpoint["address"]), endpoint["host"]
        self._is_part = True

    def account(self) -> dict[str, Any]:
        """POSTs of all loads."""
        return {"posts": [writer for some in self._posts.values() for writer in some]}

    def add_account(self, account: dict[str, Any]) -> None:
        """The same, of all hosts."""
        self._posts = {0: account["posts"]}

    def server_cpu_s(self) -> float | None:
        """Of the web server and its application."""
        return None if self._serving is None else self._serving.cpu_s()

    def require_up(self, within_s: float = 0.0) -> None:
        """RunFailed with the server's last words."""
        if self._serving is not None:
            self._serving.require_up(within_s)

    def owner(self) -> int | None:
        """nginx runs as an ordinary user."""
        return unprivileged_user() if self.parameters.server == "nginx" else None

    def load_shape(self) -> LoadShape:
        """Connections that wait for their reply; or requests at instants of their own."""
        p = self.parameters
        if p.load == "open":
            return LoadShape(kind="open", clients=p.connections, rate_per_s=p.rate)
        return LoadShape(kind="closed", clients=None if p.load == "connections" else p.connections)

    def estimate_s(self) -> float:
        """Documents, steps of the search, the timed load."""
        p = self.parameters
        filled_s = self._documents_bytes() / ASSUMED_FILL_BYTES_PER_S if not p.is_external else 0.0
        searched = p.load == "connections"
        steps_s = STEPS_ASSUMED * (p.warm_up + p.step + LOAD_SPARE_S) if searched else 0.0
        loads = 2 if searched else 1  # what was found is tried for as long as the timed part
        return 2.0 + filled_s + steps_s + loads * (p.warm_up + p.duration + LOAD_SPARE_S)

    def estimate_bytes(self) -> dict[str, int]:
        """Documents; a line of the logs for each request that may be made."""
        p = self.parameters
        data = self._documents_bytes() if not p.is_external else 0
        if p.on_lines:
            rate = p.most_connections * p.line_bits_per_s / 8 / 10_000
        else:
            rate = p.rate or ASSUMED_REQUESTS_PER_S
        steps = STEPS_ASSUMED * (p.warm_up + p.step) if p.load == "connections" else 0.0
        log = round(rate * (p.warm_up + p.duration + steps) * LOG_LINE_BYTES) + (1 << 20)
        log = 0 if p.is_external else log if p.access_log else log // 10 + (1 << 20)
        if p.log is None or p.log == p.data:
            return {"data": data + log}
        return {"data": data, "log": log}

    def _documents_bytes(self) -> int:
        return self.parameters.set_directories() * (DIRECTORY_BYTES + BLOCK_SLACK_BYTES)

    def prepare(self, context: RunContext) -> None:
        """Documents, and the server that has them."""
        p = self.parameters
        self._loads, self._posts = 0, {}
        if self._is_part:
            return
        self._served = served = self._folders(context)
        if not p.is_external:
            with context.phase("documents"):
                self._fill(context, served.root)
        self._serving = serving_class(p.server)(p)
        with context.phase("server"):
            self._serving.start(context, served)
        self._address, self._host = self._serving.address, self._serving.host
        context.services.web_server_pids = self._serving.pids()

    def _folders(self, context: RunContext) -> Served:
        """What is served is a folder of its own: the logs are not in it."""
        p, data = self.parameters, context.places["data"].path
        logs = context.places.get("log", context.places["data"]).path / "web_logs"
        root = data / "documents"
        for folder in () if p.is_external else (root, logs):
            folder.mkdir(exist_ok=True)
            if (owner := self.owner()) is not None:
                shutil.chown(folder, owner, primary_group(owner))
        return Served(root, logs / "posts.log", logs / "access.log")

    def _fill(self, context: RunContext, root: Path) -> None:
        config = {"root": str(root), "file_set": self._file_set()}
        process = begin(context, context.server_host, "filling", "documents", config)
        written = process.until("done", context)["written"]
        process.process.wait()
        context.notes.append(
            f"documents: {written['files']:,} files, {written['bytes']:,} bytes, "
            f"{written['directories_made']} of {self.parameters.set_directories()} directories "
            "made for this run"
        )

    def _file_set(self) -> dict[str, int]:
        return {
            "seed": self.parameters.content,
            "directories": self.parameters.set_directories(),
        }

    def measure(self, context: RunContext) -> Outcome:
        """The search where one is asked for, then the timed load."""
        p, is_part = self.parameters, context.is_part
        found = Found()
        if p.load == "connections":
            with context.phase("search"):
                found = search(p, lambda number, seconds: self._step(context, number, seconds))
        connections = max(1, found.most) if p.load == "connections" else p.connections
        drain_s = DRAIN_S + (0.0 if p.on_lines else p.timeout)
        generators = self._generators(
            context, connections, p.duration, drain_s=drain_s, sums=is_part
        )
        if is_part:
            generators.start()  # before all are told when to begin
        lead_s = START_S if is_part else 0.0
        before_s = self.server_cpu_s()
        with context.timed(lead_s=lead_s) as part, context.phase("load"):
            if not is_part:
                generators.start(part.watcher)
            made = self._kept(generators.run(part.start_ns if is_part else None))
        self.server_spent_s = spent(before_s, self.server_cpu_s())
        for one in made:
            part.was(one.report["start_monotonic_ns"], one.report["window_end_ns"])
        if is_part:
            if made:
                part.began(max(one.report["began_ns"] for one in made))
            return self._hand_over(context.share, made, found)
        return self._outcome(made[0].report, found)

    def _step(self, context: RunContext, connections: int, seconds: float) -> dict[str, Any]:
        """One load of the search, of all hosts; what it came to on all of them."""
        number = self._loads
        generators = self._generators(context, connections, seconds)
        generators.start()
        met = context.timed.meet(f"load {number}")
        at_ns = met.at_ns + STEP_LEAD_NS if context.is_part else None
        made = self._kept(generators.run(at_ns))
        mine = together([one.report for one in made])
        return together(context.timed.meet(f"load {number} is over", mine).said)

    def _generators(
        self,
        context: RunContext,
        connections: int,
        seconds: float,
        *,
        drain_s: float = 0.0,
        sums: bool = False,
    ) -> Generators:
        """Those of the next load."""
        number, self._loads = self._loads, self._loads + 1
        load = self._load_config(context, connections, seconds, number) | {"drain_s": drain_s}
        return Generators(context, number, load, self.parameters.threads, sums=sums)

    def _kept(self, made: list[Made]) -> list[Made]:
        """The same; their POSTs are remembered."""
        for one in made:
            self._posts.setdefault(one.index, []).extend(one.report["posts"])
        return made

    def _hand_over(self, share: Share, made: Sequence[Made], found: Found) -> Outcome:
        """What the processes of this host made, for the prime."""
        sums = {one.index: one.sums for one in made}
        handed = [
            hosts.Handed(
                index=index, sums=sums.get(index), posts=self._posts.get(index, []), found=found
            )
            for index in share.indices
        ]
        return Outcome(metrics={}, handed=handed)

    def merge(self, context: RunContext, parts: Sequence[HostPart]) -> Outcome:
        """The core adds up what the processes of all hosts handed over."""
        whole = hosts.merged(parts)
        refuse_debug_build(whole.report["flags"])
        text = json.dumps(whole.report, indent=1)
        (context.logs / hosts.REPORT).write_text(text, encoding="utf-8")
        self._posts = {0: whole.posts}
        context.timed.was(whole.report["start_monotonic_ns"], whole.report["window_end_ns"])
        context.commands.extend(argv for part in parts for argv in part.record.commands)
        made = self._outcome(whole.report, whole.found)
        made.by_host = whole.by_host
        return made

    def _outcome(self, report: dict[str, Any], found: Found) -> Outcome:
        """Of the timed load."""
        p = self.parameters
        if p.on_lines:
            found.steps.append(step_of(report, p, searched=False))
        return Outcome(
            metrics=outcome.metrics(report, p, found, self.server_spent_s),
            samples=outcome.samples(report, found),
            completions=[outcome.completions(report)],
            checks=checks.of_load(report, p, found),
        )

    def _load_config(
        self, context: RunContext, connections: int, seconds: float, number: int
    ) -> dict[str, Any]:
        """As the core takes it; every effective value is given, so that it can be repeated."""
        p = self.parameters
        mode: dict[str, Any] = {"mode": p.load, "connections": connections}
        if p.on_lines:
            mode |= {
                "mode": "line_speed",
                "line_bits_per_s": p.line_bits_per_s,
                "conforming_bits_per_s": p.conforming_bits_per_s,
            }
        elif p.load == "open":
            mode |= {"rate_per_s": p.rate, "arrivals": p.arrivals}
        config = {
            "address": self._address,
            "host": self._host,
            "file_set": self._file_set(),
            "load": mode,
            "close_share": p.close_share,
            "verify_share": p.verify_share,
            "warm_up_s": p.warm_up,
            "measure_s": seconds,
            "timeout_s": p.timeout,
            "seed": (context.seed + number) % 2**63,
        }
        return config if p.mix is None else config | {"mix": p.mix}

    def verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        """With the server down: its logs are whole."""
        if self._is_part:
            return []
        serving, served = self._serving, self._served
        assert serving is not None
        assert served is not None
        counters = serving.stop()
        if counters:
            text = json.dumps(counters, indent=1)
            (context.logs / "server-counters.json").write_text(text, encoding="utf-8")
        log = served.post_log if serving.records_posts else None
        return [checks.posts(log, self.account()["posts"]), *checks.of_server(counters)]

    def finish(self, context: RunContext) -> None:
        """The server goes; a generator has ended, or the journal ends it."""
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.stop()


def _hard_limit_can_be(open_files: int) -> bool:
    """Can it be raised to so many? Tried: a root in a container may lack the capability."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[0], open_files))
    except (ValueError, OSError):
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    return True
