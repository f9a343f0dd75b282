"""Of a cluster that runs those hosts are greeted that are needed; of a number those that answer."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from nfslab.cluster import link
from nfslab.cluster.base import NoAnswer
from nfslab.cluster.loop import Loop
from nfslab.cluster.remote import ClusterThere
from nfslab.cluster.settings import ClusterSection, connect_some
from nfslab.errors import RunFailed, UsageError

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


def freeze(cluster: Cluster, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop its worker; it alone is not waited for long."""
    loop = Loop()
    (member,) = cluster.joined(loop, name)
    loop.close()
    frozen = member.link.address.removeprefix(link.SCHEME)
    stop(cluster.workers[name].pid)

    class Connector(link.PlainConnector):
        async def connect(self, address: str, *others: Any, **named: Any) -> Any:
            async with asyncio.timeout(HANGS_S if address == frozen else None):
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
    freeze(cluster, "one", monkeypatch)
    found = connect_some(section(cluster), 1, ["three"])
    assert names(found) == ["two", "three"]
    (note,) = found.notes
    assert note.startswith("one was passed over: one does not answer")


def test_who_is_needed_and_does_not_answer_is_named(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    freeze(cluster, "two", monkeypatch)
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
