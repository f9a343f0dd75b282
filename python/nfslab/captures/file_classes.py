"""Classes of files (a database's log, its data, ...) as patterns of paths.

The classes that come with nfslab are data, `shipped/file_classes.toml`; whoever has other
files writes a file of the same form. `read_file_classes()` gives what the core's option
`file_classes` takes: (class, pattern) in order, the first match counts. `*` and `?` stay within
one name, `**` crosses directories; the core decides, and refuses a pattern that is no glob.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nfslab.errors import ResultsError, UsageError
from nfslab.shipped import PACKAGE

if TYPE_CHECKING:
    from pathlib import Path

SHIPPED = PACKAGE / "file_classes.toml"
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


def read_file_classes(path: Path | None = None) -> list[tuple[str, str]]:
    """(class, pattern) of a file of classes; of the shipped one when none is given.

    `UsageError` when the file given is missing or not of this form, `ResultsError` when the
    shipped one is.
    """
    file = SHIPPED if path is None else path
    kind = ResultsError if path is None else UsageError
    fix = "install nfslab again" if path is None else f"write it like {SHIPPED}"
    try:
        return FileClasses.model_validate(tomllib.loads(file.read_text("utf-8"))).pairs()
    except OSError as error:
        why = error.strerror or str(error)
        raise kind(f"cannot read the file classes in {file}", why=why, fix=fix) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        why = f"{where}: {first['msg']}" if where else first["msg"]
        raise kind(f"{file} does not hold file classes", why=why, fix=fix) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise kind(f"{file} is not TOML", why=str(error), fix=fix) from error
