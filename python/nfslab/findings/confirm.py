"""Testing a finding by intervention: the experiment that would refute it, and what it decided.

The experiment is the finding's own point twice: as it was, and with one lever pulled. Its
prediction follows from the anatomy and stands in the file before anything runs: the mean operation
is shorter by the part's effect, within its interval. Confirmed: a difference of that sign is shown,
and its interval meets the predicted one. Refuted: they do not meet. Else it is not decided.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from nfslab.display.numbers import interval, quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.findings.base import Finding
    from nfslab.report.model import Analysis

Outcome = Literal["confirmed", "refuted", "not decided"]
AS_IT_WAS: Final = "as it was"
REPETITIONS: Final = 5
NAME_MOST: Final = 40
MARK: Final = "# prediction: "
"""Of the line of the file that programs read."""
LEFT_OUT: Final = re.compile(r"\[\[?(axes|exclude|reference)\b")
"""Sections of the first experiment's file that the new one has not."""


@dataclass(frozen=True, slots=True)
class Lever:
    """One change of a point: parameters with their new values, and what it is called."""

    label: str
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Prediction:
    """By how much the mean operation becomes shorter, in ns."""

    cause: str
    shorter_ns: float
    interval_ns: tuple[float, float]

    @classmethod
    def of(cls, finding: Finding) -> Prediction:
        """The part goes back to what it was at the base."""
        return cls(finding.cause, finding.effect_ns, finding.interval_ns)

    @classmethod
    def read(cls, text: str) -> Prediction | None:
        """Of an experiment's file; None: it tests no finding."""
        found = re.search(rf"^{MARK}(.*)$", text, flags=re.MULTILINE)
        if found is None:
            return None
        try:
            made = json.loads(found[1])
            low, high = made["interval_ns"]
            return cls(str(made["cause"]), float(made["shorter_ns"]), (float(low), float(high)))
        except (ValueError, TypeError, KeyError):
            return None

    def line(self) -> str:
        """For programs, in the file."""
        return MARK + json.dumps(asdict(self))

    def sentence(self) -> str:
        """For people."""
        shorter, ends = quantity(self.shorter_ns, "ns"), interval(*self.interval_ns, "ns")
        return f"Predicted ({self.cause}): {shorter} shorter ({ends})"

    def outcome(self, pair: Compared) -> str:
        """Prediction and outcome side by side."""
        ends = pair.whole.interval_ns
        measured = quantity(-pair.whole.difference_ns, "ns")
        if ends is not None:
            measured += f" ({interval(-ends[1], -ends[0], 'ns')})"
        return f"{self.sentence()}; measured: {measured} shorter. {self.decide(pair).capitalize()}."

    def decide(self, pair: Compared) -> Outcome:
        """Of the new experiment's comparison of the lever with what was."""
        ends = pair.whole.interval_ns
        if ends is None:
            return "not decided"
        shorter = (-ends[1], -ends[0])
        meet = shorter[0] <= self.interval_ns[1] and self.interval_ns[0] <= shorter[1]
        if not meet:
            return "refuted"
        return "confirmed" if pair.whole.shown and shorter[0] > 0 else "not decided"


def experiment_text(
    original: str, analysis: Analysis, pair: Compared, lever: Lever, prediction: Prediction
) -> str:
    """The file: the original without its axes, the point's settings, and the lever as an axis."""
    settings = dict(analysis.points[pair.result.point].settings)
    now = {name: settings.pop(name, analysis.fixed.get(name)) for name in lever.settings}
    kept = _with_heading(_without_sections(original), analysis, pair, lever, prediction)
    parts = [prediction.line(), kept.rstrip(), "", "# The point of the finding."]
    for name, value in settings.items():
        parts += ["[[axes]]", f"parameter = {_toml(name)}", f"values = [{_toml(value)}]", ""]
    rows = [list(now.values()), list(lever.settings.values())]
    parts += [
        "# The lever.",
        "[[axes]]",
        'name = "lever"',
        f"parameters = {_toml(list(lever.settings))}",
        f"values = {_toml(rows)}",
        f"labels = {_toml([AS_IT_WAS, lever.label])}",
    ]
    return "\n".join(parts) + "\n"


def _without_sections(text: str) -> str:
    kept, dropping = [], False
    for line in text.splitlines():
        if line.startswith("["):
            dropping = LEFT_OUT.match(line) is not None
        if not dropping:
            kept.append(line)
    return "\n".join(kept)


def _with_heading(
    text: str, analysis: Analysis, pair: Compared, lever: Lever, prediction: Prediction
) -> str:
    """[experiment] with a name of its own, and the prediction as its description."""
    own = {
        "name": f"confirm-{analysis.name}"[:NAME_MOST].rstrip("-"),
        "title": f"{prediction.cause}: {lever.label}",
        "description": f"{pair.result.label} as it was, and with the lever. "
        f"{prediction.sentence()}.",
        "repetitions": REPETITIONS,
    }
    lines, inside = [], False
    for line in text.splitlines():
        if line.startswith("["):
            inside = line.startswith("[experiment]")
        key = line.partition("=")[0].strip()
        if not (inside and key in {*own, "primary"}):
            lines.append(line)
        if line.startswith("[experiment]"):
            lines += [f"{name} = {_toml(value)}" for name, value in own.items()]
    return "\n".join(lines)


def _toml(value: Any) -> str:
    """JSON's texts, numbers and lists are TOML's."""
    return json.dumps(value, ensure_ascii=False)
