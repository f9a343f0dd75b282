"""`nfslab --help`: every command with its line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.invocation import nfslab


def test_help(capsys: pytest.CaptureFixture[str], snapshot: Callable[[str, str], None]) -> None:
    said = nfslab(capsys, "--help")
    assert (said.code, said.err) == (0, "")
    snapshot("help.txt", said.out)
