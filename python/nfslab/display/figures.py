"""Figures as data: six kinds that the browser knows how to draw; nothing is computed there.

Every median, interval, level and count stands here as Python found it. A figure has one *view*, or
several among which a reader chooses (a metric, a run, a point); the data of a view are made when a
page is written (`View.load`), so that outputs without pictures pay nothing.

    lines     panels over one x axis: lines, steps, stacks, dots, intervals, rules, levels, labels
    bars      values by category, with intervals, against a line of reference
    stacked   parts of wholes by category, as shares or amounts
    points    up to a million points: time by class, by latency, by offset
    heat      counts in cells
    flame     a tree of weights

Arrays are numpy's or sequences; NaN is missing. Numbers are in the unit of their axis and shown by
`display.numbers`, in the browser by the same rule. Colours are names of the style sheet's
variables where they have a meaning ("cpu-user"); else the browser gives out its palette in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

Scale = Literal["linear", "log", "ordinal", "nines"]
"""nines: quantiles 0 to 1, drawn as -log10(1 - q)."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis. Its domain is that of the data where `low` and `high` are None."""

    name: str
    unit: str = ""
    scale: Scale = "linear"
    levels: Sequence[str] = ()
    """ordinal: what stands at 0, 1, 2 and so on; else names of the values in `at`."""
    at: Sequence[float] = ()
    """Where `levels` stand on an axis of numbers (the levels that were measured)."""
    low: float | None = None
    high: float | None = None
    log_choice: bool = False
    """A reader may choose between linear and log (all values are above zero)."""
    common: tuple[float, float] | None = None
    """Ends that hold the data of all views: a reader may choose them."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series of a panel, with an entry in the legend. All arrays have the same length."""

    label: str
    x: ArrayLike
    y: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    """Ends of intervals around `y`."""
    draw: Literal["line", "step", "held", "dots", "stack", "stack_steps"] = "line"
    """step: `y` holds around its `x`, midway to its neighbours; held: from its `x` to the next;
    stack: filled bands, each on top of those before it in the panel; stack_steps: in steps."""
    colour: str = ""
    group: str = ""
    """Series with the same group share colour and legend entry (median and single runs)."""
    dash: bool = False
    hints: Sequence[str] = ()
    """By point: what a tooltip says beside its values."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across a panel, at a place of its x or y axis."""

    at: float
    axis: Literal["x", "y"] = "x"
    label: str = ""
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Band:
    """A span of the x axis that is marked (a stall, a warm-up)."""

    low: float
    high: float
    label: str
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Level:
    """A level between two places of the x axis (a median between two changes)."""

    low: float
    high: float
    y: float
    label: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: its series over the figure's x axis."""

    title: str
    y: Axis
    series: Sequence[Series] = ()
    rules: Sequence[Rule] = ()
    bands: Sequence[Band] = ()
    levels: Sequence[Level] = ()
    height: float = 1.0
    """Of a panel of usual height."""
    key: str = ""
    """Names the panel across runs, so that all have one scale."""
    x: Axis | None = None
    """Where it has another x axis than the figure."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Panels over one x axis, one below the other, or side by side in so many columns."""

    kind: ClassVar[str] = "lines"
    x: Axis
    panels: Sequence[Panel]
    columns: int = 1


@dataclass(frozen=True, slots=True)
class Bar:
    """One category's value with its interval; None: not known."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    tone: Literal["", "good", "bad", "changed", "faint"] = ""
    hint: str = ""
    group: str = ""
    """Bars of one label side by side ("published", "measured"): their legend entry."""
    dots: Sequence[float] = ()
    """Single values (runs) beside the interval."""


@dataclass(frozen=True, slots=True)
class Bars:
    """Values by category, the first at the top."""

    kind: ClassVar[str] = "bars"
    axis: Axis
    bars: Sequence[Bar]
    reference: float | None = None
    """Where "no change" is."""
    marks: bool = False
    """Points with intervals instead of bars from zero (ratios)."""


@dataclass(frozen=True, slots=True)
class Whole:
    """One category: its parts in the order of `Stacked.parts`, in the unit of the axis."""

    label: str
    parts: Sequence[float]
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """A part that every whole has."""

    label: str
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Stacked:
    """Parts of wholes."""

    kind: ClassVar[str] = "stacked"
    axis: Axis
    parts: Sequence[Part]
    wholes: Sequence[Whole]
    shares: bool = True
    """Every whole is 100 %; the axis' unit is that of the amounts in tooltips."""


@dataclass(frozen=True, slots=True)
class Cloud:
    """Points with one look."""

    label: str
    x: ArrayLike
    y: ArrayLike
    colour: str = ""
    shape: Literal["circle", "rect", "triangle", "diamond", "cross"] = "circle"
    size: float = 3.0
    length: ArrayLike | None = None
    """By point: how far it reaches along x (a call's duration), drawn as a line."""
    extra: dict[str, tuple[ArrayLike, str]] = field(default_factory=dict)
    """Name -> (by point, unit): what a tooltip says beside x and y. Unit "#": a whole number
    without one; texts are sequences of str."""


@dataclass(frozen=True, slots=True)
class Points:
    """Clouds of points over common axes; bands and rules behind them."""

    kind: ClassVar[str] = "points"
    x: Axis
    y: Axis
    clouds: Sequence[Cloud]
    bands: Sequence[Band] = ()
    rules: Sequence[Rule] = ()
    drawn_of: int | None = None
    """How many there are, where not all are in the data."""


@dataclass(frozen=True, slots=True)
class Heat:
    """Counts in cells: `cells[row][column]`, rows from the lowest y."""

    kind: ClassVar[str] = "heat"
    x: Axis
    y: Axis
    x_edges: ArrayLike
    y_edges: ArrayLike
    """One more than there are columns (rows), rising, in the units of the axes."""
    cells: ArrayLike
    what: str
    """What is counted, in the plural."""
    most: float | None = None
    """The top of the colour scale, common to several views; None: of these cells."""


@dataclass(frozen=True, slots=True)
class Flame:
    """A tree in preorder: a frame's depth, name, weight (its children included)."""

    kind: ClassVar[str] = "flame"
    depth: ArrayLike
    name: Sequence[int]
    """By frame: the place of its name in `names`."""
    names: Sequence[str]
    weight: ArrayLike
    colour: Sequence[int]
    """By frame: the place of its colour in `colours`."""
    colours: Sequence[tuple[str, str]]
    """(label, colour)."""
    unit: str = ""
    what: str = "samples"


Drawing = Lines | Bars | Stacked | Points | Heat | Flame


@dataclass(frozen=True, slots=True)
class View:
    """One drawing of a figure; `choice` has one entry a name of `Figure.choices`."""

    load: Callable[[], Drawing | None]
    """Makes it; None: there is nothing after all. May raise ResultsError."""
    choice: Sequence[str] = ()
    caption: str = ""
    """What is drawn, of how many; beside the figure's own caption."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its heading and caption."""

    id: str
    """Unique in a page; names saved pictures and the data in the page."""
    title: str
    caption: str
    views: Sequence[View]
    choices: Sequence[str] = ()
    """What a reader chooses among: "Metric", "Run"."""
    link: str = ""
    """Figures with the same link zoom their x axes together."""
    rank: int = 1
    """Where a page has no room for all views, figures of a higher rank give way first, and of
    each figure the last views; what was left out is said."""

    @classmethod
    def of(cls, id: str, title: str, caption: str, drawing: Drawing, link: str = "") -> Figure:
        """A figure of one view that is there already."""
        return cls(id, title, caption, (View(lambda: drawing),), link=link)
