"""`nfslab sfs`: its experiment, its figures, how it ends.

The generator's own truth is tested in crates/load, the search in tests/offered.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from nfslab._core import Server
from nfslab.cli import sfs
from nfslab.experiment.reading import Experiment, read_experiment
from nfslab.results.store import ExperimentFolder
from nfslab.workloads.sfs import SfsParameters

from tests.cli.invocation import nfslab
from tests.cli.serving import serving
from tests.waiting import until

Capture = pytest.CaptureFixture[str]
SMALL = ("--files", "60", "--time", "0.3s", "--warm-up", "0.1s")
EXPORT = "127.0.0.1:/export"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def source(port: int) -> list[str]:
    return [EXPORT, "-o", f"port={port},mountport={port}"]


def experiment(here: Path, *arguments: str) -> Experiment:
    """What the options ask for."""
    asked = sfs.command.make_context("sfs", list(arguments)).params
    targets = asked.pop("targets")
    sfs._check(targets, asked)
    file = here / "sfs.toml"
    file.write_text(sfs._text(sfs._sections(targets, asked), asked["ladder"]))
    return read_experiment(file)


def test_options_are_an_experiment(here: Path) -> None:
    made = experiment(
        here, "a:/b,port=5", "b:/c", "-o", "rsize=8192", "--load", "200..600:200", "--time", "3s",
        "--mode", "closed", "--clients", "2", "--bytes-per-op", "64k", "--silence", "9s",
        "--verify", "50%", "--repetition", "7", "--generators", "3", "--calibration",
    )  # fmt: skip
    assert made.warnings == []
    assert [point.factors["load"] for point in made.points] == [200, 400, 600]
    assert (made.section.order, made.section.blocks, made.section.seed) == ("fixed", (1, 1), 7)
    setup = made.points[1].setup
    targets = {name: one.parameters.model_dump() for name, one in setup.targets.items()}
    assert [one["server"] for one in targets.values()] == ["a:/b", "b:/c"]
    options = [one["mount_options"] for one in targets.values()]
    assert options == [["rsize=8192", "port=5"], ["rsize=8192"]]
    found = setup.workload.parameters
    expected = SfsParameters(
        data="server", data_2="server_2", load=400, duration=3, mode="closed", clients=2,
        bytes_per_op=65536, silence=9, verify_share=0.5, generators=3, calibration=True,
    )  # fmt: skip
    assert found == expected
    (here / "mine.toml").write_text(
        'title = "Mine"\n[mix]\nGETATTR = 1\n[file_set]\nfile_sizes_bytes = {"4096" = 1}\n'
    )
    own = experiment(here, "a:/b", "--load", "1", "--mix", "mine.toml")
    assert own.section.title == "a:/b: Mine"
    (here / "mine.toml").unlink()
    mix = SfsParameters.model_validate(own.points[0].setup.workload.parameters).whole_mix()
    assert mix.content["mix"] == {"GETATTR": 1}, "other machines have no such file"
    published = experiment(here, "null", "--load", "1", "--as-published", "--warm-up", "1s")
    assert published.points[0].setup.workload.parameters.model_dump()["duration"] == 300
    assert published.points[0].setup.workload.parameters.model_dump()["warm_up"] == 1


def test_hosts_are_a_number_or_names(here: Path) -> None:
    def client(*arguments: str) -> Any:
        return experiment(here, "memory", "--load", "1", *arguments).points[0].setup.client

    local = client("--hosts", "3", "--generators", "2")
    assert (local.host, local.host_names, local.processes) == (
        "local", ["host1", "host2", "host3"], 2,
    )  # fmt: skip
    assert client("--hosts", "2", "--namespaces").host == "namespace"
    there = client("--hosts", "load1, load2", "--cluster", "tls://prime:8786")
    assert (there.host, there.hosts) == ("cluster", ["load1", "load2"])


@pytest.mark.system
def test_a_ladder_its_page_and_what_is_kept(here: Path, capsys: Capture) -> None:
    """Whether its points are valid is the machine's; that all adds up is not."""
    with Server(json.dumps({"store": "memory"})) as server:
        made = nfslab(capsys, "sfs", *source(server.port), "--load", "600", *SMALL,
                      "--mix", "laddis", "--prepare-only")  # fmt: skip
        load = ["--load", "300,600", "--mix", "laddis", "--html", "load.html", "--json"]
        said = nfslab(capsys, "sfs", *source(server.port), *load, *SMALL)
        mounted = server.counters()
    assert made.out == f"for 600 ops/s: {EXPORT}: 0 files found, 60 made\n"
    told = json.loads(said.out)
    points = told["points"]
    assert said.code == told["exit_code"] == int(told["failed"] > 0)
    assert [one["offered_ops_per_s"] for one in points] == [300, 600]
    assert [one["mounts"][0]["files_made"] for one in points] == [0, 0]
    for one in points:
        assert (one["unexpected"], one["little"]["residual_ns"]) == ([], 0)
        assert sum(row["answered"] for row in one["operations"]) == one["answered"]
        assert (one["plan"]["measure_s"], one["plan"]["warm_up_s"]) == (0.3, 0.1)
    assert mounted["calls"] >= sum(row["calls"] for one in points for row in one["operations"])
    (curve,) = told["offered_load"]["curves"]
    shown = [one["achieved_ops_per_s"] or one["refused"] for one in curve["points"]]
    rates = [one.get("median", one.get("achieved_ops_per_s")) for one in shown]
    assert rates == [one["achieved_ops_per_s"] for one in points]
    text = (here / "load.html").read_text()
    assert all(f'id="{name}"' in text for name in ("load-achieved", "load-response"))
    assert len(ExperimentFolder.open(Path(told["folder"])).sealed_runs()) == 2


@pytest.mark.system
def test_a_search_says_what_it_found(capsys: Capture) -> None:
    """A server of one thread that takes 2 ms cannot do what is tried first."""
    model = {"threads": 1, "service_ns": 2_000_000}
    with Server(json.dumps({"store": "memory", "model": model})) as server:
        asked = ["sfs", *source(server.port), "--find", "mean<1h", "--precision", "100%", "--json"]
        said = nfslab(capsys, *asked, "--mode", "closed", *SMALL, "--files", "8")
    told = json.loads(said.out)
    search = told["search"]
    assert (said.code, search["goal"]) == (0, "mean < 3.6e+06 ms")
    assert search["points"] == len(told["points"]) > 1
    tried = [one["offered_ops_per_s"] for one in told["points"]]
    assert tried[:2] == [1000, 500], said.err
    assert search["found_ops_per_s"] is None or search["found_ops_per_s"] in tried


@pytest.mark.system
def test_what_cannot_be_reached_is_said_of_each_point(capsys: Capture) -> None:
    with Server(json.dumps({"store": "memory"})) as server:
        gone = source(server.port)
    said = nfslab(capsys, "sfs", *gone, "--load", "100,200", *SMALL)
    assert (said.code, said.out.count("invalid")) == (1, 2)
    assert "Connection refused" in said.out
    search = nfslab(capsys, "sfs", *gone, "--find", "mean<1ms", *SMALL)
    assert (search.code, "the search cannot go on" in search.err) == (1, True)
    assert "Connection refused" in search.err


@pytest.mark.long
def test_hosts_make_points_together(capsys: Capture) -> None:
    with serving("--memory") as served:
        asked = ["sfs", *source(served.port), "--load", "200,400", "--hosts", "2", *SMALL]
        asked += ["--mix", "laddis", "--time", "1s"]
        said = nfslab(capsys, *asked, "--generators", "2", "--json")
    told = json.loads(said.out)
    for report in told["points"]:
        assert len({process["pid"] for process in report["processes"]}) == 4
        assert report["little"]["residual_ns"] == 0
    made = [report["mounts"][0]["files_made"] for report in told["points"]]
    assert sum(made) <= 60, "once for all"


@pytest.mark.long
def test_an_interrupted_ladder_keeps_its_points(here: Path) -> None:
    loads = ",".join(str(number) for number in range(100, 1000))
    command = [sys.executable, "-m", "nfslab", "sfs", "memory", "--load", loads]
    command += ["--files", "60", "--time", "0.2s", "--warm-up", "0s", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        until(lambda: list(here.glob("results/*/runs/b*")) or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        printed, said = process.communicate()
    assert process.returncode == 130
    (folder,) = (here / "results").iterdir()
    assert f"nfslab run results/{folder.name}/experiment.toml --continue" in said
    kept = ExperimentFolder.open(folder).sealed_runs()
    assert len(json.loads(printed)["points"]) == len(kept) >= 1
