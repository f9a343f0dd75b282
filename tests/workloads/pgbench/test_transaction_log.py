"""pgbench's transaction log: every line becomes one row, nothing is made up or lost."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nfslab.errors import RunFailed
from nfslab.workloads.pgbench.transaction_log import (
    FAILED,
    NOT_COMPLETED,
    OK,
    SKIPPED,
    LogLayout,
    read_transaction_log,
)

PLAIN = LogLayout()
FULL = LogLayout(lag=True, retries=True)


def write(folder: Path, *texts: str) -> list[Path]:
    files = []
    for number, text in enumerate(texts):
        file = folder / f"transactions.4711{f'.{number}' if number else ''}"
        file.write_text(text)
        files.append(file)
    return files


def test_lines_of_two_threads_come_in_order_of_completion(tmp_path: Path) -> None:
    # Lines as pgbench 15 and 18 wrote them (two threads, --rate, --latency-limit, --max-tries).
    files = write(
        tmp_path,
        "0 1 3522 0 1795248327 555389 72 0\n"
        "0 2 skipped 0 1795248327 555414 0 0\n"
        "0 3 1436 1 1795248327 556378 472 3\n",
        "1 1 2314 1 1795248327 552200 101 0\n1 2 failed 0 1795248327 560000 0 2\n",
    )
    log = read_transaction_log(files, FULL)
    assert log.client.tolist() == [1, 0, 0, 0, 1]
    assert log.transaction.tolist() == [1, 1, 2, 3, 2]
    assert log.status.tolist() == [OK, OK, SKIPPED, OK, FAILED]
    assert log.script.tolist() == [1, 0, 0, 1, 0]
    assert log.retries.tolist() == [0, 0, 0, 3, 2]
    table = log.table((1795248327_552200 - 2314) * 1000)
    # Completion minus start of the first: exactly its latency.
    assert table["t_ns"].to_pylist() == [2_314_000, 5_503_000, 5_528_000, 6_492_000, 10_114_000]
    assert table["latency_ns"].to_pylist() == [2_314_000, 3_522_000, None, 1_436_000, None]
    assert table["lag_ns"].to_pylist() == [101_000, 72_000, None, 472_000, None]
    assert log.missing_numbers() == []


def test_without_rate_there_is_no_lag(tmp_path: Path) -> None:
    table = read_transaction_log(write(tmp_path, "0 1 10 0 5 1\n"), PLAIN).table(0)
    assert table["lag_ns"].to_pylist() == [None]
    assert table["t_ns"].to_pylist() == [5_000_001_000]


def test_the_latency_of_a_day_and_of_nothing_survive(tmp_path: Path) -> None:
    log = read_transaction_log(write(tmp_path, "0 1 86400000000 0 5 1\n0 2 0 0 5 1\n"), PLAIN)
    assert log.latency_us.tolist() == [86_400_000_000, 0]
    assert log.table(0)["latency_ns"].to_pylist() == [86_400_000_000_000, 0]


def test_a_thread_that_logged_nothing_is_no_error(tmp_path: Path) -> None:
    log = read_transaction_log(write(tmp_path, "0 1 10 0 5 1\n", ""), PLAIN)
    assert len(log) == 1
    assert len(read_transaction_log(write(tmp_path, ""), PLAIN)) == 0
    assert read_transaction_log([], PLAIN).missing_numbers() == []


def test_a_wrapped_number_of_tries_of_a_skipped_one_is_no_retry(tmp_path: Path) -> None:
    # tries is 0 there, printed as tries - 1 with %u
    layout = LogLayout(retries=True)
    log = read_transaction_log(write(tmp_path, "0 1 skipped 0 5 1 4294967295\n"), layout)
    assert log.retries.tolist() == [0]


@pytest.mark.parametrize(
    "text",
    [
        "0 1 10 0 5 1",  # last line without its end
        "0 1 10 0 5 1\n0 2 10 0\n",  # a line cut off in the middle
        "0 1 10 0 5 1 77\n",  # a column too many: other options than we think
        "0 1 ten 0 5 1\n",  # a word that pgbench does not write
        "failed 1 10 0 5 1\n",  # a word it writes, at a wrong place
        "0 1 10 99999 5 1\n",  # a script number that does not fit
        "\x00\x00\x00\n",
    ],
)
def test_damage_is_an_error_and_not_a_gap(tmp_path: Path, text: str) -> None:
    with pytest.raises(RunFailed) as caught:
        read_transaction_log(write(tmp_path, text), PLAIN)
    assert "transactions.4711" in caught.value.what
    assert caught.value.why


def test_gaps_in_a_clients_numbers_are_found(tmp_path: Path) -> None:
    text = "0 1 10 0 5 1\n0 3 10 0 5 2\n1 2 10 0 5 3\n"
    problems = read_transaction_log(write(tmp_path, text), PLAIN).missing_numbers()
    assert problems == [
        "client 0: transaction 3 follows 1",
        "client 1 begins with transaction 2",
    ]


row = st.tuples(
    st.integers(0, 9),  # client
    st.one_of(st.integers(0, 10**12), st.sampled_from(NOT_COMPLETED)),
    st.integers(0, 127),  # script
    st.integers(1, 2**33),  # seconds
    st.integers(0, 999_999),  # microseconds
    st.integers(0, 10**12),  # lag
    st.integers(0, 2**31 - 1),  # retries
)


@settings(max_examples=40)
@given(rows=st.lists(row, max_size=40), lag=st.booleans(), retries=st.booleans())
def test_reading_gives_back_what_was_written(
    rows: list[tuple[int, int | str, int, int, int, int, int]], lag: bool, retries: bool
) -> None:
    """The reader against lines formatted as pgbench's doLog() does."""
    lines = []
    for number, (client, time, script, seconds, us, late, tries) in enumerate(rows, 1):
        line = f"{client} {number} {time} {script} {seconds} {us}"
        lines.append(line + f" {late}" * lag + f" {tries}" * retries + "\n")
    expected = sorted(
        (
            (seconds * 10**6 + us, number, client, time, script, late, tries)
            for number, (client, time, script, seconds, us, late, tries) in enumerate(rows, 1)
        ),
        key=lambda entry: entry[0],
    )
    with tempfile.TemporaryDirectory() as folder:
        log = read_transaction_log(
            write(Path(folder), "".join(lines)), LogLayout(lag=lag, retries=retries)
        )
    table = log.table(0)
    assert table["t_ns"].to_pylist() == [entry[0] * 1000 for entry in expected]
    assert log.transaction.tolist() == [entry[1] for entry in expected]
    assert table["client"].to_pylist() == [entry[2] for entry in expected]
    words = [entry[3] for entry in expected]
    assert table["latency_ns"].to_pylist() == [
        word * 1000 if isinstance(word, int) else None for word in words
    ]
    wanted = [OK if isinstance(w, int) else SKIPPED if w == "skipped" else FAILED for w in words]
    assert table["status"].to_pylist() == wanted
    assert table["lag_ns"].to_pylist() == [
        entry[5] * 1000 if lag and isinstance(entry[3], int) else None for entry in expected
    ]
    assert table["retries"].to_pylist() == [
        entry[6] if retries and entry[3] != "skipped" else 0 for entry in expected
    ]


@settings(max_examples=40)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "transactions.1"
        file.write_bytes(data)
        try:
            log = read_transaction_log([file], PLAIN)
        except RunFailed:
            return
        assert len(log) == len(np.asarray(log.status))
