"""docs/answers: what each answer rests on, made small and held against arithmetic.

Bounds are those of the planted model, which no machine can beat and none has to reach: a disk that
takes 10 ms for a sync does 100 a second at most. What has to be reached is asked of the quickest
of many, or is more than the refuted answer could give.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import nfslab as results
import pytest
from nfslab.results.api import Experiment
from nfslab.shipped import experiment_files

from tests.cli.invocation import nfslab
from tests.machine import needs

Row = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
ANSWERS = ROOT / "docs" / "answers"
PAGES = sorted(path for path in ANSWERS.glob("*.md") if path.stem != "README")
LINES_MAX = 80
PAGE_BYTES = 8192
DRAIN_BYTES_PER_NS = 400 * 1024 / 1e9
ROOM = 60
"""Pages of 8 KiB in 480 KiB."""
FILL = 96
"""WRITEs of 32 KiB that make the file of 3 MiB, before anything is timed."""


def test_each_page_is_short_listed_and_has_its_experiment_and_figure() -> None:
    listed = (ANSWERS / "README.md").read_text()
    named: set[str] = set()
    assert len(PAGES) == 9
    for path in PAGES:
        text = path.read_text()
        assert f"({path.name})" in listed, path.name
        assert len(text.splitlines()) <= LINES_MAX, path.name
        used = set(re.findall(r"experiments/([a-z0-9-]+)\.toml\)", text))
        assert used, path.name
        assert used <= set(experiment_files()), path.name
        named |= used
        figures = re.findall(r"\((images/[^)]+)\)", text)
        assert figures, path.name
        for figure in figures:
            assert (ANSWERS / figure).is_file(), figure
    assert {name for name in experiment_files() if name.startswith("answer-")} <= named


def run(capsys: pytest.CaptureFixture[str], folder: Path, name: str, *settings: str) -> Experiment:
    """One repetition of a shipped experiment, with some of its values changed."""
    sets = [word for one in settings for word in ("--set", one)]
    said = nfslab(capsys, "run", name, "--repetitions", 1, "--results", folder, *sets)
    assert said.code == 0, said.out + said.err
    return results.open(folder)


def runs(experiment: Experiment) -> list[Row]:
    """Its runs: factors and metrics."""
    rows: list[Row] = experiment.runs.to_dict("records")
    return rows


def calls(experiment: Experiment, one: Row, *operations: str) -> list[Row]:
    """A run's calls as the client has them, in the order of sending."""
    rows: list[Row] = experiment.evidence(one["run_id"], "rpc_calls").to_pylist()
    kept = [row for row in rows if row["operation"] in operations]
    return sorted(kept, key=lambda row: row["sent_first_ns"])


def served(experiment: Experiment, one: Row) -> list[Row]:
    """A run's WRITEs by the server's own clock, in the order of their service."""
    rows: list[Row] = experiment.evidence(one["run_id"], "nfs_server_calls").to_pylist()
    kept = [row for row in rows if row["operation"] == "WRITE"]
    return sorted(kept, key=lambda row: row["started_ns"])


def waits_ns(writes: list[Row], room: int, used: float = 0.0) -> list[float]:
    """How long each WRITE waits for memory of so many pages, of which `used` bytes are taken."""
    waits: list[float] = []
    as_of_ns = float(writes[0]["started_ns"])
    for write in writes:
        now_ns = max(as_of_ns, float(write["started_ns"]))
        # A request is a little longer than its data: whole pages are counted.
        data_bytes = write["call_bytes"] // PAGE_BYTES * PAGE_BYTES
        used = max(0.0, used - (now_ns - as_of_ns) * DRAIN_BYTES_PER_NS) + data_bytes
        wait_ns = max(0.0, used - room * PAGE_BYTES) / DRAIN_BYTES_PER_NS
        used -= wait_ns * DRAIN_BYTES_PER_NS
        as_of_ns = now_ns + wait_ns
        waits.append(as_of_ns - write["started_ns"])
    return waits


def first_slow(waited_ns: list[float]) -> int:
    """Which one waits for more than a millisecond; their number, if none does."""
    return next((n for n, ns in enumerate(waited_ns) if ns > 1e6), len(waited_ns))


@pytest.mark.long
@needs.fuse
def test_the_step_of_the_syncs_is_where_the_nvram_is_full(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the page, whatever the pauses between; what prepared the run may still be in it."""
    asked = ['experiment.collectors=["rpc", "nfs_server"]', "workload.transactions=100"]
    asked += ['axes.nvram=[0, "480k", "32M"]']
    made = run(capsys, tmp_path, "answer-nvram", *asked)
    for one in runs(made):
        writes = served(made, one)
        waited_ns = [float(write["finished_ns"] - write["started_ns"]) for write in writes]
        if one["nvram"] == "0":
            assert min(waited_ns) >= 20e6
        elif one["nvram"] == "32M":
            assert min(waited_ns) < 1e6
        else:
            # A thread may have lost its processor before it took the memory: more was drained then.
            at_end = [write | {"started_ns": write["finished_ns"]} for write in writes]
            assert first_slow(waited_ns) <= first_slow(waits_ns(at_end, ROOM))
            assert min(waited_ns) < 1e6
            # When the first of some waits ends it is just full: from there every wait follows. One
            # alone may be a thread that had no processor.
            slow = [ns > 1e6 for ns in waited_ns]
            first = next((n for n in range(len(slow)) if all(slow[n : n + 3])), len(slow))
            later = writes[first + 1 :]
            if len(later) < 4:  # so slow a machine that the memory drains as fast as it fills
                continue
            drained = (later[0]["started_ns"] - writes[first]["finished_ns"]) * DRAIN_BYTES_PER_NS
            due_ns = waits_ns(later, ROOM, ROOM * PAGE_BYTES - drained)
            off_ns = [seen - due for seen, due in zip(waited_ns[first + 1 :], due_ns, strict=True)]
            assert min(off_ns) < 0.1e6, "of the quickest"


@pytest.mark.long
@needs.fuse
def test_a_drain_cycle_is_the_clients_limit_over_the_servers_rate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The quickest of fifty cycles, by the server's own clock."""
    made = run(capsys, tmp_path, "answer-drain")
    for one in runs(made):
        count = int(one["limit"].split()[0]) // 8
        least_ms = count * {"filer": 1.0, "Linux server": 1.25}[one["server"]]
        writes = served(made, one)[FILL:]
        assert len(writes) == 50 * count
        cycles = [writes[n : n + count] for n in range(0, len(writes), count)]
        lengths_ms = [(all_[-1]["finished_ns"] - all_[0]["started_ns"]) / 1e6 for all_ in cycles]
        assert min(lengths_ms) == pytest.approx(least_ms, rel=0.05)
        assert all(ms >= 0.999 * least_ms for ms in lengths_ms)
        # Nobody writes before all has been answered.
        for now, then in pairwise(cycles):
            assert now[-1]["finished_ns"] <= then[0]["started_ns"]


@pytest.mark.long
@needs.fuse
def test_more_disks_do_nothing_for_a_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """5 ms a page and 5 to make it stable: with four disks a log does no more than one disk can."""
    made = {one["disks"]: one for one in runs(run(capsys, tmp_path, "answer-stripe"))}
    one_disk_syncs_per_s, one_disk_bytes_per_s = 100, 1600 * 1024
    assert all(one["log_write_per_s"] <= one_disk_syncs_per_s for one in made.values())
    # The same disks have more to give to who asks for more at a time.
    assert made["1"]["output_block_bytes_per_s"] <= 1.02 * one_disk_bytes_per_s
    assert made["4"]["output_block_bytes_per_s"] > 1.05 * one_disk_bytes_per_s
