"""The form of a file of classes that a user wrote (`file_classes` reads it)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nfslab.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

MAX_CLASSES = 200
MAX_PATTERNS = 200
"""Of one class. The core takes 2000 in all."""


class FileClass(BaseModel):
    """One `[[class]]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=80)
    patterns: tuple[str, ...] = Field(min_length=1, max_length=MAX_PATTERNS)


class FileClasses(BaseModel):
    """A file of classes."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    classes: tuple[FileClass, ...] = Field(alias="class", max_length=MAX_CLASSES)

    def pairs(self) -> list[tuple[str, str]]:
        """(class, pattern), in order."""
        return [(one.name, pattern) for one in self.classes for pattern in one.patterns]


def pairs_of(content: dict[str, Any], file: Path, fix: str) -> list[tuple[str, str]]:
    """(class, pattern) in order, of what was read from `file`; `UsageError` if it is none."""
    try:
        return FileClasses.model_validate(content).pairs()
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        why = f"{where}: {first['msg']}" if where else first["msg"]
        raise UsageError(f"{file} does not hold file classes", why=why, fix=fix) from error
