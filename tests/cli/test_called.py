"""Commands that are printed can be pasted as the person called us."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from nfslab import cli
from nfslab.cli import new
from nfslab.cli.registry import COMMANDS, READERS
from nfslab.display import called, terminal
from nfslab.display.sections import Section
from nfslab.errors import UsageError
from nfslab.shipped import experiment_files

from tests.cli.invocation import nfslab


def test_the_commands_are_those_of_the_command_line() -> None:
    assert {word for word in called.COMMANDS if not word.startswith("-")} == set(COMMANDS)


@pytest.mark.parametrize(
    ("way", "text", "said"),
    [
        ("", "see `nfslab doctor`", "see `nfslab doctor`"),
        ("nfslab", "nfslab run x.toml", "nfslab run x.toml"),
        (
            "./nfslab",
            "nfslab run x.toml; nfslab report r",
            "./nfslab run x.toml; ./nfslab report r",
        ),
        ("./nfslab", "nfslab vm run -- nfslab run x", "./nfslab vm run -- ./nfslab run x"),
        ("./nfslab", "./nfslab run, /opt/nfslab run", "./nfslab run, /opt/nfslab run"),
        ("./nfslab", "nfslab itself, nfslab running", "nfslab itself, nfslab running"),
        ("/a b/nfslab", "tail -f x | nfslab trace -", "tail -f x | '/a b/nfslab' trace -"),
        (r"/a\1/nfslab", "nfslab top", r"'/a\1/nfslab' top"),
    ],
)
def test_a_command_is_said_as_it_was_called(
    monkeypatch: pytest.MonkeyPatch, way: str, text: str, said: str
) -> None:
    monkeypatch.setenv(called.VARIABLE, way)
    assert called.as_called(text) == said
    assert called.as_called(said) == said, "what was said by a process of ours is said again"


def printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[str, str]:
    """What the command line prints when it is called as ./nfslab."""
    monkeypatch.setenv(called.VARIABLE, "./nfslab")
    monkeypatch.setattr("sys.argv", ["nfslab", *words])
    monkeypatch.setattr(click.Context, "formatter_class", click.Context.formatter_class)
    with pytest.raises(SystemExit):
        cli.main()
    return capsys.readouterr()


def test_help_and_usage_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, _ = printed(monkeypatch, capsys, "new", "--help")
    assert "Usage: ./nfslab new" in out
    assert "  ./nfslab new pgbench\n" in out
    out, _ = printed(monkeypatch, capsys, "--help")
    assert "  ./nfslab quickstart\n" in out
    _, err = printed(monkeypatch, capsys, "new", "--nonesuch")
    assert "Try './nfslab new --help'" in err


def test_what_to_do_about_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, err = printed(monkeypatch, capsys, "umount")
    assert err.startswith("nfslab: name one folder"), "the program's name, no command"
    assert "fix: see ./nfslab umount --help" in err
    assert "fix: see nfslab umount --help" in str(UsageError("x", fix="see nfslab umount --help"))


def test_a_section_on_a_terminal_and_the_next_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(called.VARIABLE, "../nfslab")
    section = Section(
        "", sentences=["To confirm: nfslab confirm r"], notes=["`nfslab show` has it"]
    )
    assert terminal.section_lines(section) == [
        "To confirm: ../nfslab confirm r", "`../nfslab show` has it",
    ]  # fmt: skip
    file = tmp_path / "a.toml"
    said = CliRunner().invoke(new.command, ["pgbench", "--out", str(file)]).output
    assert f"Next: ../nfslab run {file} --dry-run" in said
    assert "../nfslab" not in file.read_text("utf-8"), "it may be read elsewhere"


THREADS = "OPENBLAS_NUM_THREADS"


@pytest.mark.parametrize("name", COMMANDS)
def test_where_numpy_has_one_thread(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THREADS, raising=False)
    assert cli.cli.get_command(click.Context(cli.cli), name) is not None
    assert os.environ.get(THREADS) == ("1" if name in READERS else None)
    monkeypatch.setenv(THREADS, "7")
    cli.cli.get_command(click.Context(cli.cli), name)
    assert os.environ[THREADS] == "7", "who asks for more has it"


def test_help(capsys: pytest.CaptureFixture[str], snapshot: Callable[[str, str], None]) -> None:
    said = nfslab(capsys, "--help")
    assert (said.code, said.err) == (0, "")
    snapshot("help.txt", said.out)


def test_quickstart_runs_the_experiment_of_that_name(capsys: pytest.CaptureFixture[str]) -> None:
    """All of it is run by .ci/minimal."""
    assert 'kind = "pgbench"' in experiment_files()["quickstart"].read_text()
    said = nfslab(capsys, "quickstart", "--help")
    assert (said.code, "nfslab quickstart" in said.out) == (0, True)
