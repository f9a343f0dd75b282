"""Testing a finding by intervention: the experiment that would refute it, and what it decided.

The experiment has the finding's own point without and with an intervention. Its prediction follows
from the anatomy and stands in the file before anything runs. Two kinds:

* The cause is taken away: the mean operation is shorter by the part's effect, within its interval.
* A delay of several sizes is added to each call of a kind: the operation is longer by it as often
  as such calls lie one after the other, which is the part's time over that of one call (`Slope`).

Confirmed: the change is shown, and its interval meets the predicted one, which a modelled time may
make a point: timers put it off by `TIMING`. Refuted: they do not meet; then the anatomy is wrong,
or the cause is. Where the cause taken away gives more than predicted it is not decided: its part is
in it, and what followed from it elsewhere, or another cause. Else it is not decided, too.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from nfslab.display.numbers import interval, number, quantity

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.findings.base import Finding
    from nfslab.report.model import Analysis

Outcome = Literal["confirmed", "refuted", "not decided"]
CONTROL: Final = "control"
REPETITIONS: Final = 5
SLOPE_REPETITIONS: Final = 4
"""Each has three levels."""
NAME_MOST: Final = 40
MARK: Final = "# prediction: "
"""Of the line of the file that programs read."""
LEFT_OUT: Final = re.compile(r"\[\[?(axes|exclude|reference)\b")
"""Sections of the first experiment's file that the new one has not."""
TARGET: Final = re.compile(r"\[targets\.([\w-]+)")
TIMING: Final = 0.05
"""Of a predicted slope or time: so far may timers, and what lies around a call, put it off."""


@dataclass(frozen=True, slots=True)
class Intervention:
    """One change of a point: parameters with their new values, and what it is called."""

    label: str
    settings: Mapping[str, Any]
    was: Mapping[str, Any] = field(default_factory=dict)
    """What they are at the point, of those that its file does not set."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """By how much the mean operation becomes shorter, in ns."""

    cause: str
    shorter_ns: float
    interval_ns: tuple[float, float]

    @classmethod
    def of(cls, finding: Finding) -> Prediction:
        """The part goes back to what it was at the baseline."""
        return cls(finding.cause, finding.effect_ns, finding.interval_ns)

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
        """Of the new experiment's comparison of the intervention with what was."""
        ends = pair.whole.interval_ns
        if ends is None:
            return "not decided"
        shorter, doubt_ns = (-ends[1], -ends[0]), TIMING * abs(self.shorter_ns)
        if shorter[1] < self.interval_ns[0] - doubt_ns:
            return "refuted"
        more = shorter[0] > self.interval_ns[1] + doubt_ns
        return "confirmed" if pair.whole.shown and shorter[0] > 0 and not more else "not decided"


@dataclass(frozen=True, slots=True)
class Slope:
    """How many calls of a kind lie one after the other in an operation, and how that is tested."""

    cause: str
    what: str
    """Calls, as people name them."""
    calls: float
    interval: tuple[float, float]
    one_ns: float
    """What one of them takes."""
    parameter: str
    """The delay of each such call."""
    values: tuple[str, ...]
    """Its sizes; the first is none."""

    def sentence(self) -> str:
        """For people."""
        return (
            f"Predicted ({self.cause}): {_number(self.calls, self.interval)} {self.what} lie one "
            f"after the other, {quantity(self.calls * self.one_ns, 'ns')} of the time"
        )

    def outcome(self, measured: tuple[float, tuple[float, float]] | None) -> str:
        """Prediction and outcome side by side."""
        decided = self.decide(measured)
        if measured is None:
            return f"{self.sentence()}; too few runs. {decided.capitalize()}."
        slope, ends = measured
        said = (
            f"{self.sentence()}; measured by delays: {_number(slope, ends)}, "
            f"{quantity(slope * self.one_ns, 'ns')}. {decided.capitalize()}."
        )
        if decided == "refuted":
            said += " The anatomy and the intervention disagree beyond their errors."
        return said

    def decide(self, measured: tuple[float, tuple[float, float]] | None) -> Outcome:
        """Of the slope that was measured, with its interval."""
        if measured is None:
            return "not decided"
        doubt = TIMING * self.calls
        if not _meet(measured[1], (self.interval[0] - doubt, self.interval[1] + doubt)):
            return "refuted"
        return "confirmed" if measured[1][0] > 0 else "not decided"


Test = Prediction | Slope


def intervention_label(intervention: Intervention | Slope) -> str:
    """What is changed."""
    return (
        intervention.label
        if isinstance(intervention, Intervention)
        else f"a delay of {intervention.what}"
    )


def line_of(test: Test) -> str:
    """For programs, in the file."""
    return MARK + json.dumps(asdict(test))


def read_test(text: str) -> Test | None:
    """Of an experiment's file; None: it tests no finding."""
    found = re.search(rf"^{MARK}(.*)$", text, flags=re.MULTILINE)
    if found is None:
        return None
    try:
        made: Test = TypeAdapter(Prediction | Slope).validate_json(found[1])
    except ValidationError:
        return None
    return made


def _meet(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _number(value: float, ends: tuple[float, float]) -> str:
    return f"{number(value)} ({interval(*ends)})"


def experiment_text(
    original: str,
    analysis: Analysis,
    pair: Compared,
    intervention: Intervention | Slope,
    test: Test,
) -> str:
    """The original file without its axes, the point's settings, the intervention as an axis."""
    settings = dict(analysis.points[pair.result.point].settings)
    if isinstance(intervention, Slope):
        settings.pop(intervention.parameter, None)
        names = [intervention.parameter]
        rows: list[list[Any]] = [[value] for value in intervention.values]
        labels = [CONTROL, *(f"+{value.rpartition(':')[2]}" for value in intervention.values[1:])]
    else:
        names = list(intervention.settings)
        fixed = analysis.fixed | dict(intervention.was)
        rows = [
            [settings.pop(name, fixed.get(name)) for name in names],
            [*intervention.settings.values()],
        ]
        labels = [CONTROL, intervention.label]
    values = [*settings.values(), *analysis.fixed.values(), *(one for row in rows for one in row)]
    paths = [path.split(".") for path in (*settings, *names)]
    used = {str(value) for value in values}
    used |= {path[1] for path in paths if path[0] == "targets" and len(path) > 1}
    kept = _without_sections(original, used)
    kept = _with_heading(kept, analysis, pair, intervention_label(intervention), test)
    parts = [line_of(test), kept.rstrip(), "", "# The point of the finding."]
    for name, value in settings.items():
        parts += ["[[axes]]", f"parameter = {_toml(name)}", f"values = [{_toml(value)}]", ""]
    parts += [
        "# The intervention.",
        "[[axes]]",
        'name = "intervention"',
        f"parameters = {_toml(names)}",
        f"values = {_toml(rows)}",
        f"labels = {_toml(labels)}",
    ]
    return "\n".join(parts) + "\n"


def _without_sections(text: str, used: Collection[str]) -> str:
    """Without what the test says anew, and targets that no value names."""
    kept, dropping = [], False
    for line in text.splitlines():
        if line.startswith("["):
            target = TARGET.match(line)
            unused = target is not None and target[1] not in used
            dropping = unused or LEFT_OUT.match(line) is not None
        if not dropping and not line.startswith(MARK):
            kept.append(line)
    return "\n".join(kept)


def _with_heading(text: str, analysis: Analysis, pair: Compared, label: str, test: Test) -> str:
    """[experiment] with a name of its own, and the prediction as its description."""
    own: Mapping[str, Any] = {
        "name": f"confirm-{analysis.name}"[:NAME_MOST].rstrip("-"),
        "title": f"{test.cause}: {label}",
        "description": f"{pair.result.label} without and with the intervention. {test.sentence()}.",
        "repetitions": REPETITIONS if isinstance(test, Prediction) else SLOPE_REPETITIONS,
    }
    lines: list[str] = []
    inside = False
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
