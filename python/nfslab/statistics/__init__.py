"""Statistics that can be defended: pure functions on arrays, for everything after a run.

No file, no clock, no knowledge of runs: values in, frozen results out (`as_dict()` gives
plain values for JSON). Every number of nfslab is estimated here and only here.

    from nfslab import statistics
    point = statistics.summarise([412.0, 398.5, 405.1, 409.9, 401.2])
    both = statistics.compare_blocked([0, 1, 2], base, [0, 1, 2], new, better="higher")
    both.verdict, statistics.change_text(both)

Many at once (`summarise_many`, `compare_many`) cost little more than one: a report has
thousands. Why these estimators, and how often they err: docs/decisions/statistics.md.

Names are resolved on first use: importing this package imports neither numpy nor scipy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nfslab.statistics.checks.check import Check
    from nfslab.statistics.checks.clock_steps import check_clock_steps
    from nfslab.statistics.checks.competing_load import check_competing_load
    from nfslab.statistics.checks.littles_law import check_littles_law
    from nfslab.statistics.checks.physical_bounds import (
        check_latency_floor,
        check_rate_ceiling,
        check_sync_rate,
    )
    from nfslab.statistics.checks.steady_state import check_steady_state, warm_up_length
    from nfslab.statistics.comparison import (
        Comparison,
        compare_blocked,
        compare_many,
        compare_published,
        compare_unpaired,
        correct_for_many,
    )
    from nfslab.statistics.effect_text import (
        change_text,
        detectable_text,
        difference_text,
        percent_change_text,
    )
    from nfslab.statistics.intervals import Interval
    from nfslab.statistics.multiplicity import holm
    from nfslab.statistics.observations import Observations
    from nfslab.statistics.outlier_marks import outliers
    from nfslab.statistics.quantile_estimator import (
        Quantile,
        histogram_quantiles,
        median,
        quantile,
        quantiles,
        samples_needed,
    )
    from nfslab.statistics.summary import Summary, summarise, summarise_many

_HOME = {
    "Check": "checks.check",
    "Comparison": "comparison",
    "Interval": "intervals",
    "Observations": "observations",
    "Quantile": "quantile_estimator",
    "Summary": "summary",
    "change_text": "effect_text",
    "check_clock_steps": "checks.clock_steps",
    "check_competing_load": "checks.competing_load",
    "check_latency_floor": "checks.physical_bounds",
    "check_littles_law": "checks.littles_law",
    "check_rate_ceiling": "checks.physical_bounds",
    "check_steady_state": "checks.steady_state",
    "check_sync_rate": "checks.physical_bounds",
    "compare_blocked": "comparison",
    "compare_many": "comparison",
    "compare_published": "comparison",
    "compare_unpaired": "comparison",
    "correct_for_many": "comparison",
    "detectable_text": "effect_text",
    "difference_text": "effect_text",
    "histogram_quantiles": "quantile_estimator",
    "holm": "multiplicity",
    "median": "quantile_estimator",
    "outliers": "outlier_marks",
    "percent_change_text": "effect_text",
    "quantile": "quantile_estimator",
    "quantiles": "quantile_estimator",
    "samples_needed": "quantile_estimator",
    "summarise": "summary",
    "summarise_many": "summary",
    "warm_up_length": "checks.steady_state",
}

__all__ = [
    "Check",
    "Comparison",
    "Interval",
    "Observations",
    "Quantile",
    "Summary",
    "change_text",
    "check_clock_steps",
    "check_competing_load",
    "check_latency_floor",
    "check_littles_law",
    "check_rate_ceiling",
    "check_steady_state",
    "check_sync_rate",
    "compare_blocked",
    "compare_many",
    "compare_published",
    "compare_unpaired",
    "correct_for_many",
    "detectable_text",
    "difference_text",
    "histogram_quantiles",
    "holm",
    "median",
    "outliers",
    "percent_change_text",
    "quantile",
    "quantiles",
    "samples_needed",
    "summarise",
    "summarise_many",
    "warm_up_length",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
