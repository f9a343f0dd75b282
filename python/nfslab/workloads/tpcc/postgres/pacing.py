"""Keying and think times (clause 5.2.5.7), in pgbench's terms.

pgbench counts a pause within a script as part of its latency. So a terminal's turns alternate: one
pauses, the next does its transaction, and a script knows by a variable which of both it is to do:

    turn       1        2             3        4             ...   that came to its end
    a client   pause    transaction   pause    transaction   ...

What failed for good skipped the rest of its script: it is followed by a transaction at once.
A transaction's keying time is waited behind it, with its think time, since what comes next is drawn
when the pause is over: the sums are the same. Every terminal begins with a pause.

Limit: pgbench ends no pause, so it runs on until the last one is over. No transaction begins then.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from nfslab.workloads.pgbench.transaction_log import FAILED, OK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.workloads.pgbench.execution import PgbenchRun
    from nfslab.workloads.pgbench.printed import PrintedReport
    from nfslab.workloads.pgbench.statements import CommandReport
    from nfslab.workloads.pgbench.transaction_log import TransactionLog

KEYING_S: Final = {"new_order": 18.0, "payment": 3.0, "order_status": 2.0, "delivery": 2.0,
                   "stock_level": 2.0}  # fmt: skip
THINK_S: Final = {"new_order": 12.0, "payment": 12.0, "order_status": 10.0, "delivery": 5.0,
                  "stock_level": 5.0}  # fmt: skip
"""Means of a negative exponential that ends at ten of them (clause 5.2.5.4)."""
LONGEST: Final = 10
MOST_PER_WAREHOUSE: Final = 12.86
"""New orders a minute of ten terminals without any response time (clause 4.1)."""
US_PER_S: Final = 1e6


def first_pause(think: float) -> dict[str, int]:
    """Variables that a terminal begins with: it pauses, as behind a transaction without keying."""
    return {"pausing": 1} | behind("new_order", think) | {"keying": 0}


def behind(name: str, think: float) -> dict[str, int]:
    """What a transaction says of the pause behind it, microseconds."""
    return {
        "keying": round(think * KEYING_S[name] * US_PER_S),
        "longest": round(think * THINK_S[name] * US_PER_S * LONGEST),
    }


def paced(script: str, name: str, think: float) -> str:
    """A transaction's script that pauses in every other turn."""
    said = "".join(f"\\set {key} {value}\n" for key, value in behind(name, think).items())
    return (
        "\\if :pausing\n"
        f"\\set pause :keying + random_exponential(0, :longest, {LONGEST})\n"
        "\\sleep :pause us\n"
        "\\set pausing 0\n"
        "\\else\n"
        # Last: what is tried again begins at the script's first line, with variables as they are.
        f"{script.rstrip()}\n{said}\\set pausing 1\n"
        "\\endif\n"
    )


def mean_cycle_s(mix: Mapping[str, int], think: float) -> float:
    """Of a terminal whose transactions take no time."""
    means = (share * (KEYING_S[name] + THINK_S[name]) for name, share in mix.items())
    return think * sum(means) / sum(mix.values())


def last_pause_s(terminals: int, think: float) -> float:
    """About how long the last pause lasts beyond the end: the longest of so many exponentials."""
    return think * (KEYING_S["new_order"] + THINK_S["new_order"] * (1 + math.log(terminals)))


def without_pauses(
    log: TransactionLog, run: PgbenchRun, duration_s: float
) -> tuple[TransactionLog, PgbenchRun]:
    """The transactions alone; rates are of the time in which they could begin."""
    import numpy as np

    order = np.lexsort((log.transaction, log.client))
    client, ended = log.client[order], log.status[order] == OK
    before = np.cumsum(ended) - ended
    first = np.concatenate(([True], client[1:] != client[:-1]))[: len(order)]
    before -= before[first][np.cumsum(first) - 1]
    mine = np.empty(len(order), np.bool_)
    mine[order] = before % 2 == 1
    kept = replace(
        log,
        **{name: getattr(log, name)[mine] for name in
           ("completed_us", "client", "transaction", "latency_us", "script", "status", "retries")},
        # A terminal begins its transaction when its pause is over, not at a planned instant.
        lag_us=np.zeros(int(mine.sum()), np.int64),
    )  # fmt: skip
    return kept, replace(run, printed=_printed(run.printed, kept, duration_s))


def _printed(printed: PrintedReport, log: TransactionLog, duration_s: float) -> PrintedReport:
    processed = log.count(OK)
    scripts = [
        replace(one, processed=int(((log.script == script) & (log.status == OK)).sum()))
        for script, one in enumerate(printed.scripts)
    ]
    return replace(
        printed,
        processed=processed,
        failed=log.count(FAILED),
        tps=processed / duration_s,
        latency_mean_ms=None,
        latency_measured=False,
        lag_mean_ms=None,
        scripts=scripts,
        statements=[_transaction(one) for one in printed.statements],
    )


def _transaction(commands: list[CommandReport]) -> list[CommandReport]:
    """A script's commands without those that pause."""
    texts = [one.text for one in commands]
    begin = texts.index("\\else") + 1 if "\\else" in texts else 0
    end = texts.index("\\endif") if "\\endif" in texts else len(texts)
    own = ("\\set keying ", "\\set longest ", "\\set pausing ")
    return [one for one in commands[begin:end] if not one.text.startswith(own)]
