"""The generator processes of one load on this host: begun together, with those of other hosts.

The load is that of all processes of all hosts; each is told which part of it is its own, and the
core deals out connections and rate. A load with fewer connections than processes is made by the
first so many.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nfslab.errors import RunFailed
from nfslab.workloads.base import refuse_debug_build
from nfslab.workloads.web.processes import begin, until_all

if TYPE_CHECKING:
    from nfslab.machine.watched_launch import LaunchWatcher
    from nfslab.workloads.base import RunContext
    from nfslab.workloads.web.processes import OurProcess


@dataclass(frozen=True, slots=True)
class Made:
    """What one process made of its part."""

    index: int
    """Among the processes of all hosts."""
    report: dict[str, Any]
    sums: str | None
    """For `merge_web_parts`, where they were asked for."""


class Generators:
    """`start`, then `run`."""

    def __init__(
        self, context: RunContext, number: int, load: dict[str, Any], threads: int, *, sums: bool
    ) -> None:
        """`number` of the run's loads, from 0; `load` as the core takes it, but for what is each
        process's own; `threads` of each at most; `sums`: whether they are kept."""
        share, connections = context.share, load["load"]["connections"]
        of = min(share.of, connections)
        self._context, self._sums = context, sums
        self._names = {index: f"load-{number}" if share.of == 1 else f"load-{number}-{index}"
                       for index in share.indices if index < of}  # fmt: skip
        self._loads = {
            index: load
            | {
                "threads": min(threads, connections // of),
                # Records of POSTs are numbered by it: no other process of any load has it.
                "process": number * share.of + index,
                "part": {"index": index, "of": of},
            }
            for index in self._names
        }
        self._processes: list[OurProcess] = []

    def start(self, watcher: LaunchWatcher | None = None) -> None:
        """Each is there and ready to begin; RunFailed."""
        for index, name in self._names.items():
            config = {
                "load": self._loads[index],
                "report": str(self._context.logs / f"{name}-report.json"),
                "sums": str(self._context.logs / f"{name}.sums") if self._sums else None,
            }
            about = f"{self._loads[index]['load']['connections']:,} connections, "
            self._processes.append(
                begin(
                    self._context, self._context.client_host, "generating", name, config,
                    watcher=watcher, about=about,
                )
            )  # fmt: skip
        until_all(self._processes, "ready", self._context)

    def run(self, at_ns: int | None) -> list[Made]:
        """The load, begun at that instant of this host's clock, or now; RunFailed."""
        for one in self._processes:
            one.tell("go", at_ns=at_ns)
        until_all(self._processes, "done", self._context)
        for one in self._processes:
            one.process.wait()
        return [self._made(index, name) for index, name in self._names.items()]

    def _made(self, index: int, name: str) -> Made:
        report = json.loads((self._context.logs / f"{name}-report.json").read_bytes())
        refuse_debug_build(report["flags"])
        if report["ended"] != "complete":
            raise RunFailed("the load was stopped before its end", fix="run it again")
        sums = None
        if self._sums:
            kept = self._context.logs / f"{name}.sums"
            sums = kept.read_text(encoding="utf-8")
            kept.unlink()
        return Made(index, report, sums)
