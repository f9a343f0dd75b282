"""Selections as people write them: by axis or parameter, by text or number."""

from __future__ import annotations

from pathlib import Path

import pytest
from nfslab.errors import UsageError
from nfslab.results.outcomes import locate
from nfslab.results.selection import parse_selection, same_level, split_selection

from tests.report.synthetic import Recipe, shared_pgbench, write_files, write_pgbench

RECIPE = Recipe(
    placements={"together": 1.0, "log apart": 1.2, "a, b": 1.1},
    clients=(1, 5, 10),
    repetitions=1,
    samples=False,
    evidence=False,
)


@pytest.fixture
def path() -> Path:
    return shared_pgbench(RECIPE)


def factors(text: str) -> list[tuple[object, object]]:
    selection = parse_selection(text)
    points = selection.outcomes.points
    return [
        (points[i].factors["placement"], points[i].factors["clients"]) for i in selection.points
    ]


def test_without_conditions_all_points(path: Path) -> None:
    assert len(factors(str(path))) == 9
    assert parse_selection(str(path)).label == path.name


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ("placement=log apart,clients=5", [("log apart", 5)]),
        ("clients=5.0,placement=log apart", [("log apart", 5)]),
        ("workload.wal=log1,workload.clients=10", [("log apart", 10)]),
        ('placement="a, b",clients=1', [("a, b", 1)]),
        ("placement=together,clients=1,clients=10", [("together", 1), ("together", 10)]),
        ("workload.scale=10,placement=together,clients=1", [("together", 1)]),
    ],
)
def test_conditions(path: Path, conditions: str, expected: list[tuple[str, int]]) -> None:
    assert factors(f"{path}:{conditions}") == expected


def test_sizes_match_as_numbers(tmp_path: Path) -> None:
    folder = write_files(tmp_path)
    for text in ("100M", "104857600", "100 MiB"):
        selection = parse_selection(f"{folder.path}:file_size={text},storage=local")
        assert [selection.outcomes.points[i].factors for i in selection.points] == [
            {"storage": "local", "file_size": "100M"}
        ]


@pytest.mark.parametrize(
    ("conditions", "what", "hint"),
    [
        ("plaecment=together", "no factor 'plaecment'", "did you mean 'placement'"),
        ("workload.scal=10", "no factor", "did you mean 'workload.scale'"),
        ("placement=togther", "no placement = 'togther'", "did you mean 'together'"),
        ("clients=7", "no clients = '7'", "1, 10, 5"),
        ("workload.scale=11", "no workload.scale = '11'", "it has: 10"),
        ("placement", "no condition", "factor=value"),
        ("=3", "no condition", "factor=value"),
        ('placement="log apart', "not closed", ""),
        ("placement=together,placement=log apart,workload.wal=log2", "no configuration", "show"),
    ],
)
def test_mistakes_name_what_is_known(path: Path, conditions: str, what: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_selection(f"{path}:{conditions}")
    assert what in caught.value.what
    assert hint in caught.value.fix


def test_folders_with_colons(tmp_path: Path) -> None:
    odd = write_pgbench(tmp_path, RECIPE).path.rename(tmp_path / "odd:clients=1")
    assert len(factors(str(odd))) == 9
    assert factors(f"{odd}:clients=5,placement=together") == [("together", 5)]
    assert split_selection(f"{odd}:clients=5") == (odd, {"clients": ["5"]})


def test_the_folder_above_will_do_when_it_holds_one(tmp_path: Path) -> None:
    path = write_pgbench(tmp_path, RECIPE).path
    assert factors(f"{tmp_path}:clients=5,placement=together") == [("together", 5)]
    write_files(tmp_path)
    with pytest.raises(UsageError, match="holds 2 experiments") as caught:
        locate(tmp_path)
    assert path.name in caught.value.why
    with pytest.raises(UsageError, match="no experiment"):
        locate(path / "runs")
    with pytest.raises(UsageError, match="cannot read"):
        parse_selection(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (10, "10", True),
        (10, "1e1", True),
        ("128k", "131072", True),
        ("8kB", "8 KiB", True),
        (True, "true", True),
        (True, "1", False),
        (1, "1.5", False),
        ("on", "off", False),
        ("nan", "nan", True),
        ("nan", "NaN", False),
    ],
)
def test_equal_levels(one: object, other: object, equal: bool) -> None:
    assert same_level(one, other) is equal
    assert same_level(other, one) is equal
