"""The NFS target: what is asked for is in effect, what is modelled is felt, nothing stays."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nfslab.context import Services
from nfslab.errors import NfslabError, RunFailed, UsageError
from nfslab.machine.resources import Resources
from nfslab.mounts.none import NfsExport
from nfslab.targets.base import Place
from nfslab.targets.nfs import NfsTarget
from pydantic import ValidationError

from tests.hosts.here import HERE

Make = Callable[..., NfsTarget]


@pytest.fixture
def make(scratch: Path) -> Make:
    usable = NfsTarget.available()
    if not usable.ok:
        pytest.skip(usable.reason)

    def made(**parameters: object) -> NfsTarget:
        return NfsTarget("share", NfsTarget.Parameters(directory=str(scratch), **parameters))  # type: ignore[arg-type]

    return made


def export_of(target: NfsTarget, place: Place) -> NfsExport:
    """Of a target that is not mounted."""
    services = Services()
    target.offer(place, services)
    return services.nfs_exports[target.name]


def test_options_in_effect_are_read_back(make: Make, resources: Resources) -> None:
    target = make(rsize="16k", wsize="8k", ac=False, nconnect=2, mount_options=["nocto"])
    place = target.up(resources, HERE)
    nfs = place.facts["nfs"]
    in_effect = nfs["options"]
    assert (in_effect["rsize"], in_effect["wsize"], in_effect["nconnect"]) == ("16384", "8192", "2")
    assert {"noac", "nocto", "hard"} <= set(in_effect)
    assert (nfs["transports"], nfs["transport_protocols"]) == (2, ["tcp"])
    assert "rsize=16384" in nfs["options_reported"]
    assert "port=" not in nfs["options_reported"].replace("resvport", "")
    assert nfs["server"] == "embedded"
    (place.path / "file").write_bytes(bytes(100_000))
    with (place.path / "file").open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        assert file.read() == bytes(100_000)
    services = Services()
    target.offer(place, services)
    recorder: Any = services.rpc_recorders["share"]
    writes = [row for row in recorder.operations() if row["operation"] == "WRITE"]
    # 100,000 bytes in pieces of at most 8 KiB.
    assert writes[0]["calls"] >= 13
    target.down(place)


def test_the_model_is_recorded_and_felt(make: Make, resources: Resources) -> None:
    target = make(store="memory", size="64M", service_time=["GETATTR=30ms"], delay="5ms", ac=False)
    place = target.up(resources, HERE)
    served = place.facts["nfs"]["served"]
    assert served["store"] == "memory"
    assert served["model"]["service_by_operation_ns"] == {"GETATTR": 30_000_000}
    assert served["model"]["delay_ns"] == 5_000_000
    assert "listen" not in served
    assert target.free_bytes() == 64 << 20
    began = time.monotonic()
    os.stat(place.path)
    assert time.monotonic() - began >= 0.030, "asks the server, without an attribute cache"
    target.down(place)


@pytest.mark.parametrize(
    ("parameters", "level", "reason"),
    [
        ({"store": "memory"}, "volatile", "memory"),
        ({"nvram": "1M", "disk": "seek=1ms"}, "volatile", "NVRAM"),
        ({"unsafe_async_names": True}, "volatile", "unsafe_async_names"),
    ],
)
def test_durability_is_that_of_the_servers_store(
    make: Make, resources: Resources, parameters: dict[str, object], level: str, reason: str
) -> None:
    target = make(**parameters)
    place = target.up(resources, HERE)
    assert place.durability.level == level
    assert any(reason in told for told in place.durability.reasons)
    target.down(place)


def test_a_folder_is_as_durable_as_its_disk(
    make: Make, resources: Resources, scratch: Path
) -> None:
    from nfslab.machine.durability import durability_of
    from nfslab.machine.mounts import block_devices_of, mount_of

    target = make()
    place = target.up(resources, HERE)
    mount = mount_of(scratch)
    assert place.durability == durability_of(mount, block_devices_of(mount))
    target.down(place)


def test_ganesha_is_started_and_ended_for_a_run(
    make: Make, resources: Resources, scratch: Path
) -> None:
    target = make(server="ganesha", threads=4, wsize="32k", server_durability="stable")
    usable = target.check()
    if not usable.ok:
        pytest.skip(usable.reason)
    place = target.up(resources, HERE)
    nfs = place.facts["nfs"]
    assert (nfs["server"], nfs["served"]["threads"]) == ("ganesha", 4)
    assert place.durability.level == "stable"
    (place.path / "file").write_bytes(bytes(range(256)) * 1000)
    (stored,) = scratch.glob("*/export/data/file")
    assert stored.read_bytes() == bytes(range(256)) * 1000
    (base,) = scratch.iterdir()
    configuration = (base / "ganesha.conf").read_text()
    assert "RPC_Ioq_ThrdMax = 4;" in configuration
    target.down(place)
    assert list(scratch.iterdir()) == []


OPERATIONS = 200
SMALL = {"ac": False, "rsize": "8k", "wsize": "8k", "nconnect": 3}


@pytest.mark.parametrize("options", [{}, SMALL], ids=["defaults", "small"])
def test_what_was_written_through_the_mount_is_in_ganeshas_folder(
    make: Make, resources: Resources, scratch: Path, options: dict[str, object]
) -> None:
    """Random operations: read back through the mount, and at the end in the folder itself."""
    target = make(server="ganesha", server_durability="stable", **options)
    usable = target.check()
    if not usable.ok:
        pytest.skip(usable.reason)
    place = target.up(resources, HERE)
    order, shadow = random.Random(4), bytearray()
    file = place.path / "file"
    file.touch()
    for number in range(OPERATIONS):
        at, size = order.randrange(1 << 19), order.randrange(1, 1 << 16)
        with file.open("r+b", buffering=0) as opened:
            match order.randrange(5):
                case 0 | 1:
                    data = order.randbytes(size)
                    shadow.extend(bytes(max(0, at - len(shadow))))
                    shadow[at : at + size] = data
                    assert os.pwrite(opened.fileno(), data, at) == size
                case 2:
                    shadow = shadow[:at] + bytes(max(0, at - len(shadow)))
                    os.ftruncate(opened.fileno(), at)
                case 3:
                    os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    assert os.pread(opened.fileno(), size, at) == shadow[at : at + size]
                case _:
                    os.fsync(opened.fileno())
        if number % 20 == 0:
            (place.path / f"kept{number}").write_bytes(shadow)
            file = file.rename(place.path / f"file{number}")
        if number % 40 == 0:
            (place.path / f"kept{number}").unlink()
    (export,) = scratch.glob("*/export/data")
    (stored,) = (path for path in export.iterdir() if path.name.startswith("file"))
    assert stored.name == file.name
    assert stored.read_bytes() == shadow
    kept = sorted(path.name for path in export.iterdir() if path.name.startswith("kept"))
    assert kept == sorted(f"kept{number}" for number in range(20, OPERATIONS, 40))
    target.down(place)
    assert list(scratch.iterdir()) == []


@pytest.fixture
def export() -> Iterator[str]:
    """A server that is there already: (HOST, port, export)."""
    argv = [sys.executable, "-m", "nfslab", "serve", "--memory", "--port", "0", "--json"]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    ready = json.loads(server.stdout.readline())
    yield f"{ready['port']}"
    server.terminate()
    server.communicate()


def test_an_export_that_is_there_gets_a_folder_of_its_own(
    make: Make, resources: Resources, export: str
) -> None:
    options = [f"port={export}", f"mountport={export}"]
    target = make(server="127.0.0.1:/export", mount_options=options, server_durability="volatile")
    place = target.up(resources, HERE)
    other = target.up(resources, HERE)
    assert place.path.name != other.path.name
    assert place.durability.level == "volatile"
    assert "stated by the user" in place.durability.reasons[0]
    assert target.free_bytes() is None
    (place.path / "file").write_text("x")
    target.down(other)
    assert (place.path / "file").read_text() == "x"
    target.down(place)


@pytest.mark.parametrize(
    ("parameters", "error", "words"),
    [
        ({"mount_options": ["rszie=4k"]}, UsageError, "rsize"),
        ({"server": "127.0.0.1:/export", "mount_options": ["port=1", "mountport=1"]},
         RunFailed, "refused"),
        ({"disk": "seke=8ms"}, RunFailed, "seek"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_a_sentence_and_leaves_nothing(
    make: Make,
    resources: Resources,
    scratch: Path,
    parameters: dict[str, object],
    error: type[NfslabError],
    words: str,
) -> None:
    target = make(**parameters)
    with pytest.raises(error) as told:
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
        {"client": "kernel"},
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


def test_one_service_time_needs_no_list() -> None:
    one = NfsTarget.Parameters.model_validate({"service_time": "200us", "stall": "1s:5ms"})
    assert (one.service_time, one.stall) == (["200us"], ["1s:5ms"])
    several = NfsTarget.Parameters(service_time=["200us", "WRITE=1ms"])
    assert several.service_time == ["200us", "WRITE=1ms"]


def test_zero_is_a_value_too() -> None:
    assert NfsTarget.Parameters(retrans=0).parts("x")[1].parameters.options() == ["retrans=0"]
    # Given to a server that is not ours, even a zero is a setting it does not have.
    for setting in ({"seed": 0}, {"nvram": 0}, {"loss": 0.0}):
        with pytest.raises(ValidationError, match="settings of the embedded server only"):
            NfsTarget.Parameters.model_validate({"server": "filer:/export", **setting})


def test_without_a_mount_the_workload_is_told_of_the_export(
    scratch: Path, resources: Resources
) -> None:
    parameters = NfsTarget.Parameters(
        directory=str(scratch), client="none", store="null", rsize="16k", nconnect=2
    )
    target = NfsTarget("share", parameters)
    place = target.up(resources, HERE)
    server = target.server_of(place)
    assert server is not None
    export = export_of(target, place)
    assert export.source == "127.0.0.1:/export"
    assert export.is_calibration
    ports = [f"port={server.port()}", f"mountport={server.port()}"]
    assert export.options == [*ports, "rsize=16384", "nconnect=2"]
    with socket.create_connection(("127.0.0.1", server.port())):
        pass
    assert place.facts["nfs"]["client"] == "none"
    assert place.facts["space_elsewhere"]
    assert place.durability.level == "volatile"
    services = Services()
    target.offer(place, services)
    assert services.rpc_recorders == {}
    target.down(place)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port()))
    assert not place.path.exists()


def test_an_export_elsewhere_needs_nothing_here(scratch: Path, resources: Resources) -> None:
    parameters = NfsTarget.Parameters(directory=str(scratch), client="none", server="filer:/vol/v1")
    target = NfsTarget("filer", parameters)
    place = target.up(resources, HERE)
    export = export_of(target, place)
    assert (export.source, export.options, export.is_calibration) == ("filer:/vol/v1", [], False)
    assert (place.durability.level, target.free_bytes()) == ("unknown", None)
    target.down(place)


def test_the_null_store_cannot_be_mounted() -> None:
    with pytest.raises(ValidationError, match="no folders"):
        NfsTarget.Parameters(store="null")
