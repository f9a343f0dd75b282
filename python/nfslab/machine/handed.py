"""What the processes of one of several client hosts handed over: files in that host's own run.

A file for each process, by its number among the processes of all hosts. They come from another
machine: what has not the right form is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from nfslab.errors import RunFailed
from nfslab.results.durable import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nfslab.context import HostPart

FOLDER: Final = "parts"
"""In a run's folder."""
FILE_BYTES_MAX: Final = 512 << 20


class HandedOver(BaseModel):
    """Base of what a process hands over."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    index: int
    """Of the process, among those of all hosts."""


H = TypeVar("H", bound=HandedOver)


def keep(handed: Sequence[HandedOver], run: Path) -> None:
    """Into the run's folder."""
    folder = run / FOLDER
    folder.mkdir()
    for one in handed:
        (folder / f"{one.index}.json").write_bytes(to_json(one.model_dump()))


def read(host: HostPart, form: type[H]) -> list[H]:
    """What that host kept, in the order of its processes; RunFailed."""
    found = []
    for index in host.share.indices:
        path = host.folder / FOLDER / f"{index}.json"
        try:
            if path.stat().st_size > FILE_BYTES_MAX:
                raise ValueError(f"more than {FILE_BYTES_MAX} bytes")
            found.append(form.model_validate_json(path.read_bytes()))
            if found[-1].index != index:
                raise ValueError(f"it is of process {found[-1].index + 1}")
        except (OSError, ValueError, ValidationError) as error:
            raise unreadable(f"what process {index + 1} measured on {host.name}", error) from error
    return found


def unreadable(what: str, error: Exception) -> RunFailed:
    """The error for what is no such thing."""
    return RunFailed(
        f"{what} cannot be read",
        why=str(error),
        fix="run it again; if it stays so, see that host's nfslab and disk",
    )
