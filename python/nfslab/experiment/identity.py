"""What makes two experiments the same, and names for points and runs.

Identity is a SHA-256 over everything in the resolved file that can change a figure. Left
out are words (name, title, description), what only a report uses (reference, primary
metric), and what decides how much is run but not how (repetitions, the time limit of a
call, whether points that cannot run are skipped): asking for more of the same extends an
experiment.

Everything is derived from canonical JSON (sorted keys, no spaces), so that it is the same
on every machine and with every version of Python.
"""

from __future__ import annotations

import hashlib
import json
import random
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

IDENTITY_FORMAT = 1
ADDED: Final[dict[str, Any]] = {"call_delay": None, "planted_delay": {}}
"""Parameters that came later, with the value that asks for nothing: experiments of before keep
their identity."""
ADDED_TO: Final[dict[str, dict[str, Any]]] = {
    "tpcc": {"engine": "postgres", "mariadb": {}},
    "sfs": {"silence": None, "calibration": False, "calls": False},
    "files": {"seek_rewrite_share": 0.1},
}
"""The same of one kind of workload, target, ... alone: others have had parameters of that name."""
POINT_ID_DIGITS = (8, 12, 16, 32)
"""Tried in this order until the points of an experiment differ; 8 nearly always do."""


def canonical(content: Any) -> bytes:
    """The one JSON text of a content."""
    return json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=True
    ).encode()


def digest(content: Any) -> str:
    """SHA-256 of the canonical JSON, in hex."""
    return hashlib.sha256(canonical(content)).hexdigest()


def experiment_identity(
    *,
    order: str,
    seed: int | None,
    axes: Sequence[Mapping[str, Any]],
    points: Iterable[Mapping[str, Any]],
) -> str:
    """The identity of an experiment from its axes and its resolved points.

    `seed` is the one written in the file: a drawn one is not part of what was asked for.
    """
    hashed = []
    for point in points:
        limits = {k: v for k, v in point["limits"].items() if k != "experiment_s"}
        hashed.append(digest(_as_before({**point, "limits": limits})))
    return digest(
        {
            "format": IDENTITY_FORMAT,
            "order": order,
            "seed": seed,
            "axes": list(axes),
            "points": hashed,
        }
    )


def _as_before(section: Mapping[str, Any]) -> dict[str, Any]:
    """Without parameters that came later and ask for nothing."""
    added = ADDED | ADDED_TO.get(str(section.get("kind")), {})
    return {
        key: _as_before(value) if isinstance(value, dict) else value
        for key, value in section.items()
        if not (key in added and value == added[key])
    }


def point_ids(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Short ids of the points of one experiment, from what the axes set there."""
    whole = [digest(one) for one in settings]
    for digits in POINT_ID_DIGITS:
        short = [one[:digits] for one in whole]
        if len(set(short)) == len(short):
            return short
    return whole


def run_id(block: int, point_id: str, attempt: int) -> str:
    """Name of a run's folder; `block` counts from 0, `attempt` from 1."""
    return f"b{block:03}-{point_id}-a{attempt}"


def block_order(seed: int, block: int, count: int) -> list[int]:
    """A random order of `count` points, the same for a seed and block everywhere.

    Only `random.random()` is used: Python promises its sequence for a seed across
    versions, which it does not for shuffle().
    """
    generator = random.Random(derived_seed(seed, block))
    keys = [generator.random() for _ in range(count)]
    return sorted(range(count), key=lambda index: (keys[index], index))


def derived_seed(seed: int, block: int) -> int:
    """The seed of a block, below 2^63.

    All points of a block get the same one: they are compared with each other, and the
    same random choices (accounts, offsets) take one source of differences away.
    """
    return int.from_bytes(hashlib.sha256(f"nfslab/{seed}/{block}".encode()).digest()[:8]) >> 1
