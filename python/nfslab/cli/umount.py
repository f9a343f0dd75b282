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
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option("--lazy", is_flag=True, help="Out of sight at once, gone when nobody uses it.")
@click.option("--force", is_flag=True, help="End it; whoever waits in it gets an error.")
@click.option("--stale", is_flag=True, help="Remove all mounts whose process is gone.")
def command(directory: Path | None, lazy: bool, force: bool, stale: bool) -> None:
    """Unmount a folder that `nfslab mount` mounted."""
    if stale == (directory is not None) or (lazy and force) or (stale and (lazy or force)):
        raise UsageError("name one folder, or --stale", fix="see nfslab umount --help")
    from nfslab.machine.fuse_mounts import is_mounted, remove_stale

    if directory is None:
        for sentence in remove_stale():
            click.echo(sentence)
        return
    from nfslab._core import CoreError, unmount

    # Not resolved through the mount: its server may be dead.
    place = directory.parent.resolve() / directory.name if directory.name else directory.resolve()
    if not is_mounted(place):
        raise RunFailed(
            f"{directory} is no mount of nfslab",
            fix="see the ones there are: grep fuse.nfslab /proc/mounts",
        )
    try:
        unmount(place, "force" if force else "lazy" if lazy else "normal")
    except CoreError as error:
        fix = error.fix or "add --lazy or --force"
        raise RunFailed(error.what, why=error.why, fix=fix) from error
