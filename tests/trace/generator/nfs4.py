"""NFS version 4.0 (RFC 7530): COMPOUNDs made of operations, and the callbacks of every version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .body import Body, Node
from .nfs3 import payload
from .rpc import CALLBACK, NFS
from .xdr import array, bitmap, fixed, linked, opaque, u32, u64

NOENT, DELAY = 2, 10008
STATE = u32(1) + b"state-other!"
VERIFIER = b"verifier"
CHANGE_INFO = u32(1) + u64(10, 11)
CLIENT_ID = 0x1122334455667788


@dataclass(frozen=True)
class Op:
    """One operation of a COMPOUND: arguments, and results behind its status."""

    opcode: int
    name: str
    arguments: bytes = b""
    results: bytes = b""
    status: int = 0
    offset: int | None = None
    count: int | None = None
    bytes_read: int = 0
    bytes_written: int = 0


def attributes(node: Node, *, named: bool = False) -> bytes:
    """`fattr4`: type, change, size, file id; of directory entries also the handle."""
    bits = (1, 3, 4, 19, 20) if named else (1, 3, 4, 20)
    values = u32(node.kind) + u64(9, node.size)
    values += (opaque(node.handle) if named else b"") + u64(node.file_id)
    return bitmap(*bits) + opaque(values)


def compound(
    ops: Sequence[Op], named_by: str, *, minor: int = 0, node: Node | None = None,
    tag: bytes = b"", callback: bool = False,
) -> Body:  # fmt: skip
    """A COMPOUND whose reply ends at the first operation that failed."""
    done: list[Op] = []
    for op in ops:
        done.append(op)
        if op.status:
            break
    status = done[-1].status
    ident = u32(CALLBACK) if callback else b""
    arguments = opaque(tag) + u32(minor) + ident
    arguments += array(u32(op.opcode) + op.arguments for op in ops)
    failed = done[-1]
    results = u32(status) + opaque(tag) + array(
        u32(op.opcode, op.status) + (op.results if op is not failed or not status else b"")
        for op in done
    )  # fmt: skip
    main = next(op for op in ops if op.name == named_by)
    return Body(
        CALLBACK if callback else NFS, 1 if callback else 4, 1, named_by, arguments, results,
        status=status, handle=node.handle if node else None, path=node.path if node else None,
        offset=main.offset, count=main.count, operations=tuple(op.name for op in ops),
        bytes_read=sum(op.bytes_read for op in done if not op.status),
        bytes_written=sum(op.bytes_written for op in ops),
    )  # fmt: skip


def putfh(node: Node) -> Op:
    return Op(22, "PUTFH", opaque(node.handle))


PUTROOTFH = Op(24, "PUTROOTFH")
SAVEFH, RESTOREFH = Op(32, "SAVEFH"), Op(31, "RESTOREFH")


def getfh(node: Node) -> Op:
    return Op(10, "GETFH", b"", opaque(node.handle))


def getattr_(node: Node, status: int = 0) -> Op:
    return Op(9, "GETATTR", bitmap(1, 3, 4, 20), attributes(node), status)


def lookup(name: str, status: int = 0) -> Op:
    return Op(15, "LOOKUP", opaque(name), status=status)


def read(offset: int, count: int, got: int | None = None, status: int = 0) -> Op:
    got = count if got is None else got
    results = u32(int(got < count)) + opaque(payload(offset, got))
    arguments = STATE + u64(offset) + u32(count)
    return Op(25, "READ", arguments, results, status, offset, count, 0 if status else got)


def write(offset: int, count: int, stable: int = 0) -> Op:
    arguments = STATE + u64(offset) + u32(stable) + opaque(payload(offset, count))
    return Op(38, "WRITE", arguments, u32(count, stable) + VERIFIER, 0, offset, count, 0, count)


def commit(offset: int, count: int) -> Op:
    return Op(5, "COMMIT", u64(offset) + u32(count), VERIFIER, 0, offset, count)


def open_(name: str, *, create: bool = False, delegation: bool = False, node: Node) -> Op:
    owner = u64(CLIENT_ID) + opaque("open owner")
    how = u32(1, 0) + bitmap(33) + opaque(u32(0o644)) if create else u32(0)
    arguments = u32(1, 3, 0) + owner + how + u32(0) + opaque(name)
    given = u32(0)
    if delegation:  # read delegation: stateid, recall, permissions
        given = u32(1) + STATE + u32(0) + u32(0, 0, 1) + opaque("OWNER@")
    return Op(18, "OPEN", arguments, STATE + CHANGE_INFO + u32(2) + bitmap() + given)


def close() -> Op:
    return Op(4, "CLOSE", u32(2) + STATE, STATE)


def access() -> Op:
    return Op(3, "ACCESS", u32(0x3F), u32(0x3F, 0x1F))


def readdir(folder: Node) -> Op:
    entries = linked(
        u64(index + 2) + opaque(node.name) + attributes(node, named=True)
        for index, node in enumerate(folder.children, 1)
    )
    arguments = u64(0) + bytes(8) + u32(4096, 32768) + bitmap(1, 3, 4, 19, 20)
    return Op(26, "READDIR", arguments, VERIFIER + entries + u32(1))


def lock(offset: int, length: int) -> Op:
    owner = u32(1) + u32(3) + STATE + u32(0) + u64(CLIENT_ID) + opaque("lock owner")
    arguments = u32(2, 0) + u64(offset, length) + owner
    return Op(12, "LOCK", arguments, STATE, 0, offset, length)


def lockt(offset: int, length: int) -> Op:
    arguments = u32(2) + u64(offset, length) + u64(CLIENT_ID) + opaque("lock owner")
    return Op(13, "LOCKT", arguments, b"", 0, offset, length)


def locku(offset: int, length: int) -> Op:
    arguments = u32(2, 4) + STATE + u64(offset, length)
    return Op(14, "LOCKU", arguments, STATE, 0, offset, length)


def setattr_() -> Op:
    return Op(34, "SETATTR", STATE + bitmap(33) + opaque(u32(0o600)), bitmap(33))


def create(name: str) -> Op:
    """A directory."""
    arguments = u32(2) + opaque(name) + bitmap(33) + opaque(u32(0o755))
    return Op(6, "CREATE", arguments, CHANGE_INFO + bitmap(33))


def remove(name: str) -> Op:
    return Op(28, "REMOVE", opaque(name), CHANGE_INFO)


def rename(old: str, new: str) -> Op:
    return Op(29, "RENAME", opaque(old) + opaque(new), CHANGE_INFO * 2)


def link(name: str) -> Op:
    return Op(11, "LINK", opaque(name), CHANGE_INFO)


def setclientid() -> Op:
    callback = u32(CALLBACK) + opaque("tcp") + opaque("10.0.0.1.3.4")
    arguments = VERIFIER + opaque("client id string") + callback + u32(1)
    return Op(35, "SETCLIENTID", arguments, u64(CLIENT_ID) + VERIFIER)


def every(root: Node) -> list[Body]:
    """COMPOUNDs as clients of version 4.0 send them; the first ones show the paths."""
    folder = root.children[0]
    first, second, third = folder.children[:3]
    delegreturn, renew = Op(8, "DELEGRETURN", STATE), Op(30, "RENEW", u64(CLIENT_ID))
    confirm = Op(36, "SETCLIENTID_CONFIRM", u64(CLIENT_ID) + VERIFIER)
    flavours = array([u32(1)])
    downgrade = Op(21, "OPEN_DOWNGRADE", STATE + u32(5, 1, 0), STATE)
    null = Body(NFS, 4, 0, "NULL", b"", b"")

    def on(node: Node, *ops: Op, named_by: str) -> Body:
        return compound([putfh(node), *ops], named_by, node=node)

    looked = [PUTROOTFH, lookup("data"), getfh(folder), getattr_(folder)]
    return [
        null,
        compound([setclientid()], "SETCLIENTID"), compound([confirm], "SETCLIENTID_CONFIRM"),
        compound([PUTROOTFH, getfh(root), getattr_(root)], "GETATTR"),
        compound(looked, "LOOKUP", tag=b"lookup"),
        compound([putfh(folder), lookup(first.name), getfh(first), getattr_(first)], "LOOKUP"),
        compound([putfh(folder), lookup("gone", NOENT), getfh(first)], "LOOKUP"),
        compound(
            [putfh(folder), open_(second.name, node=second, create=True), getfh(second),
             getattr_(second)], "OPEN",
        ),
        on(second, Op(20, "OPEN_CONFIRM", STATE + u32(1), STATE), named_by="OPEN_CONFIRM"),
        on(second, read(0, 4096), getattr_(second), named_by="READ"),
        on(second, read(1 << 20, 4096, 100), named_by="READ"),
        on(second, read(0, 64, status=DELAY), named_by="READ"),
        on(second, write(8192, 4096), getattr_(second), named_by="WRITE"),
        on(second, commit(0, 0), getattr_(second), named_by="COMMIT"),
        on(second, lock(0, 512), named_by="LOCK"), on(second, lockt(5, 6), named_by="LOCKT"),
        on(second, locku(0, 512), named_by="LOCKU"),
        on(second, downgrade, named_by="OPEN_DOWNGRADE"),
        on(second, close(), getattr_(second), named_by="CLOSE"),
        on(second, delegreturn, named_by="DELEGRETURN"),
        on(first, access(), getattr_(first), named_by="ACCESS"),
        on(first, getattr_(first), named_by="GETATTR"),
        on(first, setattr_(), getattr_(first), named_by="SETATTR"),
        compound([putfh(folder), readdir(folder)], "READDIR"),
        compound([putfh(first), Op(27, "READLINK", b"", opaque("/elsewhere"))], "READLINK"),
        compound([putfh(folder), create("made"), getfh(third)], "CREATE"),
        compound([putfh(folder), remove("made")], "REMOVE"),
        compound([putfh(folder), SAVEFH, putfh(folder), rename("a", "b")], "RENAME"),
        compound([putfh(third), SAVEFH, putfh(folder), link("other"), RESTOREFH], "LINK"),
        compound([putfh(folder), Op(33, "SECINFO", opaque("made"), flavours)], "SECINFO"),
        compound([putfh(first), Op(37, "VERIFY", attributes(first))], "VERIFY"),
        compound([putfh(first), Op(17, "NVERIFY", attributes(first))], "NVERIFY"),
        compound([putfh(folder), Op(16, "LOOKUPP")], "LOOKUPP"),
        compound([renew], "RENEW"),
    ]  # fmt: skip


def callbacks(node: Node, session: bytes | None = None, sequence: int = 1) -> list[Body]:
    """CB_NULL, CB_RECALL, CB_GETATTR; with a session each behind CB_SEQUENCE."""
    front: list[Op] = []
    if session is not None:
        words = fixed(session) + u32(sequence, 0, 0)
        front = [Op(11, "CB_SEQUENCE", words + u32(0) + array([]), words + u32(0))]
    recall = Op(4, "CB_RECALL", STATE + u32(0) + opaque(node.handle))
    asked = Op(3, "CB_GETATTR", opaque(node.handle) + bitmap(3, 4), bitmap(4) + opaque(u64(5)))
    minor = 0 if session is None else 1
    return [
        Body(CALLBACK, 1, 0, "CB_NULL", b"", b""),
        compound([*front, recall], "CB_RECALL", minor=minor, callback=True),
        compound([*front, asked], "CB_GETATTR", minor=minor, callback=True),
    ]
