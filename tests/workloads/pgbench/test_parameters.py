"""What the experiment file may say, and what it may not: names, combinations, settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from nfslab.databases.postgres.installation import Installation
from nfslab.databases.postgres.settings import (
    as_arguments,
    durability_reasons,
    setting_problem,
    with_defaults,
)
from nfslab.workloads.pgbench.invocation import invocation_possible
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload
from pydantic import ValidationError


def parameters(**values: Any) -> PgbenchParameters:
    return PgbenchParameters(**({"data": "disk", "transactions": 10} | values))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"transactions": None}, "none is given"),
        ({"duration": 5}, "both are given"),
        ({"transactions": None, "duration": 0}, "at least one second"),
        ({"transactions": None, "duration": 1.5}, "whole seconds"),
        ({"scale": 0}, "scale"),
        ({"clients": 0}, "clients"),
        ({"builtin": "tpcb"}, "builtin"),
        ({"builtin": {"tpcb-like": 0}}, "weight 0"),
        ({"variables": {"n": 1}}, "no `scripts`"),
        ({"scripts": ["a.sql"], "variables": {"a b": 1}}, "no name of a pgbench variable"),
        ({"scripts": ["a.sql"], "script_weights": [1, 2]}, "1 scripts, but 2"),
        ({"scripts": ["a.sql", "a.sql"]}, "named twice"),
        ({"wal_segment_size": "3M"}, "power of two"),
        ({"latency_limit": "1us"}, "0.1 ms"),
        ({"settings": {"port": 5433}}, "workload.socket"),
        ({"settings": {"data_directory": "/x"}}, "roles"),
        ({"settings": {"logging_collector": True}}, "log"),
        ({"settings": {"a b": 1}}, "no name of a server setting"),
        ({"settings": {"a=b -c c": 1}}, "no name of a server setting"),
        ({"settings": {"work_mem": "1\n2"}}, "control character"),
        ({"settings": {"work_mem": "x" * 5000}}, "longer than"),
        ({"settings": {"max_connections": 10}, "clients": 20}, "leaves no room for 20 clients"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        parameters(**values)


def test_scripts_may_be_one_some_or_weighted() -> None:
    assert parameters().builtin_scripts() == {"tpcb-like": 1}
    assert parameters(builtin="select-only").builtin_scripts() == {"select-only": 1}
    mixed = parameters(builtin={"tpcb-like": 2, "select-only": 8})
    assert mixed.builtin_scripts() == {"tpcb-like": 2, "select-only": 8}
    own = parameters(scripts="a.sql")
    assert own.builtin_scripts() == {}
    assert own.own_scripts() == {Path("a.sql"): 1}
    weighted = parameters(scripts=["a.sql", "b.sql"], script_weights=[3, 1], builtin="tpcb-like")
    assert weighted.script_names() == ["tpcb-like", "a.sql", "b.sql"]
    assert weighted.own_scripts() == {Path("a.sql"): 3, Path("b.sql"): 1}


def test_a_changed_script_is_another_experiment_and_is_refused_in_this_one(tmp_path: Path) -> None:
    script = tmp_path / "a.sql"
    script.write_text("SELECT 1;\n")
    before = parameters(scripts=[str(script)])
    assert parameters(scripts=[str(script)]) == before
    resolved = before.model_dump(mode="json")
    script.write_text("SELECT 2;\n")
    assert parameters(scripts=[str(script)]).script_digests != before.script_digests
    # The run's resolved parameters, read back, still name the script of then.
    again = PgbenchParameters(**resolved)
    assert again == before
    answer = invocation_possible(again, Installation("path", tmp_path, "15.0", 15))
    assert not answer.ok
    assert "was changed" in answer.reason


def test_settings_become_arguments_of_their_own() -> None:
    arguments = as_arguments({"fsync": False, "wal_buffers": -1, "a.b": "x; rm -rf / 'y'"})
    assert arguments == ["-c", "fsync=off", "-c", "wal_buffers=-1", "-c", "a.b=x; rm -rf / 'y'"]
    assert setting_problem("pg_stat_statements.max", 100) == ""


def test_many_clients_get_room_unless_the_file_says_otherwise() -> None:
    assert "max_connections" not in with_defaults({}, 50, 15)
    assert "track_wal_io_timing" not in with_defaults({}, 50, 13)
    assert with_defaults({}, 50, 14)["track_wal_io_timing"] is True
    assert with_defaults({"track_wal_io_timing": False}, 50, 14)["track_wal_io_timing"] is False
    assert with_defaults({}, 500, 15)["max_connections"] == 513
    assert with_defaults({"max_connections": 600}, 500, 15)["max_connections"] == 600


def test_what_is_not_waited_for_is_not_durable() -> None:
    assert durability_reasons({"fsync": "on", "synchronous_commit": "on"}) == []
    assert "fsync = off" in durability_reasons({"fsync": "off"})[0]
    assert "synchronous_commit = off" in durability_reasons({"synchronous_commit": "off"})[0]


def test_max_tries_needs_a_pgbench_that_has_it() -> None:
    installation = Installation("path", Path("/x"), "14.2", 14)
    assert not invocation_possible(parameters(max_tries=2), installation).ok
    assert invocation_possible(parameters(), installation).ok


@pytest.mark.system
def test_postgresql_is_asked_about_its_settings_before_the_first_run() -> None:
    if not PgbenchWorkload.available().ok:
        pytest.skip(PgbenchWorkload.available().reason)
    good = PgbenchWorkload(parameters(settings={"shared_buffers": "16MB", "commit_delay": 10}))
    assert good.check().ok
    unknown = PgbenchWorkload(parameters(settings={"shared_bufers": "16MB"})).check()
    assert not unknown.ok
    # PostgreSQL's own words, and the nearest name of those it has.
    assert 'unrecognized configuration parameter "shared_bufers"' in unknown.reason
    assert unknown.fix == "did you mean shared_buffers?"
    bad = PgbenchWorkload(parameters(settings={"shared_buffers": "much"})).check()
    assert not bad.ok
    assert "shared_buffers" in bad.reason
