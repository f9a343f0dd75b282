"""Each option of the embedded server is stated once, and all that is made of it agrees."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
from nfslab._core import Server
from nfslab.cli.serve import command
from nfslab.servers.embedded import EmbeddedParameters
from nfslab.servers.embedded_options import DISK_KEYS, IN_EXPERIMENT, OPTIONS, documented, model

ROOT = Path(__file__).resolve().parents[2]
NAMES = [one.core for one in OPTIONS if one.core.count("_")] + [one.core for one in DISK_KEYS]
"""The core's names, but those that are words of other things, too (loss, threads, seed)."""
SHARED = {"order", "disks", "cache_bytes"}


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SHARED])
def test_the_cores_name_of_an_option_is_in_one_python_file(name: str) -> None:
    files = [
        path.name
        for path in (ROOT / "python" / "nfslab").rglob("*.py")
        if re.search(rf'"{name}"', path.read_text("utf-8"))
    ]
    assert files == ["embedded_options.py"]


def test_the_command_has_every_option() -> None:
    flags = {flag for one in command.params for flag in one.opts if isinstance(one, click.Option)}
    assert {one.flag for one in OPTIONS} <= flags


def test_the_target_has_every_option_of_an_experiment() -> None:
    fields = set(EmbeddedParameters.model_fields)
    assert fields == {one.parameter for one in IN_EXPERIMENT} | {"store"}


def test_the_documentations_table_is_made_of_them() -> None:
    assert documented() in (ROOT / "docs" / "server.md").read_text("utf-8")


EXAMPLES = {
    "threads": "3", "service_time": "WRITE=1ms", "spread": "exponential",
    "disk": "disks=2,seek=8ms,rate=20M,order=elevator,hit=0.5,dirty=1M,commit=2ms,metadata=4k",
    "nvram": "32M", "bandwidth": "1Gbit", "delay": "1ms", "jitter": "2ms", "loss": "1%",
    "duplicate_replies": "0.25", "stall": "10s:500ms", "seed": "7",
}  # fmt: skip


def test_the_core_has_every_option_in_effect_as_it_was_read() -> None:
    options = {one.parameter: [] if one.most_times > 1 else None for one in OPTIONS}
    for one in OPTIONS:
        if (text := EXAMPLES.get(one.parameter)) is not None:
            options[one.parameter] = [one.read(text)] if one.most_times > 1 else one.read(text)
    asked = model(options)
    assert asked is not None
    with Server(json.dumps({"store": "memory", "udp": True, "model": asked})) as server:
        in_effect = server.model()["model"]
    assert in_effect["disk"] == {
        "disks": 2, "positioning_ns": 8_000_000, "rate_bytes_per_s": 20 << 20,
        "order": "elevator", "read_hit_ratio": 0.5, "cache_bytes": None,
        "dirty_limit_bytes": 1 << 20, "commit_ns": 2_000_000, "metadata_bytes": 4096,
    }  # fmt: skip
    assert in_effect["service_by_operation_ns"] == {"WRITE": 1_000_000}
    assert in_effect["stalls"] == [[10_000_000_000, 500_000_000]]
    assert in_effect["bandwidth_bytes_per_s"] == 125_000_000
    assert (in_effect["loss"], in_effect["duplicate"]) == (0.01, 0.25)
    assert (in_effect["threads"], in_effect["seed"], in_effect["spread"]) == (3, 7, "exponential")
    assert (in_effect["delay_ns"], in_effect["jitter_ns"]) == (1_000_000, 2_000_000)
    assert in_effect["nvram_bytes"] == 32 << 20
