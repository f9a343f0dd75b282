"""Settings of the kernel are written as each kind of file wants it."""

from __future__ import annotations

from pathlib import Path

import pytest
from nfslab.machine import kernel_settings


@pytest.mark.parametrize(
    ("file", "value", "written"),
    [
        # param_set_charp() keeps what it is given: a line's end would be part of a program's name.
        ("module/nfsd/parameters/cltrack_prog", "/sbin/nfsdcltrack", "/sbin/nfsdcltrack"),
        ("module/sunrpc/parameters/tcp_max_slot_table_entries", "77", "77"),
        # Nothing cannot be written.
        ("module/nfsd/parameters/cltrack_prog", "", "\n"),
        # nfsctl.c refuses versions without a line's end.
        ("nfsd/versions", "+3 +4", "+3 +4\n"),
    ],
)
def test_a_line_ends_where_its_file_wants_it(
    file: str, value: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_settings, "SYS", tmp_path)
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    kernel_settings.write(path, value)
    assert path.read_bytes() == written.encode()
    assert kernel_settings.read(path) == value
