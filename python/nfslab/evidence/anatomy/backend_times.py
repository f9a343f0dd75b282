"""A transaction's parts from the times of every pause of the backends: exact, and what samples say.

Blocked time is by wait event, over the transactions of the timed part. Time on a processor and time
waiting for one are the scheduler's, whatever the backend was about: a write to the page cache is
time on a processor. What blocked without a wait event (an lseek over NFS, a page fault) is
"unattributed (blocked)".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.evidence.anatomy.parts import PartFacts, meaning_of
from nfslab.evidence.anatomy.wait_parts import part_of_wait
from nfslab.evidence.postgres.exact_waits import CLIENT_BACKEND, TIMES_TABLE
from nfslab.results.evidence_tables import evidence_path, read_evidence

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nfslab.evidence.base import SealedRun

PROCESSORS: Final = {"running": "on_cpu", "queued": "run_queue"}
AGREEMENT: Final = 0.03
"""Of the whole: a smaller disagreement of samples is not told."""


def exact_parts(run: SealedRun, transactions: float) -> dict[str, PartFacts] | None:
    """Part -> its mean time of a transaction; None: the pauses were not timed. ResultsError."""
    if not evidence_path(run.folder, TIMES_TABLE).is_file():
        return None
    rows = read_evidence(run.folder, TIMES_TABLE).to_pylist()
    return parts_of_times(
        (
            row["kind"],
            part_of_wait(row["wait_event_type"], row["wait_event"]),
            row["ns"] / transactions,
        )
        for row in rows
        if row["backend_type"] == CLIENT_BACKEND
    )


def parts_of_times(
    times: Iterable[tuple[str, str | None, float]],
) -> dict[str, PartFacts] | None:
    """Of (kind, the part that it is where it was blocked, ns of a transaction); None: of nothing.

    Who was blocked "running" was so in what has no name.
    """
    sums: dict[str, float] = {}
    for kind, part, ns in times:
        name = PROCESSORS.get(kind) or ("other" if kind == "unread" else part)
        if name is not None:
            sums[name] = sums.get(name, 0.0) + ns
    if not sums:
        return None
    inner = [
        PartFacts(name=name, ns=sums.pop(name), source="exact")
        for name in ("run_queue", "on_cpu")
        if name in sums
    ]
    blocked_ns = sums.pop("running", 0.0) + sums.pop("unreported", 0.0)
    parts = {name: PartFacts(name=name, ns=ns, source="exact") for name, ns in sums.items()}
    return parts | server_cpu(inner, PartFacts(name="running", ns=0.0, source="exact"), blocked_ns)


def server_cpu(
    inner: Sequence[PartFacts], running: PartFacts, blocked_ns: float
) -> dict[str, PartFacts]:
    """ "Server CPU" of these parts, and what was blocked without a wait event.

    Both have the errors of `running`, which was known as a whole.
    """
    busy_ns = sum(part.ns for part in inner)
    made = {"running": running.model_copy(update={"ns": busy_ns, "parts": tuple(inner)})}
    if blocked_ns > 0:
        update = {"name": "unreported", "ns": blocked_ns}
        made["unreported"] = running.model_copy(update=update)
    return made


def disagreements(
    sampled: Mapping[str, PartFacts], exact: Mapping[str, PartFacts], mean_ns: float
) -> list[str]:
    """Waits whose samples say something else than their times, beyond both errors: in one sentence.

    A sampled wait has its time on a processor, too, which the exact one has not: samples may be
    longer by all of that.
    """
    on_processors = sum(part.ns for part in exact["running"].parts if part.name in INNER)
    said = []
    for name, part in sampled.items():
        if name == "running":
            continue
        room_ns = 2 * (part.error_ns or 0.0) + AGREEMENT * mean_ns
        exact_ns = exact[name].ns if name in exact else 0.0
        if not exact_ns - room_ns <= part.ns <= exact_ns + room_ns + on_processors:
            said.append(f"{meaning_of(name).label} {part.ns / 1e6:.3g} ms by samples, "
                        f"{exact_ns / 1e6:.3g} ms by every pause")  # fmt: skip
    return [f"Samples of wait events disagree: {'; '.join(said)}. The second is shown."] * bool(
        said
    )


INNER: Final = frozenset(PROCESSORS.values())
