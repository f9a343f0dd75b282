"""How files are accessed: order, sizes, what is stable when, as tables.

From the core's lens `access`; its sentences ("observations") stand in the verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.display import numbers
from nfslab.display.cells import count, latency, number, share, size, text
from nfslab.display.sections import Cell, Column, Table

if TYPE_CHECKING:
    from nfslab._core import AccessContent

CLASSES = {
    "sequential": "sequential",
    "forward": "forward, with a gap",
    "backward": "backward",
    "random": "random",
    "repeated": "same offset again",
    "first": "first of a file",
}
SIZES_MOST = 4
"""Most frequent sizes of READs and WRITEs that are named."""


def access(section: AccessContent) -> Table | None:
    """READs and WRITEs by their order within the file."""
    columns = [
        Column("", False),
        Column("calls"),
        Column("bytes"),
        *(Column(title) for title in CLASSES.values()),
        Column("files", False, "how many files are read or written in which way"),
    ]
    rows = []
    for title, found in (("READ", section["reads"]), ("WRITE", section["writes"])):
        if not found["calls"]:
            continue
        placed = sum(found["classes"].values())
        ways = sorted(found["files_by_pattern"].items(), key=lambda item: -item[1]["files"])
        rows.append(
            [
                text(title),
                count(found["calls"]),
                size(found["bytes"]),
                *(share(found["classes"][name] / placed if placed else None) for name in CLASSES),
                text(", ".join(f"{way['files']:,} {name}" for name, way in ways)),
            ]
        )
    note = "Shares of the calls, each by where the call before it in the same file ended."
    return Table("Order of reads and writes", columns, rows, note) if rows else None


def sizes(section: AccessContent) -> Table | None:
    """Sizes of READs, WRITEs and COMMITs."""
    columns = [
        Column("", False),
        Column("mean"),
        Column("most frequent", False),
        Column("by powers of two", False, "from each size on, up to twice it"),
    ]
    rows = []
    for title, found in (
        ("READ", section["reads"]["sizes"]),
        ("WRITE", section["writes"]["sizes"]),
        ("COMMIT", section["commit_sizes"]),
    ):
        total = sum(part["calls"] for part in found["by_power_of_two"])
        if not total:
            continue
        common = [
            f"{numbers.quantity(part['bytes'], 'B', 4)}: {_percent(part['calls'], total)}"
            for part in found["common"][:SIZES_MOST]
        ]
        powers = [
            f"{numbers.quantity(part['from_bytes'], 'B')}: {_percent(part['calls'], total)}"
            for part in found["by_power_of_two"]
        ]
        rows.append(
            [
                text(title),
                size(found["mean_bytes"]),
                text(", ".join(common)),
                text(", ".join(powers)),
            ]
        )
    return Table("Sizes asked for", columns, rows, open=False) if rows else None


def _percent(part: int, total: int) -> str:
    return f"{numbers.percent(part / total, 2)}"


def stability(section: AccessContent) -> Table | None:
    """What WRITEs ask to be stable, and what COMMITs make of it."""
    asked, commits = section["stability"], section["commits"]
    if not section["writes"]["calls"] and not commits["calls"]:
        return None
    rewritten = asked["rewritten_before_commit"]
    waits = commits["last_write_to_commit_ns"] or {}
    per_commit, bytes_each = commits["writes"] or {}, commits["bytes"] or {}
    attributes = section["attributes"]
    facts: list[tuple[str, Cell]] = [
        ("WRITEs UNSTABLE (a COMMIT follows)", count(asked["unstable"])),
        ("WRITEs DATA_SYNC", count(asked["data_sync"])),
        ("WRITEs FILE_SYNC", count(asked["file_sync"])),
        (
            "UNSTABLE WRITEs that the server made stable at once",
            count(asked["unstable_made_stable"]),
        ),
        ("WRITEs of bytes written before and not committed yet", count(rewritten["calls"])),
        ("COMMITs", count(commits["calls"])),
        ("COMMITs with nothing written before", count(commits["nothing_written_before"])),
        ("WRITEs a COMMIT, median", number(per_commit.get("p50"))),
        ("bytes a COMMIT, median", size(bytes_each.get("p50"))),
        ("last WRITE to COMMIT, median", latency(waits.get("p50"))),
        ("last WRITE to COMMIT, p99", latency(waits.get("p99"))),
        ("bytes left without a COMMIT at the end", size(commits["bytes_left_uncommitted"])),
        ("GETATTRs", count(attributes["getattr_calls"])),
        ("GETATTRs for attributes asked for within 3 s", count(attributes["getattr_asked_again"])),
        (
            "READs and WRITEs directly after a GETATTR or ACCESS of their file",
            count(attributes["revalidated_before_read_or_write"]),
        ),
    ]
    rows = [[text(name), cell] for name, cell in facts]
    columns = [Column("", False), Column("")]
    return Table("Stability of writes, freshness of attributes", columns, rows, open=False)
