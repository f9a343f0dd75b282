"""Reading what the kernel shows in small text files, and noting what was not there.

Provenance must never raise and never leave a silent gap: a reader keeps a list of every
source that could not be read, with the kernel's reason, and that list is stored beside
what could be read.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

TEXT_LIMIT_BYTES = 64 << 10
ABSENCES_MAX = 256
WHOLE_NUMBER = re.compile(r"-?[0-9]{1,19}")


class Reader:
    """Reads small files; `absent` says which could not be read, and why."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root
        self.absent: dict[str, str] = {}

    def note(self, what: str, why: str) -> None:
        """Something is not there; beyond a bound only that there is more."""
        if len(self.absent) < ABSENCES_MAX:
            self.absent[what] = why
        else:
            self.absent["..."] = f"more than {ABSENCES_MAX} sources are absent"

    def text(self, path: str, *, optional: bool = False) -> str | None:
        """Content without surrounding blanks; None (noted unless `optional`) without it."""
        try:
            with (self.root / path.lstrip("/")).open("rb") as file:
                content = file.read(TEXT_LIMIT_BYTES + 1)
        except OSError as error:
            if not optional:
                self.note(path, error.strerror or str(error))
            return None
        if len(content) > TEXT_LIMIT_BYTES:
            self.note(path, f"longer than {TEXT_LIMIT_BYTES} bytes: only its beginning is kept")
        return content[:TEXT_LIMIT_BYTES].decode(errors="replace").strip()

    def number(self, path: str, *, optional: bool = False) -> int | None:
        """A file that holds one whole number."""
        text = self.text(path, optional=optional)
        if text is None:
            return None
        try:
            return int(text)
        except ValueError:
            self.note(path, f"{text[:40]!r} is not a number")
            return None

    def names(self, path: str) -> list[str]:
        """Names in a folder, sorted; none (noted) when it is not there."""
        try:
            return sorted(os.listdir(self.root / path.lstrip("/")))
        except OSError as error:
            self.note(path, error.strerror or str(error))
            return []

    def several(self, folder: str, names: Iterable[str]) -> dict[str, Any]:
        """Small files of one folder that are there, as numbers where they are numbers.

        Which of them a kernel has depends on its build: those without are not noted.
        """
        found: dict[str, Any] = {}
        for name in names:
            text = self.text(f"{folder}/{name}", optional=True)
            if text is not None:
                found[name] = int(text) if WHOLE_NUMBER.fullmatch(text) else text
        return found

    def section(self, name: str, read: Callable[[], Any]) -> Any:
        """What `read` yields; None, noted, when it raises anything at all."""
        try:
            return read()
        except Exception as error:
            self.note(name, f"{type(error).__name__}: {error}")
            return None


def selected(text: str | None) -> str | None:
    """The one in brackets of "none [mq-deadline] kyber"; the whole text without any."""
    if text is None or "[" not in text:
        return text
    return text.partition("[")[2].partition("]")[0]
