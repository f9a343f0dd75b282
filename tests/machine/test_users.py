"""Who runs servers, and what that user can reach: tried as that user."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

import pytest
from nfslab.machine import users
from nfslab.machine.users import home_of, reachable_by, unprivileged_user
from nfslab.targets.stripe import StripeTarget
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload

from tests.machine import needs


def test_who_is_not_root_needs_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert unprivileged_user() is None


def test_root_takes_postgres_then_nobody_then_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    entries = {"postgres": 107, "nobody": 65534}

    def look_up(name: str) -> pwd.struct_passwd:
        return pwd.struct_passwd((name, "x", entries[name], 1, "", "/", "/bin/sh"))

    monkeypatch.setattr(pwd, "getpwnam", look_up)
    assert unprivileged_user() == 107
    del entries["postgres"]
    assert unprivileged_user() == 65534
    entries["postgres"] = 0
    assert unprivileged_user() == 65534, "a postgres that is root is of no use"
    entries.clear()
    assert unprivileged_user() == users.OVERFLOW_ID


@needs.root
@needs.setpriv
@pytest.mark.system
def test_the_folder_that_stops_a_user_is_named(scratch: Path) -> None:
    user = unprivileged_user()
    assert user is not None
    inner = scratch / "closed" / "inner"
    inner.mkdir(parents=True)
    assert reachable_by(inner, user).ok
    inner.parent.chmod(0o700)
    blocked = reachable_by(inner, user)
    assert not blocked.ok
    assert str(inner.parent) in blocked.reason
    assert str(inner.parent) in blocked.fix
    os.chown(inner.parent, user, 0)
    assert reachable_by(inner, user).ok, "the owner may enter"
    os.chown(inner.parent, 0, users.primary_group(user))
    inner.parent.chmod(0o710)
    assert reachable_by(inner, user).ok, "its group may enter"
    (inner / "file").write_text("")
    assert reachable_by(inner / "file", user).ok


@needs.root
@needs.setpriv
@pytest.mark.system
def test_an_access_list_counts_though_the_bits_deny(scratch: Path) -> None:
    user = unprivileged_user()
    assert user is not None
    closed = scratch / "closed"
    closed.mkdir(mode=0o700)
    # system.posix_acl_access, version 2: owner rwx, this user r-x, group ---, mask r-x, other ---
    entries = [(1, 7, 0xFFFFFFFF), (2, 5, user), (4, 0, 0xFFFFFFFF), (16, 5, 0xFFFFFFFF)]
    entries.append((32, 0, 0xFFFFFFFF))
    value = (2).to_bytes(4, "little")
    for tag, permissions, number in entries:
        value += tag.to_bytes(2, "little") + permissions.to_bytes(2, "little")
        value += number.to_bytes(4, "little")
    try:
        os.setxattr(closed, "system.posix_acl_access", value)
    except OSError as error:
        pytest.skip(f"no access lists on this file system: {error.strerror}")
    assert reachable_by(closed, user).ok
    assert not reachable_by(closed, user + 1).ok


def test_a_missing_folder_is_said_to_be_missing(tmp_path: Path) -> None:
    found = reachable_by(tmp_path / "missing" / "deeper", os.geteuid())
    assert not found.ok
    assert "does not exist" in found.reason
    assert reachable_by(tmp_path, os.geteuid()).ok


def test_permission_bits_alone_when_it_cannot_be_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    tmp_path.chmod(0o700)
    stranger = os.geteuid() + 4321
    blocked = reachable_by(tmp_path, stranger)
    assert not blocked.ok
    assert reachable_by("/usr/bin", stranger).ok


def test_without_setpriv_root_becomes_nobody_and_says_so_beforehand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What asks before a run begins: the workload pgbench and the target stripe."""
    monkeypatch.setattr("shutil.which", lambda name, *_, **__: None)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert users.becomes(None).ok
    assert users.becomes(0).ok
    refused = users.becomes(4321)
    assert not refused.ok
    assert "setpriv" in refused.reason
    assert refused.fix == "apt install util-linux"
    monkeypatch.setattr("nfslab.databases.postgres.database.find_installation", lambda _: None)
    work = PgbenchWorkload(PgbenchParameters(data="disk", transactions=1))
    assert not PgbenchWorkload.available().ok
    assert "setpriv" in work.check().reason
    monkeypatch.setattr("nfslab.storage.block_layers.backend_obstacle", lambda _: ("", ""))
    striped = StripeTarget.available()
    assert (striped.ok, striped.reason) == (False, "not installed: losetup, mount, umount")


def test_a_home_that_is_not_there_is_the_root_folder() -> None:
    assert home_of(4_000_000_000) == "/"
    own = pwd.getpwuid(os.geteuid())
    assert home_of(own.pw_uid) in (own.pw_dir, "/")
    assert os.path.isdir(home_of(own.pw_uid))


@needs.root
@needs.setpriv
@pytest.mark.system
def test_the_trial_leaves_no_powers(scratch: Path) -> None:
    user = unprivileged_user()
    assert user is not None
    argv = [*users.as_user(user), "grep", "-E", "^(Uid|Groups|CapEff)", "/proc/self/status"]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    fields = {line.split(":")[0]: line.split(":")[1].split() for line in printed.splitlines()}
    assert fields["Uid"] == [str(user)] * 4
    assert fields["Groups"] == []
    assert int(fields["CapEff"][0], 16) == 0
