"""pgbench's own report, as versions 13 to 18 print it.

15 and 18: recorded here. 13: its documentation's example (pgbench, PostgreSQL 13).
"""

from __future__ import annotations

import pytest
from nfslab.errors import RunFailed
from nfslab.workloads.pgbench.printed import read_printed_report

VERSION_13 = """\
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 10
query mode: simple
number of clients: 10
number of threads: 1
number of transactions per client: 1000
number of transactions actually processed: 10000/10000
latency average = 15.844 ms
latency stddev = 2.715 ms
tps = 618.764555 (including connections establishing)
tps = 622.977698 (excluding connections establishing)
"""

VERSION_15 = """\
pgbench (15.20 (Debian 15.20-0+deb12u1))
transaction type: multiple scripts
scaling factor: 1
query mode: simple
number of clients: 2
number of threads: 2
maximum number of tries: 3
number of transactions per client: 300
number of transactions actually processed: 596/600
number of failed transactions: 0 (0.000%)
number of transactions retried: 7 (0.000%)
total number of retries: 9
number of transactions skipped: 4 (0.667%)
number of transactions above the 2.0 ms latency limit: 32/596 (5.369%)
latency average = 1.069 ms
latency stddev = 0.484 ms
rate limit schedule lag: avg 0.239 (max 1.940) ms
initial connection time = 7.346 ms
tps = 762.803842 (without initial connection time)
SQL script 1: <builtin: TPC-B (sort of)>
 - weight: 2 (targets 66.7% of total)
 - 426 transactions (71.5% of total, tps = 545.225565)
 - number of failed transactions: 0 (0.000%)
 - number of transactions skipped: 4 (0.930%)
 - latency average = 1.134 ms
 - latency stddev = 0.485 ms
SQL script 2: <builtin: simple update>
 - weight: 1 (targets 33.3% of total)
 - 170 transactions (28.5% of total, tps = 217.578277)
 - latency average = 0.907 ms
"""

VERSION_18_SCRIPTS = """\
pgbench (18.4)
transaction type: multiple scripts
number of transactions actually processed: 597/600
number of failed transactions: 2 (0.333%)
number of transactions skipped: 3 (0.500%)
latency average = 0.980 ms
latency stddev = 0.404 ms
initial connection time = 5.241 ms
tps = 790.586067 (without initial connection time)
SQL script 1: <builtin: TPC-B (sort of)>
 - weight: 2 (targets 66.7% of total)
 - 415 transactions (69.2% of total)
 - number of transactions actually processed: 413 (tps = 546.921349)
 - number of transactions skipped: 2 (0.482%)
SQL script 2: <builtin: simple update>
 - weight: 1 (targets 33.3% of total)
 - 185 transactions (30.8% of total)
 - number of transactions actually processed: 184 (tps = 243.664717)
"""

CONNECT_EACH = """\
number of transactions actually processed: 60
number of failed transactions: 0 (0.000%)
latency average = 10.847 ms
average connection time = 4.012 ms
tps = 184.389012 (including reconnection times)
"""


def test_version_13_has_two_rates_and_the_one_without_connecting_counts() -> None:
    report = read_printed_report(VERSION_13)
    assert (report.processed, report.tps) == (10_000, 622.977698)
    assert not report.connections_included
    assert (report.failed, report.skipped, report.late, report.retries) == (0, 0, None, None)
    assert report.measured_s == 10_000 / 622.977698


def test_version_15_with_everything() -> None:
    report = read_printed_report(VERSION_15)
    assert (report.processed, report.failed, report.skipped, report.late) == (596, 0, 4, 32)
    assert report.retries == 9
    assert report.latency_mean_ms == 1.069
    assert report.latency_measured
    assert report.lag_mean_ms == 0.239
    assert (report.initial_connect_ms, report.tps) == (7.346, 762.803842)
    assert [(s.name, s.processed) for s in report.scripts] == [
        ("<builtin: TPC-B (sort of)>", 426),
        ("<builtin: simple update>", 170),
    ]


def test_version_18_counts_skipped_ones_in_a_scripts_first_line() -> None:
    report = read_printed_report(VERSION_18_SCRIPTS)
    assert [script.processed for script in report.scripts] == [413, 184]
    assert (report.failed, report.skipped) == (2, 3)


def test_reconnecting_is_part_of_the_rate() -> None:
    report = read_printed_report(CONNECT_EACH)
    assert report.connections_included
    assert report.connect_mean_ms == 4.012
    assert report.initial_connect_ms is None
    # No deviation beside it: this mean is clients / tps, not a measured one.
    assert not report.latency_measured


@pytest.mark.parametrize("text", ["", "pgbench (15.20)\n", VERSION_13.replace("tps", "x")])
def test_a_report_that_is_not_whole_is_refused(text: str) -> None:
    with pytest.raises(RunFailed, match="no complete report"):
        read_printed_report(text)


def test_no_transaction_at_all_is_no_broken_report() -> None:
    """As pgbench 15 ends then: without a rate."""
    text = (
        "pgbench (15.18)\nduration: 3 s\nnumber of transactions actually processed: 0\n"
        "number of failed transactions: 0 (NaN%)\n"
    )
    with pytest.raises(RunFailed, match="no transaction ended") as told:
        read_printed_report(text)
    assert "duration" in str(told.value.fix)
