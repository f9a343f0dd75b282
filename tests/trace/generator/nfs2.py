"""NFS version 2 (RFC 1094): all 18 procedures."""

from __future__ import annotations

from .body import Body, Node
from .nfs3 import payload
from .rpc import NFS
from .xdr import linked, opaque, u32

NOENT = 2


def attributes(node: Node) -> bytes:
    """`fattr`: 17 words."""
    mode = 0o040755 if node.kind == 2 else 0o100644
    return u32(
        node.kind, mode, 1, 1000, 100, node.size, 4096, 0, node.size // 512, 77, node.file_id,
        1_700_000_000, 1, 1_700_000_000, 2, 1_700_000_000, 3,
    )  # fmt: skip


SATTR = u32(0o644, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, *[0xFFFFFFFF] * 4)


def body(procedure: int, operation: str, arguments: bytes, results: bytes, **truth: object) -> Body:
    values = {"status": 0, **truth}
    return Body(NFS, 2, procedure, operation, arguments, results, **values)  # type: ignore[arg-type]


def getattr_(node: Node, status: int = 0) -> Body:
    results = u32(status) + (attributes(node) if status == 0 else b"")
    truth = {"status": status, "handle": node.handle, "path": node.path}
    return body(1, "GETATTR", node.handle, results, **truth)


def lookup(directory: Node, node: Node, status: int = 0) -> Body:
    results = u32(status) + (node.handle + attributes(node) if status == 0 else b"")
    return body(4, "LOOKUP", directory.handle + opaque(node.name), results, status=status)


def read(node: Node, offset: int, count: int) -> Body:
    results = u32(0) + attributes(node) + opaque(payload(offset, count))
    return body(
        6, "READ", node.handle + u32(offset, count, count), results,
        handle=node.handle, path=node.path, offset=offset, count=count, bytes_read=count,
    )  # fmt: skip


def write(node: Node, offset: int, count: int) -> Body:
    arguments = node.handle + u32(0, offset, count) + opaque(payload(offset, count))
    return body(
        8, "WRITE", arguments, u32(0) + attributes(node),
        handle=node.handle, path=node.path, offset=offset, count=count, bytes_written=count,
    )  # fmt: skip


def every(root: Node) -> list[Body]:
    """Each procedure once, and an error."""
    folder = root.children[0]
    first, second, third = folder.children[:3]
    at = folder.handle + opaque(second.name)
    diropres = u32(0) + second.handle + attributes(second)
    entries = linked(
        u32(node.file_id) + opaque(node.name) + u32(index)
        for index, node in enumerate(folder.children, 1)
    )
    attrstat = u32(0) + attributes(first)
    touched = {"handle": first.handle, "path": first.path}
    return [
        body(0, "NULL", b"", b"", status=None),
        lookup(root, folder), lookup(folder, first), lookup(folder, second, NOENT),
        getattr_(first), getattr_(first, NOENT),
        body(2, "SETATTR", first.handle + SATTR, attrstat, **touched),
        body(3, "ROOT", b"", b"", status=None),
        body(5, "READLINK", first.handle, u32(0) + opaque("/elsewhere")),
        read(first, 0, 4096), read(first, 8191, 3),
        body(7, "WRITECACHE", b"", b"", status=None),
        write(first, 512, 4096),
        body(9, "CREATE", at + SATTR, diropres),
        body(10, "REMOVE", at, u32(0)),
        body(11, "RENAME", at + folder.handle + opaque("renamed"), u32(0)),
        body(12, "LINK", third.handle + folder.handle + opaque("second"), u32(0)),
        body(13, "SYMLINK", at + opaque("/target") + SATTR, u32(0)),
        body(14, "MKDIR", at + SATTR, diropres),
        body(15, "RMDIR", at, u32(0)),
        body(16, "READDIR", folder.handle + u32(0, 4096), u32(0) + entries + u32(1)),
        body(17, "STATFS", root.handle, u32(0, 8192, 4096, 10**6, 10**5, 10**5)),
    ]  # fmt: skip
