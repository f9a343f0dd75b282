"""The NFS target: what is asked for is in effect, what is modelled is felt, nothing stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nfslab._core import Server
from nfslab.errors import RunFailed
from nfslab.machine.resources import Resources
from nfslab.targets.nfs import NfsTarget
from pydantic import ValidationError

from tests.hosts.here import HERE
from tests.targets.nfs_share import MakeNfs


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"ac": False, "sync": False}, "contradicts 'noac'"),
        ({"client": "none", "ac": False, "sync": False}, "contradicts 'noac'"),
        ({"proto": "udp", "nconnect": 2}, "UDP has one socket"),
        ({"store": "memory", "nvram": "1M"}, "nvram_bytes needs a disk"),
        ({"service_time": ["1ms", "2ms"]}, "given twice"),
    ],
)
def test_what_would_end_a_run_at_its_start_is_told_before(
    nfs_target: MakeNfs, parameters: dict[str, object], words: str
) -> None:
    answer = nfs_target(**parameters).check()
    assert (answer.ok, words in answer.reason) == (False, True), answer


def test_a_seed_plants_nothing_and_harms_nothing(nfs_target: MakeNfs) -> None:
    for parameters in ({"store": "memory", "seed": 7}, {"seed": 7, "nvram": "0", "loss": 0.0}):
        answer = nfs_target(client="none", **parameters).check()
        assert answer.ok, answer


@pytest.mark.system
@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"mount_options": ["rszie=4k"]}, "rsize"),
        ({"server": "127.0.0.1:/export", "mount_options": ["port=1", "mountport=1"]}, "refused"),
    ],
)
def test_what_cannot_be_is_a_sentence_and_leaves_nothing(
    nfs_target: MakeNfs,
    resources: Resources,
    scratch: Path,
    parameters: dict[str, object],
    words: str,
) -> None:
    target = nfs_target(**parameters)
    with pytest.raises(RunFailed) as told:
        target.up(resources, HERE)
    assert words in f"{told.value} {told.value.why} {told.value.fix}"
    assert list(scratch.iterdir()) == []
    assert resources.close() == []


@pytest.mark.parametrize(
    "parameters",
    [
        {"server": "elsewhere"},
        {"server": "host:/export", "nvram": "1M"},
        {"server": "host:/export", "store": "memory"},
        {"server_durability": "stable"},
        {"size": "1G"},
        {"client": "elsewhere"},
        {"client": "kernel", "store": "null"},
        {"store": "null"},
        {"server": "ganesha", "nvram": "1M"},
        {"server": "ganesha", "threads": 1},
        {"server": "ganesha", "unsafe_async_names": True},
        {"store": "memory", "unsafe_async_names": True},
        {"threads": 0},
    ],
)
def test_settings_that_do_not_go_together_are_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        NfsTarget.Parameters(**parameters)  # type: ignore[arg-type]


def test_zero_is_a_value_too() -> None:
    assert NfsTarget.Parameters(retrans=0).parts("x")[1].parameters.options() == ["retrans=0"]
    # Given to a server that is not ours, even a zero is a setting it does not have.
    for setting in ({"seed": 0}, {"nvram": 0}, {"loss": 0.0}):
        with pytest.raises(ValidationError, match="settings of the embedded server only"):
            NfsTarget.Parameters.model_validate({"server": "filer:/export", **setting})


def test_one_service_time_needs_no_list() -> None:
    one = NfsTarget.Parameters.model_validate({"service_time": "200us", "stall": "1s:5ms"})
    assert (one.service_time, one.stall) == (["200us"], ["1s:5ms"])
    several = NfsTarget.Parameters(service_time=["200us", "WRITE=1ms"])
    assert several.service_time == ["200us", "WRITE=1ms"]


def test_the_null_store_cannot_be_mounted() -> None:
    with pytest.raises(ValidationError, match="no folders"):
        NfsTarget.Parameters(store="null")


@pytest.mark.system
def test_our_folder_on_somebody_elses_export_is_removed(
    nfs_target: MakeNfs, resources: Resources, scratch: Path
) -> None:
    (scratch / "theirs").mkdir()
    store = json.dumps({"store": "directory", "path": str(scratch / "theirs")})
    with Server(store) as server:
        ports = [f"port={server.port}", f"mountport={server.port}"]
        target = nfs_target(server="127.0.0.1:/export", mount_options=ports)
        place = target.up(resources, HERE)
        (place.path / "file").write_bytes(b"x")
        assert len(list((scratch / "theirs").iterdir())) == 1
        target.down(place)
        assert list((scratch / "theirs").iterdir()) == []
    assert resources.close() == []
