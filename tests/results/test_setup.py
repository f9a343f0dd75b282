"""A setup's digest changes with what was in effect, and with nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from nfslab.results.records import DurabilityRecord, PlaceRecord, RunRecord
from nfslab.results.setup import setup_digest, setup_facts

from tests.results.test_store import run_record


def a_run() -> tuple[RunRecord, dict[str, Any]]:
    """A record with one place, and a provenance in the layout of `experiment.provenance`."""
    place = PlaceRecord(
        target="disk",
        kind="stripe",
        path="/srv/disk/run-1",
        filesystem="ext4",
        source="/dev/loop3",
        mount_point="/srv/disk",
        mount_options="rw,relatime",
        devices=["loop3"],
        durability=DurabilityRecord(level="stable"),
        facts={
            "free_bytes": 1000,
            "chunk_bytes": 65536,
            "backing_files": {"loop3": "/srv/x"},
            "nfs": {"age_s": 7, "transports": 1},
            "postgresql": {"version": "16.2", "user": 999, "settings": {"fsync": "on"}},
        },
    )
    provenance: dict[str, Any] = {
        "taken_unix_ns": 1,
        "took_ns": 1,
        "kernel": {"release": "6.1", "uptime_s": 1.0, "sysctls": {"vm/swappiness": 60}},
        "cpu": {"model": "x", "frequency_mhz_now": "2400"},
        "memory": {"MemTotal_bytes": 100, "MemFree_bytes": 50},
        "disks": {"vda": {"scheduler": "none"}, "loop3": {"size_bytes": 1}},
        "places": {"/srv/disk/run-1": {"options": "rw"}},
        "mounts": [{"mount_point": "/srv/disk"}],
        "network": {"eth0": {"driver": "x", "mtu": 1500, "operstate": "up"}, "veth1": {"mtu": 9}},
        "clock": {"source": "tsc", "maximum_error_us": 5},
        "software": {"programs": {"fio": "3.33"}},
        "nfslab": {"version": "0.1.0"},
        "load_before": {"load_average": [1.0]},
        "absent": {"x": "y"},
    }
    return run_record(places={"data": place}), provenance


Change = Callable[[RunRecord, dict[str, Any]], object]


def place_of(record: RunRecord) -> PlaceRecord:
    return record.places["data"]


SAME: dict[str, Change] = {
    "path of the run": lambda r, p: setattr(place_of(r), "path", "/srv/disk/run-2"),
    "loop device": lambda r, p: setattr(place_of(r), "source", "/dev/loop4"),
    "free space": lambda r, p: place_of(r).facts.update(free_bytes=5),
    "age of the mount": lambda r, p: place_of(r).facts["nfs"].update(age_s=8),
    "uptime": lambda r, p: p["kernel"].update(uptime_s=2.0),
    "clock rate now": lambda r, p: p["cpu"].update(frequency_mhz_now="800"),
    "free memory": lambda r, p: p["memory"].update(MemFree_bytes=1),
    "a loop device's disk": lambda r, p: p["disks"].update(loop4=p["disks"].pop("loop3")),
    "a container's interface": lambda r, p: p["network"].pop("veth1"),
    "load": lambda r, p: p.update(load_before={}),
    "time": lambda r, p: p.update(taken_unix_ns=9, took_ns=9),
    "what could not be read": lambda r, p: p.update(absent={}),
    "metrics": lambda r, p: r.metrics.clear(),
}
DIFFERENT: dict[str, Change] = {
    "mount options": lambda r, p: setattr(place_of(r), "mount_options", "rw,noatime"),
    "chunk": lambda r, p: place_of(r).facts.update(chunk_bytes=8192),
    "connections": lambda r, p: place_of(r).facts["nfs"].update(transports=4),
    "durability": lambda r, p: setattr(place_of(r).durability, "level", "volatile"),
    "server version": lambda r, p: place_of(r).facts["postgresql"].update(version="17"),
    "server setting": lambda r, p: place_of(r).facts["postgresql"]["settings"].update(fsync="off"),
    "kernel": lambda r, p: p["kernel"].update(release="6.2"),
    "sysctl": lambda r, p: p["kernel"]["sysctls"].update({"vm/swappiness": 10}),
    "memory": lambda r, p: p["memory"].update(MemTotal_bytes=200),
    "scheduler": lambda r, p: p["disks"]["vda"].update(scheduler="bfq"),
    "MTU": lambda r, p: p["network"]["eth0"].update(mtu=9000),
    "clock source": lambda r, p: p["clock"].update(source="hpet"),
    "program": lambda r, p: p["software"]["programs"].update(fio="3.42"),
    "nfslab": lambda r, p: p["nfslab"].update(version="0.2.0"),
}


@pytest.mark.parametrize("name", SAME)
def test_what_differs_by_itself_is_no_change(name: str) -> None:
    before = setup_digest(*a_run())
    record, provenance = a_run()
    SAME[name](record, provenance)
    assert setup_digest(record, provenance) == before


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_was_in_effect_is(name: str) -> None:
    before = setup_digest(*a_run())
    record, provenance = a_run()
    DIFFERENT[name](record, provenance)
    assert setup_digest(record, provenance) != before


def test_a_provenance_of_another_layout_does_no_harm() -> None:
    record, _ = a_run()
    assert setup_facts(record, {})["machine"] == {}
    odd: dict[str, Any] = {"memory": 3, "disks": [], "network": {"eth0": 1}, "kernel": None}
    assert setup_facts(record, odd)["disks"] == {}
