"""Who gets nothing: peers without the certificate, with another's, and hostile machines."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from distributed.comm import connect
from distributed.protocol import pickle
from distributed.protocol.utils import pack_frames_prelude
from hypothesis import given
from hypothesis import strategies as st
from nfslab.cluster.certificates import (
    ANY_NAME,
    Authority,
    Papers,
    Peer,
    Role,
    papers_in,
    peer_of,
)
from nfslab.cluster.identity import facts_here
from nfslab.cluster.landing import Landing
from nfslab.cluster.link import Link, dial, members_at
from nfslab.cluster.loop import Loop, waited
from nfslab.cluster.messages import MESSAGE_BYTES_MAX, Refused, plain
from nfslab.cluster.remote import MemberThere
from nfslab.errors import RunFailed, UsageError

from tests.cluster.clusters import Cluster, lasting
from tests.cluster.hearing import PATIENCE_S, heard
from tests.cluster.hostile import Evil, Hostile, pickled

HELLO = {"is": "hello", "name": "one", "facts": json.dumps(facts_here())}


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
        with socket.create_connection(host_and_port(address), PATIENCE_S) as raw:
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


def test_we_speak_to_no_stranger_either(loop: Loop, authority: Authority) -> None:
    async def act(comm: Any, _said: Any) -> None:
        comm.abort()

    hostile = Hostile(Authority.new().papers("scheduler"), act)
    with pytest.raises(RunFailed, match="no scheduler of this cluster can be reached") as raised:
        loop.call(dial(hostile.address, "scheduler", authority.papers("prime")))
    assert "no certificate of this cluster" in raised.value.why
    hostile.close()
    for address in ("tcp://127.0.0.1:1", "127.0.0.1:1", "tls://nowhere"):
        with pytest.raises(UsageError, match="no address of a cluster"):
            loop.call(dial(address, "scheduler", authority.papers("prime")))


def test_a_worker_is_no_scheduler(cluster: Cluster, loop: Loop) -> None:
    with pytest.raises(RunFailed, match="no scheduler of this cluster can be reached") as raised:
        loop.call(members_at(worker_address(cluster, loop), cluster.papers()))
    assert "is the cluster's worker, no scheduler" in raised.value.why


def test_a_scheduler_that_is_not_ours(loop: Loop, authority: Authority) -> None:
    async def act(comm: Any, _said: Any) -> None:
        await comm.write({"type": "Scheduler", "workers": {}})

    stock = Hostile(authority.papers("scheduler"), act)
    with pytest.raises(RunFailed, match="is no scheduler of nfslab's"):
        loop.call(members_at(stock.address, authority.papers("prime")))
    stock.close()


def listening(pid: int) -> list[int]:
    """Ports on which a process listens, as the kernel tells."""
    own = set()
    for one in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            own.add(os.readlink(one))
    ports = []
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = row.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in own:
                ports.append(int(words[1].rpartition(":")[2], 16))
    return ports


def test_nothing_listens_but_the_two_that_ask_for_a_certificate(
    cluster: Cluster, loop: Loop
) -> None:
    """No dashboard, no HTTP; and the prime listens on nothing."""
    at_worker = worker_address(cluster, loop)
    assert listening(cluster.scheduler.pid) == [host_and_port(cluster.address)[1]]
    assert listening(cluster.workers["one"].pid) == [host_and_port(at_worker)[1]]
    before = listening(os.getpid())
    with cluster.connected():
        assert listening(os.getpid()) == before


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


def refusals(papers: Papers, hostile: Hostile) -> str:
    """What the prime says of it."""
    loop = Loop()
    member = MemberThere(Link("one", hostile.address, papers, loop), loop)
    try:
        member.connect()
        agent = member.begin("nfslab.offered.part")
    except RunFailed as error:
        return str(error)
    else:
        return str(heard(agent, "lost")["why"])
    finally:
        hostile.done.wait(PATIENCE_S)
        loop.close()
        hostile.close()


def test_stock_dask_runs_what_is_pickled(authority: Authority, tmp_path: Path) -> None:
    """Why its connections are not used as they are: this test fails when they can be."""

    async def act(comm: Any, _said: Any) -> None:
        comm.abort()

    hostile = Hostile(
        authority.papers("worker", "one"), act, {"x": pickled(tmp_path / "made")["pickled"]}
    )

    async def trusting() -> None:
        arguments = authority.papers("prime").security().get_connection_args("client")
        await connect(hostile.address, deserialize=False, timeout=PATIENCE_S, **arguments)

    waited(trusting())
    assert (tmp_path / "made").is_dir()
    hostile.close()


@pytest.mark.parametrize("way", ["pickled", "serialized"])
@pytest.mark.parametrize("when", ["greeting", "hello", "event"])
def test_the_prime_runs_nothing_of_a_workers(
    authority: Authority, tmp_path: Path, way: str, when: str
) -> None:
    evil = pickled(tmp_path / "made")[way]

    async def act(comm: Any, _said: Any) -> None:
        await comm.write(HELLO | ({"x": evil} if when == "hello" else {}))
        await comm.write({"is": "said", "agent": 0, "bytes": evil})
        await comm.read()

    greeting = {"x": evil} if when == "greeting" else {}
    said = refusals(
        authority.papers("prime"), Hostile(authority.papers("worker", "one"), act, greeting)
    )
    assert "only plain data is accepted" in said
    assert not (tmp_path / "made").exists()


def deep() -> bytes:
    return b"[" * 100_000 + b"\n"


WRONG: dict[str, Callable[[], dict[str, Any]]] = {
    "no event": lambda: {"is": "said", "agent": 0, "bytes": b"[]\n"},
    "no JSON": lambda: {"is": "said", "agent": 0, "bytes": b"{\n"},
    "too deep": lambda: {"is": "said", "agent": 0, "bytes": deep()},
    "no bytes": lambda: {"is": "said", "agent": 0, "bytes": 7},
    "no message": lambda: {"is": "nonsense", "agent": 0},
    "no agent": lambda: {"is": "said"},
    "unasked folder": lambda: {
        "is": "piece",
        "agent": 0,
        "path": "a",
        "kind": "file",
        "bytes": b"",
    },
    "too long": lambda: {"is": "said", "agent": 0, "bytes": os.urandom(MESSAGE_BYTES_MAX)},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_worker_that_says_what_it_must_not_is_lost(authority: Authority, wrong: str) -> None:
    async def act(comm: Any, _said: Any) -> None:
        await comm.write(HELLO)
        while (await comm.read())["is"] != "begin":
            pass
        await comm.write({"is": "begun", "agent": 0})
        for _ in range(20):
            await comm.write(WRONG[wrong]())
        await comm.read()

    said = refusals(authority.papers("prime"), Hostile(authority.papers("worker", "one"), act))
    assert "said what nfslab does not say" in said or "a message of" in said


@pytest.mark.parametrize("answer", [{}, {"monotonic_ns": "x"}, {"monotonic_ns": None}])
def test_a_clock_that_is_none_loses_its_worker(
    authority: Authority, answer: dict[str, Any]
) -> None:
    async def act(comm: Any, _said: Any) -> None:
        await comm.write(HELLO)
        while (said := await comm.read())["is"] != "clock":
            pass
        await comm.write({"is": "clock", "n": said["n"], **answer})
        await comm.read()

    hostile = Hostile(authority.papers("worker", "one"), act)
    loop = Loop()
    member = MemberThere(Link("one", hostile.address, authority.papers("prime"), loop), loop)
    member.connect()
    with pytest.raises(RunFailed, match="one said what nfslab does not say"):
        member.clocks()
    assert member.link.lost
    loop.close()
    hostile.close()


def test_words_of_a_machine_cannot_steer_a_terminal(authority: Authority) -> None:
    evil = "\x1b]0;evil\x07\n" + "x" * 10_000

    async def act(comm: Any, _said: Any) -> None:
        await comm.write(HELLO)
        while (await comm.read())["is"] != "begin":
            pass
        await comm.write({"is": "refused", "agent": 0, "why": evil})
        await comm.read()

    said = refusals(authority.papers("prime"), Hostile(authority.papers("worker", "one"), act))
    assert "evil" in said
    assert "\x1b" not in said
    assert "\x07" not in said
    assert len(said) < 3000


def test_a_worker_cannot_answer_in_the_name_of_another(authority: Authority) -> None:
    async def act(comm: Any, _said: Any) -> None:
        await comm.write(HELLO)

    hostile = Hostile(authority.papers("worker", "two"), act)
    hostile.done.set()
    said = refusals(authority.papers("prime"), hostile)
    assert "who answers for one" in said
    assert "its certificate is that of 'two'" in said


async def spoken(address: str, papers: Papers, message: dict[str, Any]) -> Any:
    """The answer of a process of ours to a peer that speaks as Dask does."""
    arguments = papers.security().get_connection_args("worker")
    comm = await connect(address, timeout=PATIENCE_S, **arguments)
    try:
        await comm.write(message)
        return await asyncio.wait_for(comm.read(), PATIENCE_S)
    except OSError:
        return None
    finally:
        comm.abort()


def joining(name: str, **more: Any) -> dict[str, Any]:
    return {
        "op": "register-worker", "reply": False, "address": "tls://127.0.0.1:9", "name": name,
        "status": "running", "nthreads": 1, "now": 0.0, "resources": {}, "memory_limit": 0,
        "services": {}, "nanny": None, "local_directory": "/", "versions": {}, "metrics": {},
        "extra": {}, "stimulus_id": "x", "server_id": "x", "pid": 1, **more,
    }  # fmt: skip


def test_the_scheduler_runs_nothing_of_a_workers(
    cluster: Cluster, loop: Loop, tmp_path: Path
) -> None:
    named = Authority.of(cluster.folder).papers("worker", "two")
    made = tmp_path / "made"
    for way in pickled(made).values():
        assert loop.call(spoken(cluster.address, named, joining("two", extra=way))) is None
    function = pickle.dumps(Evil(made))
    for op in ("run_function", "register_scheduler_plugin", "update-graph", "register-client"):
        loop.call(
            spoken(
                cluster.address, named,
                {"op": op, "reply": True, "function": function, "plugin": function},
            )
        )  # fmt: skip
    assert not made.exists()
    # It may not come under the name of another, nor end the cluster.
    for message in (joining("three"), {"op": "terminate", "reply": True}):
        answer = loop.call(spoken(cluster.address, named, message))
        assert answer["status"] == "error", message
    assert [name for name, _ in loop.call(members_at(cluster.address, cluster.papers()))] == ["one"]


def test_a_worker_obeys_its_prime_alone(cluster: Cluster, loop: Loop, tmp_path: Path) -> None:
    address = worker_address(cluster, loop)
    authority = Authority.of(cluster.folder)
    attend = {"op": "nfslab-attend", "reply": False, "prime": facts_here()}
    for role in ("worker", "scheduler"):
        assert loop.call(spoken(address, authority.papers(role, "one"), attend)) is None
    assert loop.call(spoken(address, authority.papers("prime"), attend))["is"] == "hello"
    made = tmp_path / "made"
    run = {
        "op": "run",
        "reply": True,
        "function": pickle.dumps(Evil(made)),
        "args": b"",
        "kwargs": b"",
    }
    loop.call(spoken(address, authority.papers("prime"), run))
    loop.call(spoken(address, authority.papers("prime"), {"op": "run", **pickled(made)}))
    assert not made.exists()


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


def test_a_hostile_folder_over_the_wire(authority: Authority, tmp_path: Path) -> None:
    async def act(comm: Any, _said: Any) -> None:
        await comm.write(HELLO)
        while True:
            said = await comm.read()
            if said["is"] == "begin":
                await comm.write({"is": "begun", "agent": 0})
            elif said["is"] == "fetch":
                await comm.write({"is": "piece", "agent": 0} | piece("file", "../out"))

    hostile = Hostile(authority.papers("worker", "one"), act)
    loop = Loop()
    member = MemberThere(Link("one", hostile.address, authority.papers("prime"), loop), loop)
    member.connect()
    with pytest.raises(RunFailed, match="what one sent is not taken"):
        member.begin("nfslab.offered.part").fetch(tmp_path / "home")
    assert list(tmp_path.iterdir()) == []
    loop.close()
    hostile.close()
