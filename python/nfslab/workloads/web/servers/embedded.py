"""The embedded server: alone, or as the application behind another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nfslab.workloads.web.processes import begin
from nfslab.workloads.web.servers.base import WebServing

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
        """On the servers' side of the link, at any free port."""
        p = self.parameters
        config: dict[str, Any] = {
            "listen": f"{context.client_host.link.server}:0",
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
        self.processes = [self._running.process]
        self.address = self._running.until("ready", context)["address"]

    def stop(self) -> dict[str, Any]:
        """What it counted."""
        running, self._running, self.processes = self._running, None, ()
        return {} if running is None else running.end()
