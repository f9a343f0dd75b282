"""`nfslab mount`: an NFS export on a folder, without the kernel's NFS.

As with mount(8), the command returns when the mount is usable and a process stays behind; with
--foreground it is that process. Which mounts there are is written into the machine's journal
before they are made, so that the next start finds and removes what a killed process left.

The process in the background is this command again, which says on its standard output that it is
ready, or why not (`nfslab.machine.agent`); a fork of a process with threads would be no sound
base for one.

Exit code: 0 mounted (--foreground: and unmounted again, by Ctrl-C, too), 1 failed, 2 bad usage, 130
interrupted before it was mounted.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nfslab.errors import NfslabError, RunFailed, of_core
from nfslab.machine.agent import error_content, error_of, event

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab._core import Mount

EPILOG = """\b
Examples:
  nfslab mount server:/data /mnt/data
  nfslab mount 127.0.0.1:/export /mnt/e -o port=2049,mountport=2049,rsize=64k,noac
  nfslab mount '[::1]:/export' ~/e -o soft,timeo=50 --foreground

\b
Options are those of nfs(5) and of mount(8) (ro, noexec, ...); docs/mount.md says what they do
here. Without a portmapper on the server give port= and mountport=.
"""

EVENT_BYTES_MAX = 1 << 20
USAGE_KINDS = {"option", "source", "config", "directory"}
"""Kinds of CoreError that are bad usage, not a failure."""


@click.command("mount", epilog=EPILOG)
@click.argument("source", metavar="HOST:/EXPORT")
@click.argument("directory")  # no click.Path: it would touch what may be a dead mount
@click.option("-o", "options", multiple=True, metavar="OPTIONS", help="Comma-separated.")
@click.option("--foreground", is_flag=True, help="Stay until it is unmounted; Ctrl-C unmounts.")
@click.option("--json", "as_json", is_flag=True, help="Print what is in effect as JSON.")
@click.option("--behind", is_flag=True, hidden=True)
def command(
    source: str,
    directory: str,
    options: tuple[str, ...],
    foreground: bool,
    as_json: bool,
    behind: bool,
) -> None:
    """Mount an NFS export on a folder, without the kernel's NFS."""
    from nfslab.machine.mounts import without_links

    text, place = ",".join(options), without_links(Path(directory))
    if foreground:
        _serve(source, place, text, as_json, behind)
        return
    _print(_start_behind(source, place, text), as_json)


def _serve(source: str, directory: Path, options: str, as_json: bool, behind: bool) -> None:
    """Mount, say so, and stay until the end."""
    from nfslab._core import CoreError, Mount
    from nfslab.machine.fuse_mounts import END_SIGNAL, journalled, remove_dead
    from nfslab.machine.resources import recover
    from nfslab.mounts.fuse import counters_offered

    for sentence in [*recover(), *remove_dead()]:
        print(f"nfslab: {sentence}", file=sys.stderr)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(END_SIGNAL, _raise_forced)
    try:
        _require_answer(directory)
        with journalled(directory, f"nfslab mount {source} {directory}"):
            try:
                mount = Mount(source, directory, options)
            except CoreError as error:
                raise of_core(error, USAGE_KINDS) from error
            said = _effective(mount)
            with counters_offered(mount):
                _stay(mount, lambda: _tell("mounted", **said) if behind else _print(said, as_json))
    except NfslabError as error:
        if not behind:
            raise
        _tell("error", **error_content(error))
    finally:
        signal.signal(signal.SIGTERM, before)


class _Forced(BaseException):
    """`nfslab umount --force` says that the mount is to be ended."""


def _raise_forced(_number: int, _frame: object) -> None:
    raise _Forced


def _require_answer(directory: Path) -> None:
    """RunFailed where the folder lies on, or below, a mount that does not answer."""
    from nfslab.machine.fuse_mounts import ANSWER_LIMIT_S
    from nfslab.machine.mounts import answers, mount_by_name

    if not answers(directory, ANSWER_LIMIT_S):
        below = mount_by_name(directory)
        raise RunFailed(
            f"{directory} cannot be mounted on: what is mounted at {below.mount_point} is silent",
            why=f"{below.source} ({below.filesystem}) does not answer",
            fix="end that mount first: nfslab umount --force "
            + shlex.quote(str(below.mount_point)),
        )


def _stay(mount: Mount, say: Callable[[], None]) -> None:
    """Until it is unmounted; a signal unmounts, lazily if it is in use, or by force."""
    from nfslab._core import CoreError

    try:
        say()
        sys.stdout.flush()
        mount.wait()
    except _Forced:
        mount.unmount("force")
    except KeyboardInterrupt:
        try:
            mount.unmount()
        except CoreError:
            mount.unmount("lazy")
            raise RunFailed(
                f"{mount.directory} was in use: it is out of sight, and its users get errors",
                fix="leave the folder before the mount is ended",
            ) from None


def _tell(name: str, **content: Any) -> None:
    """The one event; then nobody reads what this process says any more."""
    sys.stdout.buffer.write(event(name, **content))
    sys.stdout.flush()
    null = os.open(os.devnull, os.O_RDWR)
    for one in (sys.stdout, sys.stderr):
        os.dup2(null, one.fileno())
    os.close(null)


def _start_behind(source: str, directory: Path, options: str) -> dict[str, Any]:
    """The same command as a process of its own; what it says when it is ready."""
    code = "from nfslab.cli import main; main()"
    argv = [sys.executable, "-c", code, "mount", source, str(directory), "--foreground"]
    argv += ["--behind"] + (["-o", options] if options else [])
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd="/",
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        text = process.stdout.readline(EVENT_BYTES_MAX)
    except KeyboardInterrupt:
        process.terminate()
        raise
    message: dict[str, Any] = json.loads(text) if text else {}
    name = message.pop("event", "")
    if name == "mounted":
        return message | {"pid": process.pid}
    if name == "error":
        process.wait()
        raise error_of(message)
    stderr = process.stderr.read().decode(errors="replace")
    process.wait()
    last = stderr.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
    raise RunFailed(
        "the process behind the mount ended before it was ready",
        why=last[0],
        fix="run it with --foreground: it says there what it does",
    )


def _effective(mount: Mount) -> dict[str, Any]:
    return {
        "source": mount.source,
        "directory": str(mount.directory),
        "pid": os.getpid(),
        "options": dict(mount.effective_options()),
        "notes": mount.adjustments(),
    }


def _print(said: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(said))
        return
    words = [name if value == "" else f"{name}={value}" for name, value in said["options"].items()]
    click.echo(f"{said['source']} on {said['directory']} (process {said['pid']})")
    click.echo(f"  {','.join(words)}")
    for note in said["notes"]:
        click.echo(f"  note: {note}")
