"""Parameters, search, checks and nginx's configuration, without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nfslab._core import web_directories
from nfslab.workloads.web import checks, outcome
from nfslab.workloads.web.parameters import WebParameters
from nfslab.workloads.web.search import Found, Step, failed_share, search, together
from nfslab.workloads.web.servers.base import Served
from nfslab.workloads.web.servers.nginx import configuration
from pydantic import ValidationError


def parameters(**values: Any) -> WebParameters:
    return WebParameters(**({"data": "disk"} | values))


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"server": "apache"}, "no server"),
        ({"server": "http://host"}, "no server"),
        ({"server": "http://host:99999"}, "no server"),
        ({"server": "http://host:80/path"}, "no server"),
        ({"sendfile": False}, "nginx"),
        ({"server": "nginx", "bandwidth": "1M"}, "embedded"),
        ({"rate": 10}, "rate"),
        ({"load": "open"}, "rate"),
        ({"connections": 10, "connections_max": 5}, "connections_max"),
        ({"mix": {"static_get": 0.5}}, "sum"),
        ({"mix": {"put": 1}}, "put"),
        ({"server": "http://host:80", "fill": True}, "fill"),
        ({"conforming_bits_per_s": 500_000}, "conforming"),
        ({"threads": 9, "connections": 8}, "threads"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, Any], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        parameters(**given)


@pytest.mark.parametrize("connections", [1, 61, 500, 4000])
def test_the_file_set_grows_with_the_load_as_the_core_has_it(connections: int) -> None:
    p = parameters(load="closed", connections=connections)
    assert p.set_directories() == web_directories(connections)
    p = parameters(load="open", rate=1000)
    assert p.set_directories() == 25 + 1000 // 5
    assert parameters(directories=3).set_directories() == 3


def report(asked: int, conforming: int, failed: int = 0, reasons: Any = ()) -> dict[str, Any]:
    return {
        "connections": {"asked": asked, "conforming": conforming},
        "requests": {
            "done": 1000 - failed,
            "failed": failed,
            "unfinished": asked,
            "verified_replies": 100,
        },
        "errors": {},
        "reasons": list(reasons),
    }


@pytest.mark.parametrize("edge", [1, 2, 7, 49, 50, 51, 333, 3999])
def test_the_search_finds_the_edge_as_well_as_was_asked(edge: int) -> None:
    p = parameters(connections=50, connections_max=4000, precision=0.025)
    found = search(p, lambda asked, _s: report(asked, asked if asked <= edge else 0))
    assert found.most <= edge
    assert found.most >= edge / 1.025 - 1
    bad = [step.connections for step in found.steps if step.verdict == "bad"]
    assert bad
    assert min(bad) - found.most <= max(1, 0.026 * found.most)
    assert found.limit == ""


def test_ninety_five_of_a_hundred_are_enough_and_errors_are_not() -> None:
    p = parameters(connections=100, connections_max=100)
    assert search(p, lambda asked, _s: report(asked, 95)).most == 100
    assert search(p, lambda asked, _s: report(asked, 94 if asked == 100 else asked)).most < 100
    failing = search(p, lambda asked, _s: report(asked, asked, failed=2 if asked > 60 else 0))
    assert failing.most <= 60


def test_a_search_that_ends_at_its_bound_or_at_the_generator_says_so() -> None:
    p = parameters(connections=50, connections_max=120)
    found = search(p, lambda asked, _s: report(asked, asked))
    assert (found.most, found.limit) == (120, "bound")
    late = [{"kind": "generator_overloaded", "text": "late"}]
    found = search(p, lambda asked, _s: report(asked, asked, reasons=late if asked > 70 else ()))
    assert found.limit == "generator"
    assert found.most <= 70
    told: list[int] = []

    def once_late(asked: int, _seconds: float) -> dict[str, Any]:
        told.append(asked)
        return report(asked, asked, reasons=late if told.count(asked) == 1 else ())

    found = search(p, once_late)
    assert (found.most, found.limit) == (120, "bound"), "what was late once is tried again"
    none = search(p, lambda asked, _s: report(asked, 0))
    assert none.most == 0


def test_what_conforms_for_a_step_has_to_conform_for_the_timed_part() -> None:
    """60 do for 2 s, 50 for 10 s: 50 less a precision at most, and never more."""
    p = parameters(connections=10, connections_max=500, precision=0.05, step="2s", duration="10s")
    asked: list[tuple[int, float]] = []

    def load(connections: int, seconds: float) -> dict[str, Any]:
        asked.append((connections, seconds))
        most = 60 if seconds == 2 else 50
        return report(connections, connections if connections <= most else 0)

    found = search(p, load)
    assert 50 * 0.95 - 1 <= found.most <= 50
    assert asked[-1] == (found.most, 10), "the last one has the timed part's length"
    gone = search(p, lambda one, s: report(one, one if s == 2 else 0))
    timed = Step(gone.most, 0, "bad", 1, 0, searched=False)
    gone.steps.append(timed)
    assert checks.search_check(p, gone).verdict == "violation", "never confirmed"


def test_the_generators_limit_is_never_the_servers() -> None:
    p = parameters(connections=50)
    late = [{"kind": "generator_cpu", "text": "busy"}]
    found = search(p, lambda asked, _s: report(asked, asked, reasons=late if asked > 70 else ()))
    found = Found([*found.steps], found.most, found.limit)
    assert checks.search_check(p, found).verdict == "violation"


SERVED = Served(Path("/d"), Path("/l/posts.log"), Path("/l/access.log"))


def conf(**values: Any) -> list[str]:
    p = parameters(server="nginx", connections=10, load="closed", **values)
    text = configuration(p, SERVED, Path("/tmp/x"), "127.0.0.1:5", "127.0.0.1:6", "name")
    return [line.strip() for line in text.splitlines()]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({}, "sendfile on;"),
        ({}, "access_log off;"),
        ({}, "open_file_cache off;"),
        ({"sendfile": False}, "sendfile off;"),
        ({"aio": "threads"}, "aio threads;"),
        ({"directio": "512k"}, "directio 524288;"),
        ({"open_file_cache": 100}, "open_file_cache max=100 inactive=60s;"),
        ({"keepalive": False}, "keepalive_timeout 0;"),
        ({"workers": 4}, "worker_processes 4;"),
        ({"access_log": True}, 'access_log "/l/access.log" combined;'),
    ],
)
def test_settings_are_lines_of_the_configuration(given: dict[str, Any], line: str) -> None:
    assert line in conf(**given)


def test_whoever_is_no_client_of_the_run_is_denied() -> None:
    p = parameters(server="nginx", connections=10, load="closed")
    text = configuration(
        p,
        SERVED,
        Path("/tmp/x"),
        "10.0.0.1:5",
        "127.0.0.1:6",
        "name",
        allow=("10.0.0.2", "10.0.0.3"),
    )
    lines = [line.strip() for line in text.splitlines()]
    at = lines.index("allow 10.0.0.2;")
    assert lines[at : at + 3] == ["allow 10.0.0.2;", "allow 10.0.0.3;", "deny all;"]
    assert "deny all;" not in conf()


def drawn(kinds: list[int], classes: list[int]) -> dict[str, Any]:
    names = ("static_get", "dynamic_get", "cgi_get", "ad_get", "post")
    mix = (0.7, 0.1245, 0.0015, 0.126, 0.048)
    return {
        "config": {"file_set": {"directories": 1}},
        "kinds": [
            {"kind": name, "share": share, "drawn": count, "done": count}
            for name, share, count in zip(names, mix, kinds, strict=True)
        ],
        "classes": [
            {"class": index, "drawn_files": [count, *[0] * 8], "done": count}
            for index, count in enumerate(classes)
        ],
        "directories": {"drawn": [sum(classes)]},
    }


def test_shares_that_were_not_drawn_as_asked_are_found() -> None:
    exact = drawn([70_000, 12_450, 150, 12_600, 4800], [0, 0, 0, 0])
    assert checks.shares(exact).verdict == "ok"
    assert checks.shares(drawn([71_000, 11_450, 150, 12_600, 4800], [0] * 4)).verdict == "violation"
    one_file = checks.shares(drawn([70_000, 12_450, 150, 12_600, 4800], [35, 50, 14, 1]))
    assert one_file.verdict == "violation"
    assert "files of class" in one_file.message
    assert checks.shares(drawn([1, 0, 0, 0, 0], [0] * 4)).verdict == "unknown"


def test_wrong_bytes_are_a_share_of_the_replies_whose_bytes_were_compared() -> None:
    """8 in 1000 replies are wrong, of which a tenth was compared."""
    wrong = answered(8) | {"errors": {"wrong_bytes": 8}}
    wrong["requests"] |= {"done": 9992, "verified_replies": 992}
    check = checks.answers(wrong, parameters(load="closed"))
    assert (check.verdict, check.values["failed_share"]) == ("violation", 8 / 1000)
    on_lines = wrong | {"connections": {"asked": 2, "conforming": 2}, "reasons": []}
    assert failed_share(together([on_lines, on_lines])) == 8 / 1000


def answered(failed: int, planned: int = 0, skipped: int = 0) -> dict[str, Any]:
    """A report whose replies were wrong so often."""
    return {
        "requests": {
            "done": 1000 - failed, "failed": failed, "failed_outside": 0, "unfinished": 0,
            "planned": planned, "skipped": skipped, "verified_replies": 1234, "verified_bytes": 9,
        },
        "connections": {"conforming": None},
        "errors": {"bad_status": failed} if failed else {},
        "statuses": {"500": failed} if failed else {},
        "kinds": [
            {"kind": "static_get", "errors": {"bad_status": failed} if failed else {}},
            {"kind": "post", "errors": {}},
        ],
    }  # fmt: skip


def test_a_small_share_of_wrong_replies_counts_and_a_larger_one_does_not() -> None:
    p = parameters(load="closed", errors_max=0.01)
    for failed, verdict in ((0, "ok"), (10, "ok"), (11, "violation")):
        check = checks.answers(answered(failed), p)
        assert check.verdict == verdict
        assert ("bad_status" in check.message) == (failed > 0)
        assert check.values["failed_share"] == failed / 1000
    assert "1,234" in checks.answers(answered(0), p).message
    lost = checks.answers(answered(0, planned=100, skipped=2), p)
    assert (lost.verdict, "2.0%" in lost.message) == ("warning", True)
    assert checks.answers(answered(0, planned=100, skipped=1), p).verdict == "ok"
    dripping = answered(0)
    dripping["requests"]["unfinished"] = 20
    check = checks.answers(dripping, p)
    assert (check.verdict, "20 never ended" in check.message) == ("violation", True)
    assert outcome.errors_table(answered(3)).to_pylist() == [
        {"kind": "static_get", "error": "bad_status", "count": 3}
    ]
