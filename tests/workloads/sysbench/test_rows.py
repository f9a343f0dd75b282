"""Rows of the client: order, failed ones, and what does not agree with sysbench."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nfslab.errors import RunFailed
from nfslab.workloads.sysbench.rows import check_rows, metrics, read_rows

S = 1_000_000_000


def written(folder: Path, *clients: list[tuple[int, int, int, int, int]]) -> list[Path]:
    files = [folder / f"rows.{number}" for number in range(len(clients))]
    for file, rows in zip(files, clients, strict=True):
        file.write_bytes(np.array(rows, np.int64).tobytes())
    return files


def test_rows_of_all_clients_in_order_of_completion(tmp_path: Path) -> None:
    first = [(10 * S, S, 0, 0, 0), (14 * S, 4 * S, 9, 1, 3)]
    second = [(12 * S, 2 * S, 1, 2, 4)]
    rows = read_rows(written(tmp_path, first, second))
    assert (rows.start_ns, rows.end_ns, rows.committed) == (9 * S, 14 * S, 2)
    table = rows.table().to_pydict()
    assert table["t_ns"] == [1 * S, 3 * S, 5 * S]
    assert table["client"] == [0, 1, 0]
    assert table["latency_ns"] == [S, 2 * S, None], "a failed one has none"
    assert table["status"] == [0, 0, 1], "what was to be rolled back is done"
    assert table["script"] == [0, 4, 3]
    assert table["retries"] == [0, 1, 9]
    found = {name: metric.value for name, metric in metrics(rows, 1.0, 3.0).items()}
    assert found["tps"] == pytest.approx(2 / 5)
    assert (found["failed"], found["retries"], found["measured_s"]) == (1, 10, 5)
    assert (found["latency_mean_ms"], found["latency_max_ms"]) == (1500, 2000)
    assert (found["client_cpu_s_per_transaction"], found["server_cpu_s_per_transaction"]) == (
        0.5,
        1.5,
    )


def test_sysbench_has_to_have_counted_as_many(tmp_path: Path) -> None:
    rows = read_rows(written(tmp_path, [(2, 1, 0, 0, 0)]))
    assert check_rows("log", rows, "    total number of events:      1\n").verdict == "ok"
    for said in ("    total number of events:      2\n", "nothing"):
        assert check_rows("log", rows, said).verdict == "violation"


def test_a_log_that_is_cut_off_or_not_there_does_not_count(tmp_path: Path) -> None:
    (file,) = written(tmp_path, [(2, 1, 0, 0, 0)])
    file.write_bytes(file.read_bytes()[:-1])
    for path, why in ((file, "cut off"), (tmp_path / "none", "not there")):
        with pytest.raises(RunFailed) as caught:
            read_rows([path])
        assert why in caught.value.why


def test_nothing_committed_is_no_figure(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="no transaction was committed"):
        metrics(read_rows(written(tmp_path, [(2, 1, 9, 1, 0)])), 1.0, None)
