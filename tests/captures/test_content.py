"""What the core finds in captures is what its stub declares, no field more and none less."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typing_extensions
from nfslab.captures.analysis import Asked, CaptureAnalysis, nothing, read_captures
from nfslab.evidence.capture.collector import LENSES
from nfslab.evidence.capture.stored import stored_analysis
from nfslab.storage.file_classes import read_file_classes
from pydantic import ValidationError

from tests.captures.declared import declared, trace_content
from tests.evidence.made_captures import analysis_of, density_section, gap, make_calls
from tests.trace.generator.files import Format, encode, write
from tests.trace.scenes import everything
from tests.trace.simulation.planted import scenario

BEFORE = Path(__file__).parents[1] / "before"
CAPTURES = sorted(Path(__file__).parent.glob("**/*.pcap.*"))
MANY_CALLS_ONLY = {
    "density", "columns", "rows", "codes_per_row", "column_ns", "first_column_ns", "sample_one_in",
    "slowest_from_code", "slowest", "marked", "marked_one_in", "sample",
}  # fmt: skip
"""Of more than 2,000,000 calls."""
OF_LATER_RUNS = ("causes", "capture_point", "by_connection", "connections")
"""Runs that were stored before have none."""
BEYOND_LIMITS_ONLY = {"other"}
"""Of more clients or users than are listed."""


DECLARED = declared()
CONTENT = trace_content()


def reachable(kind: Any, found: set[Any]) -> set[Any]:
    """All typed dictionaries in a type."""
    if kind in DECLARED.values() and kind not in found:
        found.add(kind)
        for part in typing_extensions.get_type_hints(kind).values():
            reachable(part, found)
    for part in typing_extensions.get_args(kind):
        reachable(part, found)
    return found


def keys(value: Any) -> Iterator[str]:
    for key, part in value.items() if isinstance(value, dict) else ():
        yield key
        yield from keys(part)
    for part in value if isinstance(value, list) else ():
        yield from keys(part)


def check(analysis: CaptureAnalysis) -> None:
    CONTENT.validate_json(json.dumps(analysis.content))


@pytest.fixture(scope="module")
def analyses(tmp_path_factory: pytest.TempPathFactory) -> list[CaptureAnalysis]:
    """Every committed capture and some made ones, whole, in part, and by the table alone."""
    folder, every = tmp_path_factory.mktemp("made"), everything()
    made = [("every", every.frames(), every.snaplen)]
    for name in ("draining", "replies_only"):
        simulated = scenario(name, "client", 1)
        made.append((name, simulated.frames, simulated.snaplen))
    paths = [
        write(folder / name, encode(frames, Format(), snaplen)) for name, frames, snaplen in made
    ]
    classes = read_file_classes()
    return [
        read_captures([capture], asked)
        for capture in [*CAPTURES, *paths]
        for asked in (
            Asked(LENSES, classes),
            Asked(LENSES, classes, (500_000_000, 1_000_000_000)),
            Asked(("operations",), ()),
        )
    ]


def test_every_field_is_declared_and_every_declared_field_occurs(
    analyses: list[CaptureAnalysis],
) -> None:
    assert len(CAPTURES) >= 14
    seen: set[str] = set()
    for analysis in analyses:
        check(analysis)
        seen |= set(keys(analysis.content))
    kinds = reachable(DECLARED["TraceContent"], set())
    assert len(kinds) > 40
    fields = {name for kind in kinds for name in kind.__annotations__}
    assert fields - seen <= MANY_CALLS_ONLY | BEYOND_LIMITS_ONLY


def test_every_lens_that_was_asked_for_is_there(analyses: list[CaptureAnalysis]) -> None:
    assert set(LENSES) <= set(analyses[0].content)
    assert set(LENSES) & set(analyses[2].content) == {"operations"}


def test_a_capture_without_a_byte_has_the_fields_that_all_have() -> None:
    check(nothing(["empty"]))


def test_runs_stored_before_have_no_other_form(tmp_path: Path) -> None:
    with tarfile.open(BEFORE / "all-evidence.tar.xz") as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer
        tar.extractall(tmp_path)
    stored = [stored_analysis(run, "before") for run in tmp_path.glob("*/runs/*")]
    captured = [analysis for analysis in stored if analysis is not None]
    assert len(captured) == 4
    for analysis in captured:
        check(analysis)


def test_captures_made_for_other_tests_have_the_fields_that_the_core_s_have() -> None:
    calls = make_calls(1000, stalls=[(1.0, 0.5)])
    gaps = [gap("server_stalled", 1.0, 0.5)]
    check(analysis_of(calls, gaps=gaps))
    check(analysis_of(calls, gaps=gaps, points=density_section(calls, 14)))


@pytest.mark.parametrize("lens", LENSES)
def test_a_field_more_or_less_is_refused(analyses: list[CaptureAnalysis], lens: str) -> None:
    content = json.loads(json.dumps(analyses[0].content))
    section = content[lens][0] if lens == "operations" else content[lens]
    section["unheard_of"] = 1
    with pytest.raises(ValidationError, match="unheard_of"):
        CONTENT.validate_json(json.dumps(content))
    del section["unheard_of"]
    CONTENT.validate_json(json.dumps(content))
    first = next(name for name in section if name not in OF_LATER_RUNS)
    del section[first]
    with pytest.raises(ValidationError, match=first):
        CONTENT.validate_json(json.dumps(content))
