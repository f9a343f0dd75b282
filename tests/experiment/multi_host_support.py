"""Experiments whose load several client hosts make together: files of them, and what they left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from tests.experiment.session_support import only_folder, records, run

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab.results.records import CheckRecord, RunRecord

FILE = """\
[experiment]
name = "hosts"
repetitions = 1
seed = 7
collectors = ["nfs_server"]
[limits]
drop_page_cache = false
[targets.server]
kind = "nfs"
client = "none"
directory = "{folder}"
store = "memory"
delay = "20ms"
[client]
host = "{host}"
hosts = {hosts}
processes = {processes}
[workload]
kind = "sfs"
data = "server"
mix = "laddis"
load = 200
files = 300
outstanding = 64
warm_up = "0.2s"
duration = "1s"
"""


def written(
    tmp_path: Path,
    *changes: tuple[str, str],
    host: str = "local",
    hosts: object = 2,
    processes: int = 2,
) -> Path:
    """The file, with texts replaced."""
    folder = tmp_path / "places"
    folder.mkdir(exist_ok=True)
    text = FILE.format(folder=folder, host=host, hosts=hosts, processes=processes)
    for old, new in changes:
        assert old in text, f"{old!r} is not in the file"
        text = text.replace(old, new)
    path = tmp_path / "hosts.toml"
    path.write_text(text, "utf-8")
    return path


def check(record: RunRecord, name: str) -> CheckRecord:
    """The one check of that name."""
    (found,) = [one for one in record.checks if one.name == name]
    return found


def made(path: Path) -> tuple[RunRecord, Path]:
    """The record of the only run, and its folder."""
    run(path)
    folder = only_folder(path)
    (record,) = records(folder)
    return record, folder.runs_path / record.run_id


def calls_sent(sealed: Path) -> dict[str, int]:
    """Of a run of sfs: calls by operation, as its clients counted them."""
    rows = pq.read_table(sealed / "samples" / "operations.parquet").to_pylist()
    return {row["operation"]: row["calls"] for row in rows if row["calls"]}
