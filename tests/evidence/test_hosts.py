"""Client hosts beside each other: planted ones that are slower, later, busier, and unlike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from nfslab.display.figures import Stacked
from nfslab.evidence.hosts.kind import HostsEvidence
from nfslab.results.records import CheckRecord, ClockRecord, RunHostRecord

from tests.evidence.runs import found_of, sealed_run

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab.display.sections import Section
    from nfslab.evidence.base import SealedRun

KIND = HostsEvidence()
MS = 1_000_000


def host(name: str, share: float = 0.25, **other: Any) -> RunHostRecord:
    values = {"mean_latency_ns": 5.0 * MS, "cpu_busy": 0.3, "skew_ns": 100_000} | other
    return RunHostRecord(
        name=name,
        address="10.0.0.9",
        processes=4,
        operations=1000 * share,
        share=share,
        planned_share=0.25,
        drift_ppm=1.5,
        facts={"kernel": "6.12.1"},
        clock=ClockRecord(offset_ns=7, error_ns=50_000),
        **values,
    )


def run(
    folder: Path, hosts: list[RunHostRecord], differences: list[str] | None = None
) -> SealedRun:
    sealed = sealed_run(folder)
    checks = [
        CheckRecord(name="start_skew", verdict="ok", message="", values={"effect_share": 0.002})
    ]
    if differences:
        values = {"differences": differences}
        checks.append(CheckRecord(name="hosts_alike", verdict="warning", message="", values=values))
    sealed.record.client_hosts = hosts
    sealed.record.checks = checks
    return sealed


def section(*runs: SealedRun) -> Section:
    made = KIND.section(found_of({"threads=4": [(one, KIND.facts(one)) for one in runs]}))
    assert made is not None
    return made


def test_a_run_of_one_client_says_nothing(tmp_path: Path) -> None:
    sealed = sealed_run(tmp_path / "run")
    sealed.record.client_hosts = []
    assert not KIND.present(sealed)


def test_hosts_that_are_alike_are_said_to_share(tmp_path: Path) -> None:
    names = ("a", "b", "c", "d")
    made = section(run(tmp_path / "run", [host(name) for name in names]))
    assert made.sentences == [
        "4 client hosts with 4 processes each; each did 100 % to 100 % of what was planned for it.",
        "All began within 150 µs of their common start (a in threads=4, repetition 1), which is at "
        "most 0.200 % of a timed part.",
    ]
    (table,) = made.tables
    assert [[cell.text for cell in row][:6] for row in table.rows] == [
        ["threads=4", name, "10.0.0.9", "6.12.1", "4", "25 %"] for name in names
    ]
    (figure,) = made.figures
    drawing = figure.views[0].load()
    assert isinstance(drawing, Stacked)
    assert [whole.parts for whole in drawing.wholes] == [[250.0] * 4]


@pytest.mark.parametrize(
    ("planted", "says"),
    [
        (
            {"mean_latency_ns": 6.3 * MS},
            "c was slower: its operations took 6.30 ms, those of the others 5 ms",
        ),
        ({"skew_ns": 3 * MS}, "c was later by 2.90 ms"),
        ({"cpu_busy": 0.95}, "c was busier: 95 % of its processors, 30 % of the others'"),
    ],
)
def test_a_host_that_is_unlike_the_others_is_named(
    planted: dict[str, float], says: str, tmp_path: Path
) -> None:
    hosts = [host("a"), host("b"), host("c", **planted), host("d")]
    sentences = section(run(tmp_path / "run", hosts)).sentences
    assert sentences[1] == f"{says} (threads=4, repetition 1)."
    assert len(sentences) == 3, "no other host is named"


def test_what_differs_comes_first(tmp_path: Path) -> None:
    told = ["machine kernel release: 6.1 (a), 6.12 (b)"]
    made = section(run(tmp_path / "run", [host("a", 0.5), host("b", 0.5)], told))
    assert made.sentences[0] == f"The client hosts differ: {told[0]}."


def test_what_is_not_known_is_left_out(tmp_path: Path) -> None:
    bare = [RunHostRecord(name="a"), RunHostRecord(name="b")]
    made = section(run(tmp_path / "run", bare))
    assert made.sentences == ["2 client hosts with 1 process each."]
    assert made.figures == []
