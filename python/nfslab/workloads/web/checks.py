"""Is what was measured true: the generator, errors, what was drawn, the record of POSTs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import RunFailed
from nfslab.results.records import CheckRecord
from nfslab.statistics.proportions import drawn_by_chance
from nfslab.workloads.web.outcome import errors_said, log_of
from nfslab.workloads.web.search import failed_share

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nfslab.workloads.web.parameters import WebParameters
    from nfslab.workloads.web.search import Found

CHANCE_LEAST: Final = 1e-6
"""Of what was drawn, by chance alone: below, it was not drawn as was asked for."""


def of_load(report: dict[str, Any], p: WebParameters, found: Found) -> list[CheckRecord]:
    """All that the report of the timed load tells."""
    made = [generator(report), answers(report, p), shares(report)]
    return [*made, search_check(p, found)] if p.load == "connections" else made


def generator(report: dict[str, Any]) -> CheckRecord:
    """Was the generator itself the limit?"""
    share = max((thread["cpu_share"] for thread in report["threads"]), default=0.0)
    return CheckRecord(
        name="offered_load",
        verdict="ok" if report["valid"] else "violation",
        message="; ".join(reason["text"] for reason in report["reasons"])
        or "the generator kept up",
        values={"generator_cpu_share": share, "late_p99_ns": report["late"]["p99_ns"] or 0},
    )


def answers(report: dict[str, Any], p: WebParameters) -> CheckRecord:
    """Were replies what they have to be?"""
    requests, share = report["requests"], failed_share(report)
    said = errors_said(report)
    values = {
        "errors": report["errors"],
        "failed_share": share,
        "failed_outside": requests["failed_outside"],
        "unfinished": requests["unfinished"],
        "skipped": requests["skipped"],
        "verified_replies": requests["verified_replies"],
        "verified_bytes": requests["verified_bytes"],
    }
    if share > p.errors_max:
        said = said or f"{requests['unfinished']:,} never ended"
        message = (
            f"{share:.3%} of the requests failed (allowed: {p.errors_max:.3%}): {said}; {log_of(p)}"
        )
        return CheckRecord(name="answers", verdict="violation", message=message, values=values)
    lost = requests["skipped"] / max(1, requests["planned"])
    if lost > p.errors_max:
        message = f"{lost:.1%} of the planned requests found no connection, and were left out"
        return CheckRecord(name="answers", verdict="warning", message=message, values=values)
    message = (
        f"{requests['verified_replies']:,} replies were compared byte by byte"
        + (f"; failed: {said}" if said else ", all were as they have to be")
    )  # fmt: skip
    return CheckRecord(name="answers", verdict="ok", message=message, values=values)


def shares(report: dict[str, Any]) -> CheckRecord:
    """Was drawn what was asked for (chi-square)? What was done may differ: servers are slower with
    some."""
    from nfslab._core import web_tables

    tables = web_tables(report["config"]["file_set"]["directories"])
    kinds, classes = report["kinds"], report["classes"]
    drawn: dict[str, tuple[Sequence[int], Sequence[float]]] = {
        "kinds": ([one["drawn"] for one in kinds], [one["share"] for one in kinds]),
        "classes": ([sum(one["drawn_files"]) for one in classes], tables["class_shares"]),
        "directories": (report["directories"]["drawn"], tables["directory_shares"]),
    }
    for one in classes:
        drawn[f"files of class {one['class']}"] = (one["drawn_files"], tables["file_shares"])
    chances = {name: drawn_by_chance(*pair) for name, pair in drawn.items()}
    known = {name: chance for name, chance in chances.items() if chance is not None}
    wrong = [name for name, chance in known.items() if chance < CHANCE_LEAST]
    done = sum(one["done"] for one in kinds)
    values = {
        "chances": known,
        "done_shares": {one["kind"]: one["done"] / max(1, done) for one in kinds},
        "done_classes": [one["done"] for one in classes],
    }
    if wrong:
        message = f"what was drawn has not the shares that were asked for: {', '.join(wrong)}"
        return CheckRecord(name="shares", verdict="violation", message=message, values=values)
    if not known:
        message = "too few requests to tell whether they were drawn with the right shares"
        return CheckRecord(name="shares", verdict="unknown", message=message, values=values)
    message = f"kinds, classes, files and directories were drawn as asked for ({len(known)} tests)"
    return CheckRecord(name="shares", verdict="ok", message=message, values=values)


def search_check(p: WebParameters, found: Found) -> CheckRecord:
    """Is the number of connections the server's, and did the timed part confirm it?"""
    last = found.steps[-1]
    values = {"most": found.most, "limit": found.limit, "timed_conforming": last.conforming}
    verdict, message = "ok", f"{found.most:,} connections conformed, and did so in the timed part"
    if found.limit == "generator":
        verdict = "violation"
        message = (
            f"above {found.most:,} connections the generator was the limit, not the server: use "
            "more threads, or an idle machine"
        )
    elif not found.most:
        verdict, message = "warning", "not even one connection got its line's speed"
    elif last.conforming < p.conforming_share * last.connections:
        # A figure that the timed part disproves is none.
        verdict = "violation"
        message = (
            f"{found.most:,} connections conformed in the search, but in the timed part only "
            f"{last.conforming:,} of them: the edge moved meanwhile; run it again, with a longer "
            "duration or on a quieter machine"
        )
    elif found.limit == "bound":
        verdict = "warning"
        message = f"all {found.most:,} connections conformed: connections_max was the limit"
    return CheckRecord.model_validate(
        {"name": "conforming", "verdict": verdict, "message": message, "values": values}
    )


def posts(log: Path | None, writers: Sequence[dict[str, Any]]) -> CheckRecord:
    """Is every POST that was acknowledged in the log, once? `writers`: of all loads' reports."""
    from nfslab._core import CoreError, check_web_posts

    if log is None:
        return CheckRecord(
            name="posts", verdict="unknown", message="the log of POSTs is not ours to read"
        )
    try:
        found = json.loads(check_web_posts(log, json.dumps(list(writers))))
    except CoreError as error:
        raise RunFailed(error.what, why=error.why, fix=error.fix) from error
    wrong = {name: found[name] for name in ("lost", "twice", "malformed") if found[name]}
    said = ", ".join(f"{count:,} {name}" for name, count in wrong.items())
    return CheckRecord(
        name="posts",
        verdict="violation" if wrong else "ok",
        message=f"of {found['acknowledged']:,} acknowledged POSTs "
        + (f"the log has {said}" if wrong else "each is in the log once"),
        values=found,
    )


def of_server(counters: dict[str, Any]) -> list[CheckRecord]:
    """Did the application complain of its files or logs?"""
    wrong = {
        name: counters[name]
        for name in ("io_errors", "access_log_errors")
        if counters.get(name)
    }  # fmt: skip
    if not wrong:
        return []
    said = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in wrong.items())
    return [CheckRecord(name="server_files", verdict="violation", message=f"the server had {said}")]
