"""Is the cause named that was planted? Real runs with known causes, and the confusion matrix.

    python benches/findings.py [--seed N] [--blocks 5] [--only NAME ...] [--keep FOLDER]
    python benches/findings.py --list | --small

Each experiment of `planted.py` is run by `nfslab run`: a base, the same again, one cause at two
sizes, pairs; some levels run beside programs that compete. Then the first finding of each point
against the base is held against what was planted. Magnitudes are drawn from the seed, which is
drawn itself unless it is given, and printed.
Right: the first-named cause is planted. Silence is not right; it is counted apart from a wrong
name. A planted time of each call (or byte) times their number in an operation is the effect, where
such a time was planted; else nothing but the cause differs, and the effect is the difference of the
whole. It has to lie within the finding's interval. Where nothing was planted nothing may be named
with confidence "high" or "medium".

Aims: 95 % of causes alone named first, 90 % of effects within their interval, nothing named where
nothing is. The exit code is 1 where an aim is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from nfslab.display.numbers import quantity
from nfslab.findings.calls import calls_at
from nfslab.findings.explanation import pairs_of
from nfslab.findings.registry import findings_of
from nfslab.report.analysis import analyse
from planted import NOT_HERE, experiments
from planting import Level, Planted

NOTHING: Final = "(nothing)"
SURE: Final = ("high", "medium")
PATIENCE_S: Final = 600
RUN: Final = (sys.executable, "-m", "nfslab", "run")
DONE: Final = re.compile(r"\[(\d+)/\d+\] block|\d+ runs(?:, (\d+) done before)?; about")
"""Of what `nfslab run` prints: how many runs are done."""


@dataclass(frozen=True)
class Judged:
    """One situation."""

    level: Level
    first: str
    others: list[str]
    confidence: str
    whole_ns: float
    truth_ns: float | None
    """By arithmetic; None: nothing else differs, so the whole is the effect."""
    interval_ns: tuple[float, float] | None

    @property
    def right(self) -> bool:
        """Is the first-named cause planted?"""
        return self.first in (*self.level.causes, *self.level.also)

    @property
    def inside(self) -> bool:
        """Is the planted effect within the first finding's interval?"""
        ends, truth_ns = self.interval_ns, self.truth_ns
        effect_ns = self.whole_ns if truth_ns is None else truth_ns
        return ends is not None and ends[0] <= effect_ns <= ends[1]


def judged(planted: Planted, folder: Path) -> list[Judged]:
    """What was found of each level."""
    by_label = {level.name: level for level in planted.levels}
    made = []
    for pair in pairs_of(analyse(folder)):
        level = by_label[pair.result.label.removeprefix("plant=")]
        found = findings_of(pair)
        first = found[0] if found else None
        made.append(Judged(
            level=level,
            first=first.cause if first else NOTHING,
            others=[one.cause for one in found[1:]],
            confidence=first.confidence if first else "",
            whole_ns=pair.whole.difference_ns,
            truth_ns=level.truth_ns(calls_at(pair.sides[1])),
            interval_ns=first.interval_ns if first else None,
        ))  # fmt: skip
    return made


def run(planted: Planted, asked: argparse.Namespace, folder: Path) -> list[Judged]:
    """The experiment, run; without its results nothing is judged."""
    file = folder / f"{planted.name}.toml"
    file.write_text(planted.text(asked.blocks, asked.seed))
    results = folder / planted.name
    argv = [*RUN, str(file), "--results", str(results), "--anyway"]
    said = subprocess.run(
        [*RUN, str(file), "--dry-run", "--json"], capture_output=True, text=True, check=True
    ).stdout
    loads = loads_of(planted, json.loads(said))
    with (
        Beside() as beside,
        subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as nfslab,
        patience(nfslab),
    ):
        assert nfslab.stdout is not None
        lines = []
        for line in nfslab.stdout:
            lines.append(line)
            # The runs that are done are known when one ends, and before the first.
            if found := DONE.match(line):
                done = int(found[1] or found[2] or 0)
                beside.run(loads[done] if done < len(loads) else ())
    if nfslab.returncode != 0:
        raise SystemExit(f"{planted.name} did not run:\n{''.join(lines)}")
    (made,) = results.iterdir()
    return judged(planted, made)


def loads_of(planted: Planted, plan: dict[str, Any]) -> list[tuple[str, ...]]:
    """What runs beside each run, in the order of the runs."""
    by_label = {level.name: level.load for level in planted.levels}
    labels = {one["point_id"]: one["factors"]["plant"] for one in plan["points"]}
    return [by_label.get(labels[one["point_id"]], ()) for one in plan["order"]]


class Beside:
    """Programs that compete with a run."""

    def __init__(self) -> None:
        self.running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Beside:
        return self

    def run(self, programs: Sequence[str]) -> None:
        """These, and no others."""
        for one in self.running:
            one.kill()
            one.wait()
        self.running = [subprocess.Popen([sys.executable, "-S", "-c", one]) for one in programs]

    def __exit__(self, *_: object) -> None:
        self.run(())


@contextlib.contextmanager
def patience(process: subprocess.Popen[str]) -> Iterator[None]:
    """It ends in time, or is ended."""
    timer = threading.Timer(PATIENCE_S, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def row(one: Judged) -> str:
    """Of the table of situations."""
    ends = one.interval_ns
    cells = [
        one.level.name, " + ".join(one.level.causes) or NOTHING, one.first, one.confidence,
        ", ".join(one.others), quantity(one.whole_ns, "ns"),
        "" if one.truth_ns is None else quantity(one.truth_ns, "ns"),
        f"{quantity(ends[0], 'ns')} to {quantity(ends[1], 'ns')}" if ends else "",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def matrix(found: list[Judged]) -> list[str]:
    """Rows: planted alone, or nothing; columns: what was named first."""
    counts = Counter(
        (" + ".join(one.level.causes) or NOTHING, one.first)
        for one in found
        if one.level.kind != "pair"
    )
    named = sorted({first for _, first in counts}, key=lambda name: (name == NOTHING, name))
    lines = [f"| planted | {' | '.join(named)} |", "|---|" + "---:|" * len(named)]
    for planted in sorted({cause for cause, _ in counts}, key=lambda n: (n == NOTHING, n)):
        cells = [str(counts[planted, name] or "") for name in named]
        lines.append(f"| {planted} | {' | '.join(cells)} |")
    return lines


def summary(found: list[Judged]) -> tuple[list[str], bool]:
    """Sentences, and whether every aim is met."""
    alone, pairs, nothing = (
        [one for one in found if one.level.kind == kind] for kind in ("alone", "pair", "nothing")
    )
    right = [one for one in alone if one.right]
    silent = sum(one.first == NOTHING for one in alone)
    inside = sum(one.inside for one in right)
    known = [one for one in right if one.truth_ns is not None]
    false = sum(one.confidence in SURE for one in nothing)
    pairs_right = sum(one.right for one in pairs)
    both = sum({one.first, *one.others} >= set(one.level.causes) for one in pairs)
    lines = [
        f"* First-named cause right: {len(right)} of {len(alone)} causes planted alone "
        f"({silent} silent, {len(alone) - len(right) - silent} wrong).",
        f"* The effect within its interval: {inside} of {len(right)}; by arithmetic "
        f"{sum(one.inside for one in known)} of {len(known)}.",
        f"* Pairs: the first is one of them in {pairs_right} of {len(pairs)}, both are named in "
        f"{both}.",
        f"* Nothing planted: {false} of {len(nothing)} named with confidence high or medium.",
    ]
    met = len(right) >= 0.95 * len(alone) and inside >= 0.9 * len(right) and not false
    return lines, met


def listed(chosen: Sequence[Planted]) -> list[str]:
    """Each experiment with the causes that it plants alone, and those that none does."""
    lines = [
        f"{one.name}: {', '.join(level.causes[0] for level in one.levels if level.kind == 'alone')}"
        for one in chosen
    ]
    return [*lines, *(f"not here, {cause}: {why}" for cause, why in NOT_HERE.items())]


def main() -> int:
    """All experiments, or those asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--list", action="store_true", help="experiments and causes; no runs")
    parser.add_argument("--small", action="store_true", help="one experiment, nothing is judged")
    parser.add_argument("--keep", type=Path, default=None, metavar="FOLDER")
    asked = parser.parse_args()
    asked.seed = secrets.randbelow(2**31) if asked.seed is None else asked.seed
    known = {one.name: one for one in experiments(np.random.default_rng(asked.seed))}
    if unknown := set(asked.only) - set(known):
        raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    chosen = [known[name] for name in asked.only or known]
    if asked.list:
        print("\n".join(listed(chosen)))
        return 0
    if asked.small:
        chosen, asked.blocks = [chosen[0].smaller()], 3
    print(f"Seed {asked.seed}, {asked.blocks} blocks.\n")
    print("| situation | planted | named first | confidence | then | longer | planted | effect |")
    print("|---|---|---|---|---|---:|---:|---|")
    began, found = time.monotonic(), []
    folder = asked.keep or Path(tempfile.mkdtemp(prefix="nfslab-findings-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for planted in chosen:
            here = run(planted, asked, folder)
            found += here
            print("\n".join(row(one) for one in here), flush=True)
    finally:
        if asked.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    lines, met = summary(found)
    print("", *matrix(found), "", *lines, sep="\n")
    print(f"\n{time.monotonic() - began:.0f} s.")
    return 0 if met or asked.small else 1


if __name__ == "__main__":
    sys.exit(main())
