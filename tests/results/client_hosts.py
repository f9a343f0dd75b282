"""What client hosts leave in sealed runs, planted: a table of evidence and one of samples each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from nfslab.results.checksums import CHECKSUMS, write_checksums
from nfslab.results.durable import to_json
from nfslab.results.records import RunHostRecord
from nfslab.results.store import ExperimentFolder
from nfslab.results.upgrade import stamp_table

SEEN = {"load1": [1, 2, 3], "load2": [4, 5]}
"""Host -> values of the column `seen`."""


def plant_hosts(folder: ExperimentFolder) -> list[Path]:
    """Every sealed run was made by two client hosts; its parts are copies of it, but for these."""
    runs = [folder.runs_path / line.run_id for line in folder.sealed_runs()]
    for run in runs:
        record = folder.run_record(run.name)
        for name, seen in SEEN.items():
            part = run / "hosts" / name
            for kind, table in (("evidence", "planted"), ("samples", "own")):
                (part / kind).mkdir(parents=True)
                content = stamp_table(pa.table({"t_ns": seen, "seen": seen}))
                pq.write_table(content, part / kind / f"{table}.parquet")
            shutil.copy(run / "run.json", part / "run.json")
        record.client_hosts = [RunHostRecord(name=name, folder=f"hosts/{name}") for name in SEEN]
        (run / "run.json").write_bytes(to_json(record.model_dump()))
        (run / CHECKSUMS).unlink(missing_ok=True)
        write_checksums(run)
    return runs
