"""ONC RPC v2 messages (RFC 5531), RPCSEC_GSS (RFC 2203), the probe of RPC-over-TLS (RFC 9289)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .xdr import opaque, u32

PORTMAP, NFS, MOUNT, NLM, NSM, NFSACL = 100000, 100003, 100005, 100021, 100024, 100227
CALLBACK = 0x40000000
AUTH_NONE, AUTH_SYS, RPCSEC_GSS, AUTH_TLS = 0, 1, 6, 7
GSS_DATA, GSS_INIT, GSS_DESTROY = 0, 1, 3
SVC_NONE, SVC_INTEGRITY, SVC_PRIVACY = 1, 2, 3
NO_VERIFIER = u32(AUTH_NONE, 0)


@dataclass(frozen=True)
class NoAuth:
    """AUTH_NONE."""

    user: int | None = None

    def credential(self, _sequence: int) -> bytes:
        return u32(AUTH_NONE, 0) + NO_VERIFIER

    def reply_verifier(self) -> bytes:
        return NO_VERIFIER

    def wrap(self, body: bytes, _sequence: int) -> bytes:
        return body


@dataclass(frozen=True)
class SysAuth(NoAuth):
    """AUTH_SYS: stamp, machine, uid, gid, groups (RFC 5531 appendix A)."""

    user: int | None = 1000
    machine: str = "client"
    groups: Sequence[int] = (4, 24)

    def credential(self, _sequence: int) -> bytes:
        body = u32(0x5EED) + opaque(self.machine) + u32(self.user or 0, 100)
        body += u32(len(self.groups), *self.groups)
        return u32(AUTH_SYS) + opaque(body) + NO_VERIFIER


@dataclass(frozen=True)
class GssAuth(NoAuth):
    """RPCSEC_GSS with a made-up context; checksums and ciphertext are arbitrary bytes."""

    service: int = SVC_NONE
    context: bytes = b"\x11\x22\x33\x44"
    procedure: int = GSS_DATA

    @property
    def hidden(self) -> bool:
        return self.service == SVC_PRIVACY and self.procedure == GSS_DATA

    def credential(self, sequence: int) -> bytes:
        body = u32(1, self.procedure, sequence, self.service) + opaque(self.context)
        checksum = opaque(bytes(range(28)))
        return u32(RPCSEC_GSS) + opaque(body) + u32(RPCSEC_GSS) + checksum

    def reply_verifier(self) -> bytes:
        return u32(RPCSEC_GSS) + opaque(bytes(range(100, 128)))

    def wrap(self, body: bytes, sequence: int) -> bytes:
        if self.procedure != GSS_DATA or self.service == SVC_NONE:
            return body
        inner = u32(sequence) + body
        if self.service == SVC_INTEGRITY:
            return opaque(inner) + opaque(bytes(range(28)))
        return opaque(bytes((byte * 7 + 13) & 255 for byte in inner) + bytes(16))


def call(
    xid: int, program: int, version: int, procedure: int, body: bytes, auth: NoAuth, sequence: int
) -> bytes:
    header = u32(xid, 0, 2, program, version, procedure) + auth.credential(sequence)
    return header + auth.wrap(body, sequence)


def reply(xid: int, body: bytes, auth: NoAuth, sequence: int) -> bytes:
    """An accepted, successful reply."""
    return u32(xid, 1, 0) + auth.reply_verifier() + u32(0) + auth.wrap(body, sequence)


def tls_probe(xid: int) -> bytes:
    return u32(xid, 0, 2, NFS, 4, 0, AUTH_TLS, 0) + NO_VERIFIER


def tls_grant(xid: int) -> bytes:
    return u32(xid, 1, 0, AUTH_NONE) + opaque(b"STARTTLS") + u32(0)


def marked(message: bytes) -> bytes:
    """A record of one fragment (RFC 5531 section 11)."""
    return u32(0x80000000 | len(message)) + message
