"""The same calls at the other end of the wire: captured where the server is, as a table alone.

Beside a capture with all calls on the client's host it tells what lies between the two: the kind
`wire` joins them, call by call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, cast

from nfslab.captures import tool as tools
from nfslab.captures.places import Server, interface_of, server_at
from nfslab.evidence.capture.collector import CaptureParameters, View, begun
from nfslab.evidence.collector import Collector, CollectorParameters, Side
from nfslab.machine.availability import Availability

if TYPE_CHECKING:
    import pyarrow as pa

    from nfslab.captures.analysis import CaptureAnalysis
    from nfslab.evidence.capture.collector import Tables
    from nfslab.workloads.base import RunContext

SERVED: Final = "capture_server_calls"


class ServerCaptureCollector(Collector):
    """NFS calls from the packets on the wire, at the server."""

    kind: ClassVar[str] = "capture_server"
    summary: ClassVar[str] = "the same calls on the server's host: what lies between both"
    Parameters: ClassVar[type[CollectorParameters]] = CaptureParameters
    side: ClassVar[Side] = "server"

    def __init__(self, parameters: CollectorParameters) -> None:
        super().__init__(parameters)
        self._p = cast("CaptureParameters", parameters)

    @classmethod
    def available(cls) -> Availability:
        """Is there a tool, and may this user capture?"""
        return tools.available("auto")

    def applies(self, context: RunContext) -> Availability:
        """Is there a server of the run on this host?"""
        if not _servers(context):
            return Availability(
                False,
                "no server of this run is on the servers' host",
                'give a target server = "embedded", "ganesha" or "knfsd"',
            )
        return tools.available(self._p.tool)

    def start(self, context: RunContext) -> None:
        """Start the tool and wait until it captures; RunFailed when it cannot."""
        servers = _servers(context)
        with context.server_host.entered():
            found = {self._p.interface or interface_of(one.address) for one in servers}
        interface = found.pop() if len(found) == 1 else tools.EVERY_INTERFACE
        view = View(context.server_host, interface, servers, calls=True, name=self.kind)
        self._watch = begun(context, self._p, view, self._stored)

    @staticmethod
    def _stored(_capture: CaptureAnalysis, _zero_ns: int, calls: pa.Table | None) -> Tables:
        return {} if calls is None else {SERVED: calls}


def _servers(context: RunContext) -> list[Server]:
    """Those of the run, by what is told to those who use them."""
    return [server_at(*served) for served in context.services.nfs_served]
