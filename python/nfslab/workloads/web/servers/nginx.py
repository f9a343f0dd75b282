"""nginx as it is packaged, in the foreground, with a configuration of its own.

The configuration is kept as logs/nginx.conf of the run; nginx reads a copy in a private folder that
holds its temporary files, too. What it says goes to logs/nginx.log. The dynamic part is made by the
embedded server behind it; replies of that one are never kept in files on the way.
"""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.databases.shared.deployment import short_private_folder
from nfslab.databases.shared.last_words import log_tail, told
from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability
from nfslab.machine.own_folders import answers, free_ports
from nfslab.machine.processes import send_signal
from nfslab.machine.users import unprivileged_user, write_private
from nfslab.workloads.web.servers.base import WebServing, let_in
from nfslab.workloads.web.servers.embedded import EmbeddedServing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.machine.resources import Entry
    from nfslab.machine.started import Process
    from nfslab.workloads.base import RunContext
    from nfslab.workloads.web.parameters import WebParameters
    from nfslab.workloads.web.servers.base import Served

PATHS: Final = ("/usr/sbin", "/usr/local/sbin", "/sbin")
"""Where a user's PATH may not lead."""
POLL_S: Final = 0.02
READY_LIMIT_S: Final = 60.0
STOP_LIMIT_S: Final = 10.0
SPARE_FILES: Final = 64
TEMPORARY: Final = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
PROBE_LIMIT_S: Final = 10.0
NAME_BYTES: Final = 16


def program() -> str | None:
    """Where nginx is."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *PATHS])
    return shutil.which("nginx", path=path)


class NginxServing(WebServing):
    """`nginx -c CONFIGURATION`."""

    def __init__(self, parameters: WebParameters) -> None:
        super().__init__(parameters)
        self._application = EmbeddedServing(parameters)
        self._application.behind = True
        self._process: Process | None = None
        self._folder: Entry | None = None

    @classmethod
    def available(cls) -> Availability:
        """Is it installed?"""
        if program() is not None:
            return Availability(True)
        return Availability(
            False,
            "nginx is not installed",
            'apt install nginx-light, or take server = "embedded", which needs nothing',
        )

    def start(self, context: RunContext, served: Served) -> None:
        """First the application, then nginx before it."""
        nginx = program()
        if nginx is None:
            raise RunFailed(self.available().reason, fix=self.available().fix)
        self._application.start(context, served)
        user = unprivileged_user()
        self._folder = short_private_folder(context.resources, "nginx", user)
        folder, address = self._folder.path, context.client_host.link.server
        (port,) = free_ports(address, 1)
        self.address, self.host = f"{address}:{port}", secrets.token_hex(NAME_BYTES)
        text = configuration(
            self.parameters, served, folder, self.address, self._application.address, self.host,
            without=_left_out(nginx), allow=let_in(context.client_host.link),
        )  # fmt: skip
        for path in (context.logs / "nginx.conf", folder / "nginx.conf"):
            write_private(path, text)
        if user is not None:
            os.chown(folder / "nginx.conf", user, -1)
        self.log = log = context.logs / "nginx.log"
        argv = [nginx, "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]
        context.commands.append(argv)
        self._process = context.server_host.spawn(
            argv, resources=context.resources, log=log, user=user, cwd=Path("/"),
            watcher=context.services.server_watcher,
            # What the kernel sends it when we die, too: a master that is killed leaves its workers,
            # whose environment (our token) nginx has overwritten with their titles.
            stop_signal=signal.SIGINT,
        )  # fmt: skip
        self.processes = [self._process, *self._application.processes]
        self._wait(context, self._process, address, port, log)

    def _wait(
        self, context: RunContext, process: Process, address: str, port: int, log: Path
    ) -> None:
        """Until it takes connections and its workers are there; RunFailed with its last lines."""
        waited_s = 0.0
        while True:
            if process.ended_within(POLL_S):
                raise RunFailed(
                    "nginx did not start",
                    why=told(log_tail(log)),
                    fix="see logs/nginx.conf of the run; another program may have taken the port "
                    "in between: then run it again",
                )
            if answers(address, port) and self._has_workers(process):
                return
            context.remaining_s()
            waited_s += POLL_S
            if waited_s > READY_LIMIT_S:
                raise RunFailed(
                    f"nginx took no connection within {READY_LIMIT_S:g} s",
                    why=told(log_tail(log)),
                    fix="see logs/nginx.conf of the run",
                )

    def stop(self) -> dict[str, Any]:
        """nginx first; what the application counted."""
        process, self._process = self._process, None
        if process is not None:
            if process.poll() is not None:
                self._end_orphans(process)
            process.stop(grace_s=STOP_LIMIT_S)
        self.processes = ()
        counters = self._application.stop()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.undo()
        return counters

    def _has_workers(self, master: Process) -> bool:
        """All of them: the port takes connections before they are there to answer."""
        members = sum(one.group == master.pid for one in self._statuses())
        return members > self.parameters.workers

    def _end_orphans(self, master: Process) -> None:
        """Workers of a master that was killed; as long as one lives, nobody else has its group."""
        for one in self._statuses():
            if one.group == master.pid and one.name == "nginx":
                send_signal(one.identity, signal.SIGKILL)


def _left_out(nginx: str) -> frozenset[str]:
    """Modules of `TEMPORARY` that this nginx was built without."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            [nginx, "-V"], capture_output=True, text=True, timeout=PROBE_LIMIT_S, check=False
        )
        return frozenset(
            name for name in TEMPORARY if f"--without-http_{name}_module" in done.stderr
        )
    return frozenset()


def configuration(
    p: WebParameters,
    served: Served,
    folder: Path,
    address: str,
    application: str,
    host: str,
    without: frozenset[str] = frozenset(),
    allow: Sequence[str] = (),
) -> str:
    """nginx.conf; `host`: the name that requests have; `allow`: who may connect, where not all may.

    Any user of this machine can connect. Requests without that name get no reply.
    """
    files = open_files(p)
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = files if hard == resource.RLIM_INFINITY else min(files, hard)

    def switch(value: bool | None, default: bool = True) -> str:
        return "on" if (default if value is None else value) else "off"

    cache = f"max={p.open_file_cache} inactive=60s" if p.open_file_cache else "off"
    temporary = [
        f"{name}_temp_path {_quoted(folder / name)};" for name in TEMPORARY if name not in without
    ]
    http = [
        "default_type application/octet-stream;",
        f"access_log {_quoted(served.access_log) + ' combined' if p.access_log else 'off'};",
        f"sendfile {switch(p.sendfile)};",
        f"aio {p.aio or 'off'};",
        f"directio {p.directio or 'off'};",
        f"open_file_cache {cache};",
        f"keepalive_timeout {'0' if p.keepalive is False else '75s'};",
        "keepalive_requests 1000000000;",
        "tcp_nopush on;",
        *temporary,
        f"upstream application {{ server {application}; keepalive 64; }}",
        f"server {{ listen {address} backlog=4096 default_server; return 444; }}",
        "server {",
        f"    listen {address};",
        f"    server_name {host};",
        *(f"    allow {client};" for client in allow),
        *(["    deny all;"] if allow else []),
        f"    root {_quoted(served.root)};",
        "    proxy_http_version 1.1;",
        '    proxy_set_header Connection "";',
        "    proxy_max_temp_file_size 0;",
        "    location / { }",
        "    location /dynamic/ { proxy_pass http://application; }",
        "    location = /post { proxy_pass http://application; }",
        "}",
    ]
    top = [
        "daemon off;",
        f"worker_processes {p.workers};",
        f"worker_rlimit_nofile {limit};",
        f"pid {_quoted(folder / 'nginx.pid')};",
        "error_log stderr warn;",
        f"events {{ worker_connections {files}; }}",
        "http {",
        *(f"    {line}" for line in http),
        "}",
    ]
    return "\n".join(top) + "\n"


def open_files(p: WebParameters) -> int:
    """Of one worker at most: each connection, its document, and one to the application."""
    return 3 * p.most_connections + (p.open_file_cache or 0) + SPARE_FILES


def _quoted(path: Path) -> str:
    """A path as a word of nginx.conf."""
    text = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
