"""Two kernels that talk to each other: nfsd of one in a guest, the NFS client of another in one.

What the client's kernel counted is what the server's kernel counted, operation by operation; what
the client wrote it read back through the server, and the server's folder was on another machine.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from nfslab.results.catalogue import read_every_run, read_part

from tests.experiment.session_support import left_behind, only_folder, run
from tests.vm.test_client_guests import LIMIT_S, NEWEST, OLDEST, why_not

needed = [name for name in ("mount.nfs", "rpc.nfsd", "exportfs") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "it can"),
    pytest.mark.skipif(bool(needed), reason=f"no {' '.join(needed)}"),
    pytest.mark.long,
    pytest.mark.guest,
    pytest.mark.timeout(LIMIT_S),
]
LINES = 40_000
DO = (
    f"seq {LINES} > {{data}}/f && echo 3 > /proc/sys/vm/drop_caches && md5sum < {{data}}/f && "
    "echo rate 1"
)
FILE = f"""\
[experiment]
name = "two-kernels"
repetitions = 1
collectors = ["mountstats", "nfsd"]
[client]
host = "vm"
kernel = "{NEWEST}"
memory = "768M"
cpus = 1
[server]
host = "vm"
name = "filer"
kernel = "{OLDEST}"
memory = "768M"
cpus = 1
[targets.share]
kind = "nfs"
client = "kernel"
server = "knfsd"
directory = "/dev/shm"
vers = "4.1"
wsize = "32k"
[workload]
kind = "command"
data = "share"
argv = ["sh", "-c", "{DO}"]
[[workload.metrics]]
name = "rate"
pattern = 'rate ([0-9]+)'
unit = "1/s"
primary = true
"""


def test_two_kernels_talk_and_count_the_same(tmp_path: Path) -> None:
    (tmp_path / "places").mkdir()
    path = tmp_path / "two.toml"
    path.write_text(FILE)
    run(path)
    folder = only_folder(path)
    _, records = read_every_run(folder.path)
    (record,) = records.values()
    assert record.status == "ok", record.reason
    stamped = "emulated" in {check.name for check in record.checks}
    assert stamped == (record.hosts["client"].facts.get("emulated") is True)
    sealed = folder.runs_path / record.run_id
    server = record.server_host
    assert server is not None
    assert server.facts["kernel"].startswith(OLDEST)
    assert record.client_hosts[0].facts["kernel"].startswith(NEWEST)
    assert server.facts["boot_id"] != record.client_hosts[0].facts["boot_id"]
    said = (sealed / record.client_hosts[0].folder / "logs").iterdir()
    text = "".join(one.read_text() for one in said)
    written = "".join(f"{number}\n" for number in range(1, LINES + 1)).encode()
    assert hashlib.md5(written).hexdigest() in text, "as it was written, through both kernels"
    assert read_part(sealed, "filer").status == "ok"
    sent, counted = counts(sealed, "mountstats_operations"), counts(sealed, "nfsd_operations")
    assert sent["WRITE"] >= len(written) / 32768
    for name in ("WRITE", "READ", "OPEN", "CLOSE"):
        assert sent[name] == counted[name], name
    assert left_behind(tmp_path) == []


def counts(sealed: Path, table: str) -> dict[str, int]:
    rows: list[dict[str, Any]] = pq.read_table(sealed / "evidence" / f"{table}.parquet").to_pylist()
    found: dict[str, int] = {}
    for row in rows:
        name = row["operation"].removeprefix("NFS4_").upper()
        found[name] = found.get(name, 0) + row["calls"]
    return found
