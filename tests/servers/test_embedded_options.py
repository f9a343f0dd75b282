"""Each option of the embedded server is stated once, and all that is made of it agrees."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import pytest
from nfslab._core import Server
from nfslab.cli.serve import command
from nfslab.servers.embedded import EmbeddedParameters
from nfslab.servers.embedded_options import (
    DISK_KEYS,
    IN_EXPERIMENT,
    OPTIONS,
    model,
    words,
)
from pydantic import ValidationError

ROOT = Path(__file__).resolve().parents[2]
NAMES = [one.core for one in OPTIONS if one.core.count("_")] + [one.core for one in DISK_KEYS]
"""The core's names, but those that are words of other things, too (loss, threads, seed)."""
SHARED = {"order", "disks", "cache_bytes"}
OTHERS = ROOT / "python" / "nfslab" / "workloads" / "web"
"""The embedded web server: another one, whose options may have the same names."""


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SHARED])
def test_the_cores_name_of_an_option_is_in_one_python_file(name: str) -> None:
    files = [
        path.name
        for path in (ROOT / "python" / "nfslab").rglob("*.py")
        if OTHERS not in path.parents and re.search(rf'"{name}"', path.read_text("utf-8"))
    ]
    assert files == ["embedded_options.py"]


def test_the_command_has_every_option() -> None:
    flags = {flag for one in command.params for flag in one.opts if isinstance(one, click.Option)}
    assert {one.flag for one in OPTIONS} <= flags


def test_the_target_has_every_option_of_an_experiment() -> None:
    fields = set(EmbeddedParameters.model_fields)
    assert fields == {one.parameter for one in IN_EXPERIMENT} | {"store"}


def documented() -> str:
    """The rows of the table of docs/server.md: what each option of the model means."""
    rows = []
    for option in OPTIONS:
        if option.parameter == "disk":
            rows += [(f"--disk {one.key}={one.metavar}", one.help) for one in DISK_KEYS]
        elif option.detail:
            rows.append((f"{option.flag} {option.metavar}", option.detail))
    return "".join(f"| `{name}` | {text} |\n" for name, text in rows)


def test_the_documentations_table_is_made_of_them() -> None:
    assert documented() in (ROOT / "docs" / "server.md").read_text("utf-8")


EXAMPLES = {
    "threads": "3", "service_time": "WRITE=1ms", "spread": "exponential",
    "disk": "disks=2,seek=8ms,rate=20M,order=elevator,hit=0.5,dirty=1M,commit=2ms,metadata=4k",
    "nvram": "32M", "bandwidth": "1Gbit", "delay": "1ms", "jitter": "2ms", "loss": "1%",
    "duplicate_replies": "0.25", "stall": "10s:500ms", "seed": "7",
}  # fmt: skip


def in_effect_of(texts: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """What the core has in effect when it is asked for these options."""
    options: dict[str, Any] = {one.parameter: [] if one.most_times > 1 else None for one in OPTIONS}
    for name, text in texts:
        one = next(one for one in OPTIONS if one.parameter == name)
        if one.most_times > 1:
            options[name].append(one.read(text))
        else:
            options[name] = one.read(text)
    with Server(json.dumps({"store": "memory", "udp": True, "model": model(options)})) as server:
        found: dict[str, Any] = server.model()["model"]
    return found


MANY = [
    *EXAMPLES.items(),
    ("service_time", "200us"),
    ("service_time", "READ=1500ns"),
    ("stall", "1.5s:3ms"),
]


@pytest.mark.system
@pytest.mark.parametrize(
    "texts",
    [
        EXAMPLES.items(),
        MANY,
        [("threads", "4")],
        [("disk", "seek=11.5ms,cache=6M,rate=1500001")],
        [("bandwidth", "100Mbit"), ("delay", "0.5s")],
    ],
)
def test_the_model_is_told_in_words_that_ask_for_it(texts: Iterable[tuple[str, str]]) -> None:
    in_effect = in_effect_of(texts)
    flags = {one.flag: one.parameter for one in OPTIONS}
    told = shlex.split(" ".join(words(in_effect)))
    pairs = [(flags[flag], text) for flag, text in zip(told[::2], told[1::2], strict=True)]
    assert in_effect_of(pairs) == in_effect


@pytest.mark.system
def test_the_core_has_every_option_in_effect_as_it_was_read() -> None:
    in_effect = in_effect_of(EXAMPLES.items())
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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("disk", "seek=8ms,rate=12.3M"), ("disk", "seek=8msx"), ("disk", "seke=8ms"),
        ("stall", "10s"), ("bandwidth", "12x/s"), ("service_time", "NOSUCH=1ms"), ("delay", "soon"),
    ],
)  # fmt: skip
def test_what_the_server_would_refuse_is_refused_in_the_file(name: str, text: str) -> None:
    with pytest.raises(ValidationError, match=name):
        EmbeddedParameters.model_validate({name: text})
    EmbeddedParameters.model_validate({name: EXAMPLES[name]})
