"""How long reading results takes: list and compare of 10,000 runs, report of 1,000.

    python benches/results_speed.py
    python benches/results_speed.py --experiments 100     # list, query; 1,000 runs each
    python benches/results_speed.py --small --json     # as the tests run it

Results folders are made up (tests/report/synthetic.py) through the real store, without
fsync; then each command runs as a process of its own, so that its time is what a person
waits: start of Python, imports, reading, statistics, printing. Files are in the page cache.
The median of the repetitions is held against the limit; the load of the machine during the
measurement is printed with it, since a busy machine makes everything slower.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "python")]

from tests.report.synthetic import Recipe, write_pgbench  # noqa: E402

LIST_LIMIT_S = 1.0
COMPARE_LIMIT_S = 1.0
REPORT_LIMIT_S = 10.0
MANY_LIMIT_S = 5.0
"""For 100,000 runs in a folder of experiments: list, and a query over `runs`."""


@dataclass(frozen=True)
class Row:
    """One command's time."""

    what: str
    runs: int
    median_s: float
    best_s: float
    cpu_s: float
    """User and system time of the fastest repetition."""
    limit_s: float
    peak_mib: float = 0.0
    """Most memory that any command of this benchmark so far took."""

    @property
    def kept(self) -> bool:
        """Is the median within the limit?"""
        return self.median_s <= self.limit_s


def timed(arguments: list[str], repetitions: int) -> tuple[list[float], float]:
    """(wall seconds of each repetition, CPU seconds of the fastest)."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
    # Where it is set every start compiles all libraries anew: seconds that no user has.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    walls: list[float] = []
    cpus: list[float] = []
    for number in range(repetitions + 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "nfslab", *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            env=environment,
        )
        wall_s = time.perf_counter() - start
        if number == 0:
            continue  # the first start ever compiles what it imports
        walls.append(wall_s)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return walls, cpus[walls.index(min(walls))]


def measure_many(folder: Path, experiments: int, *, small: bool) -> list[Row]:
    """List and query of very many runs."""
    points, blocks = (2, 2) if small else (50, 10)
    for seed in range(experiments):
        recipe = Recipe(
            clients=tuple(range(1, points + 1)), repetitions=blocks, seed=seed, samples=False,
            evidence=False
        )  # fmt: skip
        write_pgbench(folder / "made", recipe).path.rename(folder / f"experiment-{seed}")
    (folder / "made").rmdir()
    runs = 2 * points * blocks * experiments
    asked = "SELECT experiment, median(tps) FROM runs WHERE counted GROUP BY ALL"
    rows = []
    for what, arguments in (("list", ["list"]), ("query", ["query"])):
        words = [*arguments, str(folder), *([asked] if what == "query" else [])]
        walls, cpu_s = timed(words, 1 if small else 3)
        limit_s = MANY_LIMIT_S * max(runs / 1e5, 1.0)
        rows.append(
            Row(f"{what}, {experiments} experiments", runs, statistics.median(walls), min(walls),
                cpu_s, limit_s,
                peak_mib=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
        )  # fmt: skip
    return rows


def measure(folder: Path, *, small: bool, repetitions: int) -> list[Row]:
    """Make the results below `folder` and time the commands on them."""
    many, some = (5, 5) if small else (500, 50)
    blocks = 3 if small else 10
    plain = functools.partial(Recipe, repetitions=blocks, samples=False, evidence=False)
    big = write_pgbench(folder / "big", plain(clients=tuple(range(1, many + 1))))
    halves = [
        write_pgbench(folder / name, plain(clients=tuple(range(1, many // 2 + 1)), seed=s))
        for s, name in enumerate(("base", "new"))
    ]
    full = write_pgbench(
        folder / "full",
        Recipe(clients=tuple(range(1, some + 1)), repetitions=blocks),
    )
    runs = 2 * many * blocks
    one = str(big.path)
    base, new = (str(half.path) for half in halves)
    wanted: list[tuple[str, int, list[str], float]] = [
        ("list", runs, ["list", one], LIST_LIMIT_S),
        ("list --runs", runs, ["list", one, "--runs"], LIST_LIMIT_S),
        (
            "compare, selections of one",
            runs,
            ["compare", f"{one}:placement=together", f"{one}:placement=log apart"],
            COMPARE_LIMIT_S,
        ),
        (
            "compare, two experiments",
            4 * (many // 2) * blocks,
            ["compare", base, new],
            COMPARE_LIMIT_S,
        ),
        (
            "report --markdown",
            2 * some * blocks,
            ["report", str(full.path), "--markdown"],
            REPORT_LIMIT_S,
        ),
    ]
    if importlib.util.find_spec("nfslab.report.html.document") is not None:
        page = ["report", str(full.path), "--html", str(folder / "report.html")]
        wanted.append(("report --html", 2 * some * blocks, page, REPORT_LIMIT_S))
    rows = []
    for what, count, arguments, limit_s in wanted:
        walls, cpu_s = timed(arguments, repetitions)
        rows.append(Row(what, count, statistics.median(walls), min(walls), cpu_s, limit_s))
    return rows


def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    lines = [
        "| command | runs | median s | best s | CPU s | limit s | | peak MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.what} | {row.runs} | {row.median_s:.2f} | {row.best_s:.2f} | {row.cpu_s:.2f} "
        f"| {row.limit_s:.0f} | {'kept' if row.kept else 'MISSED'} "
        f"| {f'{row.peak_mib:.0f}' if row.peak_mib else ''} |"
        for row in rows
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 1 when a limit was missed (never in the small mode)."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="a few runs: does it work at all?")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--experiments", type=int, default=0, metavar="N")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    repetitions = 1 if options.small else options.repetitions
    with tempfile.TemporaryDirectory(prefix="nfslab-bench-") as folder:
        if options.experiments:
            rows = measure_many(Path(folder), options.experiments, small=options.small)
        else:
            rows = measure(Path(folder), small=options.small, repetitions=repetitions)
    load = os.getloadavg()[0]
    if options.json:
        print(json.dumps({"load_1min": load, "rows": [asdict(row) for row in rows]}, indent=1))
    else:
        print(table(rows))
        print(f"\nload of the machine (1 min): {load:.1f}, CPUs: {os.cpu_count()}")
    return 0 if options.small or all(row.kept for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
