"""Of a cluster that runs those hosts are greeted that are needed; of a number those that answer."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nfslab.cluster import link
from nfslab.cluster.base import NoAnswer
from nfslab.cluster.loop import Loop
from nfslab.cluster.remote import ClusterThere
from nfslab.cluster.settings import ClusterSection, connect_answering, connect_some
from nfslab.errors import RunFailed, UsageError

from tests.cli.invocation import nfslab
from tests.cluster.clusters import Cluster, lasting
from tests.stopping import stop

HANGS_S = 0.5
"""So long the one that hangs is dialled: however long, it does not answer."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """For all tests: who was stopped goes on when a test has ended."""
    with lasting(tmp_path_factory.mktemp("needed")) as made:
        made.worker("two")
        made.worker("three")
        yield made


@pytest.fixture(autouse=True)
def _goes_on(cluster: Cluster) -> Iterator[None]:
    yield
    for worker in cluster.workers.values():
        worker.send_signal(signal.SIGCONT)


def section(cluster: Cluster) -> ClusterSection:
    return ClusterSection(scheduler=cluster.address, certificates=str(cluster.folder))


def names(cluster: ClusterThere) -> list[str]:
    """Of those that were connected; they are left again."""
    cluster.close()
    return [member.name for member in cluster.members]


def freeze(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Stop their workers; they alone are not waited for long."""
    loop = Loop()
    members = [member for member in cluster.joined(loop) if member.name in names]
    loop.close()
    frozen = {member.link.address.removeprefix(link.SCHEME) for member in members}
    for name in names:
        stop(cluster.workers[name].pid)

    class Connector(link.PlainConnector):
        async def connect(self, address: str, *others: Any, **named: Any) -> Any:
            async with asyncio.timeout(HANGS_S if address in frozen else None):
                return await super().connect(address, *others, **named)

    monkeypatch.setattr(link, "PlainConnector", Connector)


def test_one_that_hangs_is_no_harm_where_it_is_not_needed(cluster: Cluster) -> None:
    """It is not dialled: that would take the tests' patience, and then fail."""
    stop(cluster.workers["two"].pid)
    assert names(connect_some(section(cluster), ["one"])) == ["one"]
    assert names(connect_some(section(cluster), ["three"], ["one"])) == ["three", "one"]
    assert names(connect_some(section(cluster), 1)) == ["one"]


def test_one_that_another_nfslab_holds_is_no_harm_either(cluster: Cluster) -> None:
    loop = Loop()
    (two,) = cluster.joined(loop, "two")
    two.connect()
    assert names(connect_some(section(cluster), ["three", "one"])) == ["three", "one"]
    with pytest.raises(RunFailed, match="two is taken"):
        connect_some(section(cluster), 3)
    ClusterThere([two], loop).close()


def test_of_a_number_those_are_taken_that_answer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze(cluster, monkeypatch, "one")
    found = connect_some(section(cluster), 1, ["three"])
    assert names(found) == ["two", "three"]
    (note,) = found.notes
    assert note.startswith("one was passed over: one does not answer")


def test_who_is_needed_and_does_not_answer_is_named(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze(cluster, monkeypatch, "two")
    for hosts, apart, what in (
        (["one", "two"], (), "do not answer: two"),
        (2, ["two"], "do not answer: two"),
        (3, (), "3 hosts are asked for, 2 of"),
    ):
        with pytest.raises(NoAnswer, match=what) as raised:
            connect_some(section(cluster), hosts, apart)
        assert "one" not in raised.value.what
        assert raised.value.why.startswith("two does not answer at tls://127.0.0.1:")
    with pytest.raises(UsageError, match="4 hosts are asked for, the cluster has 3"):
        connect_some(section(cluster), 4)
    # Those that were greeted before that are free again.
    assert names(connect_some(section(cluster), ["one", "three"])) == ["one", "three"]


def test_captures_are_read_by_those_that_answer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(__file__).parents[1] / "captures"
    files = sorted(folder.glob("linux61_pgbench_*.pcap.gz"))
    freeze(cluster, monkeypatch, "two")
    there = ["--cluster", cluster.address, "--certificates", cluster.folder]
    found = nfslab(capsys, "trace", "--quick", "--json", *there, *files)
    assert found.code == 0
    assert "note: two was passed over: two does not answer" in found.err
    alone = nfslab(capsys, "trace", "--quick", "--json", *files)
    assert json.loads(found.out)["operations"] == json.loads(alone.out)["operations"]


def test_where_nobody_answers_nothing_is_read(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze(cluster, monkeypatch, *cluster.workers)
    with pytest.raises(NoAnswer, match="no host of the cluster answers"):
        connect_answering(section(cluster))
