"""The evidence `syscalls` (collectors `fsync` and `syscalls`) in reports."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.display.sections import Section
from nfslab.evidence.base import ColumnSpec, EvidenceKind, TableSpec
from nfslab.evidence.found import parts_of
from nfslab.evidence.syscalls.content import content
from nfslab.evidence.syscalls.facts import SyscallFacts, facts_of_run
from nfslab.evidence.syscalls.figures import (
    CURVE_CAPTION,
    figures_of,
    latency_range,
    tables_of_run,
)
from nfslab.evidence.syscalls.sections import syncs_by_point, tables_of
from nfslab.evidence.syscalls.sentences import notes, sentences
from nfslab.evidence.syscalls.tables import EMPTY, PREFIX, has_syscalls

if TYPE_CHECKING:
    from nfslab.evidence.base import Facts, Found, RunFacts, SealedRun
    from nfslab.evidence.syscalls.figures import Tables

NOTHING: Final = "No call on a file was seen."
NO_TOTALS: Final = "Nothing was added to any total."


class SyscallsEvidence(EvidenceKind[SyscallFacts]):
    """Calls on files by class, and every sync."""

    kind: ClassVar[str] = "syscalls"
    title: ClassVar[str] = "System calls and syncs"
    version: ClassVar[int] = 2
    tables: ClassVar[tuple[TableSpec, ...]] = tuple(
        TableSpec(PREFIX + name, tuple(ColumnSpec(column, type) for column, type in columns))
        for name, columns in EMPTY.items()
    )
    Facts: ClassVar[type[Facts]] = SyscallFacts
    json_key: ClassVar[str] = "system_calls"

    def present(self, run: SealedRun) -> bool:
        """Any of its tables: a level may have no row in the others."""
        return has_syscalls(run.folder)

    def facts(self, run: SealedRun) -> SyscallFacts | None:
        """What the watch of one run saw."""
        return facts_of_run(run)

    def content(self, found: Found[SyscallFacts]) -> list[dict[str, Any]]:
        """Of every run its sums; single calls are in its folder."""
        return [
            {"run": run.run.run_id, "point": run.point, "block": run.block} | content(run.facts)
            for run in found.runs
        ]

    def section(self, found: Found[SyscallFacts]) -> Section | None:
        """Of one run flat; of several the syncs by point, then the runs."""
        scale = latency_range([run.facts for run in found.runs])

        def part(run: RunFacts[SyscallFacts]) -> Section:
            tables = partial(tables_of_run, run.run.folder)
            made = watch_section(run.facts, tables, f"syscalls-{run.run.run_id}", scale)
            return replace(made, title=run.label)

        parts, said = parts_of(found, part)
        if len(parts) == 1 and len(found.runs) == 1:
            return replace(parts[0], title=self.title, anchor="syscalls-section",
                           intro=CURVE_CAPTION)  # fmt: skip
        table = syncs_by_point(found)
        return Section(
            self.title,
            "syscalls-section",
            CURVE_CAPTION,
            tables=[table] if table.rows else [],
            notes=said,
            parts=parts,
        )


def watch_section(
    facts: SyscallFacts,
    tables: Tables,
    key: str = "syscalls",
    scale_s: tuple[float, float] | None = None,
) -> Section:
    """Of one run, or of a watch of `nfslab syscalls`."""
    said = sentences(facts)
    shown = tables_of(facts)
    if not shown:
        said = [NO_TOTALS if facts.watch.get("way") == "views" else NOTHING, *said]
    return Section(
        SyscallsEvidence.title,
        sentences=said,
        tables=shown,
        figures=figures_of(facts, tables, key, scale_s),
        notes=notes(facts),
    )
