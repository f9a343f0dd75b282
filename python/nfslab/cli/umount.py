"""`nfslab umount`: take a mount of `nfslab mount` away.

Exit code: 0 done, 1 failed (in use, for instance), 2 bad usage.
"""

from __future__ import annotations

from pathlib import Path

import click

from nfslab.errors import RunFailed, UsageError

EPILOG = """\b
Examples:
  nfslab umount /mnt/data
  nfslab umount /mnt/data --force     (its server is dead, and something waits for it)
  nfslab umount --stale               (what killed processes left behind)
"""


@click.command("umount", epilog=EPILOG)
@click.argument("directory", required=False)  # no click.Path: it would touch the mount
@click.option("--lazy", is_flag=True, help="Out of sight at once, gone when nobody uses it.")
@click.option("--force", is_flag=True, help="End it; whoever waits in it gets an error.")
@click.option("--stale", is_flag=True, help="Remove all mounts whose process is gone.")
def command(directory: str | None, lazy: bool, force: bool, stale: bool) -> None:
    """Unmount a folder that `nfslab mount` mounted."""
    if stale == (directory is not None) or (lazy and force) or (stale and (lazy or force)):
        raise UsageError("name one folder, or --stale", fix="see nfslab umount --help")
    from nfslab.machine.fuse_mounts import (
        ANSWER_LIMIT_S,
        end,
        end_by_force,
        is_mounted,
        remove_dead,
    )
    from nfslab.machine.mounts import without_links
    from nfslab.machine.resources import recover

    if directory is None:
        for sentence in [*recover(), *remove_dead(ANSWER_LIMIT_S)]:
            click.echo(sentence)
        return
    from nfslab._core import CoreError, unmount

    place = without_links(Path(directory))
    if not is_mounted(place):
        raise UsageError(
            f"{directory} is no mount of nfslab",
            fix="see the ones there are: grep fuse.nfslab /proc/mounts",
        )
    try:
        if force:
            end_by_force(place)
        elif lazy:
            unmount(place, "lazy")
        else:
            end(place)
    except CoreError as error:
        fix = error.fix or "add --lazy or --force"
        raise RunFailed(error.what, why=error.why, fix=fix) from error
