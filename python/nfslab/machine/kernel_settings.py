"""Settings of the kernel that a run changes, and that are as before after it.

A setting is a small file of /sys/module or of the file system nfsd. It belongs to the whole
machine (or network namespace): of two runs that want it otherwise the second is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nfslab.errors import RunFailed
from nfslab.machine import journal as journals
from nfslab.machine.mounts import SYS

if TYPE_CHECKING:
    from nfslab.machine.resources import Entry, Resources


def read(file: Path) -> str:
    """What it says now; OSError."""
    return file.read_text(encoding="ascii", errors="replace").strip()


def write(file: Path, value: str) -> None:
    """Set it; OSError. A text of a module is kept as it comes, with a line's end where it has one
    (kernel/params.c, param_set_charp); files of nfsd need one (fs/nfsd/nfsctl.c)."""
    bare = value and file.is_relative_to(SYS / "module")
    file.write_text(value if bare else f"{value}\n", encoding="ascii")


def change(resources: Resources, file: Path, value: str) -> Entry | None:
    """Set it, journalled, and read it back; None when it is so already. RunFailed."""
    try:
        before = read(file)
    except OSError as error:
        raise RunFailed(
            f"the setting {file.name} cannot be read",
            why=f"{file}: {error.strerror}",
            fix="leave it out: this kernel does not have it",
        ) from error
    ours, theirs = _changed_by(file, resources.token)
    if theirs or (ours and before != value):
        raise RunFailed(
            f"the setting {file.name} is {before}, and {value} is wanted",
            why=f"{theirs or 'this run'} has changed it, and it belongs to the whole machine",
            fix="wait for that run" if theirs else "want one value in a run",
        )
    if before == value:
        return None
    entry = resources.setting(file, before, value)
    try:
        write(file, value)
        now = read(file)
    except OSError as error:
        entry.release()
        raise RunFailed(
            f"the kernel refuses {file.name} = {value}",
            why=error.strerror or str(error),
            fix=f"it is {before} now: give a value near that",
        ) from error
    if now != value:
        entry.bind(after=now)
        entry.undo()
        raise RunFailed(
            f"{file.name}: asked {value}, in effect {now}",
            fix="give a value that the kernel takes",
        )
    return entry


def _changed_by(file: Path, token: str) -> tuple[bool, str]:
    """Whether this run has changed it, and which other living one."""
    ours, theirs = False, ""
    for folder in journals.state_folders():
        for content in journals.of_the_living(folder / "journals"):
            if not any(
                entry.kind == "setting" and entry.what.get("file") == str(file)
                for entry in content.open
            ):
                continue
            if content.header.get("token") == token:
                ours = True
            else:
                theirs = str(content.header.get("purpose") or "another run of nfslab")
    return ours, theirs
