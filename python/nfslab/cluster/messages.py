"""Dask's TLS connections, held to plain data: one msgpack frame a message, nothing unpickled.

`distributed` unpickles what a peer marks as pickled, whatever deserialisers are asked for (its
`protocol.loads`): a hostile worker could run code in whoever reads from it. Here a message is read
by rules of our own: one frame of a bounded size, of numbers, text, bytes, lists, maps and sets.
What is anything else ends the connection. What is sent looks as Dask's own.

The peer's certificate says its role, and who dials refuses those whom it did not mean to reach.
"""

from __future__ import annotations

import ssl
import struct
from typing import Any, Final

import msgpack
from distributed.comm import registry
from distributed.comm.core import CommClosedError, FatalCommClosedError
from distributed.comm.tcp import TLS, TLSBackend, TLSConnector, TLSListener
from distributed.protocol.utils import unpack_frames
from tornado.iostream import StreamClosedError

from nfslab.cluster.certificates import Peer, peer_of

MESSAGE_BYTES_MAX: Final = 16 << 20
"""Of one message: lines and folders travel in pieces that are far smaller."""
DEPTH_MARKS: Final = ("__Pickled__", "__Serialized__", "__Enum__")
"""By which Dask's protocol names objects to be made."""
SIZE: Final = struct.Struct("Q")


class Refused(CommClosedError):  # type: ignore[misc]
    """A message that is no plain data, or a peer that is not whom we meant."""


def plain(packed: bytes | memoryview) -> Any:
    """The message in what follows its length; Refused."""
    try:
        frames, following = unpack_frames(packed, partial=True)
        if following or len(frames) != 1:
            raise Refused("a message of more than one frame: only plain data is accepted")
        return msgpack.loads(frames[0], object_hook=_plain_map, use_list=False, **LIMITS)
    except Refused:
        raise
    except Exception as error:  # bytes of a peer: whatever they do to the reader
        raise Refused(f"a message that cannot be read: {type(error).__name__}") from error


LIMITS: Final[dict[str, Any]] = {"raw": False, "strict_map_key": False}


def _plain_map(found: dict[Any, Any]) -> Any:
    for mark in DEPTH_MARKS:
        if mark in found:
            raise Refused(f"a message that holds {mark}: only plain data is accepted")
    if "__Set__" in found:
        return set(found["as-list"])
    return found


class PlainTLS(TLS):  # type: ignore[misc]
    """One connection."""

    async def read(self, deserializers: Any = None) -> Any:
        """The next message."""
        if (stream := self.stream) is None:
            raise CommClosedError("the connection is closed")
        try:
            (size,) = SIZE.unpack(await stream.read_bytes(SIZE.size))
            if size > MESSAGE_BYTES_MAX:
                raise Refused(f"a message of {size} bytes")
            return plain(await stream.read_bytes(size))
        except (StreamClosedError, ssl.SSLError) as error:
            self.abort()
            raise CommClosedError(str(error)) from error
        except BaseException:
            # What was read of the message already is not known.
            self.abort()
            raise

    @property
    def peer(self) -> Peer:
        """Who is at the other end."""
        return peer_of(self.extra_info.get("peercert"))


class PlainConnector(TLSConnector):  # type: ignore[misc]
    """Dials those of a role alone."""

    comm_class = PlainTLS

    def __init__(self, role: str) -> None:
        self._role = role

    async def connect(self, address: str, deserialize: bool = True, **arguments: Any) -> PlainTLS:
        """FatalCommClosedError (Dask does not try again): somebody else is there."""
        comm: PlainTLS = await super().connect(address, deserialize, **arguments)
        if comm.peer.role != self._role:
            comm.abort()
            raise FatalCommClosedError(
                f"at {address} is the cluster's {comm.peer.role or 'nobody'}, no {self._role}"
            )
        return comm


class PlainListener(TLSListener):  # type: ignore[misc]
    """Accepts who has a certificate of the cluster."""

    comm_class = PlainTLS


class PlainBackend(TLSBackend):  # type: ignore[misc]
    """For a process that listens, and dials one role."""

    _listener_class = PlainListener

    def __init__(self, dialled: str) -> None:
        self._dialled = dialled

    def get_connector(self) -> PlainConnector:
        """See `Backend`."""
        return PlainConnector(self._dialled)


def hold_to_plain_data(dialled: str) -> None:
    """All TLS of this process (a scheduler, a worker), and no connection without it."""
    registry.backends.clear()
    registry.backends["tls"] = PlainBackend(dialled)


def peer_of_comm(comm: Any) -> Peer:
    """Who is at the other end of a connection of Dask's."""
    return comm.peer if isinstance(comm, PlainTLS) else Peer("", "")
