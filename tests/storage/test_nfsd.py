"""The kernel's NFS server: saved readings of real ones as nfsstat(8) read them, and wrong texts."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from nfslab.machine.mounts import parse_mountinfo
from nfslab.storage import nfsd
from nfslab.storage.counters import FormError
from nfslab.storage.nfsd import OPERATIONS, NfsdCounts, parse_counts, since

from tests.collectors.planted_nfsd import KERNELS, READINGS

OPCODES = Path(__file__).parents[2] / "crates" / "wire" / "src" / "nfs4" / "opcode.rs"
SHORT = {
    "create_ses": "create_session", "destroy_ses": "destroy_session",
    "destroy_clid": "destroy_clientid", "reclaim_comp": "reclaim_complete",
}  # fmt: skip
"""Names that nfsstat has no room for."""
NFSSTAT_KNOWS = 71
"""Operations of NFSv4 by their numbers."""
OTHERS = ("pool_stats", "pool_threads", "reply_cache_stats")


def reading(kernel: str, when: str) -> NfsdCounts:
    folder = READINGS / kernel / when
    return parse_counts(
        (folder / "nfsd").read_text(), {name: (folder / name).read_text() for name in OTHERS}
    )


def difference(kernel: str) -> NfsdCounts:
    moved = since(reading(kernel, "end"), reading(kernel, "start"))
    assert moved is not None
    return moved


def told(kernel: str) -> dict[str, int]:
    """ "v3 read" -> what nfsstat said of the same two readings, without what is zero."""
    said = (READINGS / kernel / "nfsstat").read_text()
    lines = re.findall(r"nfs (v\d) serv(?:er|op) +(\S+): +(\d+)", said)
    return {
        f"{version} {SHORT.get(name, name)}": int(count)
        for version, name, count in lines
        if name != "total" and int(count)
    }


@pytest.mark.parametrize("kernel", KERNELS)
def test_operations_are_those_of_nfsstat(kernel: str) -> None:
    moved = difference(kernel)
    ours = moved.by_operation() | {(4, "COMPOUND"): moved.procedures[4, "COMPOUND"]}
    found = {
        f"v{version} {name.lower()}": count for (version, name), count in ours.items() if count
    }
    # This nfsstat ends before the operations of RFC 8276 and CLONE.
    beyond = {f"v4 {name.lower()}" for name in OPERATIONS[NFSSTAT_KNOWS:]}
    assert {name: count for name, count in found.items() if name not in beyond} == told(kernel)
    assert len(found) > 30


@pytest.mark.parametrize("kernel", KERNELS)
def test_numbers_agree_with_each_other_and_with_the_load(kernel: str) -> None:
    """See the README of the readings: COPY reads and writes no data over the wire."""
    moved = difference(kernel)
    server = moved.server
    # Beside the procedures go a few calls of NFSACL, a program of its own on the same port.
    # The kernel's threads count these without a lock: one may be lost.
    assert server.packets == pytest.approx(server.calls, abs=1)
    assert server.tcp == pytest.approx(server.calls, abs=1)
    assert 0 < server.calls - sum(moved.procedures.values()) < 20
    assert server.cache_hits + server.cache_misses + server.uncached == server.calls
    assert server.read_bytes == 4 << 20
    assert server.written_bytes == (4 << 20) + 2 * 5 * 2
    assert (server.threads, server.bad_calls) == (4, 0)
    assert moved.pools is not None
    assert [one.threads for one in moved.pools.values()] == [4]
    (pool,) = moved.pools.values()
    # What is counted as arrived is not the same in both: nfslab.storage.nfsd.
    assert pool.packets == (server.calls if kernel == "6.12" else pool.enqueued)
    assert moved.cache is not None
    assert moved.cache.entries <= server.cache_misses


def test_operations_have_the_names_that_captures_have() -> None:
    numbers = dict(re.findall(r"\b([A-Z_0-9]+) = (\d+)", OPCODES.read_text().split("ILLEGAL")[0]))
    assert {name: str(OPERATIONS.index(name)) for name in OPERATIONS[3:]} == numbers


def test_a_server_started_anew_has_no_pools() -> None:
    before, after = reading(KERNELS[0], "end"), reading(KERNELS[0], "start")
    moved = since(
        NfsdCounts(before.server, pools=after.pools), NfsdCounts(before.server, pools=before.pools)
    )
    assert moved is not None
    assert moved.pools is None
    assert since(after, before) is None, "all went down"


GOOD = (
    "rc 1 2 3\nfh 0 0 0 0 0\nio 5 6\nth 8 0 0.000\nra 0\nnet 6 0 6 1\nrpc 6 0 0 0 0\n"
    "proc3 2 4 5\nproc4ops 3 0 0 0\nlater 1 x\n"
)


def test_what_later_kernels_add_is_passed_over() -> None:
    counts = parse_counts(GOOD)
    assert (counts.server.uncached, counts.server.threads) == (3, 8)
    assert counts.procedures == {(3, "NULL"): 4, (3, "GETATTR"): 5}
    assert counts.pools is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rc 1 2 3", "rc 1 2"), ("rc 1 2 3", "rc 1 2 -3"), ("io 5 6\n", ""), ("io 5 6", "io 5 6 7"),
        ("net 6", "net x"), ("proc3 2 4 5", "proc3 3 4 5"), ("proc3 2 4 5", "proc3"),
        ("proc3 2 4 5", "procx 2 4 5"), ("proc3 2 4 5\n", ""), ("rc 1 2 3", "rc 1 2 3\nrc 1 2 3"),
        ("th 8 0 0.000", "th"), ("rpc 6", f"rpc {1 << 64}"), ("proc3 2", "proc3 " + "9" * 70000),
    ],
)  # fmt: skip
def test_another_form_is_an_error(old: str, new: str) -> None:
    assert old in GOOD
    with pytest.raises(FormError, match="nfsd"):
        parse_counts(GOOD.replace(old, new))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pool_stats", "0 1 2 3 4\n"),
        ("pool_stats", ""),
        ("pool_stats", "# pool packets-arrived sockets-enqueued threads-woken\n0 1 2\n"),
        ("pool_stats", "# pool packets-arrived sockets-enqueued threads-woken\n0 1 2 3\n0 1 2 3\n"),
        ("pool_stats", "# pool packets-arrived sockets-enqueued threads-woken\n0 1 2 z\n"),
        ("reply_cache_stats", "num entries: 1\n"),
    ],
)
def test_another_form_of_the_other_files_is_an_error(name: str, text: str) -> None:
    with pytest.raises(FormError, match=name):
        parse_counts(GOOD, {name: text})


def test_the_files_are_found_where_a_server_of_ours_mounted_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = f"40 20 0:9 / {tmp_path} rw - nfsd nfsd rw\n"
    monkeypatch.setattr(nfsd, "FILES", str(tmp_path / "not mounted"))
    monkeypatch.setattr(nfsd, "mounts", lambda: parse_mountinfo(line))
    shutil.copytree(READINGS / KERNELS[0] / "start", tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(nfsd, "STATISTICS", str(tmp_path / "nfsd"))
    assert nfsd.read_counts().pools
