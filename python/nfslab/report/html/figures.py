"""Figures as data -> chunks of a page: `PageFigures` places figures and finds room for their data.

A figure's place is plain HTML with its title and caption. Its *index* (choices, views) and each
view's data are compressed chunks. A view's chunk holds the drawing's fields under their names in
`nfslab.display.figures`; what is empty is left out. An array is a list where it is short, else a
column (`columns`): whole numbers exact; floats exact up to `EXACT_MOST`; beyond that x to a part of
2^32 of its range, values over more than two decades to 1 in 8,000, others to a four-thousandth of
their range. `assets/src/data.js` reads them.

Room is shared by rank: first views of all figures of rank 1, then their second views, and so on,
then rank 2. A view that does not fit is left out, and the figure says how many were.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup, escape

from nfslab.errors import ResultsError
from nfslab.report.html.columns import ChunkWriter, pack, pack_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nfslab.display.figures import Drawing, Figure, View

LIST_MOST = 8
"""Numbers that stand in the header as a list."""
EXACT_MOST = 2000
"""Floats of an array that are kept exactly."""
TEXTS_MOST = 32
"""Texts that stand in the header one by one; more are coded."""
DECADES = 100.0
"""Positive values that spread wider are kept to a share of each."""


class PageFigures:
    """The figures of one page, in the order of their places."""

    def __init__(self, name: str) -> None:
        """`name` of what the page is about: part of the names of saved pictures."""
        self._name = name
        self._figures: list[Figure] = []

    def place(self, figure: Figure) -> Markup:
        """Where it will be drawn."""
        key = f"f{len(self._figures)}"
        self._figures.append(figure)
        return Markup(
            '<article class="figure" id="{id}" data-index="{key}"><h3>{title}</h3>'
            '<p class="caption">{caption}</p><p class="muted pending">Drawn by the script inside '
            "this file; the tables are complete without it.</p></article>"
        ).format(
            id=escape(figure.id), key=key, title=escape(figure.title),
            caption=escape(figure.caption),
        )  # fmt: skip

    def chunks(self, room_bytes: int) -> dict[str, str]:
        """Name -> chunk, in at most `room_bytes`; indexes are always there."""
        indexes = [_index(f"f{k}", one, self._name) for k, one in enumerate(self._figures)]
        room = room_bytes - sum(len(pack_json(index)) for index in indexes)
        found: dict[str, str] = {}
        order = sorted(
            (figure.rank, at, place)
            for place, figure in enumerate(self._figures)
            for at in range(len(figure.views))
        )
        for _, at, place in order:
            entry = indexes[place]["views"][at]
            chunk = _chunk(self._figures[place].views[at], entry)
            if chunk is not None and len(chunk) <= room:
                room -= len(chunk)
                found[entry["data"]] = chunk
                continue
            del entry["data"]
            indexes[place]["left_out"] += chunk is not None
        for place, index in enumerate(indexes):
            index["views"] = [v for v in index["views"] if "data" in v or "problem" in v]
            found[f"f{place}"] = pack_json(index)
        return found


def _index(key: str, figure: Figure, name: str) -> dict[str, Any]:
    """As it is when there is room for all views."""
    views = [
        {"choice": list(view.choice), "caption": view.caption, "data": f"{key}.{at}"}
        for at, view in enumerate(figure.views)
    ]
    return {
        "id": figure.id,
        "title": figure.title,
        "file": f"{name}-{figure.id}",
        "choices": list(figure.choices),
        "link": figure.link,
        "views": views,
        "left_out": 0,
    }


def _chunk(view: View, entry: dict[str, Any]) -> str | None:
    """The view's data; None: there are none, and why they cannot be read is in the entry."""
    try:
        drawing = view.load()
    except ResultsError as error:
        entry["problem"] = str(error)
        return None
    return None if drawing is None else pack(packed(drawing))


def packed(drawing: Drawing) -> bytes:
    """A drawing as a chunk, before compression."""
    packer = _Packer()
    return packer.writer.finish(packer.value(drawing))


def _has_default(field: dataclasses.Field[Any]) -> bool:
    """The page reads what has none unasked, even where it is empty."""
    made = (field.default, field.default_factory)
    return any(one is not dataclasses.MISSING for one in made)


class _Packer:
    def __init__(self) -> None:
        self.writer = ChunkWriter()
        self._written: dict[int, tuple[Any, Any]] = {}
        """By identity: arrays that series share are written once."""

    def value(self, found: Any, name: str = "") -> Any:
        """What stands in the header for it."""
        if dataclasses.is_dataclass(found):
            return self._fields(found)
        if isinstance(found, dict):
            return {key: self.value(item) for key, item in found.items()}
        if isinstance(found, float):
            return found if math.isfinite(found) else None
        if found is None or isinstance(found, str | bool | int):
            return found
        if isinstance(found, np.generic):
            return self.value(found.item())
        known = self._written.get(id(found))
        if known is None:
            known = self._written[id(found)] = (found, self._many(found, name))
        return known[1]

    def _fields(self, found: Any) -> dict[str, Any]:
        kind = getattr(found, "kind", None)
        made = {"kind": kind} if isinstance(kind, str) else {}
        for field in dataclasses.fields(found):
            item = getattr(found, field.name)
            empty = isinstance(item, str | tuple | list | bool | dict) and not item
            if item is None or (empty and _has_default(field)):
                continue
            made[field.name] = self.value(item, field.name)
        return made

    def _many(self, found: Sequence[Any] | NDArray[Any], name: str) -> Any:
        if isinstance(found, tuple | list):
            if all(isinstance(item, str) for item in found):
                return self._texts(found)
            if not all(isinstance(item, int | float | np.number | None) for item in found):
                return [self.value(item) for item in found]
            found = np.asarray([np.nan if item is None else item for item in found])
        numbers = np.asarray(found)
        if numbers.dtype.kind in "UO":
            return self._texts([str(item) for item in numbers.tolist()])
        return self._numbers(numbers, name)

    def _texts(self, found: Sequence[str]) -> Any:
        if len(found) <= TEXTS_MOST:
            return list(found)
        place: dict[str, int] = {}
        codes = [place.setdefault(text, len(place)) for text in found]
        return {"texts": list(place), "codes": self.writer.counts(np.asarray(codes))}

    def _numbers(self, found: NDArray[Any], name: str) -> Any:
        if found.size <= LIST_MOST and found.ndim == 1:
            return [self.value(item) for item in found.tolist()]
        if found.dtype.kind in "iub" and (found.size == 0 or int(found.min()) >= 0):
            return self.writer.counts(found.astype(np.int64))
        values = found.astype(np.float64)
        if values.size <= EXACT_MOST:
            return self.writer.exact(values)
        if name == "x":
            return self.writer.fine(values)
        known = values[np.isfinite(values)]
        if known.size and known.min() > 0 and known.max() > DECADES * known.min():
            return self.writer.relative(values)
        return self.writer.measured(values)
