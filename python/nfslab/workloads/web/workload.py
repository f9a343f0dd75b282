"""Web serving over the storage, in the manner of SPECweb99: the way of one run.

    prepare   documents written to the place, server up
    measure   (the search: a load for each step), then the timed load
    verify    server down; POSTs in the log, what was drawn, errors
    finish    whatever still runs is ended

The generator is a process of its own for each load, with its CPU time accounted apart. Time zero of
samples and evidence is the timed load's start, its warm-up included; metrics are of the window
behind it. The search's steps lie before: what collectors see from time zero on is one load. A load
whose generator was itself the limit fails the run.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability, measuring_core
from nfslab.machine.users import primary_group, unprivileged_user
from nfslab.results.records import LoadShape
from nfslab.workloads.base import Outcome, Workload, refuse_debug_build
from nfslab.workloads.web import checks, outcome
from nfslab.workloads.web.parameters import WebParameters
from nfslab.workloads.web.processes import begin
from nfslab.workloads.web.search import Found, search, step_of
from nfslab.workloads.web.servers.base import Served
from nfslab.workloads.web.servers.nginx import open_files
from nfslab.workloads.web.servers.registry import serving_class

if TYPE_CHECKING:
    from nfslab.machine.watched_launch import LaunchWatcher
    from nfslab.results.records import CheckRecord
    from nfslab.workloads.base import RunContext, WorkloadParameters
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
"""Behind the timed part; a step of the search waits for nothing: its lines are judged by then."""
EMBEDDED_CONNECTIONS_MAX: Final = 1 << 15


class WebWorkload(Workload):
    """A web server over the storage, and its load."""

    kind: ClassVar[str] = "web"
    summary: ClassVar[str] = "web serving over the storage, in the manner of SPECweb99"
    Parameters: ClassVar[type[WorkloadParameters]] = WebParameters
    roles: ClassVar[tuple[str, ...]] = ("data", "log")
    files_on: ClassVar[Literal["client", "server"]] = "server"
    parameters: WebParameters

    def __init__(self, parameters: WorkloadParameters) -> None:
        super().__init__(parameters)
        self._serving: WebServing | None = None
        self._served: Served | None = None
        self._loads: list[dict[str, Any]] = []
        """Reports of all loads of the run, in order."""
        # Somebody else's server may be on this machine.
        setattr(self, "others_serve", self.parameters.is_external)  # noqa: B010

    @classmethod
    def available(cls) -> Availability:
        """Is the Rust core there, and fit for publishing figures?"""
        return measuring_core()

    def check(self) -> Availability:
        """Core, server, and the limit of open files."""
        p = self.parameters
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
        may_raise = os.geteuid() == 0 and p.server != "nginx"
        if hard == resource.RLIM_INFINITY or needed <= hard or may_raise:
            return Availability(True)
        return Availability(
            False,
            f"{p.most_connections:,} connections need {needed:,} open files, the limit is {hard:,}",
            f"ulimit -Hn {needed} as root, or fewer connections (connections_max)",
        )

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
        filled_s = self._documents_bytes() / ASSUMED_FILL_BYTES_PER_S if p.fills else 0.0
        searched = p.load == "connections"
        steps_s = STEPS_ASSUMED * (p.warm_up + p.step + LOAD_SPARE_S) if searched else 0.0
        loads = 2 if searched else 1  # what was found is tried for as long as the timed part
        return 2.0 + filled_s + steps_s + loads * (p.warm_up + p.duration + LOAD_SPARE_S)

    def estimate_bytes(self) -> dict[str, int]:
        """Documents; a line of the logs for each request that may be made."""
        p = self.parameters
        data = self._documents_bytes() if p.fills else 0
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
        self._loads = []
        self._served = served = self._folders(context)
        if p.fills:
            with context.phase("documents"):
                self._fill(context, served.root)
        self._serving = serving_class(p.server)(p)
        with context.phase("server"):
            self._serving.start(context, served)
        context.services.web_server_pids = self._serving.pids()

    def _folders(self, context: RunContext) -> Served:
        """What is served is a folder of its own: the logs are not in it."""
        p, data = self.parameters, context.places["data"].path
        logs = context.places.get("log", context.places["data"]).path / "web_logs"
        # Where somebody else serves from `data`, it is the root itself.
        root = data if p.is_external else data / "documents"
        made = [root] if p.fills and root != data else []
        for folder in [*made, *([] if p.is_external else [logs])]:
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
        p, serving = self.parameters, self._serving
        assert serving is not None
        found = Found()
        if p.load == "connections":
            with context.phase("search"):
                found = search(
                    p, lambda number, seconds: self._load(context, number, seconds, drain_s=0.0)
                )
        connections = max(1, found.most) if p.load == "connections" else p.connections
        before_s = serving.cpu_s()
        with context.timed() as part, context.phase("load"):
            report = self._load(context, connections, p.duration, watcher=part.watcher)
        after_s = serving.cpu_s()
        part.was(report["start_monotonic_ns"], report["window_end_ns"])
        server_s = None if before_s is None or after_s is None else after_s - before_s
        if p.on_lines:
            found.steps.append(step_of(report, p, searched=False))
        return Outcome(
            metrics=outcome.metrics(report, p, found, server_s),
            samples=outcome.samples(report, found),
            completions=[outcome.completions(report)],
            checks=checks.of_load(report, p, found),
        )

    def _load(
        self,
        context: RunContext,
        connections: int,
        seconds: float,
        *,
        drain_s: float = DRAIN_S,
        watcher: LaunchWatcher | None = None,
    ) -> dict[str, Any]:
        """One load, by a process of its own; the core's report."""
        number = len(self._loads)
        name = f"load-{number}"
        report = context.logs / f"{name}-report.json"
        config = {
            "load": self._load_config(context, connections, seconds, number) | {"drain_s": drain_s},
            "report": str(report),
        }
        process = begin(
            context, context.client_host, "generating", name, config, watcher=watcher,
            about=f"{connections:,} connections, ",
        )  # fmt: skip
        process.until("done", context)
        process.process.wait()
        found: dict[str, Any] = json.loads(report.read_bytes())
        refuse_debug_build(found["flags"])
        if found["ended"] != "complete":
            raise RunFailed("the load was stopped before its end", fix="run it again")
        self._loads.append(found)
        return found

    def _load_config(
        self, context: RunContext, connections: int, seconds: float, number: int
    ) -> dict[str, Any]:
        """As the core takes it; every effective value is given, so that it can be repeated."""
        p = self.parameters
        assert self._serving is not None
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
            "address": self._serving.address,
            "file_set": self._file_set(),
            "load": mode,
            "close_share": p.close_share,
            "verify_share": p.verify_share,
            "warm_up_s": p.warm_up,
            "measure_s": seconds,
            "timeout_s": p.timeout,
            "threads": min(p.threads, connections),
            "process": number,
            "seed": (context.seed + number) % 2**63,
        }
        return config if p.mix is None else config | {"mix": p.mix}

    def verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        """With the server down: its logs are whole."""
        serving, served = self._serving, self._served
        assert serving is not None
        assert served is not None
        counters = serving.stop()
        if counters:
            text = json.dumps(counters, indent=1)
            (context.logs / "server-counters.json").write_text(text, encoding="utf-8")
        log = served.post_log if serving.records_posts else None
        return [checks.posts(log, self._loads), *checks.of_server(counters)]

    def finish(self, context: RunContext) -> None:
        """The server goes; a generator has ended, or the journal ends it."""
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.stop()
