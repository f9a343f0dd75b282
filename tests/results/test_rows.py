"""A catalogue read as columns by the core says what its validated lines say, or nothing.

The truth is pydantic's reading of each line (`LineRows`), which knows nothing of the core.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nfslab.results import catalogue as catalogue_file
from nfslab.results.catalogue import Catalogue, read_catalogue
from nfslab.results.columns import run_arrays, run_columns
from nfslab.results.outcomes import Outcomes
from nfslab.results.records import CatalogueLine
from nfslab.results.rows import LineRows, PlainRows
from nfslab.results.shelf import _typed
from nfslab.results.store import ExperimentFolder

from tests.report.synthetic import Recipe, write_pgbench

FIELDS = [name for name in CatalogueLine.model_fields if name != "metrics"]
LINE: dict[str, Any] = {
    "run_id": "b000-a-a1", "point_id": "a", "block": 0, "position": 3, "attempt": 1,
    "status": "ok", "reason": "", "factors": {"x": 1, "y": "é"}, "metrics": {"tps": 1.5, "n": 2},
    "flags": ["load:warning"], "durability": "stable", "setup": "s", "started_unix_ns": 17,
    "duration_ns": 5_000_000_001,
}  # fmt: skip


def sealed(line: str) -> bytes:
    """The line with its checksum, as the catalogue's docstring states it."""
    body = line.removesuffix("}").encode()
    return body + f',"crc32":"{zlib.crc32(body):08x}"}}'.encode()


def same(one: Any, other: Any) -> bool:
    """Equal, of the same types, signs of zeros and NaNs included."""
    return repr(one) == repr(other)


def agree(content: bytes) -> bool:
    """Was it read as columns? Then all of them are what validated lines have."""
    lines, torn = catalogue_file._cached_lines(content)
    rows = PlainRows.read(content, lambda: lines)
    if rows is None:
        return False
    truth = LineRows(lines)
    assert torn == 0
    assert all(line.model_extra in (None, {}) for line in lines)
    assert len(rows) == len(truth)
    assert rows.metric_names() == truth.metric_names()
    for name in FIELDS:
        assert same(rows.column(name), truth.column(name)), name
    for name in [*{name: None for names in truth.metric_names() for name in names}, "none such"]:
        assert same(rows.metric(name), truth.metric(name)), name
    return True


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(2**53 - 3, 2**53 + 3), st.floats(),
    st.text(), st.sampled_from(["ok", "failed", "stable", "unknown", "", "5", "NaN"]),
    st.lists(st.one_of(st.text(), st.integers()), max_size=3),
    st.dictionaries(st.text(max_size=2), st.one_of(st.floats(), st.integers(), st.text())),
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from([*LINE, "crc32", "else"]), VALUES, st.booleans())))
def test_any_value_of_any_field(changes: list[tuple[str, Any, bool]]) -> None:
    lines = [sealed(json.dumps(LINE))]
    for name, value, is_sealed in changes:
        text = json.dumps(LINE | {name: value}, ensure_ascii=is_sealed)
        if any("\ud800" <= one <= "\udfff" for one in text):
            continue  # no file holds it
        lines.append(sealed(text) if is_sealed else text.encode())
    agree(b"\n".join(lines) + b"\n")


PIECES = [
    b"", b"\n", b'"', b"{", b"}", b"0", b"-", b"e9", b"\\", b" ", b",", b"\xff", b"null",
    b"\xc3\xa9", b"\r",
]  # fmt: skip


@given(st.data())
def test_any_bytes_changed(data: st.DataObject) -> None:
    content = bytearray(json.dumps(LINE).encode() + b"\n" + sealed(json.dumps(LINE)) + b"\n")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        piece = data.draw(st.sampled_from(PIECES))
        content[at : at + data.draw(st.integers(0, 2))] = piece
    agree(bytes(content))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_fractions_are_read_to_the_last_digit(values: list[float]) -> None:
    texts = [text for value in values for text in (repr(value), f"{value:.25e}", f"{value:.1f}")]
    lines = [sealed(json.dumps(LINE).replace("1.5", text)) for text in texts]
    content = b"\n".join(lines) + b"\n"
    agree(content)
    rows = PlainRows.read(content, list)
    if rows is not None:
        assert rows.metric("tps") == [float(text) for text in texts]


PLAIN = json.dumps(LINE)
ODD = {
    "an unknown field": PLAIN[:-1] + ', "later": 1}',
    "a field twice": PLAIN[:-1] + ', "block": 4}',
    "a metric twice": PLAIN.replace('"tps": 1.5', '"tps": 1.5, "tps": 2.5'),
    "a missing field": PLAIN.replace('"block": 0, ', ""),
    "no number": PLAIN.replace("1.5", "NaN"),
    "beyond all numbers": PLAIN.replace("1.5", "1e999"),
    "a number in quotes": PLAIN.replace("1.5", '"1.5"'),
    "a number that is not exact": PLAIN.replace("1.5", "9007199254740993"),
    "an integer with a fraction": PLAIN.replace('"block": 0', '"block": 0.0'),
    "an integer in quotes": PLAIN.replace('"block": 0', '"block": "0"'),
    "an integer that is true": PLAIN.replace('"block": 0', '"block": true'),
    "an integer beyond 64 bits": PLAIN.replace("17", "170000000000000000000"),
    "nothing for a text": PLAIN.replace('"setup": "s"', '"setup": null'),
    "nothing for flags": PLAIN.replace('["load:warning"]', "null"),
    "another status": PLAIN.replace('"ok"', '"odd"'),
    "a status that is an object": PLAIN.replace('"ok"', '{"ok": null}'),
    "another durability": PLAIN.replace('"stable"', '"odd"'),
    "factors that are a list": PLAIN.replace('{"x": 1, "y": "\\u00e9"}', "[1]"),
    "half a character": PLAIN.replace("\\u00e9", "\\ud800"),
    "an array": json.dumps(list(LINE.values())),
    "two objects": PLAIN + "," + PLAIN,
    "a checksum that is none": PLAIN[:-1] + ', "crc32": null}',
    "a checksum elsewhere": PLAIN[:-1] + ',"crc32":"01234567", "block": 0}',
    "a checksum within": PLAIN.replace('{"x": 1', '{"x": 1,"crc32":"01234567"'),
    "a wrong checksum": sealed(PLAIN).decode().replace("1.5", "2.5"),
    "two checksums": sealed(sealed(PLAIN).decode()).decode(),
    "cut off": PLAIN[:-3],
    "nothing": "   ",
}


@pytest.mark.parametrize("odd", ODD)
def test_what_is_odd_is_left_to_lines(odd: str) -> None:
    content = sealed(PLAIN) + b"\n" + ODD[odd].encode() + b"\n"
    assert not agree(content)


def test_what_is_plain_is_read() -> None:
    short = {n: v for n, v in LINE.items() if n not in ("reason", "flags", "durability", "setup")}
    lines = [
        sealed(PLAIN), PLAIN.encode(), b"", json.dumps(short).encode(),
        json.dumps(LINE | {"metrics": {"n": -0.0, "tps": 1e-320}}, ensure_ascii=False).encode(),
        json.dumps(LINE | {"metrics": {}, "status": "failed", "reason": 'a\n"b"\\'}).encode(),
        PLAIN.replace("1.5", "-0").encode(),
    ]  # fmt: skip
    assert agree(b"\n".join(lines) + b"\n")
    assert agree(b"")
    assert not agree(PLAIN.encode())  # without its end it was cut off
    assert not agree(sealed(PLAIN) + b"\n\xff\n")


@pytest.fixture
def folder(tmp_path: Path) -> ExperimentFolder:
    recipe = Recipe(
        clients=(1, 5), repetitions=3, retried=((0, 1), (2, 2)), failed=((1, 0),),
        samples=False, evidence=False
    )  # fmt: skip
    return write_pgbench(tmp_path, recipe)


def by_lines(path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    with monkeypatch.context() as patched:
        patched.setattr(catalogue_file, "_plain_rows", lambda *_: None)
        return read_catalogue(path)


def harm_a_run(path: Path) -> None:
    (path / "runs" / next(iter(read_catalogue(path).lines)).run_id / "provenance.json").unlink()


def swap_lines(path: Path) -> None:
    file = path / "catalogue.jsonl"
    file.write_bytes(b"".join(reversed(file.read_bytes().splitlines(keepends=True))))


def drop_a_line(path: Path) -> None:
    file = path / "catalogue.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[1:]))


def repeat_a_line(path: Path) -> None:
    file = path / "catalogue.jsonl"
    rows = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*rows, rows[0]]))


def write_a_huge_number(path: Path) -> None:
    file = path / "catalogue.jsonl"
    text = re.sub(rb',"crc32":"[0-9a-f]{8}"}', b"}", file.read_bytes())
    file.write_bytes(text.replace(b'"tps":', b'"tps":1e999,"was":', 1))


@pytest.mark.parametrize(
    "planted", [None, harm_a_run, swap_lines, drop_a_line, repeat_a_line, write_a_huge_number]
)
def test_both_ways_tell_the_same(
    folder: ExperimentFolder, monkeypatch: pytest.MonkeyPatch, planted: Any
) -> None:
    if planted:
        planted(folder.path)
    found, truth = read_catalogue(folder.path), by_lines(folder.path, monkeypatch)
    is_plain = planted in (None, harm_a_run, swap_lines)
    assert isinstance(found.rows, PlainRows) is is_plain
    assert isinstance(truth.rows, LineRows)
    for what in ("lines", "damaged", "partial", "missing_lines", "useless_lines", "newest"):
        assert getattr(found, what) == getattr(truth, what), what
    assert found.superseded() == truth.superseded()
    ours, theirs = (Outcomes(folder, one) for one in (found, truth))
    assert ours.counted == theirs.counted
    assert same(ours.metrics, theirs.metrics)
    assert all(same(ours.values(name).tolist(), theirs.values(name).tolist()) for name in ("tps",))
    assert same(run_columns(ours), run_columns(theirs))
    assert same(run_columns(ours, [1]), run_columns(theirs, [1]))
    tables = [
        pa.Table.from_pydict(_typed(run_arrays(one), keep_empty=True)) for one in (ours, theirs)
    ]
    assert tables[0].schema == tables[1].schema
    assert same(tables[0].to_pydict(), tables[1].to_pydict())
    assert not any(math.isnan(one) for one in ours.values("tps"))
