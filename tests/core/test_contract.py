"""The module and its typed contract are the same; its errors carry what a person needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from nfslab import __version__
from nfslab._core import CoreError, build_info, toml_lines

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_the_stub_says_what_the_module_has(tmp_path: Path) -> None:
    """mypy's stubtest compares names, parameters and defaults, in both directions."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    # The stub alone: with the package around it, mypy would read every library it imports.
    stubs = tmp_path / "nfslab"
    stubs.mkdir()
    (stubs / "__init__.pyi").touch()
    shutil.copy(ROOT / "python" / "nfslab" / "_core.pyi", stubs)
    done = subprocess.run(
        [sys.executable, "-m", "mypy.stubtest", "nfslab._core"],
        cwd=tmp_path,
        env=os.environ | {"MYPYPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_build_info_names_this_build() -> None:
    info = build_info()
    assert set(info) == {"profile", "version", "rustc", "commit", "target"}
    assert info["version"] == __version__
    assert info["profile"] in ("release", "debug")
    assert re.fullmatch(r"rustc 1\.\d+\.\d+.*", info["rustc"])
    assert re.fullmatch(r"unknown|[0-9a-f]{40}(-dirty)?", info["commit"])
    assert "linux" in info["target"]


TEXT = """\
title = "x"
[targets.fast]
kind = "local"
note = '''
several
lines'''

[workload]
kind = "pgbench"
server.shared_buffers = ["1MB",
  {at = 1}]

[[axes]]
name = "a"
[[axes]]
name = "b"
"""


def walk(value: object, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    """Every path of a document, as the standard library's parser sees it."""
    items: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    found = {(*path, step) for step, _ in items}
    return found.union(*(walk(child, (*path, step)) for step, child in items), set())


def test_toml_lines_has_exactly_the_entries_of_tomllib() -> None:
    places = {tuple(path): (key, value) for path, key, value in toml_lines(TEXT)}
    assert set(places) == walk(tomllib.loads(TEXT))
    lines = TEXT.splitlines()
    for path, (key_line, value_line) in places.items():
        assert 1 <= key_line <= value_line <= len(lines)
        if isinstance(path[-1], str):
            assert path[-1] in lines[key_line - 1], path
    assert places["axes", 1, "name"] == (16, 16)
    assert places["workload", "server", "shared_buffers", 1, "at"] == (11, 11)
    assert places["targets", "fast", "note"] == (4, 4)


def test_invalid_toml_names_line_and_column() -> None:
    with pytest.raises(CoreError) as caught:
        toml_lines("a = 1\nb = = 2\n")
    error = caught.value
    assert (error.kind, error.line, error.column) == ("toml", 2, 5)
    assert "line 2, column 5" in error.what
    assert error.why
    assert error.fix
    assert str(error) == f"{error.what}: {error.why}"
    with pytest.raises(tomllib.TOMLDecodeError):
        tomllib.loads("a = 1\nb = = 2\n")
