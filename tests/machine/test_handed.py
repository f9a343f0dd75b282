"""What processes of a client host handed over: whole, in order, or refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from nfslab.context import HostPart, Share
from nfslab.errors import RunFailed
from nfslab.machine import handed
from nfslab.machine.handed import HandedOver

if TYPE_CHECKING:
    from pathlib import Path


class Count(HandedOver):
    """Of a process."""

    count: int


def part(folder: Path) -> HostPart:
    """The second of two hosts with two processes each."""
    return HostPart("load2", Share(1, 2, 2), folder, None, 0)  # type: ignore[arg-type]


def test_what_was_kept_is_read_in_order(tmp_path: Path) -> None:
    kept = [Count(index=3, count=30), Count(index=2, count=20)]
    handed.keep(kept, tmp_path)
    assert handed.read(part(tmp_path), Count) == kept[::-1]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (json.dumps({"index": 3, "count": 1}), "it is of process 4"),
        (json.dumps({"index": 2, "count": 1, "path": "/etc"}), "path"),
        ("[", "EOF"),
        ("", "EOF"),
    ],
)
def test_what_has_another_form_is_refused(text: str, why: str, tmp_path: Path) -> None:
    handed.keep([Count(index=2, count=20), Count(index=3, count=30)], tmp_path)
    (tmp_path / "parts" / "2.json").write_text(text)
    with pytest.raises(RunFailed, match="what process 3 measured on load2 cannot be read") as found:
        handed.read(part(tmp_path), Count)
    assert why in found.value.why


def test_a_process_that_handed_over_nothing_is_missed(tmp_path: Path) -> None:
    handed.keep([Count(index=2, count=20)], tmp_path)
    with pytest.raises(RunFailed, match="what process 4 measured on load2"):
        handed.read(part(tmp_path), Count)
