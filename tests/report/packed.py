"""What a page carries, decoded by hand from the coding that columns.py and figures.py document."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from typing import Any

import numpy as np

KINDS = {
    "u8": ("<u1", 1),
    "u16": ("<u2", 2),
    "u32": ("<u4", 4),
    "f32": ("<f4", 4),
    "f64": ("<f8", 8),
}


def column(content: bytes, spec: dict[str, Any]) -> np.ndarray[Any, Any]:
    """A column as floats; missing values are NaN."""
    kind, width = KINDS[spec["kind"]]
    raw = np.frombuffer(content, np.uint8, width * spec["n"], spec["offset"])
    whole = raw.reshape(width, spec["n"]).T.copy().view(kind).ravel().astype(np.float64)
    values = spec["base"] + spec["step"] * whole
    if spec["gaps"]:
        values[whole == 256**width - 1] = np.nan
    return values


def drawing_of(chunk: bytes) -> Any:
    """The drawing in a chunk (inflated), its arrays in their places."""
    (size,) = struct.unpack_from("<I", chunk)
    return _revived(json.loads(chunk[4 : 4 + size]), chunk[4 + size :])


def _revived(value: Any, content: bytes) -> Any:
    if isinstance(value, list):
        return [_revived(item, content) for item in value]
    if not isinstance(value, dict):
        return value
    if {"offset", "step"} <= value.keys():
        return column(content, value)
    if {"texts", "codes"} == value.keys():
        return [value["texts"][int(code)] for code in column(content, value["codes"])]
    return {key: _revived(item, content) for key, item in value.items()}


def inflated(text: str) -> bytes:
    """What base64 of raw deflate holds."""
    return zlib.decompress(base64.b64decode(text), -15)


def embedded(page: str) -> dict[str, str]:
    """Name -> packed data of a page."""
    found = re.findall(r'<script type="text/plain" id="data-([^"]+)">([^<]*)</script>', page)
    return dict(found)


def figures(page: str) -> dict[str, dict[str, Any]]:
    """Figure id -> its index; a view's `drawing` is decoded."""
    chunks = embedded(page)
    made = {}
    for key in re.findall(r'<article class="figure" id="[^"]*" data-index="(\w+)"', page):
        index = json.loads(inflated(chunks[key]))
        for view in index["views"]:
            if "data" in view:
                view["drawing"] = drawing_of(inflated(chunks[view["data"]]))
        made[index["id"]] = index
    return made


def view(page: str, figure: str, *choice: str) -> Any:
    """The drawing of a figure's view with these choices."""
    views = figures(page)[figure]["views"]
    return next(one["drawing"] for one in views if one["choice"] == list(choice))
