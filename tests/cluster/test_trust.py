"""Who has no certificate of the cluster gets nothing; what comes home lands in its own folder."""

from __future__ import annotations

import resource
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from distributed.protocol.utils import pack_frames_prelude
from nfslab.cluster.certificates import CERTIFICATE, KEY, Papers
from nfslab.cluster.landing import Landing
from nfslab.cluster.remote import AgentThere
from nfslab.errors import RunFailed, UsageError

from tests.cluster.clusters import Cluster, lasting
from tests.waiting import NO_LIMIT_S


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Strangers leave it as it was, or a later test fails."""
    with lasting(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("tls://").rpartition(":")
    return host, int(port)


def answer_to(address: str, context: ssl.SSLContext | None) -> bytes:
    """What a peer gets to read that greets as Dask's do."""
    packed = msgpack.packb({"compression": None, "python": (3, 11, 0), "pickle-protocol": 5})
    prelude = pack_frames_prelude([packed])
    greeting = len(prelude + packed).to_bytes(8, "little") + prelude + packed
    try:
        with socket.create_connection(host_and_port(address), NO_LIMIT_S) as raw:
            talker = raw if context is None else context.wrap_socket(raw)
            with talker:
                talker.sendall(greeting)
                return talker.recv(4096)
    except (ssl.SSLError, ConnectionError):
        return b""


def believing_everybody(folder: Path | None) -> ssl.SSLContext:
    """So that it is not they who refuse; with the certificate in that folder."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if folder is not None:
        context.load_cert_chain(folder / CERTIFICATE, folder / KEY)
    return context


@pytest.mark.long
@pytest.mark.system
def test_a_peer_without_the_certificate_gets_nothing(cluster: Cluster, tmp_path: Path) -> None:
    Papers.new().write(tmp_path)
    strangers = {
        "no TLS": None,
        "no certificate": believing_everybody(None),
        "another cluster's": believing_everybody(tmp_path),
    }
    for address in (cluster.address, cluster.addresses["one"]):
        # As it is answered who has it: the test would notice.
        assert b"pickle-protocol" in answer_to(address, believing_everybody(cluster.folder))
        for who, context in strangers.items():
            assert answer_to(address, context) == b"", who


def test_the_key_is_the_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    made = Papers.new()
    made.write(folder)
    assert Papers.of(folder) == made
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / KEY).stat().st_mode & 0o777 == 0o600
    (folder / KEY).chmod(0o640)
    with pytest.raises(UsageError, match="others may read the private key"):
        Papers.of(folder)
    with pytest.raises(UsageError, match="no certificates of a cluster"):
        Papers.of(tmp_path / "missing")


@pytest.mark.parametrize("wrong", [[], "ready", {"why": "none"}, {"event": 1}])
def test_an_agent_says_events_and_nothing_else(wrong: object) -> None:
    member: Any = None  # it is only written to
    said: list[dict[str, Any]] = []
    agent = AgentThere(member, 0, said.append)
    agent.heard({"event": "ready"})
    with pytest.raises(ValueError, match="no event"):
        agent.heard(wrong)
    agent.heard({"event": "ended", "why": "exit code 1\x1b[2J"})
    agent.lost("its host is gone, after it ended")
    assert said == [{"event": "ready"}, {"event": "ended", "why": "exit code 1 [2J"}]


def test_a_folder_comes_home(tmp_path: Path) -> None:
    with Landing(tmp_path / "home", "one") as landing:
        landing.folder("a")
        landing.piece("a/b", b"x" * 10, is_first=True)
        landing.piece("a/b", b"y" * 10, is_first=False)
        landing.piece("empty", b"", is_first=True)
    assert (tmp_path / "home/a/b").read_bytes() == b"x" * 10 + b"y" * 10
    assert (tmp_path / "home/empty").read_bytes() == b""


OUTSIDE = [
    "../out", "/out", "a/../../out", "..", ".", "", "a//b", "a/", "./a", "a\0b",
    "x" * 5000, "/".join("d" * 40),
]  # fmt: skip


@pytest.mark.parametrize("is_folder", [True, False])
@pytest.mark.parametrize("path", OUTSIDE)
def test_nothing_lands_outside(tmp_path: Path, path: str, is_folder: bool) -> None:
    def land() -> None:
        with Landing(tmp_path / "home", "one") as landing:
            landing.folder("a")
            if is_folder:
                landing.folder(path)
            else:
                landing.piece(path, b"evil", is_first=True)

    with pytest.raises(RunFailed, match="what one sent is not taken"):
        land()
    assert list(tmp_path.iterdir()) == []


LIES: dict[str, list[tuple[str, bytes, bool]]] = {
    "goes on with nothing": [("a", b"x", False)],
    "twice": [("a", b"x", True), ("a", b"x", True)],
    "a file as a folder": [("a", b"x", True), ("a/b", b"x", True)],
    "too much": [("a", b"x" * 500, True), ("a", b"x" * 501, False)],
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_leave_nothing(tmp_path: Path, lie: str) -> None:
    def land() -> None:
        with Landing(tmp_path / "home", "one", bytes_most=1000) as landing:
            for path, content, is_first in LIES[lie]:
                landing.piece(path, content, is_first=is_first)

    with pytest.raises(RunFailed, match="one"):
        land()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_here_is_said(tmp_path: Path) -> None:
    """A limit on the size of files stands for it: the same way of failing, for this test alone."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with (
            pytest.raises(RunFailed, match="cannot bring home what one measured") as raised,
            Landing(tmp_path / "home", "one") as landing,
        ):
            landing.piece("a", b"x" * 100_000, is_first=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "make room" in raised.value.fix
    assert list(tmp_path.iterdir()) == []
