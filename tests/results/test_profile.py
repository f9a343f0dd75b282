"""Profiles out of run folders: sums and trees against plain counting of the same stacks."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.errors import ResultsError
from nfslab.evidence.profile import stacks as profile
from nfslab.evidence.profile.stacks import (
    OWN_CLASSES,
    StackKey,
    Stacks,
    Weight,
    functions_of,
    has_profile,
    read_stacks,
    tree_of,
)

STACKS: dict[StackKey, Weight] = {
    ("run", "pg;main;f;g", 0): Weight(6, 60),
    ("run", "pg;main;f;f;f", 0): Weight(3, 30),
    ("run", "pg;main;read;vfs_read", 1): Weight(2, 20),
    ("run", "dd;main;read", 0): Weight(1, 10),
    ("other", "cc;main;g", 0): Weight(5, 50),
    ("idle", "swapper;do_idle;halt", 2): Weight(100, 1000),
    ("run", "bare", 0): Weight(1, 10),
}


def test_self_and_total_are_plain_counts() -> None:
    found = {(one.name, one.kernel): one for one in functions_of(STACKS)}
    assert {key: (one.self_samples, one.self_weight, one.total_weight)
            for key, one in found.items()} == {
        ("g", False): (11, 110, 110),
        ("f", False): (3, 30, 90),
        ("vfs_read", True): (2, 20, 20),
        ("read", False): (1, 10, 30),
        ("main", False): (0, 0, 170),
    }  # fmt: skip
    names = [one.name for one in functions_of(STACKS)]
    assert names == ["g", "f", "vfs_read", "read", "main"], "by their own weight"
    own = {one.name: one.self_weight for one in functions_of(STACKS, OWN_CLASSES)}
    assert own["g"] == 60


def test_a_tree_holds_every_frame_with_its_sum() -> None:
    tree = tree_of(STACKS, 0.0, 1000)
    rows = [(row.depth, row.name, row.kernel, row.weight) for row in tree]
    assert rows == [
        (0, "bare", False, 10),
        (0, "cc", False, 50), (1, "main", False, 50), (2, "g", False, 50),
        (0, "dd", False, 10), (1, "main", False, 10), (2, "read", False, 10),
        (0, "pg", False, 110), (1, "main", False, 110),
        (2, "f", False, 90), (3, "f", False, 30), (4, "f", False, 30), (3, "g", False, 60),
        (2, "read", False, 20), (3, "vfs_read", True, 20),
    ]  # fmt: skip


def test_pruning_leaves_out_whole_branches() -> None:
    tree = tree_of(STACKS, 0.25, 1000)
    assert [(row.depth, row.name) for row in tree] == [
        (0, "cc"), (1, "main"), (2, "g"),
        (0, "pg"), (1, "main"), (2, "f"), (3, "g"),
    ]  # fmt: skip
    few = tree_of(STACKS, 0.0, 4)
    weights = [row.weight for row in tree_of(STACKS, 0.0, 1000) if row.weight >= 64]
    assert [row.weight for row in few] == weights, "1 doubled until they are few enough"
    assert len(few) <= 4


def test_nameless_frames_in_a_row_are_one() -> None:
    stacks = {
        ("run", f"p;{';'.join(['[unknown]'] * 90)};[libc.so.6];[libc.so.6];f;f", 0): Weight(1, 1)
    }
    names = [row.name for row in tree_of(stacks, 0.0, 1000)]
    assert names == ["p", "[unknown]", "[libc.so.6]", "f", "f"]


def test_random_trees_add_up() -> None:
    draw = random.Random(3)
    stacks: dict[StackKey, Weight] = {}
    for _ in range(3000):
        frames = [f"f{draw.randrange(6)}" for _ in range(draw.randrange(12))]
        weight = draw.randrange(1, 50)
        key = ("run", ";".join(["p", *frames]), draw.randrange(len(frames) + 1))
        stacks.setdefault(key, Weight()).add(1, weight)
    tree = tree_of(stacks, 0.0, 10**6)
    total = sum(one.weight for one in stacks.values())
    by_depth: Counter[int] = Counter()
    for row in tree:
        by_depth[row.depth] += row.weight
    for depth, weight in by_depth.items():
        reaching = sum(one.weight for (_, stack, _), one in stacks.items()
                       if stack.count(";") >= depth)  # fmt: skip
        assert weight == reaching, depth
    assert by_depth[0] == total
    assert sum(one.self_weight for one in functions_of(stacks)) == sum(
        one.weight for (_, stack, _), one in stacks.items() if ";" in stack
    )


def write(run: Path, table: pa.Table) -> None:
    (run / "evidence").mkdir(exist_ok=True)
    pq.write_table(table, run / "evidence" / "profile_stacks.parquet")


def test_what_cannot_be_read_is_a_results_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not has_profile(tmp_path)
    write(tmp_path, pa.table({"class": ["run"], "stack": ["p;f"], "kernel_frames": [0],
                              "samples": [2], "weight": [20]}))  # fmt: skip
    assert has_profile(tmp_path)
    rows = read_stacks(tmp_path)
    assert rows == [(("run", "p;f", 0), 2, 20)]
    merged = Stacks()
    merged.merge(rows)
    merged.merge(rows)
    assert merged.found == {("run", "p;f", 0): Weight(4, 40)}
    monkeypatch.setattr(profile, "ROWS_MAX", 0)
    with pytest.raises(ResultsError, match="more than the 0"):
        read_stacks(tmp_path)
    monkeypatch.undo()
    write(tmp_path, pa.table({"class": ["run"]}))
    with pytest.raises(ResultsError, match="profile_stacks"):
        read_stacks(tmp_path)
    (tmp_path / "evidence" / "profile_stacks.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ResultsError, match="profile_stacks"):
        read_stacks(tmp_path)
