"""Calling the command line in this process, as a shell would see it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from unittest import mock

import pytest
from nfslab.cli import main


@dataclass(frozen=True)
class Said:
    """Exit code and what was printed."""

    code: int
    out: str
    err: str


def nfslab(capsys: pytest.CaptureFixture[str], *arguments: object) -> Said:
    """`nfslab ARGUMENTS...`."""
    argv = ["nfslab", *map(str, arguments)]
    with mock.patch.object(sys, "argv", argv), pytest.raises(SystemExit) as left:
        main()
    captured = capsys.readouterr()
    code = left.value.code
    return Said(code if isinstance(code, int) else 0, captured.out, captured.err)
