"""What differs between client hosts: two that are unlike in one planted fact, or in many."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest
from nfslab.context import HostPart, Share
from nfslab.experiment.host_checks import alike
from nfslab.experiment.host_differences import MOST, differences
from nfslab.experiment.provenance import provenance
from nfslab.results.records import DurabilityRecord, PlaceRecord, RunRecord

if TYPE_CHECKING:
    from pathlib import Path

MACHINE: dict[str, Any] = {
    "kernel": {
        "release": "6.1.0-18",
        "command_line": "BOOT_IMAGE=/vmlinuz root=UUID=1 quiet",
        "sysctls": {f"vm/{number}": "0" for number in range(3 * MOST)},
        "uptime_s": 7.0,
    },
    "cpu": {"model": "Example CPU", "logical": 8},
    "software": {"programs": {"pgbench": "pgbench 16.2"}},
    "nfslab": {"core": {"version": "0.1.0"}},
    "memory": {"MemTotal_bytes": 8 << 30},
    "network": {"eth0": {"driver": "virtio", "address": "10.0.0.1"}},
    "inventory": {"name": "a"},
}
OPTIONS = "rw,vers=4.2,rsize=1048576,hard,clientaddr=10.0.0.1,addr=10.0.0.9"
OWN = {
    "kernel.command_line": "BOOT_IMAGE=/vmlinuz root=UUID=2 quiet",
    "kernel.uptime_s": 1e6,
    "memory.MemTotal_bytes": (8 << 30) - 4096,
    "network.eth0.address": "10.0.0.2",
    "inventory.name": "b",
}
"""What two equal machines have each for itself."""


def host(
    folder: Path, name: str, changed: dict[str, Any] | None = None, options: str = OPTIONS
) -> HostPart:
    """A host's part of a run, with these facts (path with dots -> value) in place of `MACHINE`'s.

    `options`: of its mount, as the kernel reports them.
    """
    machine = copy.deepcopy(MACHINE)
    for path, value in (changed or {}).items():
        *sections, last = path.split(".")
        section = machine
        for one in sections:
            section = section[one]
        section[last] = value
    (folder / name).mkdir()
    (folder / name / "provenance.json").write_text(json.dumps(machine))
    place = PlaceRecord(
        target="there",
        kind="nfs",
        path="/mnt",
        filesystem="nfs4",
        source="10.0.0.9:/export",
        mount_point="/mnt",
        mount_options=f"{options},port=2049",
        devices=[],
        durability=DurabilityRecord(level="stable"),
        facts={"nfs": {"options_reported": options, "transports": 1}},
    )
    record = RunRecord.model_construct(places={"data": place}, client_hosts=[], server_host=None)
    return HostPart(name, Share(0, 2, 1), folder / name, record, 0)


@pytest.mark.system
def test_what_is_planted_is_what_a_machine_says_of_itself() -> None:
    told = provenance(programs=["python3"])
    assert told["kernel"].keys() >= {"release", "command_line", "sysctls", "uptime_s"}
    assert told["cpu"].keys() >= {"model", "logical"}
    assert told["software"]["programs"].keys() == {"python3"}
    assert "version" in told["nfslab"]["core"]
    assert told["memory"]["MemTotal_bytes"] > 0


def test_equal_hosts_do_not_differ_by_what_each_has_for_itself(tmp_path: Path) -> None:
    options = OPTIONS.replace("clientaddr=10.0.0.1", "clientaddr=10.0.0.2")
    parts = [host(tmp_path, "a"), host(tmp_path, "b", OWN, options)]
    assert differences(parts) == []
    assert alike(parts).verdict == "ok"


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("kernel.release", "6.12.1", "machine kernel release: 6.1.0-18 (a c), 6.12.1 (b)"),
        (
            "software.programs.pgbench",
            "pgbench 17.0",
            "machine software programs pgbench: pgbench 16.2 (a c), pgbench 17.0 (b)",
        ),
        ("nfslab.core.version", "0.2.0", "machine nfslab core version: 0.1.0 (a c), 0.2.0 (b)"),
        ("cpu.logical", 4, "machine cpu logical: 8 (a c), 4 (b)"),
        (
            "memory.MemTotal_bytes",
            4 << 30,
            f"machine memory MemTotal_bytes: {8 << 30} (a c), {4 << 30} (b)",
        ),
        (
            "kernel.command_line",
            "BOOT_IMAGE=/vmlinuz root=UUID=2",
            "machine kernel command_line: BOOT_IMAGE=/vmlinuz quiet (a c), BOOT_IMAGE=/vmlinuz (b)",
        ),
    ],
)
def test_one_fact_that_differs_is_told_alone(
    path: str, value: Any, told: str, tmp_path: Path
) -> None:
    parts = [host(tmp_path, "a"), host(tmp_path, "b", {path: value}), host(tmp_path, "c")]
    assert differences(parts) == [told]
    check = alike(parts)
    assert (check.verdict, check.values) == ("warning", {"differences": [told]})


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (OPTIONS.replace("4.2", "3"), "places data option vers: 4.2 (a), 3 (b)"),
        (f"{OPTIONS},noatime", "places data option noatime: nothing (a), set (b)"),
    ],
)
def test_a_mount_option_in_effect_is_told_by_itself(
    options: str, told: str, tmp_path: Path
) -> None:
    assert differences([host(tmp_path, "a"), host(tmp_path, "b", options=options)]) == [told]


def test_of_many_differences_kernel_options_and_versions_come_first(tmp_path: Path) -> None:
    many = {f"kernel.sysctls.vm/{number}": "1" for number in range(3 * MOST)}
    many |= {"software.programs.pgbench": "pgbench 17.0", "kernel.release": "6.12.1"}
    options = OPTIONS.replace("4.2", "3") + "".join(f",o{number}" for number in range(MOST))
    found = differences([host(tmp_path, "a"), host(tmp_path, "b", many, options)])
    assert [text.partition(":")[0] for text in found[:3]] == [
        "machine kernel release",
        "places data option vers",
        "machine software programs pgbench",
    ]
    assert len(found) == MOST + 1
    assert found[-1] == f"and {3 * MOST + MOST + 3 - MOST} more"
