"""Why PostgreSQL failed, from its own log: its words, and what they mean for the targets.

The log's last lines are what an expert looks at first, so they are always shown. Three
causes are recognised because their cure lies with the experiment and not with PostgreSQL:
a full file system (which role's target, and where), the memory limit (the kernel's
out-of-memory killer sends SIGKILL), a setting that does not exist or does not fit.
"""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, Final

from nfslab.databases.shared.last_words import told
from nfslab.errors import RunFailed
from nfslab.machine.endings import sender_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.targets.base import Place

FULL: Final = re.compile(
    r"could not (?:extend|write|create|write to|fallocate|preallocate)[^\"]*\"(?P<file>[^\"]*)\""
    r".*?(?P<cause>No space left on device|Disk quota exceeded)"
)
KILLED: Final = re.compile(r"was terminated by signal 9")
SETTING: Final = re.compile(
    r"(unrecognized configuration parameter|invalid value for parameter|"
    r"is outside the valid range for parameter|requires a (?:numeric|Boolean|value)|"
    r"configuration file .* contains errors) ?\"?(?P<name>[a-z_.]*)"
)


def full_target(lines: list[str], places: Mapping[str, Place]) -> RunFailed | None:
    """The error for a full file system, naming role, target and path; None when it is not."""
    for line in lines:
        if match := FULL.search(line):
            role = "wal" if "pg_wal" in match["file"] and "wal" in places else "data"
            place = places[role]
            return RunFailed(
                f"the target {place.target!r} (role {role}) is full: {place.path}",
                why=line.strip(),
                fix="free space there, take a larger target, a smaller workload.scale, "
                "or a smaller max_wal_size in workload.settings",
            )
    return None


def explained(
    what: str, lines: list[str], places: Mapping[str, Place], *, fix: str = ""
) -> RunFailed:
    """The error for a server that failed: a known cause first, its own words always."""
    if full := full_target(lines, places):
        return full
    if any(KILLED.search(line) for line in lines):
        fix = (
            f"{sender_of(-signal.SIGKILL)}; for memory: raise limits.memory, or lower "
            "shared_buffers, work_mem or workload.clients"
        )
    for line in lines:
        if (match := SETTING.search(line)) and not fix:
            fix = f"correct {match['name'] or 'the setting'} in [workload.settings]"
    return RunFailed(what, why=told(lines), fix=fix)
