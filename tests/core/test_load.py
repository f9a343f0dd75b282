"""The load generator through Python, against the embedded server's own records; shipped mixes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nfslab import clock
from nfslab._core import LOAD_SCHEMA, CoreError, Load, Server
from nfslab.offered.hosts import Handed, moved

MIXES = Path(__file__).resolve().parents[2] / "python" / "nfslab" / "shipped" / "mixes"


def mixes() -> list[Path]:
    return sorted(MIXES.glob("*.toml"))


def plan_of(mix: Path, port: int, **changes: Any) -> dict[str, Any]:
    """A short point with a shipped mix on a small file set."""
    content = tomllib.loads(mix.read_text())
    content.pop("title")
    content.pop("point")
    file_set = content["file_set"] | {"files": 60, "bytes_per_op_per_s": None}
    options = f"port={port},mountport={port}"
    plan = content | {
        "servers": [{"address": "127.0.0.1", "export": "/export", "options": options}],
        "file_set": file_set,
        "load": {"mode": "open", "rate_ops_per_s": 1000, "outstanding_max": 64},
        "warm_up_s": 0.1,
        "measure_s": 0.4,
        "verify_share": 1.0,
    }
    return plan | changes


PRINTED = {
    "laddis": {
        "LOOKUP": 34, "READ": 22, "WRITE": 15, "GETATTR": 13, "READLINK": 8, "READDIR": 3,
        "CREATE": 2, "REMOVE": 1, "FSSTAT": 1, "SETATTR": 1,
    },
    "sfs3": {
        "LOOKUP": 27, "READ": 18, "WRITE": 9, "GETATTR": 11, "READLINK": 7, "READDIR": 2,
        "CREATE": 1, "REMOVE": 1, "FSSTAT": 1, "SETATTR": 1, "READDIRPLUS": 9, "ACCESS": 7,
        "COMMIT": 5,
    },
    "sfs2008": {
        "LOOKUP": 24, "READ": 18, "WRITE": 10, "GETATTR": 26, "READLINK": 1, "READDIR": 1,
        "CREATE": 1, "REMOVE": 1, "FSSTAT": 1, "SETATTR": 4, "READDIRPLUS": 2, "ACCESS": 11,
    },
}  # fmt: skip
"""Per cent of each operation: table 1 of the User's Guide of SFS 3.0 (NFS version 2's procedures by
the names of version 3), and SFS 2008 as commonly given."""


@pytest.mark.parametrize("stem", PRINTED)
def test_mixes_of_spec_are_those_that_were_printed(stem: str) -> None:
    content = tomllib.loads((MIXES / f"{stem}.toml").read_text())
    assert content["mix"] == PRINTED[stem]
    # Version 2 knew no other WRITE than a stable one.
    assert stem != "laddis" or content["stability"] == "file_sync"


@pytest.mark.parametrize(
    "mix",
    [
        pytest.param(path, marks=getattr(pytest.mark, "system" if path.stem == "sfs3" else "long"))
        for path in mixes()
    ],
    ids=lambda path: str(path.stem),
)
def test_a_shipped_mix_runs_and_says_its_sources(mix: Path) -> None:
    text = mix.read_text()
    assert "Sources: " in text or "our choice" in text
    with Server(json.dumps({"store": "memory"})) as server:
        load = Load(json.dumps(plan_of(mix, server.port, warm_up_s=0, measure_s=600)))
        described = load.plan()
        assert sum(described["plan"]["mix"].values()) == pytest.approx(100)
        assert bool(described["notes"]) == (mix.stem == "sfs3")  # sums to 99 as printed
        (mount,) = load.prepare()
        assert (mount["files_found"], mount["files_made"]) == (0, 60)
        # Ended when so many were answered, however long that takes.
        report = load.run(lambda progress: progress["answered"] < 50)
    assert report["ended"] == "stopped"
    assert report["unexpected"] == []
    assert report["little"]["residual_ns"] == 0
    assert report["schema"] == LOAD_SCHEMA
    assert report["answered"] >= 50


def test_sizes_of_whole_sets_are_those_of_the_sources() -> None:
    """By the offered load: 10 MiB (SFS 3.0), 5 MiB (LADDIS), 120 MiB (2008) for each op/s."""
    for stem, mib in {"sfs3": 10, "laddis": 5, "sfs2008": 120}.items():
        plan = plan_of(MIXES / f"{stem}.toml", 1)
        content = tomllib.loads((MIXES / f"{stem}.toml").read_text())
        plan["file_set"] = content["file_set"]
        described = Load(json.dumps(plan)).plan()
        assert described["bytes"] == pytest.approx(mib * 2**20 * 1000, rel=0.001)
        share = described["accessed_files"] / described["files"]
        assert share == pytest.approx(content["file_set"]["accessed_share"], rel=0.05)


@pytest.mark.system
def test_calls_histograms_and_series_are_the_same_point() -> None:
    with Server(json.dumps({"store": "memory"})) as server:
        plan = plan_of(MIXES / "sfs3.toml", server.port, record_calls=100_000, threads=2)
        load = Load(json.dumps(plan))
        load.prepare()
        server.begin_records(100_000)
        seen: list[dict[str, Any]] = []
        taken: list[pa.Table] = []

        def watch(progress: dict[str, Any]) -> None:
            seen.append(progress)
            taken.append(pa.table(load.calls()[0]))

        report = load.run(watch)
        columns, lost = load.calls()
        assert lost == 0
        calls = pa.concat_tables([*taken, pa.table(columns)]).to_pandas()
        server.stop()  # then all are recorded
        served = pa.table(server.records()).to_pandas()
    # Call by call; the server was recorded from behind the preparation on.
    served = served[served["received_ns"] >= report["start_monotonic_ns"]]
    assert sorted(served["xid"]) == sorted(calls["xid"])
    assert len(calls) == sum(operation["calls"] for operation in report["operations"])
    # Who watches may have had no processor for as long as the whole load, and was told nothing.
    assert {progress["stage"] for progress in seen} <= {"run"}
    phases = {progress["phase"] for progress in seen}
    assert phases <= {"warm_up", "measure", "cool_down", "drain"}
    histograms = load.histograms()
    assert histograms["all"].count == report["answered"]
    by_operation = sum(len(h) for name, h in histograms.items() if name not in ("all", "late"))
    assert by_operation == report["answered"]
    assert histograms["all"].mean == pytest.approx(report["response"]["mean_ns"])
    series = pa.table(load.series()).to_pandas()
    assert series["answered"].sum() == len(calls)
    assert series["at_ns"].iloc[0] == report["start_monotonic_ns"]


@pytest.mark.system
def test_warm_up_window_and_cool_down_lie_where_they_were_asked() -> None:
    with Server(json.dumps({"store": "memory"})) as server:
        times = {"warm_up_s": 0.2, "measure_s": 0.3, "cool_down_s": 0.4}
        # A slot for each arrival: none waits, however late its answer is.
        load = {"rate_ops_per_s": 1000, "arrivals": "uniform", "outstanding_max": 1024}
        load["mode"] = "open"
        plan = plan_of(MIXES / "sfs3.toml", server.port, load=load, **times)
        report = Load(json.dumps(plan)).run()
    start_ns = report["start_monotonic_ns"]
    window_ns = report["window_start_ns"] - start_ns, report["window_end_ns"] - start_ns
    assert window_ns == (200_000_000, 500_000_000)
    assert report["arrivals"] == 300, "of the window alone"
    # One a millisecond; the one at the end itself is not of the load.
    assert sum(report["series"]["planned"]) == 899


@pytest.mark.system
def test_sums_of_a_host_are_told_by_our_clock() -> None:
    """What a host measured is moved by how far its clock is ahead, and is a part of the point."""
    ahead_ns = 1_000_000
    with Server(json.dumps({"store": "memory"})) as server:
        plan = plan_of(MIXES / "sfs3.toml", server.port)
        load = Load(json.dumps(plan | {"part": {"index": 0, "of": 1}}))
        load.prepare()
        sums = load.run_part(lambda: clock.monotonic_ns() + 50_000_000)
    handed = Handed(index=0, sums=sums, began_ns=0, lost=None, plan={})
    there, here = (
        Load(json.dumps(plan)).merge([moved(handed, ns).sums or ""], []) for ns in (0, ahead_ns)
    )
    assert there["start_monotonic_ns"] - here["start_monotonic_ns"] == ahead_ns
    assert there["window_end_ns"] - here["window_end_ns"] == ahead_ns
    assert there["arrivals"] == here["arrivals"] > 0


@pytest.mark.system
def test_progress_can_stop_a_point_and_its_exceptions_come_through() -> None:
    with Server(json.dumps({"store": "memory"})) as server:
        plan = plan_of(MIXES / "sfs3.toml", server.port, measure_s=600)
        load = Load(json.dumps(plan))
        report = load.run(lambda progress: progress["stage"] != "run")
        assert report["ended"] == "stopped"
        assert not report["valid"]

        def raises(_progress: dict[str, Any]) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            load.run(raises)
        with pytest.raises(CoreError) as caught:
            load.prepare(lambda _progress: False)
        assert caught.value.kind == "cancelled"


@pytest.mark.system
def test_what_is_wrong_is_said_with_the_way_out() -> None:
    with pytest.raises(CoreError) as caught:
        Load("{}")
    assert caught.value.kind == "config"
    with Server(json.dumps({"store": "memory", "read_only": True})) as server:
        load = Load(json.dumps(plan_of(MIXES / "sfs3.toml", server.port)))
        with pytest.raises(CoreError) as caught:
            load.prepare()
        assert caught.value.kind == "read_only"
        assert "NFS3ERR_ROFS" in caught.value.why
    with pytest.raises(CoreError) as caught:
        load.prepare()
    assert caught.value.kind == "io"
    assert "cannot be mounted" in caught.value.what
