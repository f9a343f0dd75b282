"""Plans: what is asked for reaches the core, which is asked what it made of it."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from nfslab._core import Load as CoreLoad
from nfslab.errors import UsageError
from nfslab.offered.mixes import mix_of, read_mix, shipped_mixes
from nfslab.offered.plans import Load, Mounted, Point

HERE = [Mounted("127.0.0.1:/export", "port=1,mountport=1,rsize=16k")]


@pytest.mark.parametrize("name", ["laddis", "sfs3", "sfs2008", "database"])
def test_a_plan_of_each_mix_is_taken_by_the_core(name: str) -> None:
    point = Point(HERE, read_mix(name), Load(2000), warm_up_s=1, measure_s=2)
    described = CoreLoad(json.dumps(point.plan())).plan()
    assert "rsize=16384" in described["options"][0]
    assert described["plan"]["load"]["rate_ops_per_s"] == 2000
    assert described["bytes"] > 2000 * (5 << 20) * 0.99


def test_closed_load_and_a_set_by_files() -> None:
    load = Load(800, mode="closed", clients=5, processes=4, think="constant")
    point = Point(HERE, read_mix("laddis"), load, 0, 1, files=500, threads=1, seed=9)
    described = CoreLoad(json.dumps(point.plan())).plan()
    assert described["files"] == 500
    assert described["plan"]["load"] == {
        "mode": "closed", "clients": 5, "processes": 4, "rate_ops_per_s": 800.0,
        "think": "constant",
    }  # fmt: skip
    smaller = Point(HERE, read_mix("laddis"), load, 0, 1, bytes_per_op_per_s=139_264 * 10)
    assert CoreLoad(json.dumps(smaller.plan())).plan()["files"] == 8000


def test_a_mix_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        "[mix]\nGETATTR = 3\nLOOKUP = 1\n[file_set]\nfiles = 10\nfile_sizes_bytes = {1 = 1}\n"
    )
    mix = read_mix(str(file))
    assert (mix.name, mix.title, mix.warm_up_s) == ("mine", "mine", None)
    described = CoreLoad(json.dumps(Point(HERE, mix, Load(10), 0, 1).plan())).plan()
    assert described["plan"]["mix"] == {"GETATTR": 75.0, "LOOKUP": 25.0}
    assert described["notes"], "that it was normalised is said"


def test_what_is_no_mix() -> None:
    with pytest.raises(UsageError, match="sfs3"):
        read_mix("sfs33")
    with pytest.raises(UsageError, match="not whole"):
        mix_of("mine", {"mix": {"READ": 1}})
    with pytest.raises(UsageError, match="warm_up_s"):
        mix_of("mine", {"mix": {}, "file_set": {}, "point": {"warmup": 3}})


def test_the_mix_of_the_document_is_taken() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "load.md").read_text()
    (block,) = re.findall(r"```toml\n(\[workload\.mix_table.*?)```", text, re.DOTALL)
    tables = tomllib.loads(block)["workload"]["mix_table"]
    beside = {"title": "t", "stability": "file_sync", "append_share": 0.1,
              "lookup_missing_share": 0.1}  # fmt: skip
    shares = {"accessed_share": 0.5, "files_per_directory": 10, "growth_share": 0.1,
              "symlinks_share": 0.1}  # fmt: skip
    whole = tables | beside | {"file_set": tables["file_set"] | shares}
    for content in (tables, whole):
        point = Point(HERE, mix_of("own", content), Load(100), 1, 1)
        described = CoreLoad(json.dumps(point.plan())).plan()
        assert described["bytes"] == pytest.approx(100 * 2**20, rel=0.02)


def test_sources() -> None:
    mix = read_mix("sfs3")
    for source, address in (("[::1]:/a", "::1"), ("localhost:/a b", "127.0.0.1")):
        servers = Point([Mounted(source)], mix, Load(1), 0, 1).plan()["servers"]
        assert servers[0]["address"] in (address, "::1")
    for wrong in ("host", "host:export", ":/export"):
        with pytest.raises(UsageError, match="no export"):
            Point([Mounted(wrong)], mix, Load(1), 0, 1).plan()


def test_every_shipped_mix_says_its_times() -> None:
    assert all(read_mix(name).measure_s for name in shipped_mixes())


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("filer:/a", ("filer:/a", "rsize=1k")),
        ("filer:/a,port=5", ("filer:/a", "rsize=1k,port=5")),
        ("[::1]:/a/b,noac,mountport=7", ("[::1]:/a/b", "rsize=1k,noac,mountport=7")),
        ("filer:/vol 1,Jan", ("filer:/vol 1,Jan", "rsize=1k")),
        ("filer:/a,", ("filer:/a,", "rsize=1k")),
    ],
)
def test_a_target_may_have_options_of_its_own(target: str, expected: tuple[str, str]) -> None:
    found = Mounted.of(target, "rsize=1k")
    assert (found.source, found.options) == expected
