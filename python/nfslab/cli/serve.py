"""`nfslab serve`: an NFSv3 server of a folder, of memory or of nothing, with planted causes.

It serves until Ctrl-C, SIGTERM or `kill`: NFSv3 and MOUNT on one port. With `--records` a row
for each call (server-side times) is written while it runs, under a temporary name that becomes
the file's own at the end. `--json` prints one line when it is ready and one at the end, for
programs that start it; with `--control` these switch records on and off
(`nfslab.servers.embedded_control`).

Exit code: 0 stopped by Ctrl-C or SIGTERM, 1 it could not start or ended by itself, 2 bad usage.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import click

from nfslab import clock
from nfslab.cli.arguments import parsed
from nfslab.errors import ResultsError, RunFailed, UsageError, of_core
from nfslab.servers.embedded_control import Control
from nfslab.servers.embedded_options import DISK_KEYS, OPTIONS, model, words
from nfslab.servers.embedded_records import RECORD_ROOM, Recording, records_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from nfslab._core import Server
    from nfslab.servers.embedded_options import Option

NFS_PORT: Final = 2049
LOOK_S: Final = 0.1
"""How often records are taken, and how soon a signal ends it."""
KEY_NAME_DIGITS: Final = 32
NAME_BYTES: Final = 16
"""Of a run's export: 128 random bits."""
USAGE_KINDS: Final = {"config", "missing", "directory"}

Command = TypeVar("Command", bound="Callable[..., Any]")

EPILOG = f"""\b
Examples:
  nfslab serve /srv/data
  nfslab serve --memory --port 0 --json
  nfslab serve /srv/data --bind 0.0.0.0 --allow 10.1.0.0/16 --squash none
  nfslab serve --memory --threads 4 --service-time 200us --service-time WRITE=1ms
  nfslab serve --memory --disk seek=8ms,rate=20M,commit=2ms --nvram 32M
  nfslab serve --memory --delay 1ms --stall 10s:500ms --records calls.parquet

\b
Times: 200us, 5ms, 10s. Sizes and rates: 64M, 20M/s (binary), 1Gbit (as networks count).
--disk: {", ".join(f"{one.key}={one.metavar}" for one in DISK_KEYS)}.
docs/server.md says what each means.
"""


def _derived(option: Option) -> Callable[[Command], Command]:
    """The command's option of one in the table."""
    if option.is_flag:
        return click.option(option.flag, is_flag=True, help=option.help)
    if option.choices:
        return click.option(option.flag, type=click.Choice(option.choices), help=option.help)
    if option.annotation is int and option.bounds is not None:
        limits = click.IntRange(int(option.bounds[0]), int(option.bounds[1]))
        return click.option(option.flag, type=limits, metavar=option.metavar, help=option.help)
    return click.option(
        option.flag, callback=parsed(option.read), metavar=option.metavar, help=option.help,
        multiple=option.most_times > 1,
    )  # fmt: skip


def _from_table(command: Command) -> Command:
    """All options of the table, in its order."""
    for option in reversed(OPTIONS):
        command = _derived(option)(command)
    return command


@click.command("serve", epilog=EPILOG)
@click.argument("directory", required=False, type=click.Path(path_type=Path), metavar="[DIR]")
@click.option("--memory", is_flag=True, help="Serve an empty file system in memory instead.")
@click.option("--null", is_flag=True, help="Any name is a file, writes are swallowed: calibration.")
@click.option("--export", default="/export", show_default=True, help="The path that clients mount.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=NFS_PORT, show_default=True,
    help="0: any free one, printed.",
)  # fmt: skip
@click.option(
    "--bind", multiple=True, default=["127.0.0.1"], show_default=True, metavar="ADDRESS",
    help="Where to listen (again for more). Beyond loopback needs --allow: it opens the export.",
)  # fmt: skip
@click.option(
    "--allow",
    multiple=True,
    metavar="NET",
    help="Who may connect: 10.1.2.3, 10.1.0.0/16, fd00::/8.",
)
@click.option("--read-only", is_flag=True, help="Refuse every change.")
@click.option(
    "--squash", type=click.Choice(["none", "root", "all"]),
    help="Whose ids are not believed, as in exports(5). [root, if root serves DIR; else none]",
)  # fmt: skip
@click.option(
    "--insecure", is_flag=True,
    help="As in exports(5): any port, hence every user of who may connect.",
)  # fmt: skip
@click.option("--no-udp", is_flag=True, help="TCP only.")
@_from_table
@click.option(
    "--records", type=click.Path(path_type=Path), metavar="FILE.parquet", help="Write every call."
)
@click.option("--json", "as_json", is_flag=True, help="One line when ready, one at the end.")
@click.option("--of-a-run", is_flag=True, hidden=True)
@click.option("--control", is_flag=True, help="With --json: obey lines of JSON on standard input.")
def command(directory: Path | None, as_json: bool, control: bool, **options: Any) -> None:
    """Serve a folder (or memory, or nothing) over NFSv3, as slow as you want it.

    You and root may connect, on this machine; with --bind and --allow, root of other machines (a
    port below 1024). Served by root, a folder takes no call of root's: see --squash, --insecure.
    """
    if control and not as_json:
        raise UsageError("--control answers with lines of JSON", fix="give --json with it")
    asked = _asked(directory, options)
    records = options["records"] and records_file(options["records"])
    failed: Exception | None = None
    with _Signals() as signals:
        server = _started(asked)
        obeying = Control(server, lambda said: click.echo(json.dumps(said))) if control else None
        recording = None
        try:
            if records is not None:
                recording = Recording(server, records)
                recording.begin(on=True)
                if obeying is not None:
                    obeying.recording = recording
            with _counters_offered(server, asked["export"]):
                _say_ready(server, directory, as_json)
                _serve(server, obeying or recording, signals)
        finally:
            if obeying is not None:
                obeying.close()
                recording = obeying.recording
            failed = _end(server, recording)
            _say_ended(server, recording, as_json)
    if failed is not None:
        raise failed
    if signals.came is None:
        raise RunFailed("the server ended by itself", fix="Please report this.")


class _Signals:
    """SIGINT and SIGTERM are noted, so that no row is cut in two; a second one ends at once."""

    def __init__(self) -> None:
        self.came: int | None = None
        self._before: dict[int, Any] = {}

    def _note(self, number: int, _frame: object) -> None:
        self.came = number
        for one in self._before:
            signal.signal(one, signal.SIG_DFL)

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)


def _asked(directory: Path | None, options: dict[str, Any]) -> dict[str, Any]:
    """The core's options; which store, and what only makes sense together."""
    stores = [directory is not None, options["memory"], options["null"]]
    if sum(stores) != 1:
        raise UsageError(
            "say what to serve: one of DIR, --memory, --null",
            fix="for instance: nfslab serve /srv/data",
        )
    listen = [_listen(text, options["port"]) for text in options["bind"]]
    if not options["allow"] and not all(map(_is_loopback, listen)):
        raise UsageError(
            f"--bind {' '.join(options['bind'])} opens the export to other machines",
            fix="say who may connect: --allow 10.1.0.0/16",
        )
    by_root = os.geteuid() == 0
    asked: dict[str, Any] = {
        "export": options["export"],
        "listen": listen,
        "allow": list(options["allow"]),
        "read_only": options["read_only"],
        "squash": options["squash"] or ("root" if by_root and directory else "none"),
        "secure": "none" if options["insecure"] else "all",
        "udp": not options["no_udp"],
        "model": model(options),
        "client_memory_bytes": options["client_memory"] or 0,
        "record_room": RECORD_ROOM if options["records"] else 0,
    }
    if options["of_a_run"]:
        # Nobody but its own mount knows the name: it is in no argument list, and MOUNT does not
        # tell it. Sockets of other users here are refused; of the other machines of a run any.
        name = "/" + secrets.token_hex(NAME_BYTES)
        asked |= {"export": name, "hidden": True, "squash": "none", "secure": "local"}
    if options["unsafe_async_names"] and directory is None:
        raise UsageError("--unsafe-async-names goes with DIR", fix="leave it out")
    if directory is not None:
        if options["size"] is not None:
            raise UsageError("--size goes with --memory and --null", fix="leave it out")
        asked |= {"store": "directory", "path": str(directory), "key_file": _key_file(directory)}
        asked["workers"] = options["threads"] or 0
        asked["unsafe_async_names"] = options["unsafe_async_names"]
    elif options["memory"]:
        asked |= {"store": "memory"} | _given("memory_bytes", options["size"])
    else:
        asked |= {"store": "null"} | _given("file_bytes", options["size"])
    return asked


def _key_file(directory: Path) -> str:
    """Where the key of a folder's handles outlives the server: one file for each folder."""
    import hashlib

    from nfslab.machine.journal import state_folder

    # Whatever way it was written: handles are the same after a restart.
    name = hashlib.sha256(os.fsencode(os.path.realpath(directory))).hexdigest()[:KEY_NAME_DIGITS]
    return str(state_folder() / "handle-keys" / f"{name}.key")


def _given(name: str, value: int | None) -> dict[str, int]:
    return {} if value is None else {name: value}


def _listen(text: str, port: int) -> str:
    import ipaddress

    try:
        address = ipaddress.ip_address(text.strip("[]"))
    except ValueError as error:
        raise UsageError(
            f"--bind {text}: this is no IP address",
            fix="give an address of this machine: 127.0.0.1, ::1, 0.0.0.0 (all)",
        ) from error
    return f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"


def _started(asked: dict[str, Any]) -> Server:
    from nfslab._core import CoreError, Server

    try:
        return Server(json.dumps(asked))
    except CoreError as error:
        raise of_core(error, USAGE_KINDS) from error


def _counters_offered(server: Server, export: str) -> AbstractContextManager[None]:
    """Other processes may read what it counts (`nfslab top`)."""

    from nfslab.machine.offered_counters import offered
    from nfslab.storage.data_calls import DataCalls

    files = DataCalls()

    def read() -> dict[str, Any]:
        return {
            "what": "server", "name": f"{server.address}:{export}",
            "counters": server.counters(), "files": files.add(server.files()),
            "at_ns": clock.monotonic_ns(),
        }  # fmt: skip

    return offered(read)


def _serve(server: Server, busy: Control | Recording | None, signals: _Signals) -> None:
    """Until the server or a signal ends it, or what `--records` writes cannot be written."""
    while signals.came is None:
        if isinstance(busy, Control):
            # Standard input and signals wake it at once; a server that ended, at the next look.
            busy.obey(LOOK_S)
            if server.wait(0):
                return
        elif server.wait(LOOK_S):
            return
        elif busy is not None:
            busy.take()
            if busy.failed is not None:
                return


def _end(server: Server, recording: Recording | None) -> Exception | None:
    """Stop it and keep the last records; what went wrong, if anything did."""
    from nfslab._core import CoreError

    failed: Exception | None = None
    try:
        server.stop()
    except CoreError as error:
        failed = of_core(error, USAGE_KINDS)
    if recording is not None:
        try:
            recording.end()
        except ResultsError as error:
            failed = failed or error
    return failed


def _say_ready(server: Server, directory: Path | None, as_json: bool) -> None:
    model = server.model()
    key = model.pop("handle_key")
    if key.get("why"):
        click.echo(
            f"the key of this folder's handles was made anew, so handles that clients hold are "
            f"stale: {key['why']} ({key['file']})",
            err=True,
        )
    if as_json:
        ready = {
            "event": "ready", "pid": os.getpid(), "address": server.address, "port": server.port,
            "export": model["export"], "model": model, "handle_key": key,
        }  # fmt: skip
        click.echo(json.dumps(ready))
        return
    what = {"memory": "memory", "null": "nothing (null)"}.get(model["store"], str(directory))
    host = server.address.rpartition(":")[0]
    port, export = server.port, model["export"]
    transports = "TCP and UDP" if model["udp"] else "TCP"
    click.echo(f"serving {what} as {host}:{export}, port {port}, NFSv3 over {transports}")
    click.echo(f"  {_who(model)}")
    for line in _settings(model):
        click.echo(f"  {line}")
    click.echo(
        f"  mount -t nfs -o vers=3,nolock,proto=tcp,port={port},mountport={port} "
        f"{host}:{export} /mnt"
    )
    click.echo("  Ctrl-C ends it")


def _who(model: dict[str, Any]) -> str:
    """Who may connect, and as whom."""
    insecure = model["secure"] == "none"
    here = "every user" if insecure else "root" if os.geteuid() == 0 else "you and root"
    parts = [f"{here} of this machine"]
    if not all(map(_is_loopback, model["listen"])):
        whom = "any port" if insecure else "a port below 1024: root"
        parts.append(f"{', '.join(model['allow'])} ({whom})")
    ids = {"none": "any user id", "root": "any user id but root's", "all": "no user id"}
    opened = "warning: " if insecure else ""
    return f"{opened}open to {' and '.join(parts)}, as {ids[model['squash']]} (AUTH_SYS)"


def _is_loopback(address: str) -> bool:
    import ipaddress

    return ipaddress.ip_address(address.rpartition(":")[0].strip("[]")).is_loopback


def _settings(model: dict[str, Any]) -> Iterator[str]:
    settings = model["store_settings"] | ({"workers": model["workers"]} if model["workers"] else {})
    yield f"store: {model['store']}, " + ", ".join(f"{k} {v}" for k, v in settings.items())
    if model["model"] is None:
        yield "service model: none, as fast as it can"
        return
    yield "service model: " + " ".join(words(model["model"]))


def _say_ended(server: Server, recording: Recording | None, as_json: bool) -> None:
    counters = server.counters()
    if as_json:
        ended: dict[str, Any] = {"event": "ended", "counters": counters}
        if recording is not None:
            ended["records"] = {"file": str(recording.file.path), "rows": recording.file.rows}
        click.echo(json.dumps(ended))
        return
    shown = {name: value for name, value in counters.items() if value}
    click.echo("ended: " + (", ".join(f"{v:,} {k}" for k, v in shown.items()) or "no call came"))
    if recording is not None and recording.failed is None:
        click.echo(f"records: {recording.file.path} ({recording.file.rows:,} calls)")
