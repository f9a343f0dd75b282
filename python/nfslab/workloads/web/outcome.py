"""A load on a web server as metrics and tables of a run.

Tables: `series` (requests, bytes of bodies of each interval), `histograms` (buckets of latencies:
all requests, each kind, each class; `first_byte` of all), `web_kinds` and `web_classes` (one row
each), `web_steps` (loads on lines, as they were tried), `web_errors` (only with errors).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import RunFailed
from nfslab.results.core_tables import typed_table
from nfslab.results.records import Metric
from nfslab.workloads.base import Completions, buckets_table
from nfslab.workloads.web.search import failed_share

if TYPE_CHECKING:
    import pyarrow as pa

    from nfslab.workloads.web.parameters import WebParameters
    from nfslab.workloads.web.search import Found

PHASE: Final = "web_requests"
"""Name of the load in samples: a rate of requests."""
NS_PER_MS: Final = 1e6
QUANTILES: Final = ("p50", "p90", "p99", "p999", "max")
KIND_COLUMNS: Final = ("kind", "share", "drawn", "done", "failed", "bytes")
PRIMARY: Final = {
    "connections": "conforming_connections",
    "line_speed": "conforming_share",
    "open": "latency_p99_ms",
    "closed": "requests_per_s",
}


def errors_said(report: dict[str, Any]) -> str:
    """How many requests failed, by kind, and with which status; empty: none did."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in report["errors"].items())
    codes = ", ".join(f"{count:,} with {code}" for code, count in report["statuses"].items())
    return f"{kinds} ({codes})" if codes else kinds


def log_of(p: WebParameters) -> str:
    """Where to read what the server said."""
    if p.is_external:
        return f"see the log of {p.server}, and that it has these documents (docs/web.md)"
    return "see the server's log in the run's logs"


def metrics(
    report: dict[str, Any], p: WebParameters, found: Found, server_s: float | None
) -> dict[str, Metric]:
    """The numbers of the timed part. RunFailed where nothing was done in it."""
    requests, figures = report["requests"], report["all"]
    if not requests["done"]:
        errors = errors_said(report)
        raise RunFailed(
            "no request got its reply in the timed part",
            why=errors or "the server sent nothing whole",
            fix=log_of(p) + ("" if errors else "; fewer connections, or a longer duration"),
        )
    seconds = (report["window_end_ns"] - report["window_start_ns"]) / 1e9
    made: dict[str, Metric] = {}
    if p.load == "connections":
        made["conforming_connections"] = Metric(value=found.most, unit="1", better="higher")
    if p.on_lines:
        lines = report["connections"]
        share = lines["conforming"] / lines["asked"]
        made["conforming_share"] = Metric(value=share, unit="1", better="higher")
    for name, amount, unit in (
        ("requests_per_s", requests["done"], "1/s"),
        ("bytes_per_s", figures["bytes"], "bytes/s"),
        ("received_bytes_per_s", requests["received_bytes"], "bytes/s"),
    ):
        made[name] = Metric(value=amount / seconds, unit=unit, better="higher")
    for what, histogram in (
        ("latency", figures["last_byte"]), ("first_byte", figures["first_byte"]),
    ):  # fmt: skip
        for quantile in ("mean", "p50", "p99", "p999"):
            value_ms = histogram[f"{quantile}_ns"] / NS_PER_MS
            made[f"{what}_{quantile}_ms"] = Metric(value=value_ms, unit="ms", better="lower")
    made["failed_share"] = Metric(value=failed_share(report), unit="1", better="lower")
    if p.load == "open":
        skipped = requests["skipped"] / max(1, requests["planned"])
        made["skipped_share"] = Metric(value=skipped, unit="1", better="lower")
    touched = report["touched"]
    share = touched["bytes"] / touched["set_bytes"]
    made["touched_share"] = Metric(value=share, unit="1")
    client_us = sum(one["cpu_ns"] for one in report["threads"]) / 1e3 / requests["done"]
    made["client_cpu_us_per_request"] = Metric(value=client_us, unit="us", better="lower")
    whole = sum(report["series"]["done"])
    if server_s is not None and whole:
        # Of the whole load, warm-up included: read before and after it.
        made["server_cpu_us_per_request"] = Metric(
            value=server_s * 1e6 / whole, unit="us", better="lower"
        )
    made[PRIMARY[p.load]] = made[PRIMARY[p.load]].model_copy(update={"primary": True})
    return made


def samples(report: dict[str, Any], found: Found) -> dict[str, pa.Table]:
    """All tables that have rows."""
    tables = {
        "series": series_table(report),
        "histograms": histograms_table(report),
        "web_kinds": kinds_table(report),
        "web_classes": classes_table(report),
        "web_steps": steps_table(found),
        "web_errors": errors_table(report),
    }
    return {name: table for name, table in tables.items() if table.num_rows}


def completions(report: dict[str, Any]) -> Completions:
    """What was done in the whole intervals of the load, until the window's end."""
    series = report["series"]
    whole = (report["window_end_ns"] - series["start_ns"]) // series["interval_ns"]
    return Completions(0, series["interval_ns"], series["done"][:whole])


def series_table(report: dict[str, Any]) -> pa.Table:
    """Requests that ended well, and bytes of their bodies; t_ns from the load's start."""
    import pyarrow as pa

    series = report["series"]
    count = len(series["done"])
    times = [number * series["interval_ns"] for number in range(count)]
    columns: dict[str, Any] = {"t_ns": pa.array(times, pa.int64())}
    columns["phase"] = pa.array([PHASE] * count, pa.string())
    columns["bytes"] = pa.array(series["done_bytes"], pa.int64())
    columns["operations"] = pa.array(series["done"], pa.int64())
    return pa.table(columns)


def histograms_table(report: dict[str, Any]) -> pa.Table:
    """Buckets of latencies, by kind and by class, too."""
    named = [(PHASE, report["all"]["last_byte"]), ("first_byte", report["all"]["first_byte"])]
    named += [(one["kind"], one["last_byte"]) for one in report["kinds"]]
    named += [(f"class_{one['class']}", one["last_byte"]) for one in report["classes"]]
    return buckets_table((name, one["v2_base64"]) for name, one in named if one["count"])


def kinds_table(report: dict[str, Any]) -> pa.Table:
    """One row for each kind of request: latencies from the planned instant to the last byte."""
    rows = [(*(one[name] for name in KIND_COLUMNS), *_quantiles(one)) for one in report["kinds"]]
    return typed_table(rows, _types({"kind": "string", "share": "double"}, "failed"))


def classes_table(report: dict[str, Any]) -> pa.Table:
    """One row for each class of files; POSTs are in none."""
    rows = [
        (one["class"], sum(one["drawn_files"]), one["done"], one["bytes"], *_quantiles(one))
        for one in report["classes"]
    ]
    return typed_table(rows, _types({"class": "int64"}))


def steps_table(found: Found) -> pa.Table:
    """One row for each load on lines."""
    types = {
        "connections": "int64", "conforming": "int64", "verdict": "string", "done": "int64",
        "failed": "int64", "searched": "bool",
    }  # fmt: skip
    rows = [tuple(getattr(step, name) for name in types) for step in found.steps]
    return typed_table(rows, _arrow(types))


def errors_table(report: dict[str, Any]) -> pa.Table:
    """One row for each kind of request and of error that occurred."""
    rows = [
        (one["kind"], error, count)
        for one in report["kinds"]
        for error, count in one["errors"].items()
    ]
    return typed_table(rows, _arrow({"kind": "string", "error": "string", "count": "int64"}))


def _quantiles(one: dict[str, Any]) -> tuple[float | None, ...]:
    histogram = one["last_byte"]
    return tuple(
        float(histogram[f"{name}_ns"]) if histogram["count"] else None
        for name in ("mean", *QUANTILES)
    )


def _types(first: dict[str, str], *more: str) -> dict[str, Any]:
    counts = dict.fromkeys(("drawn", "done", *more, "bytes"), "int64")
    times = {f"{name}_ns": "double" for name in ("mean", *QUANTILES)}
    return _arrow(first | counts | times)


def _arrow(types: dict[str, str]) -> dict[str, Any]:
    import pyarrow as pa

    names = {"string": pa.string, "double": pa.float64, "int64": pa.int64, "bool": pa.bool_}
    return {name: names[kind]() for name, kind in types.items()}
