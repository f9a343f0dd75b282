"""What is said of an experiment's time: the anatomy with its findings, for every output."""

from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.evidence.anatomy.differences import compared, point_anatomies
from nfslab.evidence.anatomy.kind import AnatomyEvidence
from nfslab.evidence.anatomy.parts import UNATTRIBUTED
from nfslab.evidence.anatomy.section import ANCHOR as ANATOMY
from nfslab.evidence.found import find, section_of
from nfslab.evidence.slowest import at_point
from nfslab.evidence.statements import kind as statements
from nfslab.evidence.statements.kind import StatementsEvidence
from nfslab.findings.alone import Alone
from nfslab.findings.answer import answer, contradictions, together
from nfslab.findings.confirm import Slope, read_test
from nfslab.findings.registry import findings_alone, findings_of, intervention_of
from nfslab.findings.slopes import delay_ns, measured_slope
from nfslab.results.emulation import is_stamped
from nfslab.results.groups import grouped
from nfslab.results.outcomes import locate
from nfslab.results.store import FILE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.display.sections import Section
    from nfslab.evidence.anatomy.differences import Compared, Difference
    from nfslab.evidence.anatomy.parts import AnatomyFacts
    from nfslab.evidence.base import RunFacts
    from nfslab.findings.base import Finding
    from nfslab.findings.confirm import Intervention, Outcome
    from nfslab.report.model import Analysis

WHY_MOST: Final = 3
"""Lines that a run ends with."""


def pairs_of(analysis: Analysis) -> list[Compared]:
    """All comparisons of the primary metric whose points were taken apart. ResultsError."""
    return compared(find(AnatomyEvidence(), analysis), analysis)


@dataclass(frozen=True, slots=True)
class Why:
    """What an experiment's comparisons come to."""

    sentences: Sequence[str]
    """The largest finding of each comparison, the largest effect first."""
    confirm: str
    """What would confirm the first one, with its command where there is one."""
    outcome: str
    """Of an experiment that tests a finding: prediction and outcome."""


def why(analysis: Analysis) -> Why:
    """For the first screen and the end of a run. ResultsError."""
    found = named(analysis)
    confirm = ""
    if found:
        confirm = f"To confirm: {found[0][1].confirm}."
        tested = first_testable(found, analysis)
        if tested is not None:
            confirm = f"To confirm: nfslab confirm {shlex.quote(analysis.path)} {tested[1].cause}"
    firsts: dict[tuple[int, int], str] = {}
    for pair, one in found:
        points = pair.result.base_point, pair.result.point
        firsts.setdefault(points, one.sentence)
    said = [*firsts.values()][:WHY_MOST]
    return Why(said, confirm, outcome(analysis))


def named(analysis: Analysis) -> list[tuple[Compared, Finding]]:
    """All findings, by comparison: that whose first one has the largest effect first."""
    found = [(pair, findings_of(pair)) for pair in pairs_of(analysis)]
    found = [(pair, ranked) for pair, ranked in found if ranked]
    found.sort(key=lambda item: -item[1][0].effect_ns)
    return [(pair, one) for pair, ranked in found for one in ranked]


def first_testable(
    found: Sequence[tuple[Compared, Finding]], analysis: Analysis
) -> tuple[Compared, Finding, Intervention | Slope] | None:
    """The first finding that a file can test, and how; None: there is none."""
    for pair, one in found:
        if (intervention := intervention_of(one.cause, pair, analysis)) is not None:
            return pair, one, intervention
    return None


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What an experiment that tests a finding came to."""

    decided: Outcome
    sentence: str
    """Prediction and outcome side by side."""


def confirmation(analysis: Analysis) -> Confirmation | None:
    """Of an experiment that tests a finding, as far as it has run.

    None: it tests none, or its runs are emulated and decide nothing.
    """
    if emulated_points(analysis):
        return None
    try:
        text = (locate(Path(analysis.path)) / FILE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    test = read_test(text)
    if isinstance(test, Slope):
        delays = {
            point.index: delay_ns(point.settings.get(test.parameter)) for point in analysis.points
        }
        measured = measured_slope(find(AnatomyEvidence(), analysis).runs, delays)
        return Confirmation(test.decide(measured), test.outcome(measured))
    if test is None:
        return None
    pairs = pairs_of(analysis)
    if len(pairs) != 1:
        return None
    return Confirmation(test.decide(pairs[0]), test.outcome(pairs[0]))


def outcome(analysis: Analysis) -> str:
    """Of an experiment that tests a finding: prediction and outcome; else empty."""
    found = confirmation(analysis)
    return found.sentence if found is not None else ""


def explained(analysis: Analysis) -> list[Section]:
    """The anatomy with its findings below the sentences, then the other cut through the same time,
    by statement; empty: nothing was taken apart."""
    found = find(AnatomyEvidence(), analysis)
    made = section_of(AnatomyEvidence(), found)
    if made is None:
        return []
    whole = with_findings(made, analysis)
    cut = section_of(StatementsEvidence(), find(StatementsEvidence(), analysis))
    return [whole] if cut is None else [whole, cut]


def with_findings(section: Section, analysis: Analysis) -> Section:
    """The anatomy's section with its findings; any other as it is."""
    if section.anchor != ANATOMY:
        return section
    pairs = pairs_of(analysis)
    said = [line for pair in pairs for line in _of_pair(pair)]
    if not pairs:
        said = [line for point in points_of(analysis) for line in _of_point(point)]
    return dataclasses.replace(section, sentences=[*said, *section.sentences])


def _of_pair(pair: Compared) -> list[str]:
    """Sentences of a comparison; none where no difference is shown, or where it is faster."""
    found = findings_of(pair)
    whole_ns = pair.whole.difference_ns
    if not pair.shown or whole_ns <= 0:
        return [_sentence(one) for one in found]
    comes_to = answer(found, whole_ns, _wants(pair.sides[1]))
    more = _more(pair.result.label, found, comes_to, together(found, whole_ns))
    return [*(_sentence(one) for one in found), *more]


def _of_point(point: Alone) -> list[str]:
    found = findings_alone(point)
    comes_to = answer(found, point.at.mean_ns, _wants(point.runs))
    more = _more(point.at.label, found, comes_to, together(found, point.at.mean_ns))
    return [*(_sentence(one) for one in found), *more]


def _sentence(one: Finding) -> str:
    return (
        f"{one.sentence} Without it {one.without_it}. Confidence: {one.confidence}. "
        f"To confirm: {one.confirm}."
    )


def _more(label: str, found: Sequence[Finding], *comes_to: str) -> list[str]:
    """`comes_to`: sentences about all of them; empty ones are none."""
    claims = [
        f"{one} and {other} claim the same time; at most one has all of it."
        for one, other in contradictions(found)
    ]
    return [f"{label}: {said}" for said in (*comes_to, *claims) if said]


def _wants(runs: Sequence[RunFacts[AnatomyFacts]]) -> list[str]:
    return list(dict.fromkeys(name for run in runs for name in run.facts.wants))


def points_of(analysis: Analysis) -> list[Alone]:
    """All points that were taken apart, each alone, without emulated ones. ResultsError."""
    found = find(AnatomyEvidence(), analysis)
    emulated = emulated_points(analysis)
    runs = grouped((run.point, run) for run in found.runs)
    return [Alone(at, runs[at.point]) for at in point_anatomies(found) if at.point not in emulated]


def emulated_points(analysis: Analysis) -> set[int]:
    """Points with a counted run of an emulated processor: no cause is named by its times."""
    return {
        run.point
        for run in analysis.runs
        if run.counted and run.point is not None and is_stamped(run.flags)
    }


def content(analysis: Analysis) -> dict[str, Any]:
    """As JSON: every comparison with its parts and findings, and every point alone."""
    tested = confirmation(analysis)
    cut = find(StatementsEvidence(), analysis)
    between = {
        (pair.result.base_point, pair.result.point): statements.between_points(cut, pair)
        for pair in statements.pairs_of(cut)
    }
    each = {
        at.point: statements.at_point(cut, at) for at in point_anatomies(statements.of_wholes(cut))
    }
    return {
        "emulated": analysis.emulated,
        "confirmation": tested and dataclasses.asdict(tested),
        "comparisons": [
            _comparison(pair, analysis)
            | _cut(between.get((pair.result.base_point, pair.result.point)))
            for pair in pairs_of(analysis)
        ],
        "points": [
            _point(point, analysis) | _cut(each.get(point.at.point))
            for point in points_of(analysis)
        ],
    }


def _cut(by_statement: list[dict[str, Any]] | None) -> dict[str, Any]:
    """The other cut through the same time, where the runs have it."""
    return {} if by_statement is None else {"statements": by_statement}


def _comparison(pair: Compared, analysis: Analysis) -> dict[str, Any]:
    result = pair.result.result
    ends = result.interval
    return {
        "base": analysis.points[pair.result.base_point].factors,
        "new": analysis.points[pair.result.point].factors,
        "metric": analysis.primary,
        "ratio": {"value": result.ratio, "interval": ends and [ends.low, ends.high]},
        "whole": _difference(pair.whole),
        "parts": [_difference(one) for one in [*pair.parts, *pair.inner]],
        "unattributed_ns": pair.new.parts_ns.get(UNATTRIBUTED, 0.0)
        - pair.base.parts_ns.get(UNATTRIBUTED, 0.0),
        **_found(findings_of(pair), pair.whole.difference_ns if pair.shown else 0.0, pair.sides[1]),
    }


def _found(
    found: Sequence[Finding], whole_ns: float, runs: Sequence[RunFacts[AnatomyFacts]]
) -> dict[str, Any]:
    """`whole_ns`: what they are of; nothing longer needs no answer."""
    return {
        "findings": [one.as_dict() for one in found],
        "answer": answer(found, whole_ns, _wants(runs)) if whole_ns > 0 else "",
        "contradicting": [list(pair) for pair in contradictions(found)],
    }


def _difference(one: Difference) -> dict[str, Any]:
    return {
        "part": one.path,
        "base_ns": one.base_ns,
        "new_ns": one.new_ns,
        "difference_ns": one.difference_ns,
        "interval_ns": one.interval_ns and list(one.interval_ns),
        "shown": one.shown,
    }


def _point(point: Alone, analysis: Analysis) -> dict[str, Any]:
    at = point.at
    return {
        "factors": analysis.points[at.point].factors,
        "operation": at.operation,
        "runs": at.runs,
        "mean_ns": at.mean_ns,
        "parts": [
            {"part": path, "ns": ns, "error_ns": at.error_ns.get(path)}
            for path, ns in at.parts_ns.items()
        ],
        "slowest": [
            one.as_dict() for one in at_point(at.label, (run.facts.slowest for run in point.runs))
        ],
        **_found(findings_alone(point), at.mean_ns, point.runs),
    }
