"""The kernel's server without a kernel that has one: options, tables, refusals.

Texts are Linux 6.12's and nfs-utils 2.6.2's, captured. For real: tests/mount/test_kernel_nfs.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from nfslab.errors import RunFailed
from nfslab.hosts.base import Link
from nfslab.machine import kernel_settings, nfsd_threads
from nfslab.machine.resources import Resources, recover
from nfslab.machine.undo import Scope, undo_nfsd
from nfslab.servers import knfsd
from nfslab.servers.knfsd import KernelServer, KernelServerParameters, exported_options, spoken
from pydantic import ValidationError

ETAB = (
    "/\t127.0.0.1(rw,sync,wdelay,hide,nocrossmnt,secure,no_root_squash,no_all_squash,"
    "no_subtree_check,secure_locks,acl,no_pnfs,fsid=0,anonuid=65534,anongid=65534,sec=sys,rw,"
    "secure,no_root_squash,no_all_squash)\n"
)
EXPORTS = (
    "# Version 1.1\n# Path Client(Flags) # IPs\n"
    "/var/tmp/kw/export\t127.0.0.1(rw,secure,no_root_squash,{},wdelay,no_subtree_check,fsid=0,"
    "sec=1)\n"
)


def made(**parameters: object) -> KernelServer:
    return KernelServer(KernelServerParameters.model_validate(parameters), "knfsd")


def test_versions_that_are_on() -> None:
    assert spoken("+3 +4 +4.1 +4.2") == ["3", "4.0", "4.1", "4.2"]
    assert spoken("+3 -4 -4.1 -4.2") == ["3"]
    assert spoken("-3 +4 -4.0 +4.1 -4.2") == ["4.1"]


def test_options_of_the_export_as_exportfs_wrote_them() -> None:
    options = exported_options(ETAB)
    assert set(made().parameters.exported()) <= set(options)
    assert not set(made(export_sync=False).parameters.exported()) <= set(options)
    assert exported_options("") == [""]


@pytest.mark.parametrize(
    "parameters",
    [
        {"threads": 0}, {"nfs_versions": []}, {"nfs_versions": ["2"]},
        {"min_threads": 9}, {"threads": 3, "min_threads": 4},
        {"export_options": ["async"]}, {"export_options": ["fsid=1"]},
        {"export_options": ["a,b"]}, {"export_options": ["x)"]},
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        KernelServerParameters.model_validate(parameters)


def test_what_is_run_in_its_own_folders() -> None:
    wanted = KernelServerParameters(threads=3, nfs_versions=["3", "4.1"], export_wdelay=False)
    script = knfsd._script(wanted, Link("10.0.0.1", "10.0.0.2"), [20049, 20050])
    assert (
        "exportfs -i -o rw,fsid=0,no_subtree_check,no_root_squash,secure,sync,no_wdelay "
        "10.0.0.2:/" in script
    )
    assert "rpc.nfsd -H 10.0.0.1 -p 20049 -U -L 10 -G 10 -N 4.0 -N 4.2 -V 3 -V 4.1 3" in script
    assert knfsd._client("fd00::2") == "[fd00::2]"


@pytest.mark.parametrize(("threads", "ports"), [("4", "tcp 2049\n"), ("0", "tcp 2049\n")])
def test_a_server_that_runs_already_is_somebody_elses(
    tmp_path: Path, threads: str, ports: str
) -> None:
    (tmp_path / "threads").write_text(threads)
    (tmp_path / "portlist").write_text(ports)
    with pytest.raises(RunFailed, match="runs already"):
        knfsd._refuse_others(tmp_path)
    (tmp_path / "threads").write_text("0\n")
    (tmp_path / "portlist").write_text("")
    knfsd._refuse_others(tmp_path)


def test_async_is_volatile_and_another_export_than_asked_fails(tmp_path: Path) -> None:
    """What the kernel itself says of the export decides."""
    (tmp_path / "exports").write_text(EXPORTS.format("async"))
    loose, strict = made(export_sync=False), made()
    for server in (loose, strict):
        server._control = tmp_path
    record = loose.durability(tmp_path)
    assert record is not None
    assert record.level == "volatile"
    assert any("async" in reason for reason in record.reasons)
    with pytest.raises(RunFailed) as told:
        strict.durability(tmp_path)
    assert "asked sync, in effect" in str(told.value.why)
    (tmp_path / "exports").write_text(EXPORTS.format("sync"))
    record = strict.durability(tmp_path)
    assert record is not None
    assert not any("async" in reason for reason in record.reasons)


def test_only_a_server_that_listens_where_ours_did_is_stopped(tmp_path: Path) -> None:
    token = "0123456789abcdef"
    control = tmp_path / f"nfslab-{token}" / "nfsd"
    control.mkdir(parents=True)
    (control / "threads").write_text("8\n")
    (control / "portlist").write_text("tcp 2049\n")
    what = {"control": str(control), "port": 20049}
    assert undo_nfsd(what, Scope(token)) == ""
    assert (control / "threads").read_text() == "8\n"
    (control / "portlist").write_text("tcp 20049\n")
    assert undo_nfsd(what, Scope(token)) != ""
    assert (control / "threads").read_text() == "0\n"
    assert undo_nfsd(what | {"control": str(tmp_path / "gone" / token)}, Scope(token)) == ""


def test_threads_that_come_and_go_are_a_kernels_that_has_them(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_force: list[int | None] = [None]
    monkeypatch.setattr(nfsd_threads, "least_threads", lambda: in_force[-1])
    monkeypatch.setattr(nfsd_threads, "set_least_threads", in_force.append)
    assert knfsd._stay(None, resources) == []
    with pytest.raises(RunFailed, match="min_threads") as told:
        knfsd._stay(2, resources)
    assert f"Linux {os.uname().release}" in str(told.value.why)
    in_force.append(0)
    (entry,) = knfsd._stay(2, resources)
    assert in_force[-1] == 2
    entry.undo()
    assert in_force[-1] == 0
    assert knfsd._stay(0, resources) == [], "as it is"


def test_a_setting_is_as_before_afterwards(resources: Resources, tmp_path: Path) -> None:
    file = tmp_path / "entries"
    file.write_text("65536\n")
    assert kernel_settings.change(resources, file, "65536") is None
    entry = kernel_settings.change(resources, file, "64")
    assert entry is not None
    assert file.read_text() == "64\n"
    assert kernel_settings.change(resources, file, "64") is None, "the same run, the same value"
    with pytest.raises(RunFailed, match="65"):
        kernel_settings.change(resources, file, "65")
    with Resources("another run") as other, pytest.raises(RunFailed) as told:
        kernel_settings.change(other, file, "64")
    assert "a test" in str(told.value.why)
    entry.undo()
    assert file.read_text() == "65536\n"
    entry = kernel_settings.change(resources, file, "64")
    assert entry is not None
    file.write_text("128\n")  # somebody else's, since
    entry.undo()
    assert file.read_text() == "128\n"
    with pytest.raises(RunFailed, match="cannot be read"):
        kernel_settings.change(resources, tmp_path / "none", "1")
    assert recover() == []
