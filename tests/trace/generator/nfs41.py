"""NFS versions 4.1 (RFC 8881) and 4.2 (RFC 7862, 8276): sessions, slots and the new operations."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import nfs4
from .body import Body, Node
from .nfs3 import payload
from .nfs4 import CLIENT_ID, STATE, VERIFIER, Op, compound, putfh
from .xdr import array, bitmap, opaque, u32, u64

SESSION = bytes(range(16))
CHANNEL = u32(0, 1 << 20, 1 << 20, 4096, 16, 8, 0)


@dataclass
class Session:
    """Slots with their sequence numbers, taken in turn."""

    minor: int = 1
    slots: int = 8
    used: int = 0
    numbers: dict[int, int] = field(default_factory=dict)

    def sequence(self) -> Op:
        slot = self.used % self.slots
        self.used += 1
        self.numbers[slot] = self.numbers.get(slot, 0) + 1
        words = SESSION + u32(self.numbers[slot], slot, self.slots - 1)
        return Op(53, "SEQUENCE", words + u32(0), words + u32(self.slots - 1, 0))

    def compound(self, *ops: Op, named_by: str, node: Node | None = None) -> Body:
        return compound([self.sequence(), *ops], named_by, minor=self.minor, node=node)

    def on(self, node: Node, *ops: Op, named_by: str) -> Body:
        return self.compound(putfh(node), *ops, named_by=named_by, node=node)


def exchange_id() -> Op:
    implementation = opaque("example.org") + opaque("synthetic") + u64(0) + u32(0)
    owner = VERIFIER + opaque("owner of the client")
    results = u64(CLIENT_ID) + u32(1, 0x10000, 0) + u64(0) + opaque("server") + opaque("scope")
    return Op(
        42, "EXCHANGE_ID", owner + u32(0x101, 0) + array([implementation]), results + array([])
    )


def create_session() -> Op:
    arguments = u64(CLIENT_ID) + u32(1, 2) + CHANNEL * 2 + u32(0x40000000) + array([u32(0)])
    return Op(43, "CREATE_SESSION", arguments, SESSION + u32(1, 2) + CHANNEL * 2)


def layoutget() -> Op:
    arguments = u32(0, 1, 1) + u64(0, 1 << 20, 4096) + STATE + u32(4096)
    layout = u64(0, 1 << 20) + u32(1, 1) + opaque(bytes(40))
    return Op(50, "LAYOUTGET", arguments, u32(1) + STATE + array([layout]))


def read_plus(offset: int, *parts: tuple[int, int]) -> Op:
    """Data and a hole, in bytes, as often as there are parts."""
    segments, at = [], offset
    for data_bytes, hole_bytes in parts:
        segments += [
            u32(0) + u64(at) + opaque(payload(at, data_bytes)),
            u32(1) + u64(at + data_bytes, hole_bytes),
        ]
        at += data_bytes + hole_bytes
    data_bytes = sum(part[0] for part in parts)
    arguments = STATE + u64(offset) + u32(at - offset)
    results = u32(0) + array(segments)
    return Op(68, "READ_PLUS", arguments, results, 0, offset, at - offset, data_bytes)


def sessions(root: Node) -> list[Body]:
    """What a client of version 4.1 sends from its first call to its last."""
    session = Session()
    folder = root.children[0]
    first, second = folder.children[:2]
    flavours = array([u32(1)])
    on, plain = session.on, session.compound
    address = u32(1) + opaque(bytes(24)) + bitmap()
    device = Op(47, "GETDEVICEINFO", bytes(16) + u32(1, 4096) + bitmap(), address)
    layoutreturn = Op(
        51, "LAYOUTRETURN", u32(0, 1, 1, 1) + u64(0, 1 << 20) + STATE + opaque(b""), u32(1) + STATE
    )
    bind = Op(41, "BIND_CONN_TO_SESSION", SESSION + u32(3, 0), SESSION + u32(3, 0))
    return [
        compound([exchange_id()], "EXCHANGE_ID", minor=1),
        compound([create_session()], "CREATE_SESSION", minor=1),
        plain(Op(58, "RECLAIM_COMPLETE", u32(0)), named_by="RECLAIM_COMPLETE"),
        plain(nfs4.PUTROOTFH, Op(52, "SECINFO_NO_NAME", u32(0), flavours),
              named_by="SECINFO_NO_NAME"),
        plain(nfs4.PUTROOTFH, nfs4.getfh(root), nfs4.getattr_(root), named_by="GETATTR"),
        plain(nfs4.PUTROOTFH, nfs4.lookup("data"), nfs4.getfh(folder), nfs4.getattr_(folder),
              named_by="LOOKUP"),
        plain(putfh(folder), nfs4.open_(first.name, node=first, delegation=True),
              nfs4.getfh(first), nfs4.access(), nfs4.getattr_(first), named_by="OPEN"),
        plain(putfh(folder), nfs4.lookup(second.name), nfs4.getfh(second),
              nfs4.getattr_(second), named_by="LOOKUP"),
        on(first, nfs4.read(4096, 8192), named_by="READ"),
        on(first, nfs4.write(0, 8192), nfs4.getattr_(first), named_by="WRITE"),
        on(first, nfs4.commit(0, 8192), named_by="COMMIT"),
        on(first, layoutget(), named_by="LAYOUTGET"), plain(device, named_by="GETDEVICEINFO"),
        on(first, layoutreturn, named_by="LAYOUTRETURN"),
        on(first, nfs4.close(), named_by="CLOSE"),
        plain(Op(55, "TEST_STATEID", array([STATE, STATE]), array([u32(0), u32(0)])),
              named_by="TEST_STATEID"),
        plain(Op(45, "FREE_STATEID", STATE), named_by="FREE_STATEID"),
        plain(named_by="SEQUENCE"),
        compound([bind], "BIND_CONN_TO_SESSION", minor=1),
        compound([Op(44, "DESTROY_SESSION", SESSION)], "DESTROY_SESSION", minor=1),
        compound([Op(57, "DESTROY_CLIENTID", u64(CLIENT_ID))], "DESTROY_CLIENTID", minor=1),
    ]  # fmt: skip


def extensions(root: Node) -> list[Body]:
    """The operations of version 4.2; two LOOKUPs in front show the path."""
    session = Session(minor=2)
    folder = root.children[0]
    node = folder.children[0]
    on = session.on
    written = array([]) + u64(4096) + u32(2) + VERIFIER
    advice = STATE + u64(0, 4096) + bitmap(1)
    moved = STATE * 2 + u64(0, 8192, 4096)
    pattern = u64(0, 512, 8, 0) + u32(0) + u64(0) + opaque(b"pattern!")
    names = array([opaque("user.a"), opaque("user.b")])
    attribute = opaque("user.a")
    return [
        session.compound(nfs4.PUTROOTFH, nfs4.lookup("data"), nfs4.getfh(folder),
                         named_by="LOOKUP"),
        session.compound(putfh(folder), nfs4.lookup(node.name), nfs4.getfh(node),
                         named_by="LOOKUP"),
        on(node, read_plus(0, (8192, 4096)), named_by="READ_PLUS"),
        on(node, Op(59, "ALLOCATE", STATE + u64(0, 65536), b"", 0, 0, 65536), named_by="ALLOCATE"),
        on(node, Op(62, "DEALLOCATE", STATE + u64(512, 4096), b"", 0, 512, 4096),
           named_by="DEALLOCATE"),
        on(node, Op(69, "SEEK", STATE + u64(0) + u32(1), u32(0) + u64(8192), 0, 0),
           named_by="SEEK"),
        session.compound(putfh(node), nfs4.SAVEFH, putfh(folder.children[1]),
                         Op(60, "COPY", moved + u32(1, 1) + array([]), written + u32(1, 1)),
                         named_by="COPY"),
        session.compound(putfh(node), nfs4.SAVEFH, putfh(folder.children[1]),
                         Op(71, "CLONE", moved), named_by="CLONE"),
        on(node, Op(63, "IO_ADVISE", advice, bitmap(1)), named_by="IO_ADVISE"),
        on(node, Op(67, "OFFLOAD_STATUS", STATE, u64(4096) + array([u32(0)])),
           named_by="OFFLOAD_STATUS"),
        on(node, Op(66, "OFFLOAD_CANCEL", STATE), named_by="OFFLOAD_CANCEL"),
        on(node, Op(70, "WRITE_SAME", STATE + u32(2) + pattern, written), named_by="WRITE_SAME"),
        on(node, Op(72, "GETXATTR", attribute, opaque("value")), named_by="GETXATTR"),
        on(node, Op(73, "SETXATTR", u32(0) + attribute + opaque("value"), nfs4.CHANGE_INFO),
           named_by="SETXATTR"),
        on(node, Op(74, "LISTXATTRS", u64(0) + u32(4096), u64(2) + names + u32(1)),
           named_by="LISTXATTRS"),
        on(node, Op(75, "REMOVEXATTR", attribute, nfs4.CHANGE_INFO), named_by="REMOVEXATTR"),
    ]  # fmt: skip
