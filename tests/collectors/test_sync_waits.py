"""What syncs on NFS wait for, planted in the server's model: slow WRITEs, slow COMMITs, a stall.

The truth is the server's own record (when it worked on what) and the client's (when it took each
call and was done with it): on one clock, and the true share lies between both.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from nfslab.evidence.syscalls.sync_capture import calls_of_capture
from nfslab.evidence.syscalls.sync_steps import STEPS, StepsRow, SyncSteps

from tests.collectors.watched_nfs import LOG_NAME, Watched, watched
from tests.machine import needs

MS = 1_000_000
WSIZE = 8192
FULL = 6
"""Pages that are under way when a sync begins."""
TAIL = 4096
"""What is left for it to send."""
ROUND = FULL * WSIZE + TAIL
SYNCS = 12
WRITE_MS, COMMIT_MS = 8, 20
LOG = f"""
import os, sys
file = os.open(os.path.join(sys.argv[1], "{LOG_NAME}"), os.O_RDWR)
for n in range({SYNCS}):
    os.pwrite(file, bytes([n % 251 + 1]) * {FULL * WSIZE}, n * {ROUND})
    os.pwrite(file, bytes([n % 251 + 1]) * {TAIL}, n * {ROUND} + {FULL * WSIZE})
    os.fdatasync(file)
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """Syncs with several WRITEs each, which take long enough to be under way."""
    times = [f"WRITE={WRITE_MS}ms", f"COMMIT={COMMIT_MS}ms"]
    model: dict[str, Any] = {"wsize": WSIZE, "threads": 1, "service_time": times}
    return watched(tmp_path_factory.mktemp("planted"), LOG, model, captured=True)


def of_log(steps: SyncSteps) -> StepsRow:
    (row,) = (one for one in steps.rows if one.file_class == "PostgreSQL WAL")
    return row


def sums_ms(row: StepsRow) -> dict[str, float]:
    return {
        step: mean * row.summary.calls / MS
        for step, mean in zip(STEPS, row.summary.mean_ns, strict=True)
    }


def syncs_of(seen: Watched) -> list[tuple[int, int]]:
    """Start and end of each, in their order."""
    (series,) = (one for one in seen.found.series if one.file_class == "PostgreSQL WAL")
    starts = series.start_ns.tolist()
    return [(a, a + n) for a, n in zip(starts, series.latency_ns.tolist(), strict=True)]


def rounds(seen: Watched) -> list[tuple[list[dict[str, Any]], dict[str, Any]]]:
    """Of each sync its WRITEs, by where they lie in the file, and its COMMIT: the client's record
    with the server's of the same transaction id beside it (`at_server`)."""
    by_xid = {row["xid"]: row for row in seen.served}
    calls = [row | {"at_server": by_xid.get(row["xid"])} for row in seen.calls.to_pylist()]
    writes: list[list[dict[str, Any]]] = [[] for _ in range(SYNCS)]
    for call in calls:
        if call["operation"] == "WRITE":
            writes[call["offset"] // ROUND].append(call)
    commits = [call for call in calls if call["operation"] == "COMMIT"]
    commits.sort(key=lambda call: call["enqueued_ns"])
    assert len(commits) == SYNCS
    return list(zip(writes, commits, strict=True))


@dataclass
class Truth:
    """Of each step at least and at most, by the server and the client, ns."""

    least: Counter[str]
    most: Counter[str]
    late_bytes: int = 0


def truth_of(seen: Watched) -> Truth:
    truth = Truth(Counter(), Counter())
    for (start, end), (writes, commit) in zip(syncs_of(seen), rounds(seen), strict=True):
        assert start < commit["enqueued_ns"] < commit["completed_ns"] < end
        assert len(writes) == FULL + 1
        early = [one for one in writes if one["enqueued_ns"] < start]
        late = [one for one in writes if one["enqueued_ns"] >= start]
        truth.late_bytes += sum(one["count"] for one in late)
        # Done at the server, and known to the client: the truth lies between. A program that
        # was kept from its processor may come to its sync when all is done.
        done, known = _last(early, start)
        truth.least["waiting"] += done - start
        truth.most["waiting"] += known - start
        if late:
            late_done, late_known = _last(late, start)
            taken = [one["enqueued_ns"] for one in late]
            truth.least["sending"] += max(0, late_done - max(known, *taken))
            truth.most["sending"] += max(0, late_known - max(done, min(taken)))
        at_server = commit["at_server"]
        truth.least["committing"] += at_server["finished_ns"] - at_server["started_ns"]
        truth.most["committing"] += commit["completed_ns"] - commit["enqueued_ns"]
    return truth


@pytest.mark.system
@needs.ebpf
def test_all_three_steps_are_as_long_as_the_server_says(planted: Watched) -> None:
    row = of_log(planted.steps())
    assert (row.summary.calls, row.commits) == (SYNCS, SYNCS)
    truth, found = truth_of(planted), sums_ms(row)
    for step in ("waiting", "sending", "committing"):
        assert truth.least[step] / MS <= found[step] <= truth.most[step] / MS, step
    # What was planted: each WRITE and each COMMIT takes its time, one after the other.
    taken = {"WRITE": WRITE_MS * MS, "COMMIT": COMMIT_MS * MS}
    for call in planted.served:
        if (least := taken.get(call["operation"])) is not None:
            assert call["finished_ns"] - call["started_ns"] >= least
    assert found["committing"] >= SYNCS * COMMIT_MS
    assert row.write_bytes == truth.late_bytes  # what was taken while the syncs lasted
    assert found["waiting"] + found["sending"] > 0


def _last(writes: list[dict[str, Any]], start: int) -> tuple[int, int]:
    """When the last of these was done at the server, and when the client knew: within a sync."""
    done = max((one["at_server"]["finished_ns"] for one in writes), default=start)
    known = max((one["completed_ns"] for one in writes), default=start)
    return max(done, start), max(known, start)


@pytest.mark.system
@needs.ebpf
def test_the_capture_s_calls_are_the_client_s(planted: Watched) -> None:
    """Call by call: the same transaction ids for the same file, instants within the client's."""
    assert planted.capture is not None
    summary = planted.capture.summary
    assert summary["kernel_dropped_packets"] == 0
    clock, exports = summary["clock"], planted.seen.summary["exports"]
    (export,) = exports.values()
    assert (export["target"], export["address"], export["sole"]) == ("share", "127.0.0.1", True)
    assert set(exports) == set(planted.seen.summary["targets"])
    first = planted.tables.syncs.slice(0, 1).to_pylist()[0]
    zero_ns = first["start_ns"] - first["t_ns"]
    on_wire = {row["xid"]: row for row in planted.capture.tables["capture_calls"].to_pylist()}
    error_ns = clock["error_ns"] + abs(clock["moved_ns"])
    own = [row for row in planted.calls.to_pylist() if row["operation"] in ("WRITE", "COMMIT")]
    assert len(own) == SYNCS * (FULL + 2)
    for call in own:
        seen = on_wire[call["xid"]]
        assert (seen["operation"], seen["file_id"]) == (call["operation"], call["file_id"])
        begun = zero_ns + seen["t_ns"]
        ended = begun + seen["reply_last_ns"] - seen["call_first_ns"]
        assert call["sent_first_ns"] - error_ns <= begun
        assert begun < ended <= call["completed_ns"] + error_ns
    joined = calls_of_capture(planted.capture.tables["capture_calls"], zero_ns, exports)
    assert joined.calls.num_rows == len(own)
    assert joined.unanswered == 0
    by_client, by_capture = planted.steps(), planted.steps(by_capture=True)
    assert (by_client.captured, by_capture.captured) == ([], ["share"])
    assert (by_capture.unknown_file, by_capture.unanswered, by_capture.dropped) == (0, 0, 0)
    one, other = of_log(by_client), of_log(by_capture)
    assert (other.summary.calls, other.commits) == (one.summary.calls, one.commits)
    mine, theirs = sums_ms(one), sums_ms(other)
    assert sum(mine.values()) == pytest.approx(sum(theirs.values()), abs=1e-6)
