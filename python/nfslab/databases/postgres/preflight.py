"""What can be said before the first run: does PostgreSQL take these settings?

PostgreSQL itself is asked, in an empty folder, without starting a server: `postgres -C`
reads its command line, checks every name and value and leaves. Its own message is shown;
for an unknown name, the nearest one of those it lists (`postgres --describe-config`).
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nfslab.databases.postgres.settings import as_arguments
from nfslab.databases.shared.deployment import ENVIRONMENT
from nfslab.machine.availability import Availability
from nfslab.machine.tools import said_by
from nfslab.plugins import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.databases.postgres.installation import Installation
    from nfslab.databases.shared.settings import SettingValue

TIMEOUT_S: Final = 20.0
UNKNOWN: Final = re.compile(r'unrecognized configuration parameter "([^"]*)"')


def settings_accepted(
    installation: Installation, settings: Mapping[str, SettingValue], user: int | None
) -> Availability:
    """Does this PostgreSQL accept these settings? If not: its own words."""
    return _accepted(installation, tuple(as_arguments(settings)), user)


@lru_cache(maxsize=256)
def _accepted(
    installation: Installation, arguments: tuple[str, ...], user: int | None
) -> Availability:
    """Asked once: points of an experiment mostly have the same settings."""
    if not arguments:
        return Availability(True)
    with tempfile.TemporaryDirectory(prefix="nfslab-settings-", dir="/tmp") as name:
        folder = Path(name)
        (folder / "postgresql.conf").touch()
        if user is not None:
            os.chown(folder, user, -1)
        argv = [
            installation.program("postgres"),
            *("-D", str(folder), "-C", "data_directory"),
            *arguments,
        ]
        try:
            done = subprocess.run(
                argv,
                user=user,
                group=_group(user),
                extra_groups=[] if user is not None else None,
                cwd="/",
                env=os.environ | ENVIRONMENT,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return Availability(False, f"{argv[0]} does not start: {error}")
    if done.returncode == 0:
        return Availability(True)
    said = [line for line in done.stderr.strip().splitlines() if line.strip()]
    reason = " | ".join(said[-3:]) or f"postgres left with exit code {done.returncode}"
    fix = "correct it in [workload.settings]"
    if match := UNKNOWN.search(done.stderr):
        guess = nearest(match[1], known_settings(installation))
        fix = f"did you mean {guess}?" if guess else fix
    return Availability(False, f"PostgreSQL {installation.version} says: {reason}", fix)


def known_settings(installation: Installation) -> list[str]:
    """Names of the settings that this PostgreSQL lists."""
    try:
        done = said_by([installation.program("postgres"), "--describe-config"], TIMEOUT_S)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.partition("\t")[0] for line in done.stdout.splitlines() if "\t" in line]


def _group(user: int | None) -> int | None:
    from nfslab.machine.users import primary_group

    return primary_group(user) if user is not None else None
