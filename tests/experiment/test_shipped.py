"""Every shipped experiment validates and can be planned; published tables are what they say.

The tables are checked against what was printed with them: the speed-ups of the two-kernel
study, Little's law in the NFS server study. Neither comes from our own reader.
"""

from __future__ import annotations

import csv
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from nfslab.errors import UsageError
from nfslab.experiment.dry_run import dry_run, dry_run_lines
from nfslab.experiment.reading import read_experiment
from nfslab.experiment.session import Options
from nfslab.shipped import (
    experiment_files,
    find_experiment_file,
    published_table,
    published_tables,
)

ROOT = Path(__file__).resolve().parents[2]


def rows(name: str) -> list[dict[str, str]]:
    with published_table(name).open(newline="") as file:
        return list(csv.DictReader(file))


def about(name: str) -> dict[str, Any]:
    return tomllib.loads(published_table(name).with_suffix(".toml").read_text())


def test_all_in_the_folder_are_shipped_and_told_of() -> None:
    from nfslab.cli.run import EPILOG

    folder = ROOT / "experiments"
    assert set(experiment_files()) == {file.stem for file in folder.glob("*.toml")}
    assert len(experiment_files()) > 20
    assert all(name in EPILOG for name in experiment_files())


def test_a_clone_has_them_at_the_top() -> None:
    for name in ("experiments", "published"):
        assert (ROOT / name).resolve() == ROOT / "python" / "nfslab" / "shipped" / name


@pytest.mark.parametrize("name", sorted(experiment_files()))
def test_every_shipped_experiment_validates(name: str) -> None:
    experiment = read_experiment(experiment_files()[name])
    assert experiment.section.name == name
    assert experiment.section.title
    assert experiment.warnings == []


@pytest.mark.system
@pytest.mark.parametrize("name", ["answer-clients", "kernels-2003", "placement-2001", "quickstart"])
def test_a_shipped_experiment_is_planned(name: str, tmp_path: Path) -> None:
    experiment = read_experiment(experiment_files()[name])
    plan = dry_run(experiment, Options(experiment_files()[name], results=tmp_path))
    assert plan.seconds > 0
    assert len(plan.missing) == len(plan.planned)
    assert set(plan.preflight.space) <= set(experiment.points[0].setup.targets)
    text = "\n".join(dry_run_lines(plan))
    assert all(point.point_id in text for point in experiment.points)
    assert not any(tmp_path.iterdir()), "a dry run made something"


def suggestions(name: str) -> list[list[str]]:
    """What an experiment's opening comment tells a reader to `--set`: a list for each command."""
    found: list[list[str]] = []
    goes_on = False
    for line in experiment_files()[name].read_text().splitlines():
        if not line.startswith("#"):
            break
        given = re.findall(r"--set ('[^']*'|[^\s()]+)", line)
        if goes_on:
            found[-1] += [one.strip("'") for one in given]
        elif given:
            found.append([one.strip("'") for one in given])
        goes_on = bool(given) and line.endswith("\\")
    return found


SUGGESTED = [(name, given) for name in sorted(experiment_files()) for given in suggestions(name)]


@pytest.mark.parametrize(("name", "given"), SUGGESTED)
def test_what_an_experiment_suggests_to_change_is_taken(name: str, given: list[str]) -> None:
    assert read_experiment(experiment_files()[name], given).points


def test_suggestions_are_found() -> None:
    assert ["axes.load=[50, 100, 150, 200]"] in suggestions("sfs-threads-1999")
    (sweep,) = [given for given in suggestions("nfs-sweep-2004") if len(given) == 3]
    assert sweep[2] == 'axes.memory=["128M", "512M", "2G"]'


@pytest.mark.parametrize(
    ("name", "threads"),
    [
        ("sfs-threads-1999", (1, 2, 4, 8, 16)),
        ("sfs-clients-1999", (1, 2, 4, 8, 16)),
        ("sfs-threads-ganesha", (2, 4, 8, 16)),
    ],
)
def test_the_study_of_server_threads_has_the_rows_of_1999(
    name: str, threads: tuple[int, ...]
) -> None:
    experiment = read_experiment(experiment_files()[name])
    workload = experiment.points[0].setup.resolved()["workload"]
    assert (workload["kind"], workload["mix"], workload["mode"]) == ("sfs", "laddis", "closed")
    assert (workload["clients"], workload["processes"]) == (5, 4)
    levels = {axis.name: axis.labels for axis in experiment.axes}
    published = [
        (int(row["server_threads"]), int(float(row["offered_ops_per_s"])))
        for row in rows("sfs_heavy_load_1999")
    ]
    assert len(published) == 20
    assert levels["threads"] == threads
    pairs = {(thread, load) for thread in levels["threads"] for load in levels["load"]}
    assert pairs == {row for row in published if row[0] in threads}
    assert len(experiment.points) == len(pairs)


def test_the_reference_of_bonnie_matches_rows_of_the_table() -> None:
    experiment = read_experiment(experiment_files()["bonnie-2001"])
    storages = {row["storage"] for row in rows("bonnie_2001")}
    sizes = {int(row["file_size_mb"]) * 2**20 for row in rows("bonnie_2001")}
    ours = {axis.name: axis for axis in experiment.axis_records}
    assert {value for (value,) in ours["file_size"].values} == sizes
    assert len(storages & set(ours["storage"].levels)) == 4


def test_shipped_experiments_are_found_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_experiment_file("quickstart") == experiment_files()["quickstart"]
    with pytest.raises(UsageError, match="quickstart"):
        find_experiment_file("quickstrat")
    # A file here comes first, and a path is never taken for a name.
    Path("quickstart").write_text("")
    assert find_experiment_file("quickstart") == Path("quickstart")
    assert find_experiment_file("x/quickstart") == Path("x/quickstart")


@pytest.mark.parametrize("name", published_tables())
def test_every_column_is_described(name: str) -> None:
    described = about(name)
    assert {"title", "source", "date", "key", "notes", "columns"} <= set(described)
    columns = list(rows(name)[0])
    assert list(described["columns"]) == columns
    assert set(described["key"]) <= set(columns)
    for column, entry in described["columns"].items():
        assert entry["meaning"], column
        assert "unit" in entry, column
        assert ("factor" in entry) == ("metric_unit" in entry), column
        numeric = column not in ("storage", "kernel", "variant")
        for row in rows(name):
            if numeric and row[column]:
                float(row[column])
    keys = [tuple(row[key] for key in described["key"]) for row in rows(name)]
    assert len(set(keys)) == len(keys), "the key does not name a row"


def test_the_speed_ups_that_were_printed_follow_from_the_rows() -> None:
    tpm = {
        (row["kernel"], row["variant"]): float(row["new_order_tpm"])
        for row in rows("dbt2_kernel_ab_2003")
    }
    for variant, printed in (("cached", 12.5), ("noncached", 18.4)):
        speed_up = tpm["2.5.49", variant] / tpm["2.4.21-pre3", variant] - 1
        assert round(100 * speed_up, 1) == printed


def test_little_s_law_holds_in_the_nfs_server_study() -> None:
    """Load processes are 5 x 4: as many requests are under way where it is saturated."""
    in_flight = {
        (row["server_threads"], row["offered_ops_per_s"]): float(row["achieved_ops_per_s"])
        * float(row["response_time_ms"])
        / 1000
        for row in rows("sfs_heavy_load_1999")
    }
    idle = {("8", "800"), ("16", "800")}
    assert len(in_flight) == 20
    for key, requests in in_flight.items():
        if key in idle:
            assert requests < 10, key
        else:
            assert 19 < requests < 23, key  # the figures are rounded means
