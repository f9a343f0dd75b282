"""What the product says of a capture, and how that stands against its truth."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nfslab.captures import causes
from nfslab.captures.analysis import Asked, CaptureAnalysis, is_inner, read_captures
from nfslab.evidence.capture.gaps import gaps
from nfslab.evidence.capture.section import summary
from nfslab.evidence.capture.verdict import RETRANSMITTED, sentences

from tests.trace.generator import files

from .made import Scenario
from .planted import ALL, POINTS, scenario

OF_STALLS = (
    "network_loss", "server_restarted", "connection_reset", "server_host_frozen",
    "server_process_slow", "client_full", "server_full", "told_to_wait", "client_idle",
    "server_stalled",
)  # fmt: skip


def read(scenario: Scenario, folder: Path) -> CaptureAnalysis:
    """Writes the capture and has it read."""
    data = files.encode(scenario.frames, files.Format(), scenario.snaplen)
    path = files.write(folder / "capture.pcap", data)
    return read_captures([path], Asked())


def contradicts(analysis: CaptureAnalysis) -> bool:
    """Whether its report says that something was lost, and that nothing was."""
    found = gaps(analysis)
    text = " ".join([*summary(analysis), *sentences(analysis, found)])
    none = any(words in text for words in ("nothing lost", "no loss", "nothing retransmitted"))
    again = analysis.content["stalls"].get("evidence", {})
    lost = any(gap["kind"] in ("network_loss", "capture_loss") for gap in found)
    sent_again = any(again.get(name) for name in ("received_twice", *RETRANSMITTED))
    return none and (lost or sent_again)


def said(analysis: CaptureAnalysis) -> frozenset[str]:
    """All that is said of causes, as names."""
    content = analysis.content
    rows = [row for row in content["operations"] if not is_inner(row)]
    shown = {gap["kind"] for gap in gaps(analysis)}
    judged = {
        "capture_lossy": causes.has_loss(analysis),
        "time_in_server": causes.in_server(analysis),
        "unanswered": causes.unanswered(analysis),
        "replies_only": causes.replies_only(analysis),
        "sent_again": any(row["retransmissions"] for row in rows),
    }
    found = {name for name, true in judged.items() if true} | shown & {
        "capture_loss", "client_waited", "connection_waited"
    }  # fmt: skip
    if stalls := content.get("stalls"):
        counted = stalls.get("causes", {}) | {
            "server_stalled": stalls["totals"].get("server_stalled", {"count": 0})
        }
        found |= {name for name in OF_STALLS if name in counted and counted[name]["count"]}
        if stalls.get("evidence", {}).get("received_twice"):
            found.add("needless_retransmission")
        if causes.period(stalls):
            found.add("period")
    found |= {one["name"] for one in content.get("access", {}).get("observations", ())} & {
        "attribute_cache_off"
    }
    return frozenset(found)


@dataclass
class Matrix:
    """How often what was said, by what was planted."""

    captures: int = 0
    false: int = 0
    knowable: int = 0
    named: int = 0
    rows: dict[str, Counter[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    sizes: Counter[str] = field(default_factory=Counter)

    def add(self, scenario: Scenario, found: Iterable[str]) -> None:
        found = set(found)
        self.captures += 1
        row = self.rows.setdefault(scenario.name, Counter())
        self.sizes[scenario.name] += 1
        row.update(found)
        where = f"{scenario.name} {scenario.point} {scenario.seed}"
        if untrue := found - scenario.may:
            self.false += 1
            row["(false)"] += 1
            self.wrong.append(f"{where}: false {sorted(untrue)}")
        if scenario.must:
            self.knowable += 1
            row["(knowable)"] += 1
            if scenario.must <= found:
                self.named += 1
                row["(named)"] += 1
            else:
                self.wrong.append(f"{where}: not said {sorted(scenario.must - found)}")


def judged(
    folder: Path, points: Sequence[str], seeds: Sequence[int], names: Iterable[str] = ALL
) -> Matrix:
    """The matrix of these captures."""
    matrix = Matrix()
    for name in names:
        for point in points:
            for seed in seeds:
                made = scenario(name, point, seed)
                analysis = read(made, folder)
                assert not contradicts(analysis), (name, point, seed)
                matrix.add(made, said(analysis))
    return matrix


def table(matrix: Matrix) -> Iterable[str]:
    """As Markdown."""
    yield "| planted | captures | false | named, where it can be known | said |"
    yield "|---|---:|---:|---:|---|"
    for name, row in matrix.rows.items():
        said_of = ", ".join(
            f"{cause.replace('_', ' ')} {count}"
            for cause, count in row.most_common()
            if cause[0] != "("
        )
        named = f"{row['(named)']} of {row['(knowable)']}" if row["(knowable)"] else ""
        yield (
            f"| {name.replace('_', ' ')} | {matrix.sizes[name]} | {row['(false)']} | {named} "
            f"| {said_of} |"
        )
    yield f"| all | {matrix.captures} | {matrix.false} | {matrix.named} of {matrix.knowable} | |"


if __name__ == "__main__":
    last, names = int(sys.argv[1]) if len(sys.argv) > 1 else 4, sys.argv[2:] or ALL
    with tempfile.TemporaryDirectory() as scratch:
        found = judged(Path(scratch), POINTS, range(1, last + 1), names)
    print(*table(found), *found.wrong, sep="\n")
