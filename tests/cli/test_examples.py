"""Every command that help, README, docs and experiments show can be typed: its options are there.

Parsed as the shell and click would, not run. Whether a file of an example exists is not asked.
"""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import click
import pytest
from nfslab.cli.registry import COMMANDS
from nfslab.shipped import experiment_files

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("nfslab", "./nfslab")
SEPARATORS = re.compile(r"[|&;<>()]+")
MISSING_FILE = re.compile(r"does not exist")
PLACEHOLDER = re.compile(r"Invalid value for .*: '[A-Z]+' is not")
"""In running text: `--generators N`."""


def commands_of(line: str) -> list[list[str]]:
    """The calls of nfslab in a line of shell: their arguments."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.wordchars += ",:=%@[]{}"
    found: list[list[str]] = []
    inside = begins = True
    for token in lexer:
        if SEPARATORS.fullmatch(token):
            inside, begins = False, True
        elif begins and token in PROGRAMS:
            found.append([])
            inside, begins = True, False
        else:
            begins = begins and "=" in token
            if inside and found:
                found[-1].append(token)
    return found


def command_named(name: str) -> click.Command:
    module, _ = COMMANDS[name]
    command: click.Command = importlib.import_module(module).command
    return command


def complaint(arguments: list[str], *, whole: bool) -> str:
    """What click has against it; `whole`: nothing that is needed may be missing."""
    if not arguments or arguments[0].startswith("-"):
        return ""
    name, *rest = arguments
    if name not in COMMANDS:
        return f"there is no command {name}"
    try:
        command_named(name).make_context(name, list(rest))
    except click.exceptions.Exit:  # --help
        return ""
    except click.MissingParameter as error:
        return error.format_message() if whole else ""
    except click.UsageError as error:
        said = error.format_message()
        known = MISSING_FILE.search(said) or (not whole and PLACEHOLDER.search(said))
        return "" if known else said
    return ""


def shell_lines(text: str) -> list[str]:
    """Lines of a text that call nfslab, with those that go on behind a backslash."""
    joined = re.sub(r"\\\n\s*#?\s*", " ", text)
    # SQL goes over several lines in its quotes.
    joined = re.sub(r'"[^"]*"', lambda quoted: " ".join(quoted[0].split()), joined)
    lines = [line.strip().removeprefix("#").strip() for line in joined.splitlines()]
    return [line for line in lines if re.match(r"(\./)?nfslab [a-z]|\S.*\| (\./)?nfslab ", line)]


def fenced(text: str) -> str:
    """The shell of a Markdown text."""
    blocks = re.findall(r"```(?:sh)?\n(.*?)```", text, flags=re.DOTALL)
    return "\n".join([*blocks, *re.findall(r"^    (\S.*)$", text, flags=re.MULTILINE)])


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_shows_examples_that_can_be_typed(name: str) -> None:
    command = command_named(name)
    lines = shell_lines(f"{command.help or ''}\n{command.epilog or ''}")
    calls = [call for line in lines for call in commands_of(line)]
    assert any(call[:1] == [name] for call in calls), f"`nfslab {name} --help` shows no example"
    assert {tuple(call): complaint(call, whole=True) for call in calls} == {
        tuple(call): "" for call in calls
    }


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_of_documents_can_be_typed(path: Path) -> None:
    text = path.read_text()
    wrong = {
        line: said
        for line in shell_lines(fenced(text))
        for call in commands_of(line)
        if (said := complaint(call, whole=True))
    }
    for inline in re.findall(r"`((?:\./)?nfslab [a-z][^`]*)`", " ".join(text.split())):
        for call in commands_of(inline):
            if said := complaint(call, whole=False):
                wrong[inline] = said
    assert wrong == {}


@pytest.mark.parametrize("name", sorted(experiment_files()))
def test_commands_of_experiments_can_be_typed(name: str) -> None:
    lines = shell_lines(experiment_files()[name].read_text())
    # What a command does stands behind it, at a distance.
    calls = [call for line in lines for call in commands_of(re.split(r"\s{2,}", line)[0])]
    assert calls, "it says how it is run"
    assert [said for call in calls if (said := complaint(call, whole=True))] == []


def test_an_offence_is_found() -> None:
    assert commands_of("A=1 ./nfslab sfs null --load 5k # a comment") == [
        ["sfs", "null", "--load", "5k"]
    ]
    assert commands_of("tcpdump -w - | nfslab trace - && nfslab list") == [["trace", "-"], ["list"]]
    assert "No such option" in complaint(["sfs", "null", "--lode", "5"], whole=True)
    assert "Missing argument" in complaint(["sfs", "--load", "5"], whole=True)
    assert complaint(["sfs", "--load", "5"], whole=False) == ""
    assert "is no load" in complaint(["sfs", "null", "--load", "x"], whole=True)
    assert complaint(["sfz", "null"], whole=True) == "there is no command sfz"
