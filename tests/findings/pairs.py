"""Two points that were taken apart, with planted parts in blocks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from nfslab.evidence.anatomy.differences import Compared, compared
from nfslab.evidence.anatomy.parts import AnatomyFacts, PartFacts
from nfslab.evidence.base import Found, RunFacts, SealedRun
from nfslab.results.records import RunRecord

PLACES = {"base": 0, "new": 1}
US = 1e3


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
        made.append(PartFacts(name=name, ns=ns, source=source, parts=tuple(inner)))  # type: ignore[arg-type]
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
    runs: list[RunFacts[AnatomyFacts]] = []
    for block in range(blocks):
        for label, parts in (("base", base), ("new", new)):
            drawn = {path: ns * float(np.exp(rng.normal(0, noise))) for path, ns in parts.items()}
            run = SealedRun(Path(f"{label}-{block}"), RunRecord.model_construct(run_id=label))
            facts = anatomy(drawn, sampled)
            runs.append(RunFacts(run, PLACES[label], block, label, facts))
    found: Found[Any] = Found("made", runs, list(PLACES))
    alone = SimpleNamespace(alpha=0.05, shown=shown)
    result = SimpleNamespace(base_point=0, point=1, base_label="base", label="new", result=alone)
    analysis: Any = SimpleNamespace(primary="tps", comparisons={"tps": [result]})
    (made,) = compared(found, analysis)
    return made
