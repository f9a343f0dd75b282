"""Exit codes that are the same in every command, and fixes that name options which exist."""

from __future__ import annotations

import ast
import importlib
import os
import re
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from nfslab.cli.registry import COMMANDS

from tests.cli.invocation import nfslab

if TYPE_CHECKING:
    from collections.abc import Iterator

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[2]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
OF_OTHERS = {
    "--set-up-only", "--user", "--scope", "--release", "--show", "--reinstall", "--privileged",
    "--long",
}  # fmt: skip
"""Of the launcher and of other programs."""


@pytest.mark.parametrize("given", ["nope", "empty", "plain"])
@pytest.mark.parametrize(
    "command",
    [
        "report {}", "show {}", "explain {}", "check {}", "confirm {}", "query {} SELECT",
        "umount {}", "compare {} {}", "files {} --size 1M", "trace {}", "run {}",
    ],
)  # fmt: skip
def test_what_is_not_there_is_bad_usage(
    command: str, given: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("plain").touch()
    if (command.split()[0], given) in {("files", "empty"), ("trace", "plain")}:
        pytest.skip("that is none")
    assert nfslab(capsys, *command.replace("{}", given).split()).code == 2


class _Interrupted(threading.Condition):
    """A signal comes when the lock has been left and nobody waits yet."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(threading.Lock())
        self.error = error

    def _release_save(self) -> None:
        self.release()
        raise self.error


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (ValueError(), None)])
def test_a_signal_in_the_midst_of_a_lock_is_an_interruption(
    error: BaseException, code: int | None, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(**_: object) -> None:
        condition = _Interrupted(error)
        with condition:
            condition.wait()

    monkeypatch.setattr("nfslab.cli.list.command.callback", wait)
    if code is None:
        with pytest.raises(RuntimeError, match="release unlocked lock"):
            nfslab(capsys, "list")
    else:
        assert nfslab(capsys, "list").code == code


@pytest.mark.parametrize("arguments", [["list"], ["run", "--help"], ["--help"]])
def test_a_reader_that_went_away_is_no_failure(
    arguments: list[str], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        monkeypatch.setattr("nfslab.cli.list.command.callback", lambda **_: print("x" * 100_000))
        assert nfslab(capsys, *arguments).code == 0


def test_what_a_command_came_to_stays(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words are still on the way to a reader that has gone."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        monkeypatch.setattr(
            "nfslab.cli.list.command.callback", lambda **_: print("x") or sys.exit(1)
        )
        assert nfslab(capsys, "list").code == 1


def options_of(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    if isinstance(command, click.Group):
        for one in command.commands.values():
            yield from options_of(one)


def fixes() -> Iterator[tuple[str, str]]:
    """(file, text) of `fix=` and of the third argument of an answer, and all that the core says."""
    for file in (ROOT / "python").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call):
                continue
            said: list[ast.AST] = [one.value for one in node.keywords if one.arg == "fix"]
            if isinstance(node.func, ast.Name) and node.func.id in {"Availability", "Obstacle"}:
                said += node.args[2:3]
            for part in (part for one in said for part in ast.walk(one)):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield file.name, part.value
    for file in ROOT.glob("crates/*/src/**/*.rs"):
        for line in file.read_text().splitlines():
            if not line.strip().startswith("//"):
                yield file.name, line


def test_fixes_name_options_that_exist() -> None:
    known = {"--help", "--version", *OF_OTHERS}
    for module, _ in COMMANDS.values():
        known |= set(options_of(importlib.import_module(module).command))
    named = {(file, option) for file, text in fixes() for option in OPTION.findall(text)}
    assert len(named) > 50, "they are found"
    assert {one for one in named if one[1] not in known} == set()
    # Keys of the load generator's plan are nothing that a person can give.
    assert [one for one in fixes() if "fix" in one[1] and "file_set." in one[1]] == []
