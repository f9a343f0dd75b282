"""Commands that are printed can be pasted as the person called us."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from nfslab import cli
from nfslab.cli import new
from nfslab.cli.registry import COMMANDS
from nfslab.display import called, terminal
from nfslab.display.sections import Section
from nfslab.errors import UsageError


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
