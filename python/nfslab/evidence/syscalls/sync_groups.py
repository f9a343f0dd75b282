"""Syncs that were taken apart, summed up by where they went, class of files and kind of call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nfslab.evidence.syscalls.sync_series import classes_of, kinds_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from nfslab.statistics.latency_parts import PartsSummary

    Integers = NDArray[np.int64]


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
    import numpy as np

    from nfslab.statistics.latency_parts import summarise_parts

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
