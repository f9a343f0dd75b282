"""The catalogue: what every sealed run of an experiment came to, read within milliseconds.

`catalogue.jsonl` holds one line a run, appended when the run is sealed. It is a cache:
the folders below `runs/` are the truth. Reading compares both (a line without its folder
does not count, a folder without its line is read from its `run.json`), so a kill between
sealing and appending, a torn last line or a deleted catalogue change nothing but speed.
Reading writes nothing; the next runner mends the file (`ExperimentFolder.lock`).

Half-written runs (`.partial-*`) are named, never counted. A run that has to be read and
cannot is named with its reason, never hidden. `read_catalogue` opens only the runs that the
cache lacks; reports open all of them (`read_every_run`) and so find damage that the cache
covers up. Of several attempts at the same (point, block) only the newest counts for
analysis; the others stay listed.

Every line carries the `setup` digest of what was in effect (mounts, kernel, versions), so
that "did the machine change between runs?" needs one provenance file for each setup.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from nfslab.errors import ResultsError, system_errors
from nfslab.results.checksums import harm, with_crc32, without_crc32
from nfslab.results.durable import to_json
from nfslab.results.records import CatalogueLine, RunRecord
from nfslab.results.setup import setup_digest
from nfslab.results.upgrade import load_valid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from nfslab.results.checksums import Depth

CATALOGUE = "catalogue.jsonl"
RUNS = "runs"
HOSTS = "hosts"
"""In a run's folder: what each of several client hosts sealed of it."""
PARTIAL_PREFIX = ".partial-"

MAX_RUNS = 1_000_000
"""More run folders than this are not an experiment of ours; reading stops with an error."""

MAX_CATALOGUE_BYTES = 4 * 2**30
"""About 4 KiB a run at the limit above; a larger file is not loaded, runs are read."""

ORDER = ("position", "attempt", "started_unix_ns")

_LINES = TypeAdapter(list[CatalogueLine])


@dataclass
class Catalogue:
    """The sealed runs of one experiment, and what could not be counted."""

    lines: list[CatalogueLine]
    """Every sealed run that can be read, in the order in which they were carried out."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Run id -> why it cannot be read; these runs are in no figure."""
    partial: list[str] = field(default_factory=list)
    """Run ids that were begun and never sealed: under way, or cut off."""
    missing_lines: int = 0
    """Runs that were read from their own folder because the catalogue lacked them."""
    useless_lines: int = 0
    """Lines torn, changed, repeated, or of runs that are no longer there."""

    @cached_property
    def newest(self) -> list[CatalogueLine]:
        """The newest attempt of every (point, block)."""
        return newest_attempts(self.lines)

    def superseded(self) -> list[CatalogueLine]:
        """Older attempts: listed, in no figure."""
        kept = {line.run_id for line in self.newest}
        return [line for line in self.lines if line.run_id not in kept]


def read_catalogue(folder: Path, depth: Depth = "sizes") -> Catalogue:
    """The catalogue of the experiment in `folder`, compared with its runs.

    A run whose files are not what was sealed, as far as `depth` looks, is damaged.

    Raises `ResultsError` when there is no `runs/` or when it cannot be listed.
    """
    runs = folder / RUNS
    sealed, partial = scan_runs(runs)
    lines, useless = _cached_lines(_content(folder / CATALOGUE))
    by_id = {line.run_id: line for line in lines}
    useless += len(lines) - len(by_id)
    found = {run_id: line for run_id, line in by_id.items() if run_id in sealed}
    useless += len(by_id) - len(found)
    damaged: dict[str, str] = {}
    missing = 0
    for run_id in sorted(sealed):
        if why := harm(f"{runs}/{run_id}", depth):
            damaged[run_id] = why
            found.pop(run_id, None)
        elif run_id not in found:
            try:
                found[run_id] = line_from_folder(runs / run_id)
                missing += 1
            except ResultsError as error:
                damaged[run_id] = error.in_a_line(": ")
    return Catalogue(_in_order(found.values()), damaged, partial, missing, useless)


def read_every_run(folder: Path) -> tuple[Catalogue, dict[str, RunRecord]]:
    """The catalogue made from the runs themselves, and every run's record.

    For reports: slower (0.6 ms a run), and true whatever the cache says. A run that cannot
    be read is in `Catalogue.damaged` even when the cache still has its line.
    """
    sealed, partial = scan_runs(folder / RUNS)
    records: dict[str, RunRecord] = {}
    lines: list[CatalogueLine] = []
    damaged: dict[str, str] = {}
    for run_id in sorted(sealed):
        run = folder / RUNS / run_id
        try:
            if harmed := harm(run, "whole"):
                damaged[run_id] = harmed
                continue
            record = read_run(run)
            lines.append(catalogue_line(record, _provenance_if_any(run)))
            records[run_id] = record
        except ResultsError as error:
            damaged[run_id] = error.in_a_line(": ")
    return Catalogue(_in_order(lines), damaged, partial), records


def scan_runs(runs: Path) -> tuple[set[str], list[str]]:
    """Names of the sealed runs, and run ids of the half-written ones (sorted)."""
    sealed: set[str] = set()
    partial: list[str] = []
    with (
        system_errors(
            f"cannot list the runs in {runs}",
            "give the folder of one experiment (the one that holds experiment.json)",
        ),
        os.scandir(runs) as entries,
    ):
        for entry in entries:
            name = entry.name
            if name[0] == ".":
                if name.startswith(PARTIAL_PREFIX):
                    partial.append(name.removeprefix(PARTIAL_PREFIX))
            elif entry.is_dir():
                sealed.add(name)
            if len(sealed) > MAX_RUNS:
                raise ResultsError(
                    f"{runs} holds more than {MAX_RUNS} runs",
                    fix="split the experiment: one folder is meant for fewer",
                )
    return sealed, sorted(partial)


def newest_attempts(lines: Iterable[CatalogueLine]) -> list[CatalogueLine]:
    """Returns of every (point, block) its highest attempt, in the order in which pairs come."""
    newest: dict[tuple[str, int], CatalogueLine] = {}
    for line in lines:
        best = newest.setdefault((line.point_id, line.block), line)
        if line.attempt > best.attempt:
            newest[line.point_id, line.block] = line
    return list(newest.values())


def line_from_folder(run: Path) -> CatalogueLine:
    """The catalogue line of one sealed run, made again from its own files."""
    return catalogue_line(read_run(run), _provenance_if_any(run))


def read_run(run: Path) -> RunRecord:
    """The record of one sealed run; `ResultsError` when it is damaged or too new."""
    record = load_valid(run / "run.json", "run", RunRecord)
    if record.run_id != run.name:
        raise ResultsError(
            f"{run / 'run.json'} is not this folder's",
            why=f"it is the record of run {record.run_id!r}",
            fix="give the folder its own name back",
        )
    return record


def read_part(run: Path, host: str) -> RunRecord:
    """The record of one client host's part of a sealed run; `ResultsError` as `read_run`."""
    return load_valid(run / HOSTS / host / "run.json", "run", RunRecord)


def read_provenance(run: Path) -> dict[str, Any]:
    """`provenance.json` of one run: plain, its layout belongs to `experiment.provenance`."""
    path = run / "provenance.json"
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ResultsError(
            f"cannot read {path}",
            why=str(error),
            fix="restore it from a copy; the run's figures are not affected",
        ) from error
    return content if isinstance(content, dict) else {}


def catalogue_line(record: RunRecord, provenance: Mapping[str, Any]) -> CatalogueLine:
    """A run in short, as it stands in the catalogue."""
    flags = [f"{check.name}:{check.verdict}" for check in record.checks if check.verdict != "ok"]
    same = (
        "run_id", "point_id", "block", "position", "attempt", "status", "reason", "factors",
        "started_unix_ns", "duration_ns",
    )  # fmt: skip
    return CatalogueLine(
        **{name: getattr(record, name) for name in same},
        metrics={name: metric.value for name, metric in record.metrics.items()},
        flags=flags,
        durability=record.durability.level if record.durability else "unknown",
        setup=setup_digest(record, provenance),
    )


def line_json(line: CatalogueLine) -> bytes:
    """The line as it is appended to the file, without its newline; its CRC-32 stands last."""
    return with_crc32(to_json(line.model_dump()))


def changed_lines(folder: Path) -> int:
    """Returns how many whole lines of the catalogue are not what was written."""
    rows = _content(folder / CATALOGUE).split(b"\n")[:-1]
    return sum(without_crc32(row) is None for row in rows if row)


def _provenance_if_any(run: Path) -> dict[str, Any]:
    return read_provenance(run) if (run / "provenance.json").exists() else {}


def _in_order(lines: Iterable[CatalogueLine]) -> list[CatalogueLine]:
    """As carried out. Not by wall clock alone: it may have been set back between runs."""
    return sorted(lines, key=attrgetter(*ORDER))


def _content(path: Path) -> bytes:
    """The file; nothing where it cannot be read: a cache, whose runs are then read themselves."""
    try:
        return b"" if path.stat().st_size > MAX_CATALOGUE_BYTES else path.read_bytes()
    except OSError:
        return b""


def _cached_lines(content: bytes) -> tuple[list[CatalogueLine], int]:
    """The lines of the file that can be read, and how many cannot."""
    rows = content.split(b"\n")
    torn = 0
    if rows and rows[-1]:
        torn = 1  # no newline at its end: the line was cut off while it was appended
    written = [without_crc32(row) for row in rows[:-1] if row]
    rows = [row for row in written if row is not None]
    torn += len(written) - len(rows)
    try:
        return _LINES.validate_json(b"[" + b",".join(rows) + b"]"), torn
    except ValidationError:
        return _one_by_one(rows, torn)


def _one_by_one(rows: list[bytes], torn: int) -> tuple[list[CatalogueLine], int]:
    """The slow way, when at least one line is damaged: keep the others."""
    lines: list[CatalogueLine] = []
    for row in rows:
        try:
            lines.append(CatalogueLine.model_validate_json(row))
        except ValidationError:
            torn += 1
    return lines, torn
