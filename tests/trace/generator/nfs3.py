"""NFS version 3 (RFC 1813): all 22 procedures."""

from __future__ import annotations

from collections.abc import Callable

from .body import Body, Node
from .rpc import NFS
from .xdr import linked, opaque, u32, u64

#: Status used for failures here, and its number.
NOENT, IO, JUKEBOX = 2, 5, 10008
VERIFIER = b"\x01\x02\x03\x04\x05\x06\x07\x08"
TIME = u32(1_700_000_000, 123_456_789)


def attributes(node: Node) -> bytes:
    """`fattr3`."""
    mode = 0o755 if node.kind == 2 else 0o644
    return (
        u32(node.kind, mode, 1, 1000, 100)
        + u64(node.size, node.size)
        + u32(0, 0)
        + u64(77, node.file_id)
        + TIME * 3
    )


def post(node: Node | None) -> bytes:
    """`post_op_attr`."""
    return u32(0) if node is None else u32(1) + attributes(node)


def wcc(node: Node | None) -> bytes:
    """`wcc_data` with sizes before and attributes after."""
    if node is None:
        return u32(0, 0)
    return u32(1) + u64(node.size) + TIME * 2 + post(node)


def handle(node: Node) -> bytes:
    return opaque(node.handle)


def sattr() -> bytes:
    """`sattr3` that sets the mode alone."""
    return u32(1, 0o640, 0, 0, 0, 0, 0)


def made(node: Node, directory: Node) -> bytes:
    """What CREATE, MKDIR, SYMLINK, MKNOD give back."""
    return u32(1) + handle(node) + post(node) + wcc(directory)


def body(procedure: int, operation: str, arguments: bytes, results: bytes, **truth: object) -> Body:
    values = {"status": 0, **truth}
    return Body(NFS, 3, procedure, operation, arguments, results, **values)  # type: ignore[arg-type]


def null() -> Body:
    return body(0, "NULL", b"", b"", status=None)


def getattr_(node: Node, status: int = 0) -> Body:
    results = u32(status) + (attributes(node) if status == 0 else b"")
    truth = {"status": status, "handle": node.handle, "path": node.path}
    return body(1, "GETATTR", handle(node), results, **truth)


def setattr_(node: Node) -> Body:
    truth = {"handle": node.handle, "path": node.path}
    return body(2, "SETATTR", handle(node) + sattr() + u32(0), u32(0) + wcc(node), **truth)


def lookup(directory: Node, node: Node, status: int = 0) -> Body:
    arguments = handle(directory) + opaque(node.name)
    results = u32(status)
    results += handle(node) + post(node) + post(directory) if status == 0 else post(directory)
    return body(3, "LOOKUP", arguments, results, status=status)


def access(node: Node) -> Body:
    truth = {"handle": node.handle, "path": node.path}
    return body(4, "ACCESS", handle(node) + u32(0x3F), u32(0) + post(node) + u32(0x1F), **truth)


def readlink(node: Node) -> Body:
    return body(5, "READLINK", handle(node), u32(0) + post(node) + opaque("/elsewhere"))


def read(node: Node, offset: int, count: int, got: int | None = None, status: int = 0) -> Body:
    got = count if got is None else got
    arguments = handle(node) + u64(offset) + u32(count)
    results = u32(status) + post(node)
    if status == 0:
        results += u32(got, int(offset + got >= node.size)) + opaque(payload(offset, got))
    return body(
        6, "READ", arguments, results, status=status, handle=node.handle, path=node.path,
        offset=offset, count=count, bytes_read=got if status == 0 else 0,
    )  # fmt: skip


def write(node: Node, offset: int, count: int, stable: int = 0, status: int = 0) -> Body:
    data = payload(offset, count)
    arguments = handle(node) + u64(offset) + u32(count, stable) + opaque(data)
    results = u32(status) + wcc(node)
    if status == 0:
        results += u32(count, stable) + VERIFIER
    return body(
        7, "WRITE", arguments, results, status=status, handle=node.handle, path=node.path,
        offset=offset, count=count, bytes_written=count,
    )  # fmt: skip


PATTERN = bytes(range(64, 64 + 151))


def payload(offset: int, count: int) -> bytes:
    """File content that never looks like RPC: no byte below 64."""
    start = offset % 151
    return (PATTERN * ((start + count) // 151 + 1))[start : start + count]


def create(directory: Node, node: Node, exclusive: bool = False) -> Body:
    how = u32(2) + VERIFIER if exclusive else u32(0) + sattr()
    arguments = handle(directory) + opaque(node.name) + how
    return body(8, "CREATE", arguments, u32(0) + made(node, directory))


def mkdir(directory: Node, node: Node) -> Body:
    arguments = handle(directory) + opaque(node.name) + sattr()
    return body(9, "MKDIR", arguments, u32(0) + made(node, directory))


def symlink(directory: Node, node: Node) -> Body:
    arguments = handle(directory) + opaque(node.name) + sattr() + opaque("target/of/link")
    return body(10, "SYMLINK", arguments, u32(0) + made(node, directory))


def mknod(directory: Node, node: Node) -> Body:
    arguments = handle(directory) + opaque(node.name) + u32(7) + sattr()
    return body(11, "MKNOD", arguments, u32(0) + made(node, directory))


def remove(directory: Node, node: Node) -> Body:
    arguments = handle(directory) + opaque(node.name)
    return body(12, "REMOVE", arguments, u32(0) + wcc(directory))


def rmdir(directory: Node, node: Node) -> Body:
    arguments = handle(directory) + opaque(node.name)
    return body(13, "RMDIR", arguments, u32(0) + wcc(directory))


def rename(directory: Node, node: Node, name: str = "renamed") -> Body:
    arguments = handle(directory) + opaque(node.name) + handle(directory) + opaque(name)
    return body(14, "RENAME", arguments, u32(0) + wcc(directory) * 2)


def link(directory: Node, node: Node) -> Body:
    arguments = handle(node) + handle(directory) + opaque("second")
    return body(15, "LINK", arguments, u32(0) + post(node) + wcc(directory))


def readdir(directory: Node) -> Body:
    arguments = handle(directory) + u64(0) + VERIFIER + u32(8192)
    entries = linked(
        u64(node.file_id) + opaque(node.name) + u64(index)
        for index, node in enumerate(directory.children, 1)
    )
    results = u32(0) + post(directory) + VERIFIER + entries + u32(1)
    return body(16, "READDIR", arguments, results)


def readdirplus(directory: Node) -> Body:
    arguments = handle(directory) + u64(0) + VERIFIER + u32(1024, 8192)
    entries = linked(
        u64(node.file_id) + opaque(node.name) + u64(index) + post(node) + u32(1) + handle(node)
        for index, node in enumerate(directory.children, 1)
    )
    results = u32(0) + post(directory) + VERIFIER + entries + u32(1)
    return body(17, "READDIRPLUS", arguments, results)


def fsstat(root: Node) -> Body:
    results = u32(0) + post(root) + u64(1 << 40, 1 << 39, 1 << 39, 1000, 900, 900) + u32(0)
    return body(18, "FSSTAT", handle(root), results)


def fsinfo(root: Node) -> Body:
    sizes = u32(1 << 20, 1 << 20, 4096, 1 << 20, 1 << 20, 4096, 4096)
    results = u32(0) + post(root) + sizes + u64((1 << 63) - 1) + u32(0, 1, 0x1B)
    return body(19, "FSINFO", handle(root), results)


def pathconf(root: Node) -> Body:
    return body(20, "PATHCONF", handle(root), u32(0) + post(root) + u32(32000, 255, 1, 1, 0, 1))


def commit(node: Node, offset: int = 0, count: int = 0) -> Body:
    arguments = handle(node) + u64(offset) + u32(count)
    return body(
        21, "COMMIT", arguments, u32(0) + wcc(node) + VERIFIER,
        handle=node.handle, path=node.path, offset=offset, count=count,
    )  # fmt: skip


def every(root: Node) -> list[Body]:
    """Each procedure at least once, errors among them."""
    folder = root.children[0]
    first, second, third = folder.children[:3]
    in_folder: list[Callable[[Node, Node], Body]] = [create, mkdir, symlink, mknod, remove, rmdir]
    return [
        null(), fsinfo(root), pathconf(root), fsstat(root), lookup(root, folder),
        lookup(folder, first), lookup(folder, second), lookup(folder, second, NOENT),
        getattr_(first), getattr_(first, IO), setattr_(first), access(first), readlink(first),
        read(first, 0, 4096), read(first, 4095, 1), read(first, 1 << 33, 512, 0),
        read(first, 0, 100, status=IO), write(first, 8192, 8192), write(first, 3, 5, stable=2),
        write(first, 0, 64, status=JUKEBOX), commit(first), commit(first, 8192, 8192),
        *(operation(folder, second) for operation in in_folder),
        create(folder, second, exclusive=True), rename(folder, second), link(folder, third),
        readdir(folder), readdirplus(folder),
    ]  # fmt: skip
