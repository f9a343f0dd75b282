"""Plug-ins defined here, and an experiment with them: no file of nfslab is touched."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq
import pytest
from nfslab.context import Services
from nfslab.errors import UsageError
from nfslab.hosts.base import Host, Hosts, Link
from nfslab.hosts.local import LocalHost
from nfslab.hosts.registry import HOSTS
from nfslab.machine.availability import Availability
from nfslab.machine.resources import Entry, Resources
from nfslab.mounts.base import Mounting, MountParameters
from nfslab.mounts.registry import MOUNTS
from nfslab.results.records import CheckRecord, ClockRecord, LoadShape, Metric
from nfslab.results.upgrade import table_host
from nfslab.servers.base import Server, ServerParameters
from nfslab.servers.registry import SERVERS
from nfslab.targets.base import Place, Target, TargetParameters, describe, own_folder
from nfslab.targets.nfs import NfsTarget
from nfslab.targets.registry import TARGETS
from nfslab.workloads.base import Outcome, RunContext, Workload, WorkloadParameters
from nfslab.workloads.registry import WORKLOADS
from pydantic import ValidationError

from tests.experiment.session_support import only_folder, records, run

OFFSET_NS, ERROR_NS = 5_000_000_000, 1_000


class ToyServerParameters(ServerParameters):
    flavour: str = "plain"
    """A setting that no other server has."""


class ToyServer(Server):
    kind: ClassVar[str] = "toy"
    summary: ClassVar[str] = "says that it serves"
    Parameters: ClassVar[type[ServerParameters]] = ToyServerParameters
    parameters: ToyServerParameters

    @classmethod
    def available(cls) -> Availability:
        return Availability(True)

    def start(self, folder: Path, resources: Resources, *, host: Host, link: Link) -> None:
        (folder / "export").mkdir()
        self.source, self.options = f"{link.server}:/toys", ["port=7"]
        self.model = {"flavour": self.parameters.flavour, "on": host.name}

    def stop(self) -> None:
        self.model = None

    def free_bytes(self, directory: Path) -> int | None:
        return None

    def data_folder(self, folder: Path) -> Path | None:
        return folder / "export"


class ToyMountParameters(MountParameters):
    stickiness: int = 0


class ToyMount(Mounting):
    kind: ClassVar[str] = "toy"
    summary: ClassVar[str] = "a symbolic link"
    Parameters: ClassVar[type[MountParameters]] = ToyMountParameters
    parameters: ToyMountParameters
    asked: dict[str, Any]

    @classmethod
    def available(cls) -> Availability:
        return Availability(True)

    def up(
        self,
        source: str,
        options: Sequence[str],
        point: Path,
        resources: Resources,
        *,
        host: Host,
        is_calibration: bool,
    ) -> None:
        self.asked = {
            "source": source, "options": [*options, *self.parameters.options()],
            "stickiness": self.parameters.stickiness, "on": host.name,
        }  # fmt: skip

    def down(self) -> None:
        return

    def facts(self) -> dict[str, Any]:
        return {"asked": self.asked}


class ToyTargetParameters(TargetParameters):
    path: str


class ToyTarget(Target):
    kind: ClassVar[str] = "toy"
    summary: ClassVar[str] = "a folder"
    Parameters: ClassVar[type[TargetParameters]] = ToyTargetParameters
    parameters: ToyTargetParameters
    entry: Entry

    @classmethod
    def available(cls) -> Availability:
        return Availability(True)

    def free_bytes(self) -> int | None:
        return None

    def up(self, resources: Resources, hosts: Hosts, *, owner: int | None = None) -> Place:
        self.entry = own_folder(self, Path(self.parameters.path), resources, owner)
        return describe(self, self.entry.path, facts={"on": hosts.files.name})

    def offer(self, place: Place, services: Services) -> None:
        services.syscalls_by = "the toy"

    def down(self, place: Place) -> None:
        self.entry.undo()


class ToyWorkloadParameters(WorkloadParameters):
    data: str
    bytes: int = 4


class ToyWorkload(Workload):
    kind: ClassVar[str] = "toy"
    summary: ClassVar[str] = "writes a file"
    Parameters: ClassVar[type[WorkloadParameters]] = ToyWorkloadParameters
    roles: ClassVar[tuple[str, ...]] = ("data",)
    parameters: ToyWorkloadParameters

    @classmethod
    def available(cls) -> Availability:
        return Availability(True)

    def load_shape(self) -> LoadShape:
        return LoadShape(kind="open", rate_per_s=2.5)

    def estimate_s(self) -> float:
        return 1.0

    def estimate_bytes(self) -> dict[str, int]:
        return {"data": self.parameters.bytes}

    def prepare(self, context: RunContext) -> None:
        context.notes.append(f"system calls are watched by {context.services.syscalls_by!r}")

    def measure(self, context: RunContext) -> Outcome:
        import pyarrow as pa

        file = context.places["data"].path / "file"
        with context.timed() as part:
            context.client_host.run(
                ["dd", "if=/dev/zero", f"of={file}", "bs=1", f"count={self.parameters.bytes}"],
                resources=context.resources, timeout_s=60, watcher=part.watcher,
            )  # fmt: skip
        return Outcome(
            metrics={"written": Metric(value=file.stat().st_size, unit="bytes", primary=True)},
            samples={"writes": pa.table({"t_ns": [0]})},
        )

    def verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        return []

    def finish(self, context: RunContext) -> None:
        return


class ToyHost(LocalHost):
    kind: ClassVar[str] = "toy"
    summary: ClassVar[str] = "this machine with a clock that is wrong"

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + OFFSET_NS

    def clock(self) -> ClockRecord:
        return ClockRecord(offset_ns=OFFSET_NS, error_ns=ERROR_NS)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for registry, name in (
        (SERVERS, "ToyServer"), (MOUNTS, "ToyMount"), (TARGETS, "ToyTarget"),
        (WORKLOADS, "ToyWorkload"), (HOSTS, "ToyHost"),
    ):  # fmt: skip
        monkeypatch.setitem(registry, "toy", f"{__name__}:{name}")


EXPERIMENT = """
[experiment]
name = "toys"
repetitions = 1
collectors = []
[targets.share]
kind = "nfs"
server = "toy"
client = "toy"
rsize = "4k"
stickiness = 3
directory = {path}
[targets.box]
kind = "toy"
path = {path}
[workload]
kind = "toy"
data = "share"
[client]
host = "toy"
[[axes]]
name = "where"
parameters = ["workload.data", "targets.share.flavour"]
values = [["share", "sour"], ["box", "plain"]]
labels = ["sour share", "box"]
"""


@pytest.fixture
def experiment(scratch: Path, tmp_path: Path) -> Path:
    path = tmp_path / "experiment.toml"
    path.write_text(EXPERIMENT.format(path=json.dumps(str(scratch))), "utf-8")
    return path


@pytest.mark.system
def test_an_experiment_of_toys_runs(experiment: Path, scratch: Path) -> None:
    run(experiment)
    folder = only_folder(experiment)
    found = {record.factors["where"]: record for record in records(folder)}
    assert {record.status for record in found.values()} == {"ok"}
    share, box = found["sour share"], found["box"]
    nfs = share.places["data"].facts["nfs"]
    assert nfs["served"] == {"flavour": "sour", "on": "local"}
    assert nfs["asked"] == {
        "source": "127.0.0.1:/toys", "options": ["port=7", "rsize=4096"], "stickiness": 3,
        "on": "toy",
    }  # fmt: skip
    assert box.places["data"].facts["on"] == "toy"
    assert any("'the toy'" in note for note in box.notes)
    assert share.metrics["written"].value == 4
    assert (share.load and (share.load.kind, share.load.rate_per_s)) == ("open", 2.5)
    assert list(scratch.iterdir()) == []
    # Tables and records name the host and its clock.
    for record in records(folder):
        at = folder.path / "runs" / record.run_id
        host = table_host(pq.read_schema(at / "samples" / "writes.parquet").metadata)
        assert host.name == "toy"
        assert (host.clock.offset_ns, host.clock.error_ns) == (OFFSET_NS, ERROR_NS)
        client = json.loads((at / "provenance.json").read_text("utf-8"))["hosts"]["client"]
        assert client["name"] == "toy"
        assert client["clock"] == {"offset_ns": OFFSET_NS, "error_ns": ERROR_NS}
        assert client["facts"]["kernel"] == os.uname().release


def test_a_servers_parameter_is_refused_for_another_one() -> None:
    assert NfsTarget.Parameters(server="toy", flavour="sour")
    with pytest.raises(ValidationError, match="flavour"):
        NfsTarget.Parameters(server="embedded", flavour="sour")
    with pytest.raises(ValidationError, match="stickiness"):
        NfsTarget.Parameters(stickiness=2)


def test_what_is_not_registered_is_named(experiment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(HOSTS, "toy")
    with pytest.raises(UsageError) as refused:
        run(experiment)
    assert "namespace" in str(refused.value)
