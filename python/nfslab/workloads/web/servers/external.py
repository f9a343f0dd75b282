"""A server that runs already, with the documents and the application: http://host:port."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from nfslab.errors import RunFailed
from nfslab.workloads.web.servers.base import WebServing

if TYPE_CHECKING:
    from nfslab.workloads.base import RunContext
    from nfslab.workloads.web.servers.base import Served


class ExternalServing(WebServing):
    """Somebody else's."""

    records_posts = False

    def start(self, context: RunContext, served: Served) -> None:
        """Its address; whether it answers is seen by the load."""
        parts = urlsplit(self.parameters.server)
        assert parts.hostname is not None
        try:
            found = socket.getaddrinfo(parts.hostname, parts.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise RunFailed(
                f"{parts.hostname} has no address",
                why=error.strerror or str(error),
                fix="correct workload.server",
            ) from error
        numeric = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
        name, port = socket.getnameinfo(found[0][4], numeric)
        if ipaddress.ip_address(name).is_loopback and not context.client_host.link.is_loopback:
            raise RunFailed(
                f"{self.parameters.server} is another server on the client's host",
                why=f"{name} is each host's own loopback: nobody named what is there",
                fix="name workload.server as the client's host sees it",
            )
        self.address = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
        context.notes.append(
            f"{self.parameters.server} ran already: its settings, its processor time and its log "
            "of POSTs are not known"
        )

    def stop(self) -> dict[str, Any]:
        """It stays."""
        return {}
