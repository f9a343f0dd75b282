"""Which results folder a call works in: a new one, the one begun before, or a given one.

The same experiment (by identity) on the same machine goes on in its folder. When the
machine has changed since it began (another kernel, other memory), its figures do not
belong together with new ones: a new folder is begun beside it. `--continue DIR` overrules
both, and the record says so; `--new` begins anew in any case.

A second folder of the same experiment carries a number after its name.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nfslab import __version__, clock
from nfslab.errors import ResultsError, UsageError
from nfslab.results.records import ExperimentRecord, PointRecord
from nfslab.results.store import RECORD, ExperimentFolder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nfslab.experiment.reading import Experiment
    from nfslab.experiment.setup import Point

MAX_FOLDERS = 1000
"""Folders of one experiment in one results folder."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for on the command line."""

    results: Path
    continue_in: Path | None = None
    new: bool = False


def existing_folders(results: Path, identity: str) -> list[ExperimentFolder]:
    """The folders of this experiment, in the order in which they were begun.

    A damaged one is an error: its runs must not be measured again by accident.
    """
    if not results.is_dir():
        return []
    found = []
    for entry in sorted(results.iterdir()):
        if entry.name.endswith(f"-{identity[:8]}") and (entry / RECORD).exists():
            folder = ExperimentFolder.open(entry)
            if folder.record.identity == identity:
                found.append(folder)
    return sorted(found, key=lambda folder: folder.record.created_unix_ns)


def machine_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What has changed on the machine, in words; empty when it is the same."""
    return [
        f"{name}: {before.get(name, 'unknown')} -> {now.get(name, 'unknown')}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    ]


def find_folder(
    experiment: Experiment, wanted: Wanted, machine: Mapping[str, Any]
) -> tuple[ExperimentFolder | None, list[str]]:
    """(the folder to go on in, what the person should know); None: begin a new one.

    Raises `UsageError` when the folder given with `--continue` does not fit.
    """
    if wanted.continue_in is not None:
        return _given(experiment, wanted.continue_in, machine)
    if wanted.new:
        return None, []
    notes: list[str] = []
    for folder in reversed(existing_folders(wanted.results, experiment.identity)):
        changes = machine_differences(folder.record.machine, machine)
        if not changes:
            return folder, []
        notes.append(
            f"{folder.path} was measured on another machine ({'; '.join(changes)}): "
            f"a new folder is begun (--continue {shlex.quote(str(folder.path))} to go on there)"
        )
    return None, notes[:1] or _changed_file(experiment, wanted.results)


def _changed_file(experiment: Experiment, results: Path) -> list[str]:
    """Say that a new experiment begins where a person may expect to go on with one."""
    name = re.compile(re.escape(experiment.section.name) + r"(-\d+)?-[0-9a-f]{8}")
    if not results.is_dir():
        return []
    others = [p for p in results.iterdir() if name.fullmatch(p.name) and (p / RECORD).exists()]
    if not others:
        return []
    newest = max(others, key=lambda path: (path / RECORD).stat().st_mtime_ns)
    return [
        f"not the same as what was measured in {newest} (the file or an option has changed): "
        f"a new experiment begins (--continue {shlex.quote(str(newest))} to go on there)"
    ]


def _given(
    experiment: Experiment, path: Path, machine: Mapping[str, Any]
) -> tuple[ExperimentFolder, list[str]]:
    """The folder that the person insists on; differences become notes of its record."""
    folder = ExperimentFolder.open(path)
    notes = []
    changes = machine_differences(folder.record.machine, machine)
    if changes:
        notes.append(f"continued on a changed machine: {'; '.join(changes)}")
    if folder.record.identity != experiment.identity:
        before = {axis.name: axis.parameters for axis in folder.record.axes}
        now = {axis.name: axis.parameters for axis in experiment.axis_records}
        if before != now:
            raise UsageError(
                f"{path} cannot be continued with this file",
                why=f"its axes are {', '.join(before) or 'none'}, "
                f"those of the file {', '.join(now) or 'none'}",
                fix="run without --continue: a new folder is begun",
            )
        notes.append("continued with a changed file: earlier runs used the file before it")
    known = (folder.record.model_extra or {}).get("notes", [])
    return folder, [note for note in notes if note not in known]


def make_record(
    experiment: Experiment,
    *,
    seed: int,
    command: Sequence[str],
    machine: Mapping[str, Any],
    skipped: list[dict[str, Any]],
) -> ExperimentRecord:
    """The record of an experiment that begins now."""
    from nfslab.experiment.provenance import source_commit

    section = experiment.section
    left_out = {entry["point_id"] for entry in skipped}
    return ExperimentRecord.model_validate(
        {
            "name": section.name,
            "title": section.title,
            "description": section.description,
            "identity": experiment.identity,
            "seed": seed,
            "order": section.order,
            "repetitions": section.blocks[0],
            "stopping": section.stopping,
            "axes": [record.model_dump() for record in experiment.axis_records],
            "points": [
                _point_record(point).model_dump()
                for point in experiment.points
                if point.point_id not in left_out
            ],
            "excluded": experiment.excluded,
            "resolved": experiment.resolved,
            "reference": experiment.reference,
            "created_unix_ns": clock.wall_ns(),
            "command": list(command),
            "nfslab_version": __version__,
            "nfslab_commit": source_commit()[0],
            "machine": dict(machine),
            "skipped": skipped,
            "notes": [],
        }
    )


def _point_record(point: Point) -> PointRecord:
    return PointRecord(
        point_id=point.point_id, index=point.index, factors=point.factors, settings=point.settings
    )


def begin_folder(results: Path, record: ExperimentRecord, file_bytes: bytes) -> ExperimentFolder:
    """Create the folder, with a number after the name when there is one already."""
    taken = {folder.record.name for folder in existing_folders(results, record.identity)}
    for number in range(1, MAX_FOLDERS + 1):
        name = record.name if number == 1 else f"{record.name}-{number}"
        if name not in taken:
            numbered = record.model_copy(update={"name": name})
            return ExperimentFolder.create(results, numbered, file_bytes)
    raise ResultsError(
        f"{results} holds {MAX_FOLDERS} folders of this experiment already",
        fix="give another results folder",
    )


def renewed_record(
    before: ExperimentRecord,
    experiment: Experiment,
    notes: Sequence[str],
    skipped: list[dict[str, Any]],
    blocks_done: int,
) -> ExperimentRecord:
    """The record of an experiment that goes on: more repetitions, other words, notes.

    Identity, seed, order and the machine it began on stay; so do the points that have
    been measured, also when a changed file (`--continue`) no longer has them.
    """
    section = experiment.section
    # A point that was planned before stays, also when it cannot run just now: it has runs.
    left_out = {e["point_id"] for e in skipped} - {p.point_id for p in before.points}
    points = {p.point_id: _point_record(p) for p in experiment.points}
    kept = [
        p.model_copy(update={"index": len(points) + number})
        for number, p in enumerate(p for p in before.points if p.point_id not in points)
    ]
    extra = before.model_extra or {}
    same_file = before.identity == experiment.identity
    update: dict[str, Any] = {
        "title": section.title,
        "description": section.description,
        "repetitions": max(section.blocks[0], blocks_done),
        # Who looked once has looked: a number given later does not undo it.
        "stopping": section.stopping or before.stopping,
        "reference": experiment.reference,
        "points": [*(p for p in points.values() if p.point_id not in left_out), *kept],
        "skipped": skipped,
        "notes": [*extra.get("notes", []), *notes],
    }
    if not same_file:
        update |= {
            "axes": _merged_axes(before, experiment),
            "resolved": experiment.resolved,
        }
    return before.model_copy(update=update)


def _merged_axes(before: ExperimentRecord, experiment: Experiment) -> list[Any]:
    """The axes of the new file, with levels that only the earlier one had at their end."""
    old = {axis.name: axis for axis in before.axes}
    merged = []
    for axis in experiment.axis_records:
        earlier = old.get(axis.name)
        if earlier is not None and earlier.parameters == axis.parameters:
            extra = [
                (level, values)
                for level, values in zip(earlier.levels, earlier.values, strict=True)
                if values not in axis.values
            ]
            axis = axis.model_copy(
                update={
                    "levels": [*axis.levels, *(level for level, _ in extra)],
                    "values": [*axis.values, *(values for _, values in extra)],
                }
            )
        merged.append(axis)
    return merged
