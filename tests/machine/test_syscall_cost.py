"""What nfslab says of the cost of watching is what docs/syscalls.md has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from nfslab.evidence.syscalls.seen import MEASURED, known_cost
from nfslab.evidence.syscalls.ways import Asked

DOCS = Path(__file__).resolve().parents[2] / "docs" / "syscalls.md"
NAMES = {"ebpf": "eBPF", "shim": "preloaded library"}


def documented() -> dict[str, list[str]]:
    """Way and level as the table has them -> the figures of its second column."""
    rows = re.findall(r"^\| ([^|]+?) \| ([\d.][^|]*?) \|", DOCS.read_text(), re.MULTILINE)
    return {name: re.findall(r"[\d.]+", figures) for name, figures in rows}


@pytest.mark.parametrize("key", MEASURED, ids="-".join)
def test_figures_are_those_of_the_document(key: tuple[str, str]) -> None:
    way, level = key
    name = f"{NAMES[way]}, `{level.removesuffix('+lseek')}`"
    name += " and lseek" if level.endswith("+lseek") else ""
    said = re.findall(r"\d+\.\d+", MEASURED[key])
    figures = documented()[name]
    assert [f"{float(figure) + 1e-9:.2f}" for figure in figures] == said


def test_what_was_not_measured_is_not_guessed() -> None:
    assert known_cost("ebpf", Asked(level="sync")).startswith("tracing overhead: CPU time 1.")
    assert known_cost("ebpf", Asked(level="counts", lseek=True)).startswith(
        "tracing overhead: CPU time 1."
    )
    assert "not measured" in known_cost("shim", Asked(level="counts", lseek=True))
    assert "none while the load runs" in known_cost("views", Asked(level="sync"))
