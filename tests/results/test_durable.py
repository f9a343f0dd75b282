"""Files written whole: what is there and no file is left alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from nfslab.results.durable import write_durably


def test_a_file_is_replaced_and_a_pipe_is_not(tmp_path: Path) -> None:
    file, pipe = tmp_path / "file", tmp_path / "pipe"
    file.write_bytes(b"old")
    write_durably(file, b"new")
    assert file.read_bytes() == b"new"
    os.mkfifo(pipe)
    with pytest.raises(FileExistsError) as caught:
        write_durably(pipe, b"new")
    assert caught.value.strerror == "it is there and is no regular file"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "pipe"]
