"""Who gets nothing: peers without the certificate, with another's, and hostile machines."""

from __future__ import annotations

import contextlib
import resource
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from distributed.protocol.utils import pack_frames_prelude
from hypothesis import given
from hypothesis import strategies as st
from nfslab.cluster.certificates import (
    ANY_NAME,
    Authority,
    Peer,
    Role,
    papers_in,
    peer_of,
)
from nfslab.cluster.landing import Landing
from nfslab.cluster.link import members_at
from nfslab.cluster.loop import Loop
from nfslab.cluster.messages import Refused, plain
from nfslab.cluster.remote import AgentThere
from nfslab.errors import RunFailed, UsageError

from tests.cluster.clusters import Cluster, lasting
from tests.waiting import NO_LIMIT_S


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Hostile peers leave it as it was, or a later test fails."""
    with lasting(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.new()


def worker_address(cluster: Cluster, loop: Loop) -> str:
    ((_, address),) = loop.call(members_at(cluster.address, cluster.papers()))
    return address


def host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("tls://").rpartition(":")
    return host, int(port)


# Who has no certificate of the cluster's


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


def strangers(tmp_path: Path) -> dict[str, ssl.SSLContext | None]:
    """Contexts that believe everybody, so that it is not they who refuse."""
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
    other = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    other.check_hostname, other.verify_mode = False, ssl.CERT_NONE
    Authority.new().write(tmp_path)
    other.load_cert_chain(tmp_path / "prime.pem", tmp_path / "prime.key")
    return {"no TLS": None, "no certificate": bare, "another cluster's": other}


@pytest.mark.long
@pytest.mark.system
def test_a_peer_without_the_certificate_gets_nothing(
    cluster: Cluster, loop: Loop, tmp_path: Path
) -> None:
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ours.check_hostname, ours.verify_mode = False, ssl.CERT_NONE
    ours.load_cert_chain(cluster.folder / "prime.pem", cluster.folder / "prime.key")
    for address in (cluster.address, worker_address(cluster, loop)):
        # As it is answered who has it: the test would notice.
        assert b"pickle-protocol" in answer_to(address, ours)
        for who, context in strangers(tmp_path).items():
            assert answer_to(address, context) == b"", who


# Keys


def test_keys_are_the_owners_alone(tmp_path: Path) -> None:
    Authority.new().write(tmp_path / "new")
    keys = sorted(path.name for path in (tmp_path / "new").glob("*.key"))
    assert keys == ["ca.key", "prime.key", "scheduler.key", "worker.key"]
    for name in keys:
        assert (tmp_path / "new" / name).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    (tmp_path / "new" / "prime.key").chmod(0o640)
    with pytest.raises(UsageError, match="others may read the private key"):
        papers_in(tmp_path / "new", "prime")
    with pytest.raises(UsageError, match="no certificates of a cluster"):
        papers_in(tmp_path / "missing", "prime")


@pytest.mark.parametrize("name", ["load1", "ü:/%*", ANY_NAME, ""])
@pytest.mark.parametrize("role", ["prime", "worker"])
def test_role_and_name_stand_in_the_certificate(
    authority: Authority, tmp_path: Path, role: Role, name: str
) -> None:
    papers = authority.papers(role, name)
    (tmp_path / "one.pem").write_text(papers.certificate)
    shown = ssl._ssl._test_decode_cert(str(tmp_path / "one.pem"))  # type: ignore[attr-defined]
    assert peer_of(shown) == Peer(role, name)


def test_a_name_is_that_of_one_host() -> None:
    assert Peer("worker", "one").may_be("one")
    assert Peer("worker", ANY_NAME).may_be("one")
    assert not Peer("worker", "two").may_be("one")
    assert not Peer("prime", "one").may_be("one")
    assert peer_of({"subjectAltName": (("DNS", "nfslab:worker:one"),)}) == Peer("", "")


# Hostile machines that have a certificate


WRONG: dict[str, dict[str, Any]] = {
    "no event": {"is": "said", "bytes": b"[]\n"},
    "no JSON": {"is": "said", "bytes": b"{\n"},
    "too deep": {"is": "said", "bytes": b"[" * 100_000 + b"\n"},
    "no bytes": {"is": "said", "bytes": 7},
    "no message": {"is": "nonsense"},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_agent_says_events_and_nothing_else(wrong: str) -> None:
    member: Any = None  # it is only written to
    agent = AgentThere(member, 0)
    agent.heard({"is": "said", "bytes": b'{"event": "ready"}\n'})
    with pytest.raises((AttributeError, RecursionError, TypeError, ValueError)):
        agent.heard(WRONG[wrong])
    assert agent.events(0) == [{"event": "ready"}]


def framed(*frames: bytes) -> bytes:
    return pack_frames_prelude(list(frames)) + b"".join(frames)


def test_messages_are_plain_data() -> None:
    said = {"a": (1, 2.5, "ü", b"\0", None, True), "b": {"c": ()}}
    assert plain(framed(msgpack.packb(said))) == said
    for mark in ("__Pickled__", "__Serialized__", "__Enum__"):
        with pytest.raises(Refused, match=mark):
            plain(framed(msgpack.packb({"deep": [{mark: 1}]})))
    with pytest.raises(Refused, match="more than one frame"):
        plain(framed(msgpack.packb({}), b"more"))


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=200).map(lambda x: framed(x))))
def test_whatever_comes_is_plain_or_refused(packed: bytes) -> None:
    with contextlib.suppress(Refused):
        plain(packed)


# What comes home


OUTSIDE = [
    "../out", "/out", "a/../../out", "..", ".", "", "a//b", "a/", "./a", "a\0b",
    "x" * 5000, "/".join("d" * 40),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["file", "folder"])
@pytest.mark.parametrize("path", OUTSIDE)
def test_nothing_lands_outside(tmp_path: Path, path: str, kind: str) -> None:
    landing = Landing(tmp_path / "home", "one")
    landing.take({"kind": "folder", "path": "a", "bytes": b""})
    with pytest.raises(RunFailed, match="what one sent is not taken"):
        landing.take({"kind": kind, "path": path, "bytes": b"evil"})
    assert list(tmp_path.iterdir()) == []


def piece(kind: str, path: Any = "a", content: Any = b"x") -> dict[str, Any]:
    return {"kind": kind, "path": path, "bytes": content}


def test_a_full_disk_here_is_said(tmp_path: Path) -> None:
    """A limit on the size of files stands for it: the same way of failing, for this test alone."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    landing = Landing(tmp_path / "home", "one")
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(RunFailed, match="cannot bring home what one measured") as raised:
            landing.take({"kind": "file", "path": "a", "bytes": b"x" * 100_000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "make room" in raised.value.fix
    assert list(tmp_path.iterdir()) == []


LIES = {
    "a link": [piece("symlink")],
    "a device": [piece("device")],
    "no path": [piece("file", 7)],
    "no content": [piece("file", "a", "text")],
    "goes on with nothing": [piece("more")],
    "goes on with another": [piece("file"), piece("more", "b")],
    "twice": [piece("file"), piece("file")],
    "a file as a folder": [piece("file"), piece("file", "a/b")],
    "too much": [piece("file"), *[piece("more", "a", b"x" * 500) for _ in range(2)]],
    "its own error": [piece("error", "", b"\xff no disk")],
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_leave_nothing(tmp_path: Path, lie: str) -> None:
    landing = Landing(tmp_path / "home", "one", bytes_most=1000)
    *before, last = LIES[lie]
    for one in before:
        landing.take(one)
    with pytest.raises(RunFailed, match="one"):
        landing.take(last)
    assert list(tmp_path.iterdir()) == []
