"""`[cluster]`: bad input is a sentence with its fix before anything is started."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.cluster import settings
from nfslab.cluster.settings import ClusterSection, connect
from nfslab.errors import RunFailed
from pydantic import ValidationError

from tests.cli.invocation import nfslab
from tests.cluster.clusters import Cluster, ended
from tests.waiting import NO_LIMIT_S

BAD = {
    "none": ({"hosts": []}, "a cluster of no hosts"),
    "twice": ({"hosts": ["one", "two", "one"]}, "the same host twice: one"),
    "twice, as another user": ({"hosts": ["one", "root@one"]}, "the same host twice: one"),
    "no name": ({"hosts": ["root@"]}, "'root@' is no host"),
    "an option": ({"hosts": ["-oProxyCommand=x"]}, "is no host"),
    "a path": ({"hosts": ["../x"]}, "is no host"),
    "too many": ({"hosts": [f"h{n}" for n in range(100)]}, "64 at most"),
    "neither": ({}, "either hosts"),
    "both": ({"hosts": ["one"], "scheduler": "tls://one:1"}, "either hosts"),
    "unknown key": ({"hosts": ["one"], "port": 1}, "port"),
    "members of hosts": ({"hosts": ["one"], "members": 1}, "name it, too"),
    "python of others": ({"scheduler": "tls://one:1", "python": "x"}, "python is for hosts"),
    "others' papers": ({"hosts": ["one"], "certificates": "x"}, "either hosts"),
    "python of others, by their record": ({"certificates": "x", "python": "x"}, "python is for"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told_of(case: str) -> None:
    given, said = BAD[case]
    with pytest.raises(ValidationError) as raised:
        ClusterSection.model_validate(given)
    assert said in str(raised.value)


@pytest.mark.long
def test_another_number_of_hosts_than_was_said(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Cluster(tmp_path)
    try:
        made.worker("one")
        given = {"scheduler": made.address, "certificates": str(made.folder)}
        cluster = connect(ClusterSection.model_validate(given | {"members": 1}))
        assert [member.name for member in cluster.members] == ["one"]
        cluster.close()
        monkeypatch.setattr(settings, "JOIN_S", 0.0)
        with pytest.raises(RunFailed, match=r"1 hosts have joined .*, not 2") as raised:
            connect(ClusterSection.model_validate(given | {"members": 2}))
        assert "those that are there: one" in raised.value.why
        made.worker("two")
        with pytest.raises(RunFailed, match=r"2 hosts have joined .*, not 1"):
            connect(ClusterSection.model_validate(given | {"members": 1}))
    finally:
        made.close()


@pytest.mark.system
def test_commands_refuse_what_they_cannot_do(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, what in (
        (["check"], "no cluster is running that was started here"),
        (["stop"], "no cluster is running that was started here"),
        (["check", "one", "one"], "the same host twice: one"),
        (["check", "one", "--scheduler", "tls://one:1"], "hosts and a scheduler"),
        (["start", "-"], "'-' is no host"),
    ):
        said = nfslab(capsys, "cluster", *words)
        assert said.code == 2, words
        assert what in said.err


def launched(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-P", "-m", "nfslab.cluster", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_what_launchers_start_finds_its_scheduler_by_the_folder(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "shared"
    assert launched("certificates", "--dir", str(folder)).returncode == 0
    assert (folder / "cluster.key").stat().st_mode & 0o777 == 0o600
    again = launched("certificates", "--dir", str(folder))
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    none = launched("worker", "--dir", str(folder))
    assert (none.returncode, "no cluster is running" in none.stderr) == (2, True)
    nfslab(capsys, "cluster", "start", "--dir", str(folder))
    argv = [sys.executable, "-P", "-m", "nfslab.cluster", "worker", "--dir", str(folder)]
    with ended(subprocess.Popen([*argv, "--name", "one"], stdout=subprocess.PIPE)) as worker:
        words = ["--dir", str(folder), "--members", "1", "--json"]
        checked = nfslab(capsys, "cluster", "check", *words)
        assert checked.code == 0
        assert [one["host"] for one in json.loads(checked.out)["hosts"]] == ["one"]
        stopped = nfslab(capsys, "cluster", "stop", "--dir", str(folder))
        assert stopped.out == "one: ended\nscheduler: ended\n"
        assert worker.wait(NO_LIMIT_S) == 0
