"""Order entry on MariaDB: what cannot be, and what is missing, is said before the first run."""

from __future__ import annotations

from typing import Any

import pytest
from nfslab.databases.mariadb import installation
from nfslab.experiment.reading import read_experiment
from nfslab.shipped import experiment_files
from nfslab.workloads.sysbench import client
from nfslab.workloads.tpcc.mariadb.files import definition
from nfslab.workloads.tpcc.mariadb.tables import MariadbTpccTables
from nfslab.workloads.tpcc.mariadb.workload import TpccOnMariadb
from pydantic import ValidationError

from tests.workloads.tpcc.on_mariadb import parameters, workload


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"calls": "statements"}, "each of its transactions is one call of a procedure"),
        ({"think": 1}, "no keying and think times"),
        ({"threads": 2}, "a thread for each terminal"),
        ({"socket": "tcp"}, "private socket"),
        ({"postgres": "system"}, "it chooses a PostgreSQL"),
        ({"data_checksums": True}, "initdb"),
        ({"wal_segment_size": "16M"}, "innodb_log_file_size"),
        ({"planted_delay": {"log_sync": "2ms"}}, "only PostgreSQL's calls"),
        ({"mariadb": {"datadir": "/x"}}, "the roles `data` and `wal`"),
        ({"mariadb": {"max_connections": 3}}, "no room for 3 clients"),
        ({"duration": 1.5}, "whole seconds"),
        ({"terminals": 5000}, "4096 terminals at most"),
        ({"warm_up": 5}, "shorter than its warm-up"),
        ({"engine": "sqlite"}, "'postgres' or 'mariadb'"),
        ({"engine": "postgres", "mariadb": {"port": 1}}, "private socket"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parameters(**given)
    assert said in str(caught.value)


def test_each_engines_settings_may_stand_beside_the_others() -> None:
    """The engine is an axis."""
    both = {"settings": {"shared_buffers": "8MB"}, "mariadb": {"innodb_buffer_pool_size": "8M"}}
    for engine in ("postgres", "mariadb"):
        assert parameters(engine=engine, **both).engine == engine


@pytest.mark.system
def test_an_unknown_setting_is_said_with_the_nearest() -> None:
    workload()
    answer = TpccOnMariadb(parameters(mariadb={"innodb_flush_metod": "fsync"})).check()
    assert (answer.ok, "innodb_flush_method" in answer.fix) == (False, True)


@pytest.mark.system
@pytest.mark.parametrize(
    ("program", "package"),
    [("sysbench", "apt-get install sysbench"), ("mariadbd", "apt-get install mariadb-server-core")],
)
def test_a_missing_program_is_said_with_its_package(
    program: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload()
    which = client.shutil.which
    for module in (client, installation):
        monkeypatch.setattr(
            module.shutil, "which",
            lambda name, path=None: None if name == program else which(name, path=path),
        )  # fmt: skip
    answer = TpccOnMariadb(parameters()).check()
    assert not answer.ok
    assert program in answer.reason
    assert package in answer.fix


def test_other_procedures_are_another_experiment() -> None:
    made = parameters()
    assert made.definition == definition() != parameters(engine="postgres").definition
    answer = TpccOnMariadb(parameters(definition="earlier")).check()
    assert "others than those" in answer.reason
    assert MariadbTpccTables(2).record()["definition"] == definition()


def test_an_experiment_on_both_engines_has_no_one_definition() -> None:
    experiment = read_experiment(experiment_files()["engines-tpcc"])
    assert "definition" not in experiment.resolved["workload"]
    assert experiment.resolved["workload"]["engine"] == {"axis": "engine"}
    made = {
        point.factors["engine"]: point.setup.resolved()["workload"]["definition"]
        for point in experiment.points
    }
    assert made["MariaDB"] == definition() != made["PostgreSQL"]
    alone = read_experiment(experiment_files()["variants-2003"])
    assert alone.resolved["workload"]["definition"] == made["PostgreSQL"]
