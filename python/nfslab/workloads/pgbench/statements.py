"""What each command of the scripts takes, by pgbench's own clock (`--report-per-command`).

Behind its summary, or behind each script's where there are several, pgbench prints a heading and a
line for each command, in the order of the script:

    statement latencies in milliseconds:                            13 and 14
    statement latencies in milliseconds and failures:               15 and newer
    statement latencies in milliseconds, failures and retries:      the same, with --max-tries

               0.304           0  UPDATE pgbench_accounts SET abalance = ...

A mean is that of all times that the command ran to its end, also in transactions that failed or
were tried again later, to whole microseconds; how often that was pgbench does not say. Of a
statement of several lines it prints the first, of a long one the first 127 bytes.

Source: PostgreSQL's src/bin/pgbench/pgbench.c, printResults() and postprocess_sql_command(), read
in version 18; 15, 16 and 18 are run by the tests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nfslab.results.core_tables import typed_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

HEADING: Final = re.compile(
    r"^(?: - )?statement latencies in milliseconds(| and failures|, failures and retries):$"
)
COUNTS: Final = {"": 0, " and failures": 1, ", failures and retries": 2}
"""Numbers behind the mean, by what the heading says."""
NS_PER_MS: Final = 1e6


@dataclass(frozen=True, slots=True)
class CommandReport:
    """One command of a script."""

    text: str
    mean_ns: int | None
    """Of one execution; 0 also where there was none. None: pgbench divided by none."""
    failures: int | None
    """Transactions that it failed for good; None: this version does not tell."""
    retries: int | None
    """Transactions that were tried again because of it; None: without --max-tries."""


def read_statements(lines: Sequence[str]) -> list[list[CommandReport]]:
    """The commands of each script that has a report, in pgbench's order; empty: there is none."""
    scripts: list[list[CommandReport]] = []
    row: re.Pattern[str] | None = None
    for line in lines:
        if heading := HEADING.match(line):
            row = _row(COUNTS[heading[1]])
            scripts.append([])
        elif row is not None and (match := row.match(line)):
            mean, *counts, text = match.groups()
            known = [int(count) for count in counts]
            scripts[-1].append(
                CommandReport(
                    text=text.rstrip(),
                    mean_ns=None if "nan" in mean else round(float(mean) * NS_PER_MS),
                    failures=known[0] if known else None,
                    retries=known[1] if len(known) > 1 else None,
                )
            )
        else:
            row = None
    return scripts


def _row(counts: int) -> re.Pattern[str]:
    # A command's text begins with no space: pgbench skips what stands before it.
    return re.compile(r"^ {3} *(\d+\.\d{3}|-?nan)" + r" +(\d+)" * counts + r" +(\S.*)$")


def statements_table(
    scripts: Sequence[Sequence[CommandReport]], names: Sequence[str], transactions: Sequence[int]
) -> pa.Table:
    """A row for each command: (script, position) as samples of transactions number scripts.

    `names` and `transactions` (carried through) are of each script.
    """
    import pyarrow as pa

    types = {
        "script": pa.int16(), "script_name": pa.string(), "transactions": pa.int64(),
        "position": pa.int32(), "text": pa.string(), "mean_ns": pa.int64(),
        "failures": pa.int64(), "retries": pa.int64(),
    }  # fmt: skip
    rows = [
        (script, names[script], transactions[script], position, one.text, one.mean_ns,
         one.failures, one.retries)
        for script, commands in enumerate(scripts)
        for position, one in enumerate(commands)
    ]  # fmt: skip
    return typed_table(rows, types)
