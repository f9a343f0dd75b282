"""Kinds of NFS servers by name: one line each, imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.plugins import load_plugin

if TYPE_CHECKING:
    from nfslab.servers.base import Server

SERVERS: dict[str, str] = {
    "embedded": "nfslab.servers.embedded:EmbeddedNfsServer",
    "external": "nfslab.servers.external:ExternalServer",
    "ganesha": "nfslab.servers.ganesha:GaneshaServer",
    "knfsd": "nfslab.servers.knfsd:KernelServer",
}


def server_class(kind: str) -> type[Server]:
    """The class of a kind of server; `UsageError` names the nearest known kind."""
    found: type[Server] = load_plugin(SERVERS, kind, what="server")
    return found


def server_kind(text: str) -> str:
    """The kind that `server = text` means: its name, or HOST:/EXPORT of one that is there."""
    return "external" if ":/" in text else text
