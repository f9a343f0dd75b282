"""Successive syncs as series: their times, levels, quantiles (the curve of 20 July 2001).

Syncs that were taken apart are summed up by where they went, class of files and kind (`grouped`).

A series is what one kind of call did to one class of files, in the order of the starts. A write
of a descriptor that makes its bytes durable is a kind of its own: it never shows up as an fsync.
Failed syncs took their time, too: they are in the series, and counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from nfslab.results.coded_texts import coded_texts, integers
from nfslab.statistics.change_points import Steps, change_points
from nfslab.statistics.latency_parts import PartsSummary, summarise_parts
from nfslab.statistics.quantile_estimator import quantiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

SYNC_CALLS: Final = ("fsync", "fdatasync", "sync_file_range", "sync", "msync")
SYNCHRONOUS: Final = "synchronous write"
OTHER_FILES: Final = "other files"
NO_FILE: Final = "file not known"
QUANTILES: Final = (0.5, 0.9, 0.99, 1.0)


@dataclass(slots=True)
class SyncSeries:
    """Successive syncs of one kind on one class, by their starts."""

    file_class: str
    what: str
    """fdatasync, fsync, ..., or "synchronous write"."""
    start_ns: Integers
    t_ns: Integers
    """From the timed start, or from the first one."""
    latency_ns: Integers
    errors: int
    steps: Steps
    quantiles_ns: list[int]
    """At `QUANTILES`."""

    @property
    def calls(self) -> int:
        """How many."""
        return int(self.latency_ns.size)

    @property
    def sum_ns(self) -> int:
        """All their time."""
        return int(self.latency_ns.sum())


def series_of(syncs: pa.Table, class_of: Mapping[int, str]) -> list[SyncSeries]:
    """All series of these syncs, the most time first."""
    if not syncs.num_rows:
        return []
    starts = integers(syncs["start_ns"])
    order = np.argsort(starts, kind="stable")
    times = integers(syncs["t_ns"]) if "t_ns" in syncs.column_names else starts - starts.min()
    latencies, errors = integers(syncs["latency_ns"]), integers(syncs["error"])
    classes, of_class = classes_of(syncs, class_of)
    kinds, of_kind = kinds_of(syncs)
    keys = (of_class * len(kinds) + of_kind)[order]
    found = []
    for key in np.unique(keys):
        rows = order[keys == key]
        values = latencies[rows]
        one = SyncSeries(
            file_class=classes[key // len(kinds)],
            what=kinds[key % len(kinds)],
            start_ns=starts[rows],
            t_ns=times[rows],
            latency_ns=values,
            errors=int((errors[rows] != 0).sum()),
            steps=change_points(values),
            quantiles_ns=[int(q.value) for q in quantiles(values, list(QUANTILES))],
        )
        found.append(one)
    return sorted(found, key=lambda one: -one.sum_ns)


def kinds_of(syncs: pa.Table) -> tuple[list[str], Integers]:
    """What each sync is, as `SyncSeries.what` has it, and each row's."""
    names, which = coded_texts(syncs["call"])
    flags = np.asarray(syncs["synchronous"].to_numpy(zero_copy_only=False), dtype=bool)
    return [*names, SYNCHRONOUS], np.where(flags, len(names), which)


def classes_of(syncs: pa.Table, class_of: Mapping[int, str]) -> tuple[list[str], Integers]:
    """Names of classes, and each row's."""
    numbers = file_numbers(syncs)
    distinct, which = np.unique(numbers, return_inverse=True)
    texts = [class_of.get(int(n), OTHER_FILES) if n >= 0 else NO_FILE for n in distinct]
    names = sorted(set(texts))
    places = np.array([names.index(text) for text in texts], dtype=np.int64)
    return names, places[which] if numbers.size else numbers


def file_numbers(table: pa.Table) -> Integers:
    """file_id of each row; -1 where there is none."""
    return integers(table["file_id"].cast(pa.int64()), missing=-1)


@dataclass(frozen=True, slots=True)
class SyncGroup:
    """Syncs of one kind on one class of files of one target."""

    target: str
    file_class: str
    what: str
    summary: PartsSummary
    own: NDArray[np.bool_]
    """Which of the syncs these are."""


def grouped(
    parts: Integers,
    syncs: pa.Table,
    class_of: Mapping[int, str],
    wanted: NDArray[np.bool_],
    targets: Sequence[str] = ("",),
    of_target: Integers | int = 0,
) -> list[SyncGroup]:
    """The groups of those syncs that are `wanted`, the most time first.

    `parts`: a row for each part, a column for each sync; `of_target`: each sync's place in
    `targets`.
    """
    classes, of_class = classes_of(syncs, class_of)
    kinds, of_kind = kinds_of(syncs)
    shape = (len(targets), len(classes), len(kinds))
    none = len(targets) * len(classes) * len(kinds)
    keys = (of_target * shape[1] + of_class) * shape[2] + of_kind
    keys = np.where(wanted, keys, none)
    found = []
    for key, summary in enumerate(summarise_parts(parts, keys, none + 1)[:none]):
        if summary is not None:
            target, klass, kind = (int(place) for place in np.unravel_index(key, shape))
            one = SyncGroup(targets[target], classes[klass], kinds[kind], summary, keys == key)
            found.append(one)
    return sorted(found, key=lambda one: -one.summary.sum_ns)
