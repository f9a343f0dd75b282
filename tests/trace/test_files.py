"""File formats, link layers, pipes, cut packets and cut files, against the same truth."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.trace import scenes
from tests.trace.generator import files, link, nfs4, nfs41, rpc
from tests.trace.generator.capture import Capture, truth
from tests.trace.generator.files import Format
from tests.trace.reading import assert_same, read, written

PLAIN = [
    Format(pcapng=pcapng, order=order, nanoseconds=nanoseconds)
    for pcapng in (False, True)
    for order in "<>"
    for nanoseconds in (True, False)
]
COMPRESSED = [
    Format(pcapng=pcapng, compression=compression)
    for pcapng in (False, True)
    for compression in ("gz", "zst")
]
LINKS = [
    Format(link_type=link.ETHERNET, vlans=(7,)),
    Format(link_type=link.ETHERNET, vlans=(7, 4000)),
    Format(link_type=link.NULL),
    Format(link_type=link.NULL, order=">"),
    Format(link_type=link.LOOP),
    Format(link_type=link.RAW),
    Format(link_type=link.SLL),
    Format(link_type=link.SLL2),
    Format(link_type=link.SLL2, pcapng=True),
]


@pytest.mark.parametrize("form", PLAIN + COMPRESSED + LINKS, ids=repr)
def test_formats_and_link_layers(tmp_path: Path, form: Format) -> None:
    path, true = written(scenes.everything(), tmp_path, form)
    found = read(path)
    assert_same(found, true)
    assert found.anomalies == {}


def test_several_files_are_read_as_one(tmp_path: Path) -> None:
    made = scenes.everything()
    frames = made.frames()
    true = truth(made, frames)
    cuts = [0, 50, 51, 200, len(frames)]
    forms = [Format(), Format(pcapng=True), Format(compression="gz"), Format(compression="zst")]
    paths = [
        files.write(tmp_path / f"part{index}", files.encode(frames[a:b], form), form.compression)
        for index, (a, b, form) in enumerate(zip(cuts, cuts[1:], forms, strict=False))
    ]
    found = read(*paths)
    assert_same(found, true)


@pytest.mark.parametrize(
    "form", [Format(), Format(pcapng=True), Format(compression="gz")], ids=repr
)
def test_a_pipe_gives_what_the_file_gives(tmp_path: Path, form: Format) -> None:
    path, true = written(scenes.everything(), tmp_path, form)
    reading, writing = os.pipe()

    def feed() -> None:
        with os.fdopen(writing, "wb") as out:
            data = path.read_bytes()
            for at in range(0, len(data), 777):
                out.write(data[at : at + 777])
                out.flush()

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        found = read(("standard input", reading))
    finally:
        os.close(reading)
        feeder.join()
    assert_same(found, true)


def test_every_operation_of_every_version(tmp_path: Path) -> None:
    path, true = written(scenes.everything(), tmp_path)
    assert len({(c.exchange.body.program, c.exchange.body.version) for c in true.calls}) == 12
    found = read(path)
    assert_same(found, true)
    assert found.anomalies == {}


@pytest.mark.parametrize("service", [None, rpc.SVC_INTEGRITY])
@pytest.mark.parametrize("count", [4000, 70_000])
def test_every_payload_of_a_compound_counts(
    tmp_path: Path, count: int, service: int | None
) -> None:
    """Over TCP the inside of a long message passes: what stands behind a payload must not."""
    made = Capture(15)
    node = scenes.v4_tree().children[0].children[0]
    session = nfs41.Session(minor=2)
    written_twice = [nfs4.write(0, count), nfs4.write(count, count), nfs4.getattr_(node)]
    mixed = [nfs4.write(0, count), nfs4.read(0, count), nfs4.write(7, 900), nfs4.commit(0, 0)]
    far = [*[nfs4.getattr_(node)] * 60, nfs4.read(0, count), nfs4.getattr_(node)]
    bodies = [
        session.on(node, nfs4.read(0, count), nfs4.read(count, count), named_by="READ"),
        session.on(node, nfs4.read(0, count), *[nfs4.getattr_(node)] * 50, named_by="READ"),
        session.on(node, *written_twice, named_by="WRITE"),
        session.on(node, *mixed, named_by="READ"),
        session.on(node, *far, named_by="READ"),
        session.on(node, nfs41.read_plus(0, (count, 4096), (count, 512), (300, 0)),
                   named_by="READ_PLUS"),
    ]  # fmt: skip
    auth = None if service is None else rpc.GssAuth(service=service)
    made.converse(made.tcp(), bodies, auth=auth)
    path, true = written(made, tmp_path)
    found = read(path)
    assert_same(found, true, path=False)
    assert found.anomalies == {}
    assert [row["marks"] for row in found.rows] == [None] * len(bodies)
    calls = {row["operation"]: row["calls"] for row in found.summary["operations"]}
    assert (calls["READ"], calls["WRITE"], calls["GETATTR"]) == (5, 4, 112)
