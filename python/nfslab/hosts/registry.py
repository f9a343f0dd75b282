"""Kinds of hosts by name: one line each, imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.plugins import load_plugin

if TYPE_CHECKING:
    from nfslab.hosts.base import Host

HOSTS: dict[str, str] = {
    "local": "nfslab.hosts.local:LocalHost",
    "namespace": "nfslab.hosts.namespace:NamespaceHost",
}


def host_class(kind: str) -> type[Host]:
    """The class of a kind of host; `UsageError` names the nearest known kind."""
    found: type[Host] = load_plugin(HOSTS, kind, what="host")
    return found
