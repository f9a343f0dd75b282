"""Are right findings confirmed, and wrong ones refuted? Real runs with known causes.

    python benches/confirm.py [--seed N] [--only NAME ...] [--small]

Each case is an experiment of a base and a point with something planted in the embedded server's
model or in its mount; sizes are drawn from the seed, which is printed. Its finding is tested as
`nfslab confirm` does (right), and once more with a claim that is wrong: three times as many calls
in a row as there are, or the whole difference laid to the number of connections, which has nothing
to do with it. Shown: what was decided of each, with prediction and outcome, and
shares. Aims: 90 % of right ones confirmed, 90 % of wrong ones refuted.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import secrets
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from nfslab.findings.confirm import Intervention, Prediction, Slope, experiment_text
from nfslab.findings.explanation import confirmation, pairs_of
from nfslab.findings.registry import findings_of, intervention_of
from nfslab.report.analysis import analyse

PATIENCE_S: Final = 900
TIMES: Final = 3.0
"""As many calls in a row as there are, claims a wrong slope."""
SURE: Final = 0.1
"""Of the difference: how exact a wrong claim says that it is."""
FILES: Final = """
kind = "files"
data = "nfs"
phases = "random_write"
file_size = "512k"
random_operations = 1000000
time_limit = "1s"
final_sync = false
"""
CACHED: Final = """
kind = "files"
data = "nfs"
phases = "random_read"
file_size = "256k"
random_operations = 1000000
time_limit = "1s"
drop_cache = false
check_every = 0
"""
"""The data stay in the page cache: what is left to ask the server is attributes."""
PGBENCH: Final = """
kind = "pgbench"
data = "disk"
wal = "nfs"
scale = 2
duration = "2s"
"""


@dataclass(frozen=True)
class Case:
    """An experiment of two points."""

    name: str
    causes: tuple[str, ...]
    """Each of them says what was planted; the first that is found is tested."""
    workload: str
    parameters: dict[str, tuple[Any, Any]]
    """What differs: at the base, and planted."""
    store: str = 'store = "memory"'
    """Of the server. In memory every WRITE is stable at once, and nothing is committed."""

    def text(self, blocks: int, seed: int) -> str:
        """Its file."""
        names = [f"targets.nfs.{name}" for name in self.parameters]
        rows = [[pair[side] for pair in self.parameters.values()] for side in (0, 1)]
        more = ["postgres", "fsync"] if "pgbench" in self.workload else []
        return (
            f'[experiment]\nname = "{self.name}"\nrepetitions = {blocks}\nseed = {seed}\n'
            f"collectors = {json.dumps(['rpc', 'nfs_server', *more])}\n"
            "[limits]\ndrop_page_cache = false\n[collectors.rpc]\ncalls = true\n"
            '[targets.disk]\nkind = "local"\npath = "/var/tmp"\n'
            '[targets.nfs]\nkind = "nfs"\nserver = "embedded"\n'
            f"{self.store}\n"
            f"[workload]{self.workload}"
            f'[[axes]]\nname = "plant"\nparameters = {json.dumps(names)}\n'
            f'values = {json.dumps(rows)}\nlabels = ["base", "planted"]\n'
        )


def cases(rng: np.random.Generator) -> list[Case]:
    """With sizes drawn anew."""

    def us(low_ms: float, high_ms: float) -> str:
        return f"{np.exp(rng.uniform(np.log(low_ms), np.log(high_ms))) * 1e3:.0f}us"

    usual = ["500us"]
    known, several = [us(1, 3)], FILES + "threads = 8\n"
    return [
        Case("log", ("log_sync", "server_disk"), PGBENCH,
             {"service_time": ([], [f"WRITE={us(4, 12)}"])}),
        # Two things differ: the intervention tells which it is.
        Case("service", ("server_disk", "server_cpu"), FILES,
             {"service_time": (usual, [us(2, 6)]), "timeo": (600, 500)}),
        Case("wire", ("wire_latency",), FILES,
             {"service_time": (usual, usual), "delay": ("0s", us(1, 5)), "timeo": (600, 500)}),
        Case("threads", ("server_threads",), several,
             {"service_time": (["2ms"], ["2ms"]), "threads": (16, 1)}),
        Case("attributes", ("attribute_cache",), CACHED,
             {"service_time": (known, known), "ac": (True, False)}),
        Case("commit", ("commit_slow",), FILES + "sync_every = 8\n",
             {"service_time": (["200us"], ["200us", f"COMMIT={us(10, 40)}"])},
             'store = "directory"\ndirectory = "/dev/shm"'),
    ]  # fmt: skip


def run(file: Path, into: Path) -> Path:
    """The results of an experiment that is run."""
    command = [sys.executable, "-m", "nfslab", "run", file, "--results", into, "--anyway"]
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{file.name} did not run:\n{done.stdout}{done.stderr}")
    (made,) = into.iterdir()
    return made


def judged(case: Case, folder: Path, blocks: int, seed: int) -> list[list[str]]:
    """Rows of the table: the finding as it is, and a wrong one."""
    file = folder / f"{case.name}.toml"
    file.write_text(case.text(blocks, seed))
    analysis = analyse(run(file, folder / case.name))
    (pair,) = pairs_of(analysis)
    found = {one.cause: one for one in findings_of(pair)}
    named = [found[cause] for cause in case.causes if cause in found]
    if not named:
        return [[case.name, "right", "not found", f"found: {', '.join(found) or 'nothing'}"]]
    intervention = intervention_of(named[0].cause, pair, analysis)
    if intervention is None:
        return [[case.name, "right", "no intervention", named[0].cause]]
    test = intervention if isinstance(intervention, Slope) else Prediction.of(named[0])
    whole = pair.whole.difference_ns
    claim: Prediction | Slope = Prediction("slots", whole, ((1 - SURE) * whole, (1 + SURE) * whole))
    innocent: Intervention | Slope = Intervention(
        "nconnect = 2", {"targets.nfs.nconnect": 2}, {"targets.nfs.nconnect": 1}
    )
    if isinstance(intervention, Slope):
        ends = (TIMES * intervention.interval[0], TIMES * intervention.interval[1])
        claim = innocent = dataclasses.replace(
            intervention, calls=TIMES * intervention.calls, interval=ends
        )
    rows = []
    for kind, one, prediction in (("right", intervention, test), ("wrong", innocent, claim)):
        written = folder / f"{case.name}-{kind}.toml"
        text = experiment_text(file.read_text(), analysis, pair, one, prediction)
        written.write_text(text)
        told = confirmation(analyse(run(written, folder / f"{case.name}-{kind}")))
        decided, said = (told.decided, told.sentence) if told else ("not decided", "")
        rows.append([case.name, kind, decided, said])
    return rows


def main() -> None:
    """Run, judge, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=None)
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    made = cases(np.random.default_rng(asked.seed))
    if asked.small:
        asked.blocks, (one,) = 3, [case for case in made if case.name == "service"]
        made = [dataclasses.replace(one, workload=one.workload.replace('"1s"', '"200ms"'))]
    chosen = [case for case in made if asked.only is None or case.name in asked.only]
    print(f"seed {asked.seed}\n\n| case | finding | decided | prediction and outcome |")
    print("|---|---|---|---|")
    rows = []
    for case in chosen:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            new = judged(case, Path(folder), asked.blocks, asked.seed)
        rows += new
        for row in new:
            print(f"| {' | '.join(row)} |", flush=True)
        print(f"{case.name}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    print()
    for kind, wanted in (("right", "confirmed"), ("wrong", "refuted")):
        own = [row for row in rows if row[1] == kind]
        good = sum(row[2] == wanted for row in own)
        print(f"{kind}: {good} of {len(own)} {wanted}")


if __name__ == "__main__":
    main()
