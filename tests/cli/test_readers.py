"""Commands that only read have numpy without threads; programs of a person's know nothing of it."""

from __future__ import annotations

import os

import click
import pytest
from nfslab.cli import cli
from nfslab.cli.registry import COMMANDS, READERS

THREADS = "OPENBLAS_NUM_THREADS"


@pytest.mark.parametrize("name", COMMANDS)
def test_where_numpy_has_one_thread(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(THREADS, raising=False)
    assert cli.get_command(click.Context(cli), name) is not None
    assert os.environ.get(THREADS) == ("1" if name in READERS else None)
    monkeypatch.setenv(THREADS, "7")
    cli.get_command(click.Context(cli), name)
    assert os.environ[THREADS] == "7", "who asks for more has it"
