"""The collectors of one run: started, stopped, and what they saw.

A collector that cannot work is recorded with its reason; only one that is `required` fails
the run. One that breaks down never takes the others, or the measurement, with it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from nfslab.errors import Interrupted, NfslabError, RunFailed
from nfslab.experiment.failure import keep_traceback
from nfslab.results.records import EvidenceRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from nfslab.evidence.collector import Collector, Evidence
    from nfslab.experiment.setup import CollectorSetup
    from nfslab.results.records import HostRecord
    from nfslab.results.store import PartialRun
    from nfslab.workloads.base import RunContext


class Watching:
    """The collectors of one run. `stop` may be called whatever `start` came to."""

    def __init__(self, setups: Mapping[str, CollectorSetup]) -> None:
        self.evidence: dict[str, Evidence] = {}
        self.records: list[EvidenceRecord] = []
        self._setups = setups
        self._ready: dict[str, Collector] = {}
        self._running: list[tuple[str, Collector]] = []

    def ready(self, context: RunContext) -> None:
        """Before the workload is prepared; one that cannot is noted."""
        for name, setup in self._setups.items():
            self._ready[name] = collector = setup.make()
            try:
                collector.ready(context)
            except (Interrupted, KeyboardInterrupt):
                raise
            except Exception as error:
                self._abandon(name)
                self._note(name, "failed", f"did not start: {_words(error)}")

    def start(
        self, context: RunContext, phase: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        """Start every collector that applies; RunFailed when a required one does not."""
        if not self._setups:
            return
        with phase("collectors on"):
            for name, collector in list(self._ready.items()):
                try:
                    answer = collector.applies(context)
                    if answer.ok:
                        # Before it is started: one that fails half way is stopped too.
                        self._running.append((name, self._ready.pop(name)))
                        collector.start(context)
                    else:
                        self._abandon(name)
                        reason = f"{answer.reason} ({answer.fix})" if answer.fix else answer.reason
                        self._note(name, "moot" if answer.moot else "unavailable", reason)
                except (Interrupted, KeyboardInterrupt):
                    raise
                except Exception as error:
                    self._abandon(name)
                    self._running = [entry for entry in self._running if entry[0] != name]
                    with contextlib.suppress(Exception):
                        collector.stop()
                    self._note(name, "failed", f"did not start: {_words(error)}")
            self.require()

    def stop(self, logs: Path) -> None:
        """Stop every collector that runs and keep what it saw; never raises."""
        for name in list(self._ready):
            self._abandon(name)
        while self._running:
            name, collector = self._running.pop()
            try:
                seen = collector.stop()
            except Exception as error:
                keep_traceback(error, logs, f"collector-{name}")
                self._note(name, "failed", f"did not hand over what it saw: {_words(error)}")
                continue
            missing = seen.incomplete
            if missing and not any(table.num_rows for table in seen.tables.values()):
                self._note(name, "failed", f"saw nothing: {missing}")
                continue
            self.evidence[name] = seen
            self.records.append(
                EvidenceRecord(
                    collector=name,
                    status="incomplete" if missing else "ok",
                    reason=missing,
                    summary=seen.summary,
                    cpu_s=seen.cpu_s,
                    wall_s=seen.wall_s,
                )
            )

    def require(self) -> None:
        """RunFailed when a required collector did not do its work."""
        for record in self.records:
            if record.status != "ok" and self._setups[record.collector].parameters.required:
                raise RunFailed(
                    f"the required collector {record.collector!r} does not work",
                    why=record.reason,
                    fix=f"mend that, or set collectors.{record.collector}.required = false",
                )

    def write(self, partial: PartialRun, hosts: Mapping[str, HostRecord]) -> None:
        """Write the evidence tables; RunFailed when there is no room."""
        for record in self.records:
            seen = self.evidence.get(record.collector)
            for name, table in (seen.tables if seen else {}).items():
                side = self._setups[record.collector].side()
                record.tables.append(partial.write_table("evidence", name, table, hosts.get(side)))

    def forget_tables(self) -> None:
        """The tables could not be stored: the record must not name them."""
        for record in self.records:
            record.tables.clear()

    def _abandon(self, name: str) -> None:
        """It will not be started, if it has not been."""
        if (collector := self._ready.pop(name, None)) is not None:
            with contextlib.suppress(Exception):
                collector.abandon()

    def _note(self, name: str, status: str, reason: str) -> None:
        self.records.append(
            EvidenceRecord.model_validate({"collector": name, "status": status, "reason": reason})
        )


def _words(error: Exception) -> str:
    """An error in one line."""
    if isinstance(error, NfslabError):
        return error.in_a_line()
    return f"{type(error).__name__}: {error}"
