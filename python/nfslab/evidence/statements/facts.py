"""A run's statements: the mean time of each within the mean transaction, which they sum to.

pgbench prints the mean of one execution. Where a script runs each of its commands once in each
transaction, that is the command's part of that script's mean transaction, and its share of the
scripts' transactions makes it a part of the mean of all. What the commands leave of the mean
latency is `between`: pgbench itself, tries that were repeated, connecting (with `connect_each`).
With a planned rate a transaction's latency counts from its planned instant: `late` is its mean lag.

With `\\if` in a script it is not known how often a statement ran, so that nothing sums: then there
are no parts, and a sentence. The means are to a microsecond each: `between` is off by half of that
for each command at most, and sums that go beyond the whole by so little shrink to it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from nfslab.evidence.anatomy.parts import (
    TRANSACTION,
    UNATTRIBUTED,
    AnatomyFacts,
    PartFacts,
    with_rest,
)
from nfslab.evidence.base import Facts
from nfslab.results.evidence_tables import evidence_path, read_evidence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.evidence.base import SealedRun

TABLE: Final = "statements"
COLUMNS: Final = {
    "script": "int16", "script_name": "string", "transactions": "int64", "position": "int32",
    "text": "string", "mean_ns": "int64", "failures": "int64", "retries": "int64",
}  # fmt: skip
"""Of the table, with Arrow's types."""
BETWEEN: Final = "between"
LATE: Final = "late"
ROUNDING_NS: Final = 500.0
"""Half of the last digit that pgbench prints."""
BRANCH: Final = "\\if"


class StatementTime(Facts):
    """One command of a script."""

    key: str
    """The same for the same text of the same script number, also at other points."""
    script: int
    script_name: str
    position: int
    """In its script, from 0."""
    occurrence: int
    """Of equal texts in that script, from 0."""
    text: str
    """As pgbench prints it: the first line, 127 bytes at most."""
    mean_ns: int
    """Of one execution."""
    failures: int | None
    retries: int | None


class StatementFacts(Facts):
    """A run's transaction, by statement."""

    statements: tuple[StatementTime, ...]
    whole: AnatomyFacts | None
    """Parts by key, and `LATE`, `BETWEEN`; None: they do not sum to the whole."""
    why_not: str = ""


def recorded(run: SealedRun) -> bool:
    """Has the run the table? Those of before have not."""
    return evidence_path(run.folder, TABLE, "samples").is_file()


def statements_of(run: SealedRun) -> StatementFacts | None:
    """None: pgbench did not tell, or there is no latency. ResultsError: it cannot be read."""
    if not recorded(run):
        return None
    rows = read_evidence(run.folder, TABLE, list(COLUMNS), folder="samples").to_pylist()
    metrics = {name: metric.value for name, metric in run.record.metrics.items()}
    mean_ms = metrics.get("latency_mean_ms")
    if not rows or mean_ms is None:
        return None
    made = tuple(_statements(rows))
    counts = {row["script"]: row["transactions"] for row in rows}
    why_not = _why_not(rows)
    whole = None
    if not why_not:
        lag_ns = metrics.get("lag_mean_ms", 0.0) * 1e6
        whole = _whole(made, counts, mean_ms * 1e6, lag_ns)
        why_not = "" if whole else "the statements' means exceed that of the transactions"
    return StatementFacts(statements=made, whole=whole, why_not=why_not)


def _statements(rows: Sequence[dict[str, Any]]) -> list[StatementTime]:
    seen: Counter[tuple[int, str]] = Counter()
    made = []
    for row in rows:
        script, text = row["script"], row["text"]
        plain = text.replace("/", "\u2215")  # a slash would be a path of parts
        occurrence = seen[script, plain]
        seen[script, plain] += 1
        made.append(
            StatementTime(
                key=f"{script}:{occurrence}:{plain}",
                script=script, script_name=row["script_name"], position=row["position"],
                occurrence=occurrence, text=text, mean_ns=row["mean_ns"] or 0,
                failures=row["failures"], retries=row["retries"],
            )
        )  # fmt: skip
    return made


def _why_not(rows: Sequence[dict[str, Any]]) -> str:
    branching = sorted({row["script_name"] for row in rows if row["text"].startswith(BRANCH)})
    if branching:
        return f"{', '.join(branching)} has {BRANCH}: how often a statement ran is not known"
    return ""


def _whole(
    statements: Sequence[StatementTime], counts: dict[int, int], mean_ns: float, late_ns: float
) -> AnatomyFacts | None:
    transactions = sum(counts.values())
    if not transactions:
        return None
    parts = [
        PartFacts(
            name=one.key, ns=one.mean_ns * counts[one.script] / transactions, source="exact"
        )
        for one in statements
    ]  # fmt: skip
    if late_ns:
        parts.append(PartFacts(name=LATE, ns=late_ns, source="exact"))
    if sum(part.ns for part in parts) > mean_ns + ROUNDING_NS * (len(parts) + 1):
        return None
    return AnatomyFacts(
        operation=TRANSACTION,
        operations=transactions,
        mean_ns=mean_ns,
        parts=tuple(
            part.model_copy(update={"name": BETWEEN}) if part.name == UNATTRIBUTED else part
            for part in with_rest(parts, mean_ns)
        ),
    )
