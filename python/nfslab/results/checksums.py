"""Checksums of all that reports read: CRC-32, written with it, checked when it is read.

A disk that returns another bit, a copy that was cut, an edit by hand: figures made of such a run
would be wrong without a word. `checksums.json` in a run's folder holds size and CRC-32 (ISO 3309,
as gzip has it: any change of up to 32 bits in a row is found for certain, any other but for one in
4 thousand million) of every other file there. What is written outside of runs (the experiment's
record, lines of the catalogue, facts) has its own as the last member of its JSON, and the record
has that of the experiment file. It guards against accidents, not against people.

Two depths: *sizes* looks at the size of each file and reads the record alone (`list`, `show`);
*whole* reads every byte (reports, `run`, `query` of the tables it reads, `check`). Runs that were
sealed before there were checksums are asked whether their tables can be opened.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from nfslab.results.durable import to_json, write_durably

if TYPE_CHECKING:
    from collections.abc import Iterable

CHECKSUMS: Final = "checksums.json"
RECORD: Final = "run.json"
LOGS: Final = "logs/"
"""What stands there is in no figure."""
SMALL_BYTES: Final = 1 << 14
"""Read at first: records and lists of checksums are smaller."""
CHUNK_BYTES: Final = 1 << 20
Depth = Literal["sizes", "whole"]
MEMBER: Final = b',"crc32":"'
DIGITS_BYTES: Final = len('01234567"}')
CHANGED: Final = "it is not what was written (CRC-32)"


def with_crc32(text: bytes) -> bytes:
    """Returns JSON of an object with the CRC-32 of what stands before it as its last member."""
    body = text.removesuffix(b"}").rstrip()
    return body + MEMBER + f'{zlib.crc32(body):08x}"}}'.encode()


def without_crc32(text: bytes) -> bytes | None:
    """Returns the JSON without its checksum; None if that is another's. What is older has none."""
    front, digits = text[:-DIGITS_BYTES], text[-DIGITS_BYTES:]
    body = front.removesuffix(MEMBER)
    if body == front:
        return None if b'"crc32"' in text else text
    return body + b"}" if digits == b'%08x"}' % zlib.crc32(body) else None


def write_checksums(run: Path) -> None:
    """Write `checksums.json` of a run that is about to be sealed; OSError as it comes."""
    files = {
        name: {"bytes": (run / name).stat().st_size, "crc32": crc32_of(run / name)}
        for name in _files(run)
    }
    write_durably(run / CHECKSUMS, to_json({"algorithm": "CRC-32", "files": files}, indent=1))


def damage(run: Path | str, depth: Depth, only: Iterable[str] | None = None) -> dict[str, str]:
    """File (relative to the run) -> what is wrong with it; empty for a whole run.

    `only`: these files alone.
    """
    stated = _stated(run)
    if isinstance(stated, str):
        return {CHECKSUMS: stated}
    asked = None if only is None else set(only)
    if stated is None:
        names = _files(run) if asked is None else asked
        found = {}
        if depth == "whole":
            found = {name: _unreadable_table(Path(run, name)) for name in names}
    else:
        # Texts, not paths: of many runs, making paths would take longer than looking.
        found = {
            name: _changed(f"{run}/{name}", facts, whole=depth == "whole" or name == RECORD)
            for name, facts in stated.items()
            if asked is None or name in asked
        }
    return {name: why for name, why in found.items() if why}


def harm(run: Path | str, depth: Depth) -> str:
    """What is wrong with the files that figures are made of, in a line; empty for nothing."""
    found = damage(run, depth)
    return "; ".join(f"{name}: {why}" for name, why in found.items() if not name.startswith(LOGS))


def crc32_of(path: Path | str) -> str:
    """CRC-32 of a file's bytes, eight hexadecimal digits."""
    return _size_and_crc32(path)[1]


def _size_and_crc32(path: Path | str) -> tuple[int, str]:
    """By the descriptor: making file objects would take longer than small files do."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        piece = os.read(descriptor, SMALL_BYTES)
        size, crc = len(piece), zlib.crc32(piece)
        if size == SMALL_BYTES:
            while piece := os.read(descriptor, CHUNK_BYTES):
                size, crc = size + len(piece), zlib.crc32(piece, crc)
    finally:
        os.close(descriptor)
    return size, f"{crc:08x}"


def _files(run: Path | str) -> list[str]:
    """Regular files below the run's folder, without the checksums themselves."""
    found = []
    for parent, _, names in os.walk(run):
        inside = os.path.relpath(parent, run)
        for name in names:
            path = os.path.join(parent, name)
            if os.path.isfile(path) and not os.path.islink(path):
                found.append(os.path.normpath(os.path.join(inside, name)))
    return sorted(name for name in found if name != CHECKSUMS)


def _stated(run: Path | str) -> dict[str, dict[str, Any]] | str | None:
    """The checksums that were written; why they cannot be read; None where there are none."""
    try:
        with open(f"{run}/{CHECKSUMS}", "rb", buffering=0) as file:
            content = json.loads(str(file.read(), "utf-8"))
        return {name: dict(facts) for name, facts in content["files"].items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return f"cannot be read ({error})"


def _changed(path: str, facts: dict[str, Any], *, whole: bool) -> str:
    try:
        size, crc32 = _size_and_crc32(path) if whole else (os.stat(path).st_size, None)
        if size != facts.get("bytes"):
            return f"it has {size} bytes, {facts.get('bytes')} were written"
        if whole and crc32 != facts.get("crc32"):
            return CHANGED
    except OSError as error:
        return f"it cannot be read ({error.strerror})"
    return ""


def _unreadable_table(path: Path) -> str:
    """Why a Parquet file's footer cannot be read; empty for other files."""
    if path.suffix != ".parquet":
        return ""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        return f"it cannot be read ({error})"
    return ""
