"""Two points that were taken apart, with planted parts in blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from nfslab.evidence.anatomy.differences import Compared, compared
from nfslab.evidence.anatomy.parts import AnatomyFacts, CallFacts, PartFacts
from nfslab.evidence.anatomy.transactions import SQL_DOUBT
from nfslab.evidence.base import Found, RunFacts, SealedRun
from nfslab.findings.calls import Call
from nfslab.results.records import RunRecord
from scipy import stats

PLACES = {"base": 0, "new": 1}
US = 1e3


def within_chance(probability: float, rounds: int) -> float:
    """Of so many rounds: fewer come once in a thousand times."""
    return float(stats.binom.ppf(1e-3, rounds, probability))


def anatomy(parts_ns: Mapping[str, float], sampled: frozenset[str]) -> AnatomyFacts:
    """Of parts by path, one level within another at most."""
    made = []
    for name in dict.fromkeys(path.partition("/")[0] for path in parts_ns):
        inner = [
            PartFacts(name=path.partition("/")[2], ns=ns, source="joined")
            for path, ns in parts_ns.items()
            if path.startswith(f"{name}/")
        ]
        ns = parts_ns.get(name, sum(one.ns for one in inner))
        source = "sampled" if name in sampled else "exact"
        doubt = SQL_DOUBT * ns if name in sampled else 0.0
        made.append(PartFacts(name=name, ns=ns, doubt_ns=doubt, source=source, parts=tuple(inner)))  # type: ignore[arg-type]
    whole = sum(one.ns for one in made)
    return AnatomyFacts(operation="transaction", operations=1e4, mean_ns=whole, parts=tuple(made))


def pair(
    base: Mapping[str, float],
    new: Mapping[str, float],
    *,
    noise: float,
    blocks: int,
    rng: np.random.Generator,
    sampled: frozenset[str] = frozenset(),
    shown: bool = True,
) -> Compared:
    """Parts in ns; each is lognormal with that spread in every block. `shown`: is a difference of
    the metric?"""

    def drawn(parts: Mapping[str, float]) -> AnatomyFacts:
        noisy = {path: ns * float(np.exp(rng.normal(0, noise))) for path, ns in parts.items()}
        return anatomy(noisy, sampled)

    sides = {
        "base": [drawn(base) for _ in range(blocks)],
        "new": [drawn(new) for _ in range(blocks)],
    }
    return compared_sides(sides, shown=shown)


def calls_pair(
    base: Mapping[str, Call],
    new: Mapping[str, Call],
    *,
    noise: float,
    blocks: int,
    rng: np.random.Generator,
    others: Mapping[str, float] = {},
    records: Mapping[str, Mapping[str, Any]] = {},
) -> Compared:
    """An operation on files that does these NFS calls, one after the other, besides 50 us of its
    program. `others`: ns of further parts within its storage, of the new point."""

    def drawn(calls: Mapping[str, Call], more: Mapping[str, float]) -> AnatomyFacts:
        made, sums = [], {"program": 50 * US} | {f"storage/{name}": ns for name, ns in more.items()}
        for operation, call in calls.items():
            parts = {
                name: ns * float(np.exp(rng.normal(0, noise))) for name, ns in call.parts_ns.items()
            }
            made.append(CallFacts(operation=operation, per_operation=call.per_operation,
                                  bytes_mean=call.bytes_mean, parts_ns=parts))  # fmt: skip
            for name, ns in parts.items():
                path = f"storage/{name}"
                sums[path] = sums.get(path, 0.0) + ns * call.per_operation
        return anatomy(sums, frozenset()).model_copy(update={"calls": tuple(made)})

    return compared_sides(
        {
            "base": [drawn(base, {}) for _ in range(blocks)],
            "new": [drawn(new, others) for _ in range(blocks)],
        },
        records=records,
    )


def compared_sides(
    sides: Mapping[str, Sequence[AnatomyFacts]],
    *,
    shown: bool = True,
    records: Mapping[str, Mapping[str, Any]] = {},
    folders: Mapping[str, Path] = {},
) -> Compared:
    """Of both points' runs, block by block; `records`: what their records hold."""
    runs: list[RunFacts[AnatomyFacts]] = []
    for label, each in sides.items():
        for block, facts in enumerate(each):
            kept: dict[str, Any] = {
                "evidence": [], "checks": [], "metrics": {}, "places": {}, "load": None,
                "parameters": {}, "memory_limit": {}, "durability": None,
                "operations": "transactions",
            }  # fmt: skip
            record = RunRecord.model_construct(
                run_id=label, **(kept | dict(records.get(label, {})))
            )
            run = SealedRun(folders.get(label, Path(f"{label}-{block}")), record)
            runs.append(RunFacts(run, PLACES[label], block, label, facts))
    found: Found[Any] = Found("made", runs, list(PLACES))
    alone = SimpleNamespace(alpha=0.05, shown=shown, verdict="")
    result = SimpleNamespace(base_point=0, point=1, base_label="base", label="new", result=alone)
    analysis: Any = SimpleNamespace(primary="tps", comparisons={"tps": [result]})
    (made,) = compared(found, analysis)
    return made
