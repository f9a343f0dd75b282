"""Runs of an emulated processor: every output says so, and none says faster or slower."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from nfslab.experiment.validity import emulated
from nfslab.findings.explanation import confirmation, pairs_of, points_of, why
from nfslab.machine.emulation import MARK, is_emulated
from nfslab.report.analysis import analyse
from nfslab.report.html.document import render_html
from nfslab.report.verdict import conclusion
from nfslab.results.comparison import compare_selections
from nfslab.results.outcomes import Outcomes
from nfslab.results.precision import precision_of
from nfslab.results.records import Stopping
from nfslab.results.selection import parse_selection
from nfslab.statistics.verdicts import EMULATED

from tests.cli.invocation import nfslab
from tests.report.designs import write_design
from tests.report.synthetic import EPOCH_NS, Recipe, shared_pgbench

Capture = pytest.CaptureFixture[str]
SAID = re.compile(r"\b(faster|slower|higher|lower|\d+x|longer|shorter|inconclusive)\b")
"""Words of a comparison."""
BLOCKS, POINTS, BASES = 4, 4, 2
QUICK: dict[str, Any] = {"samples": False, "clients": (1, 5)}


def written(points: range) -> Path:
    """placement x clients, the second placement 25 % faster; these points are emulated."""
    flagged = {(block, point): emulated() for block in range(BLOCKS) for point in points}
    return shared_pgbench(Recipe(repetitions=BLOCKS, flagged=flagged, **QUICK))


@pytest.fixture
def stamped() -> Path:
    return written(range(POINTS))


@pytest.fixture
def plain() -> Path:
    return written(range(0))


def commands(path: Path) -> dict[str, list[str]]:
    sides = [f"{path}:placement={level}" for level in ("together", "log apart")]
    return {
        "show": ["show", str(path)],
        "list": ["list", str(path)],
        "compare": ["compare", *sides],
        "explain": ["explain", str(path)],
        "report": ["report", str(path), "--markdown"],
    }


@pytest.mark.parametrize("name", ["show", "list", "compare", "explain", "report"])
def test_every_output_says_so_and_compares_nothing(
    name: str, stamped: Path, plain: Path, capsys: Capture
) -> None:
    said = nfslab(capsys, *commands(stamped)[name])
    assert said.code == 0
    assert EMULATED in said.out
    assert SAID.findall(said.out) == []
    assert EMULATED not in nfslab(capsys, *commands(plain)[name]).out


@pytest.mark.parametrize("name", ["compare", "explain", "report"])
def test_the_same_runs_without_the_stamp_are_compared(
    name: str, plain: Path, capsys: Capture
) -> None:
    assert SAID.findall(nfslab(capsys, *commands(plain)[name]).out) != []


def test_the_page_says_so_first(stamped: Path, plain: Path) -> None:
    page = render_html(stamped)
    body = page[page.index("<body") :]
    assert body.index(EMULATED) < body.index("<h1")
    assert 'id="emulated"' not in render_html(plain)


def test_the_model_has_no_figure_of_a_change(stamped: Path) -> None:
    analysis = analyse(stamped)
    assert analysis.emulated == EMULATED
    rows = [row for rows in analysis.comparisons.values() for row in rows]
    assert rows
    for row in rows:
        kept = row.result
        assert (row.sense, kept.verdict, kept.shown) == ("unknown", EMULATED, False)
        assert kept.base is not None
        assert kept.new is not None
        for figure in (kept.ratio, kept.difference, kept.interval, kept.p_value, kept.p_adjusted):
            assert figure is None
    assert conclusion(analysis)[0] == EMULATED
    assert analysis.next_step == ""


def test_no_cause_is_named(stamped: Path, plain: Path) -> None:
    analysis = analyse(stamped)
    assert pairs_of(analysis) == []
    assert points_of(analysis) == []
    assert confirmation(analysis) is None
    assert why(analysis).sentences == []
    # The same runs, not emulated, are taken apart.
    assert len(points_of(analyse(plain))) == POINTS
    assert len(pairs_of(analyse(plain))) == POINTS - BASES


def test_one_emulated_side_is_enough() -> None:
    analysis = analyse(written(range(BASES)))
    assert analysis.emulated == f"{EMULATED} in {BASES * BLOCKS} of {POINTS * BLOCKS} runs"
    assert {row.result.verdict for row in analysis.comparisons["tps"]} == {EMULATED}
    assert {point.at.point for point in points_of(analysis)} == set(range(BASES, POINTS))


def test_only_pairs_with_an_emulated_point_are_blank() -> None:
    """Point 3 is the second placement with five clients."""
    analysis = analyse(written(range(3, 4)))
    found = [(row.point, row.result.verdict) for row in analysis.comparisons["tps"]]
    assert found == [(2, "faster"), (3, EMULATED)]


def test_two_experiments_one_of_them_emulated(stamped: Path, plain: Path) -> None:
    compared = compare_selections(parse_selection(str(plain)), parse_selection(str(stamped)))
    assert {one.verdict for one in compared.results["tps"]} == {EMULATED}
    assert compared.emulated_line == f"new is {EMULATED}"


def test_a_condition_cannot_be_met_nor_missed(stamped: Path, capsys: Capture) -> None:
    words = [*commands(stamped)["compare"], "--fail-if", "tps > 5%"]
    assert nfslab(capsys, *words).code == 3
    content = json.loads(nfslab(capsys, *words, "--json").out)
    assert {one["outcome"] for one in content["conditions"]} == {"inconclusive"}


def test_more_blocks_are_of_no_use(stamped: Path, plain: Path) -> None:
    """An experiment that runs until its interval is narrow ends at the first look."""
    rule = Stopping(until=1e-6, at_least=BLOCKS, at_most=1000)
    found, other = (precision_of(Outcomes.open(path), rule) for path in (stamped, plain))
    assert found is not None
    assert found.ended
    assert other is not None
    assert not other.ended


def test_a_history_leaves_them_out(tmp_path: Path, capsys: Capture) -> None:
    """Weeks with a change: of emulated experiments no change is told."""
    for name, checks in (("plain", []), ("stamped", [emulated()])):
        for day in range(14):
            write_design(
                tmp_path / name,
                {"clients": [1, 8]},
                lambda clients, by=0.5 if day >= 7 else 1.0: 100.0 * clients * by,
                seed=day,
                name=f"day-{day:02}",
                created_unix_ns=EPOCH_NS + day * 86_400 * 10**9,
                checks=checks,
            )
    assert "\nsince day-07" in nfslab(capsys, "list", tmp_path / "plain").out
    assert "\nsince" not in nfslab(capsys, "list", tmp_path / "stamped").out


CPUINFO = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: {}\nstepping\t: 0\n"


@pytest.mark.parametrize(
    ("cmdline", "model", "found"),
    [
        ("console=ttyS0 panic=-1", "AMD EPYC 7571", False),
        (f"console=ttyS0 {MARK} panic=-1", "AMD EPYC 7571", True),
        ("console=ttyS0", "QEMU TCG CPU version 2.5+", True),
        (f"console=ttyS0 x{MARK} quiet", "QEMU Virtual CPU version 2.5+", False),
    ],
)
def test_how_a_machine_knows(cmdline: str, model: str, found: bool, tmp_path: Path) -> None:
    """The model's name is what QEMU 7.2 gives `-cpu max` under TCG (target/i386/tcg)."""
    (tmp_path / "cmdline").write_text(f"{cmdline}\n")
    (tmp_path / "cpuinfo").write_text(CPUINFO.format(model))
    assert is_emulated(tmp_path) is found


def test_a_machine_that_tells_nothing(tmp_path: Path) -> None:
    assert not is_emulated(tmp_path)
