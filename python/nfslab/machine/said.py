"""What a process of ours said in a file, in lines of JSON (`machine.agent`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pathlib import Path

SAID_LIMIT_BYTES: Final = 1 << 20


def lines_said(path: Path) -> list[dict[str, Any]]:
    """Whole lines that are JSON objects; none when the file went with its folder."""
    try:
        with path.open("rb") as file:
            text = file.read(SAID_LIMIT_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return []
    found = []
    for line in text.split("\n")[:-1]:
        try:
            content = json.loads(line)
        except ValueError:
            continue
        if isinstance(content, dict):
            found.append(content)
    return found
