"""The block for a ticket: complete, in order, and harmless in somebody's tracker."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from nfslab.display.cells import text
from nfslab.display.markdown import section_text
from nfslab.display.sections import Column, Section, Table
from nfslab.report.analysis import analyse
from nfslab.report.markdown import code, escape, render_markdown
from nfslab.results.store import ExperimentFolder

from tests.report.synthetic import Recipe, shared_pgbench, write_files, write_pgbench

PARSER = MarkdownIt("commonmark", {"html": True}).enable("table")


def write(folder: Path, **changes: Any) -> Path:
    recipe = {"clients": (1, 5), "repetitions": 6, "samples": False, **changes}
    return write_pgbench(folder, Recipe(**recipe)).path


def block(**changes: Any) -> str:
    recipe = {"clients": (1, 5), "repetitions": 6, "samples": False, "evidence": False, **changes}
    return render_markdown(shared_pgbench(Recipe(**recipe)))


def rows(text: str) -> list[list[str]]:
    """Cells of the first table as a Markdown reader sees them."""
    tokens = PARSER.parse(text)
    cells, current = [], []
    for number, token in enumerate(tokens):
        if token.type == "tr_open":
            current = []
        elif token.type in ("td_open", "th_open"):
            inline = tokens[number + 1]
            current.append("".join(child.content for child in inline.children or []))
        elif token.type == "tr_close":
            cells.append(current)
        elif token.type == "table_close":
            break
    return cells


def test_the_block_reads_as_it_did(snapshot: Callable[[str, str], None]) -> None:
    snapshot("block.md", block(evidence=True))


def test_the_block_holds_what_a_maintainer_asks_for(tmp_path: Path) -> None:
    path = write(tmp_path)
    analysis = analyse(path)
    text = render_markdown(path)
    assert text == render_markdown(analysis)
    for part in (
        "### Where data and log live",
        "tps against placement=together: log apart faster at all 2 configurations",
        "`rw,relatime`",
        "stable",
        "kernel 6.1.0-18-amd64",
        "PostgreSQL 16.2",
        "shared_buffers=128MB",
        "24 of 24 ok",
        "seed 2001",
        "No warnings.",
        "nfslab run placement-2001.toml",
    ):
        assert part in text, part
    table = rows(text)[: 1 + len(analysis.points)]
    assert table[0][:5] == ["placement", "clients", "tps", "95% interval of the median", "n"]
    assert table[0][-2:] == ["log flushes a transaction", "mean flush"]
    assert len(table) == 1 + 4
    for cells, point in zip(table[1:], analysis.points, strict=True):
        assert cells[:2] == [point.factors["placement"], str(point.factors["clients"])]
        median = point.estimates["tps"].median
        assert median is not None
        assert float(cells[2].removesuffix("/s")) == pytest.approx(median, rel=5e-3)
        assert cells[-2:] == ["1", "970 µs"]
    assert [cells[7] for cells in table[1:]] == ["baseline", "baseline", "faster", "faster"]


def test_unequal_durability_is_the_very_first_line() -> None:
    text = block(volatile=("log apart",))
    assert text.startswith("**UNEQUAL DURABILITY: ")


def test_warnings_follow_the_figures() -> None:
    text = block(failed=((0, 0),), machine_changes_at_block=3)
    assert re.search(r"\b1 of 24\b.*\bfailed", text)
    assert "the machine was not the same" in text
    assert text.index("| placement |") < text.index("Warnings:") < text.index("To run it again")
    assert rows(text)[1][4] == "5 of 6"


def test_one_run_says_that_nothing_is_known() -> None:
    text = block(repetitions=1)
    assert "unknown (n=1)" in text
    assert "significance unknown (n=1)" in text


def test_no_difference_says_what_would_have_been_seen() -> None:
    text = block(placements={"a": 1.0, "b": 1.0}, seed=3)
    assert re.search(r"inconclusive \(a change of [\d.]+ % detectable with 80 % power\)", text)


def test_a_reference_is_mentioned(tmp_path: Path) -> None:
    reference = {
        "table": "bonnie_2001",
        "metric": {"output_block_kb_s": "output_block_bytes_per_s"},
        "match": {"file_size_mb": "file_size"},
    }
    text = render_markdown(write_files(tmp_path, reference=reference).path)
    assert "Side by side: Bonnie over storage layouts, 2001" in text
    assert "No spread was published" in text
    assert "MiB/s" in text


def test_many_points_stay_pasteable(tmp_path: Path) -> None:
    path = write(tmp_path, clients=tuple(range(1, 36)), repetitions=1, evidence=False)
    text = render_markdown(path)
    assert "10 more configurations" in text
    assert len(text) < 65_536, "GitHub takes no longer comment"


HOSTILE = [
    "[click](http://example.invalid)",
    "<img src=x onerror=alert(1)>",
    "a | b",
    "`code` ``two``",
    "*bold* _under_ # head",
    "line one\nline two\n\n| x |",
    "@everyone &lt;",
    "![](x)",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_escaped_text_is_only_text(text: str) -> None:
    inline = [token for token in PARSER.parse(f"- x {escape(text)}") if token.type == "inline"]
    assert len(inline) == 1
    children = inline[0].children or []
    assert {child.type for child in children} <= {"text", "text_special"}
    assert "".join(child.content for child in children) == "x " + " ".join(text.split())


@pytest.mark.parametrize("text", [*HOSTILE, "`", "``", "", " "])
def test_code_spans_hold_any_text(text: str) -> None:
    tokens = PARSER.parse(f"| a |\n|---|\n| {code(text)} |")
    cells = [t for t in tokens if t.type == "inline"][1:]
    assert len(cells) == 1
    children = cells[0].children or []
    assert [child.type for child in children] == ["code_inline"]
    assert children[0].content.strip() == " ".join(text.split())


def test_hostile_labels_do_not_leave_their_cells(tmp_path: Path) -> None:
    path = write(tmp_path, placements={"a | b": 1.0, "<script>|[x](y)": 1.2})
    folder = ExperimentFolder.open(path)
    title = "T </h3> | [x](http://example.invalid) `"
    command = ["nfslab", "run", "a`b```; rm -rf '$HOME'"]
    folder.update_record(folder.record.model_copy(update={"title": title, "command": command}))
    text = render_markdown(path)
    types = {token.type for token in PARSER.parse(text)}
    inline = [child.type for token in PARSER.parse(text) for child in token.children or []]
    assert "html_block" not in types
    assert not {"link_open", "image", "html_inline"} & set(inline)
    table = rows(text)[: 1 + 4]
    assert {len(cells) for cells in table} == {len(table[0])}
    assert {cells[0] for cells in table[1:]} == {"a | b", "<script>|[x](y)"}
    fences = [token for token in PARSER.parse(text) if token.type == "fence"]
    assert len(fences) == 1
    assert shlex.split(fences[0].content) == command


def test_what_is_cut_of_a_section_is_counted() -> None:
    table = Table("a|b", [Column("x", False), Column("y", False)], [[text("<x>"), text("|")]] * 70)
    section = Section("T", sentences=["s"] * 65, tables=[table], notes=[f"n{k}" for k in range(21)])
    title, said, heading, rows, more, notes = section_text(section).split("\n\n")
    assert (title, heading) == ("**T**", "a\\|b:")
    assert said.splitlines() == ["- s"] * 60 + ["- and 5 more"]
    assert rows.splitlines()[2:] == ["| \\<x\\> | \\| |"] * 60
    assert more == "10 more rows: `nfslab report` has them."
    assert notes.splitlines()[-1] == "- and 1 more"
