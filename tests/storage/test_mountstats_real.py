"""Real mounts of Linux 6.12, before and after a small load: as nfs-utils' tools read them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.storage.mountstats import MountCounts, OperationCounts, since

from tests.machine import needs
from tests.storage.test_mountstats import one

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

READINGS = Path(__file__).parent / "mountstats"
"""See README.md there."""
NFSIOSTAT = """
import contextlib, sys
program, before, after, point = sys.argv[1:]
sys.argv = [program]  # it runs when it is read, of this machine's own mounts, and leaves
module = {"__name__": "read"}
with contextlib.suppress(SystemExit):
    exec(compile(open(program).read(), program, "exec"), module)
def stats(path):
    data = module["DeviceData"]()
    data.parse_stats(module["parse_stats_file"](path)[point])
    return data
print()
stats(after).compare_iostats(stats(before)).display_iostats(2.0, 0)
"""
"""It reads only /proc by itself: its own functions are given the saved files, over 2 s."""
SAVED = sorted(path.stem for path in READINGS.glob("*.before"))


def printed_operations(counts: MountCounts) -> dict[str, list[float]]:
    """The numbers that it prints of each operation, from ours."""
    sends = counts.transports[-1].sends  # of several transports it keeps the last one
    found = {}
    for name, ours in counts.operations.items():
        if not ours.calls:
            continue
        numbers: list[float] = [ours.calls, ours.calls * 100 // sends if sends else 0]
        if again := ours.sends - ours.calls:
            numbers += [again, int(again * 100 / ours.calls), ours.timeouts]
        if ours.errors:
            numbers += [ours.errors, int(ours.errors * 100 / ours.calls)]
        numbers += [int(ours.bytes_sent / ours.calls), int(ours.bytes_received / ours.calls)]
        for summed in (ours.queue_ms, ours.round_trip_ms, ours.execute_ms):
            numbers.append(float(f"{summed / ours.calls:f}"))
        found[name] = numbers
    return found


def printed_by(text: str) -> dict[str, list[float]]:
    """The same, from the tool's text: numbers below each operation's name."""
    found: dict[str, list[float]] = {}
    for line in text.partition("RPC statistics:")[2].splitlines():
        if re.fullmatch(r"[A-Z_0-9]+:", line):
            numbers = found.setdefault(line[:-1], [])
        elif line.startswith("\t"):
            numbers += [float(number) for number in NUMBER.findall(line)]
    return found


def sent_and_received(text: str) -> list[int]:
    (line,) = re.findall(r"(\d+) RPC requests sent, (\d+) RPC replies.*\((\d+) XIDs", text)
    return [int(number) for number in line]


def difference(before: Path, after: Path) -> MountCounts:
    moved = since(one(after.read_text()), one(before.read_text()))
    assert moved is not None
    return moved


@pytest.mark.parametrize("name", SAVED)
def test_real_mounts_are_read_as_mountstats_reads_them(name: str) -> None:
    """Its text was saved beside the readings."""
    before, after = READINGS / f"{name}.before", READINGS / f"{name}.after"
    saved = (READINGS / f"{name}.mountstats").read_text()
    ours = difference(before, after)
    assert len(printed_by(saved)) >= 6
    assert printed_operations(ours) == printed_by(saved)
    last = ours.transports[-1]
    assert sent_and_received(saved) == [last.sends, last.receives, last.bad_xids]


@needs.program("nfsiostat")
@pytest.mark.long
@pytest.mark.parametrize("name", SAVED)
def test_rates_are_those_of_nfsiostat(name: str) -> None:
    before, after = READINGS / f"{name}.before", READINGS / f"{name}.after"
    ours = difference(before, after)
    argv = [shutil.which("nfsiostat"), str(before), str(after), ours.mount_point]
    done = subprocess.run(
        [sys.executable, "-c", NFSIOSTAT, *map(str, argv)], capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    text = done.stdout
    for name_of in ("READ", "WRITE"):
        one_of = ours.operations.get(name_of, OperationCounts())
        values = text.rpartition(f"{name_of.lower()}:")[2].splitlines()[1]
        kilobytes = (one_of.bytes_sent + one_of.bytes_received) / 1024
        calls = one_of.calls
        if calls == 0:  # NFSv4.2 reads with READ_PLUS
            assert (name, name_of) == ("v42", "READ")
            assert ours.operations["READ_PLUS"].calls > 0
            continue
        expected = [
            calls / 2.0, kilobytes / 2.0, kilobytes / calls, one_of.sends - calls,
            100 * (one_of.sends - calls) / calls, one_of.round_trip_ms / calls,
            one_of.execute_ms / calls, one_of.queue_ms / calls, one_of.errors,
            100 * (one_of.errors or 0) / calls,
        ]  # fmt: skip
        assert [float(n) for n in NUMBER.findall(values)] == pytest.approx(expected, abs=6e-4)


def test_connections_of_nconnect_are_all_counted() -> None:
    moved = difference(READINGS / "v3n4.before", READINGS / "v3n4.after")
    assert len(moved.transports) == 4
    assert all(transport.sends > 0 for transport in moved.transports)
    # Beside the operations go 5 calls of NFSACL, a program of its own on the same connections.
    assert (moved.total("sends"), moved.sum.sends) == (238, 233)
