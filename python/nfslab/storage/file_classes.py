"""Classes of files (a database's log, its data, ...) as patterns of paths.

The classes that come with nfslab are data, `shipped/file_classes.toml`; whoever has other
files writes a file of the same form. `read_file_classes()` gives what the core's option
`file_classes` takes: (class, pattern) in order, the first match counts. `*` and `?` stay within
one name, `**` crosses directories; the core decides, and refuses a pattern that is no glob.

What users write is validated (`file_class_form`); the shipped file is read as it is, since the
validation's import takes longer than most captures do.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

from nfslab.errors import ResultsError, UsageError
from nfslab.shipped import PACKAGE

if TYPE_CHECKING:
    from pathlib import Path

SHIPPED = PACKAGE / "file_classes.toml"


def read_file_classes(path: Path | None = None) -> list[tuple[str, str]]:
    """(class, pattern) of a file of classes; of the shipped one when none is given.

    `UsageError` when the file given is missing or not of this form, `ResultsError` when the
    shipped one is.
    """
    file = SHIPPED if path is None else path
    kind = ResultsError if path is None else UsageError
    fix = "install nfslab again" if path is None else f"write it like {SHIPPED}"
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        why = error.strerror or str(error)
        raise kind(f"cannot read the file classes in {file}", why=why, fix=fix) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise kind(f"{file} is not TOML", why=str(error), fix=fix) from error
    if path is not None:
        from nfslab.storage.file_class_form import pairs_of

        return pairs_of(content, file, fix)
    try:
        return [(one["name"], pattern) for one in content["class"] for pattern in one["patterns"]]
    except (KeyError, TypeError) as error:
        raise kind(f"{file} does not hold file classes", why=repr(error), fix=fix) from error
