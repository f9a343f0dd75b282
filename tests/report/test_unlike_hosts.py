"""Client hosts that differ are said before all figures, in every form of a report."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from nfslab.experiment.host_checks import alike
from nfslab.report.analysis import analyse, render_json
from nfslab.report.html.document import render_html
from nfslab.report.markdown import render_markdown
from nfslab.report.verdict import conclusion
from nfslab.results.alike import FIRST

from tests.experiment.test_host_differences import OPTIONS, host
from tests.report.synthetic import Recipe, write_pgbench

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab.context import HostPart

BLOCKS, POINTS = 2, 2


def reported(folder: Path, parts: list[HostPart]) -> Path:
    """An experiment each of whose runs these hosts made, as their check has it."""
    flagged = {(block, point): alike(parts) for block in range(BLOCKS) for point in range(POINTS)}
    recipe = Recipe(clients=(4,), repetitions=BLOCKS, samples=False, flagged=flagged)
    return write_pgbench(folder, recipe).path


def test_two_that_differ_are_said_in_the_first_lines(tmp_path: Path) -> None:
    changed = {"kernel.release": "6.12.1", "software.programs.pgbench": "pgbench 17.0"}
    unlike = host(tmp_path, "b", changed, OPTIONS.replace("4.2", "3"))
    path = reported(tmp_path, [host(tmp_path, "a"), unlike])
    line = (
        "The client hosts differ: machine kernel release: 6.1.0-18 (a), 6.12.1 (b); "
        "places data option vers: 4.2 (a), 3 (b); "
        "machine software programs pgbench: pgbench 16.2 (a), pgbench 17.0 (b)."
    )
    analysis = analyse(path)
    assert analysis.hosts_line == line
    assert json.loads(render_json(analysis))["hosts_line"] == line
    assert conclusion(analysis)[0] == line
    text = render_markdown(analysis)
    assert text.splitlines()[0].replace("\\", "") == f"**{line}**"
    page = render_html(path)
    body = page[page.index("<body") :]
    assert body.index(line) < body.index("<h1")


def test_of_many_differences_the_first_lines_tell_some(tmp_path: Path) -> None:
    many = {f"kernel.sysctls.vm/{number}": "1" for number in range(FIRST + 1)}
    path = reported(tmp_path, [host(tmp_path, "a"), host(tmp_path, "b", many)])
    line = analyse(path).hosts_line
    assert len(re.findall(r"sysctls", line)) == FIRST
    assert line.endswith("; more under Client hosts.")


def test_hosts_that_are_alike_have_no_line(tmp_path: Path) -> None:
    path = reported(tmp_path, [host(tmp_path, "a"), host(tmp_path, "b")])
    assert analyse(path).hosts_line == ""
    assert "unlike-hosts" not in render_html(path)
    assert "hosts differ" not in render_markdown(path)
