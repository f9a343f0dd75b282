"""Web servers by name; any other name is the address of one that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.workloads.web.servers.embedded import EmbeddedServing
from nfslab.workloads.web.servers.external import ExternalServing
from nfslab.workloads.web.servers.nginx import NginxServing

if TYPE_CHECKING:
    from nfslab.workloads.web.servers.base import WebServing

SERVERS: dict[str, type[WebServing]] = {"embedded": EmbeddedServing, "nginx": NginxServing}


def serving_class(server: str) -> type[WebServing]:
    """Of `workload.server`."""
    return SERVERS.get(server, ExternalServing)
