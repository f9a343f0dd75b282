"""Benchmarks of both ends of NFS: client, server, load generator, their records."""

from __future__ import annotations

import re
import shutil

import pytest
from nfslab.servers.ganesha import GaneshaServer

from tests.benches.small_run import small, table_rows

pytestmark = pytest.mark.long

cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")


def widths(rows: list[list[str]]) -> set[int]:
    return {len(row) for row in rows}


@cargo
def test_nfs_ends() -> None:
    rows = table_rows(small("nfs_ends", "--profile", "dev"))
    others = 4 if GaneshaServer.available().ok else 0
    assert len(rows) == 2 + 4 + 8 + others
    assert sum("NFS-Ganesha" in row for row in rows) == others
    assert widths(rows) == {8}


@cargo
def test_sfs_generator() -> None:
    rows = table_rows(small("sfs_generator", "--profile", "dev"))
    assert len(rows) == 2 + 4 + 4
    assert widths(rows) == {5}


@cargo
def test_sfs_generator_tells_what_records_cost() -> None:
    said = small("sfs_generator", "--profile", "dev", "--recording", 3)
    found = re.search(r"every call: ([\d.]+) .*quartiles ([\d.]+) to ([\d.]+)", said)
    assert found is not None, said
    ratio, least, most = map(float, found.groups())
    assert 0 < least <= ratio <= most


def test_sfs_generator_tells_its_memory() -> None:
    rows = table_rows(small("sfs_generator", "--memory"))
    assert len(rows) == 2 + 5 + 2 + 2


def test_server_records_cost() -> None:
    rows = table_rows(small("server_records_cost"))
    assert len(rows) == 2 + 4
    assert widths(rows) == {5}
