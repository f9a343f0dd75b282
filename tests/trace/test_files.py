"""File formats, link layers, pipes, cut packets and cut files, against the same truth."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from tests.trace import scenes
from tests.trace.generator import files, link
from tests.trace.generator.capture import truth
from tests.trace.generator.files import Format
from tests.trace.reading import HEADER_COLUMNS, assert_same, differences, read, written

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


@pytest.mark.parametrize("pcapng", [False, True])
@pytest.mark.parametrize("missing", [1, 3, 20, 90])
def test_a_file_cut_within_its_last_packet(tmp_path: Path, pcapng: bool, missing: int) -> None:
    made, _flow = scenes.v3_mix(2, 30)
    frames = made.frames()
    form = Format(pcapng=pcapng)
    made.link_bytes = form.link_bytes
    data = files.encode(frames, form)
    path = files.write(tmp_path / "cut.pcap", data[:-missing])
    found = read(path)
    left = len(frames) - 1
    while len(files.encode(frames[:left], form)) > len(data) - missing:
        left -= 1
    rest = truth(made, frames[:left])
    assert differences(found.rows, rest.calls) == []
    assert found.summary["packets"] == rest.packets
    assert sum(found.anomalies.values()) == 1, found.anomalies


@pytest.mark.parametrize("snaplen", [96, 128, 256])
@pytest.mark.parametrize("link_type", [link.ETHERNET, link.SLL, link.RAW])
def test_cut_packets_give_headers_operations_and_instants(
    tmp_path: Path, snaplen: int, link_type: int
) -> None:
    made, _flow = scenes.v3_mix(2, 200, depth=1, largest=12_000)
    made.snaplen = snaplen
    path, true = written(made, tmp_path, Format(link_type=link_type))
    found = read(path)
    columns = [*HEADER_COLUMNS, "operation"]
    if snaplen < 128:
        columns.remove("user")  # the credential is cut: 96 bytes end behind the procedure
    assert differences(found.rows, true.calls, columns, path=False) == []
    assert found.summary["packets"] == true.packets
    assert found.summary["bytes"] == true.bytes


def test_cut_compounds_are_named_as_far_as_they_are_seen(tmp_path: Path) -> None:
    made = scenes.everything()
    made.snaplen = 256
    path, true = written(made, tmp_path)
    found = read(path)
    assert 0.9 * len(made.exchanges) < len(true.calls) < len(made.exchanges)
    columns = [name for name in HEADER_COLUMNS if name != "user"]
    assert differences(found.rows, true.calls, columns, path=False) == []
