"""What makes the same experiment, and names that are the same everywhere and for ever."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nfslab.experiment.identity import canonical, derived_seed, point_ids, run_id
from nfslab.experiment.reading import read_experiment

if TYPE_CHECKING:
    from collections.abc import Callable

    Write = Callable[..., Path]


@pytest.mark.parametrize(
    "change",
    [
        ("repetitions = 3", "repetitions = 30"),
        ('name = "test"', 'name = "other"'),
        ('name = "test"', 'name = "test"\ntitle = "t"\ndescription = "d"'),
        ('name = "test"', 'name = "test"\nprimary = "seed"\nskip_unavailable = true'),
        ("drop_page_cache = false", 'drop_page_cache = false\nexperiment_s = "1h"'),
        ("drop_page_cache = false", "drop_page_cache = false\nsettle_s = 0"),
        ("[workload]", "# a comment\n[workload]"),
        ('data = "one"', 'data = "two"'),  # an axis sets it
    ],
)
def test_what_changes_no_figure_changes_no_identity(
    experiment_file: Write, change: tuple[str, str]
) -> None:
    before = read_experiment(experiment_file()).identity
    assert read_experiment(experiment_file(change)).identity == before


@pytest.mark.parametrize(
    "change",
    [
        ("seed = 7", "seed = 8"),
        ("seed = 7", 'seed = 7\norder = "fixed"'),
        ('collectors = ["watcher"]', "collectors = []"),
        ("drop_page_cache = false", "drop_page_cache = true"),
        ("drop_page_cache = false", "drop_page_cache = false\nrun_s = 5"),
        ("values = [1, 2, 4]", "values = [1, 2]"),
        ("values = [1, 2, 4]", "values = [4, 2, 1]"),
        ('data = "one"', 'data = "one"\nsize = "2M"'),
        ('data = "one"', 'data = "one"\n[workload.settings]\nx = 1'),
        ('[targets.two]\nkind = "folder"', '[targets.two]\nkind = "folder"\nchunk = 512'),
    ],
)
def test_what_can_change_a_figure_changes_the_identity(
    experiment_file: Write, change: tuple[str, str]
) -> None:
    before = read_experiment(experiment_file()).identity
    assert read_experiment(experiment_file(change)).identity != before


def test_an_excluded_point_changes_the_identity(experiment_file: Write) -> None:
    path = experiment_file()
    before = read_experiment(path).identity
    path.write_text(path.read_text() + "[[exclude]]\nclients = 4\n")
    assert read_experiment(path).identity != before


def test_the_way_a_value_is_written_does_not_matter(experiment_file: Write) -> None:
    one = read_experiment(experiment_file(('data = "one"', 'data = "one"\nsize = "2M"')))
    other = read_experiment(experiment_file(('data = "one"', 'data = "one"\nsize = 2097152')))
    assert one.identity == other.identity


def test_canonical_json_is_the_same_for_the_same_content() -> None:
    assert canonical({"b": 1, "a": [True, "ä"]}) == b'{"a":[true,"\\u00e4"],"b":1}'


def test_point_ids_are_the_beginning_of_a_hash_of_the_settings() -> None:
    settings = {"workload.clients": 8, "workload.data": "disk"}
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    assert point_ids([settings]) == [hashlib.sha256(text.encode()).hexdigest()[:8]]


def test_point_ids_that_collide_are_lengthened() -> None:
    """Settings found by search whose hashes begin with the same eight digits."""
    seen: dict[str, int] = {}
    number = 0
    while True:
        text = canonical({"n": number})
        start = hashlib.sha256(text).hexdigest()[:8]
        if start in seen:
            break
        seen[start] = number
        number += 1
    ids = point_ids([{"n": seen[start]}, {"n": number}])
    assert len(set(ids)) == 2
    assert {len(one) for one in ids} == {12}


def test_run_ids_sort_by_block() -> None:
    assert run_id(7, "1a2b3c4d", 1) == "b007-1a2b3c4d-a1"


def test_seeds_of_blocks_are_fixed_for_ever() -> None:
    """Computed once by hand from the definition: SHA-256 of "nfslab/<seed>/<block>"."""
    expected = int(hashlib.sha256(b"nfslab/2001/3").hexdigest()[:16], 16) // 2
    assert derived_seed(2001, 3) == expected
    assert derived_seed(2001, 4) != expected
    assert 0 <= expected < 2**63
