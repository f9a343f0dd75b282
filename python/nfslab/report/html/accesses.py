"""Sizes and offsets over time: single reads and writes of the busiest classes, for the page.

Flow: `evidence.syscalls.accesses` -> for each of the busiest classes (or files) a chunk of columns
that the page decodes, zooms and counts. A class with up to its share of `POINTS_ALL` calls has each
of them; one with more has exact counts in cells of time x offset, by kind and place, and a sample
of one in k, as captures have. The figure says which.

Decisions. Instants are whole microseconds on the page, offsets exact, in multiples of what all
offsets of a panel share. Panels are the busiest by number of calls; the others are counted.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from nfslab.evidence.syscalls.accesses import KINDS, PLACE_NAMES
from nfslab.report.html.columns import ChunkWriter, pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.evidence.syscalls.accesses import Accesses, FoundAccesses

PANELS_MOST: Final = 8
POINTS_ALL: Final = 1_000_000
"""Single calls in a page (about 6 bytes each)."""
SAMPLE_MOST: Final = 200_000
"""Single calls of a panel that has cells."""
CELL_COLUMNS: Final = 1200
CELL_ROWS: Final = 256
PATHS_MOST: Final = 2000
"""Names of files of a panel; calls of others show none."""
KIND_BITS: Final = 2
US: Final = 1000
NS: Final = 1e9
PAD: Final = 0.03


def accesses_figure(
    chunks: dict[str, str], found: FoundAccesses, key: str, name: str, room: int = POINTS_ALL
) -> dict[str, Any]:
    """The payload; chunks of the panels are added under names that begin with `key`."""
    groups = found.groups[:PANELS_MOST]
    last_ns = max(int(one.t_ns[-1]) for one in groups)
    panels = []
    for number, (one, share) in enumerate(zip(groups, shares(groups, room), strict=True)):
        chunk, info = _panel(one, found, share, last_ns)
        info["chunk"] = f"{key}-{number}"
        chunks[info["chunk"]] = pack(chunk)
        panels.append(info)
    return {
        "name": name,
        "captures": [],
        "accesses": {
            "panels": panels,
            "calls": sum(one.calls for one in groups),
            "kinds": list(KINDS),
            "places": list(PLACE_NAMES),
            "time_domain": [0.0, max(last_ns / NS, 1e-6) * (1 + PAD / 2)],
            "time_name": "time",
            "domain": [-PAD, 1 + PAD],
            "notes": notes(found),
        },
    }


def notes(found: FoundAccesses) -> list[str]:
    """What the figure does not show."""
    said = []
    if rest := found.groups[PANELS_MOST:]:
        calls = sum(one.calls for one in rest)
        said.append(
            f"The {PANELS_MOST} with the most calls; {calls:,} calls on {len(rest):,} "
            "others are not drawn."
        )
    if found.without_offset:
        said.append(f"{found.without_offset:,} have no offset (pipes, sockets): not drawn.")
    if found.failed:
        said.append(f"{found.failed:,} failed: not drawn.")
    if found.untimed:
        said.append(f"{found.untimed:,} before the timed part are not drawn.")
    return said


def shares(groups: Sequence[Accesses], room: int) -> list[int]:
    """How many single calls each may have: the small ones all, the large ones what is left."""
    given = [0] * len(groups)
    left = room
    order = sorted(range(len(groups)), key=lambda i: groups[i].calls)
    for done, i in enumerate(order):
        given[i] = min(groups[i].calls, left // (len(order) - done))
        left -= given[i]
    return given


def _panel(
    one: Accesses, found: FoundAccesses, share: int, last_ns: int
) -> tuple[bytes, dict[str, Any]]:
    """The chunk, and what the page has to know before it."""
    import numpy as np

    writer = ChunkWriter()
    whole = one.calls <= share
    one_in = 1 if whole else math.ceil(one.calls / min(max(share, 1), SAMPLE_MOST))
    rows = np.arange(0, one.calls, one_in)
    top = max(int((one.offset + one.size).max()), 1)
    paths, files = _files(one, found)
    header: dict[str, Any] = {"paths": paths, "list": _list(writer, one, rows, files[rows])}
    if not whole:
        header["cells"] = _cells(writer, one, top, last_ns)
    info = {
        "label": one.name,
        "calls": one.calls,
        "bytes": one.bytes,
        "files": int(np.unique(one.file_id).size),
        "kinds": np.bincount(one.kind, minlength=len(KINDS)).tolist(),
        "places": np.bincount(one.place, minlength=len(PLACE_NAMES)).tolist(),
        "top": top,
        "one_in": one_in,
    }
    return writer.finish(header), info


def _list(writer: ChunkWriter, one: Accesses, rows: Any, files: Any) -> dict[str, Any]:
    """Single calls, in the order of time."""
    import numpy as np

    offset, size = one.offset[rows], one.size[rows]
    unit, size_unit = (max(int(np.gcd.reduce(values)), 1) for values in (offset, size))
    return {
        "n": int(rows.size),
        "steps": writer.counts(np.diff(one.t_ns[rows] // US, prepend=0)),
        "offset": writer.counts(offset // unit, unit=unit),
        "size": writer.counts(size // size_unit, unit=size_unit),
        "word": writer.counts(_words(one)[rows]),
        "file": writer.counts(files),
    }


def _words(one: Accesses) -> Any:
    """Kind and place in one number."""
    return one.kind | (one.place << KIND_BITS)


def _cells(writer: ChunkWriter, one: Accesses, top: int, last_ns: int) -> dict[str, Any]:
    """Exact counts over time and offset, one for each word that is in the cell."""
    import numpy as np

    column_ns = last_ns // CELL_COLUMNS + 1
    row = np.minimum(one.offset * CELL_ROWS // top, CELL_ROWS - 1)
    place = (one.t_ns // column_ns) * CELL_ROWS + row
    words = 1 << 5
    keys, n = np.unique(place * words + _words(one), return_counts=True)
    return {
        "columns": CELL_COLUMNS,
        "rows": CELL_ROWS,
        "column_s": column_ns / NS,
        "place": writer.counts(keys // words),
        "word": writer.counts(keys % words),
        "n": writer.counts(n),
    }


def _files(one: Accesses, found: FoundAccesses) -> tuple[list[str], Any]:
    """Names, and the number of each call's; one more than there are names: none is kept."""
    import numpy as np

    distinct, which = np.unique(one.file_id, return_inverse=True)
    paths = [found.path_of.get(number, "") for number in distinct[:PATHS_MOST].tolist()]
    return paths, np.minimum(which, PATHS_MOST)
