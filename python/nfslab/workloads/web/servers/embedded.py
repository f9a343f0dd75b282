"""The embedded server: alone, or as the application behind another one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from nfslab.hosts.base import LOOPBACK
from nfslab.workloads.web.processes import begin
from nfslab.workloads.web.servers.base import WebServing, let_in

if TYPE_CHECKING:
    from nfslab.workloads.base import RunContext
    from nfslab.workloads.web.processes import OurProcess
    from nfslab.workloads.web.servers.base import Served


class EmbeddedServing(WebServing):
    """`nfslab.workloads.web.serving`."""

    _running: OurProcess | None = None
    behind: bool = False
    """It makes the dynamic part for another server, which keeps the access log."""

    def start(self, context: RunContext, served: Served) -> None:
        """At any free port on the servers' side of the link; behind another server only for it."""
        p, link = self.parameters, context.client_host.link
        config: dict[str, Any] = {
            "listen": f"{LOOPBACK if self.behind else link.server}:0",
            "allow": [] if self.behind else let_in(link),
            # (Behind another server it is that one's user who connects.)
            "users": [] if self.behind else sorted({0, os.geteuid()}),
            "root": str(served.root),
            "post_log": str(served.post_log),
            "sync_posts": p.sync_posts,
            "workers": p.workers,
        }
        if p.access_log and not self.behind:
            config["access_log"] = str(served.access_log)
        if p.readers is not None:
            config["readers"] = p.readers
        if p.bandwidth is not None:
            config["bandwidth_bytes_per_s"] = p.bandwidth
        name = "application" if self.behind else "server"
        watcher = None if self.behind else context.services.server_watcher
        self._running = begin(
            context, context.server_host, "serving", name, config, watcher=watcher
        )
        self.processes, self.log = [self._running.process], self._running.log
        self.address = self._running.until("ready", context)["address"]

    def stop(self) -> dict[str, Any]:
        """What it counted."""
        running, self._running, self.processes = self._running, None, ()
        return {} if running is None else running.end()
