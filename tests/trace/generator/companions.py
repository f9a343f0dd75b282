"""MOUNT (RFC 1813 appendix I), portmap and rpcbind (RFC 1833), NLM, NSM (XNFS), NFSACL."""

from __future__ import annotations

from .body import Body, Node
from .nfs3 import post
from .rpc import MOUNT, NFS, NFSACL, NLM, NSM, PORTMAP
from .xdr import array, linked, opaque, u32, u64

GRANTED, DENIED = 0, 1


def mnt(root: Node, version: int = 3, status: int = 0) -> Body:
    """MNT; version 3 lists flavours, versions 1 and 2 give 32 bytes."""
    results = u32(status)
    if status == 0:
        results += opaque(root.handle) + array([u32(1), u32(6)]) if version == 3 else root.handle
    return Body(MOUNT, version, 1, "MNT", opaque(root.path), results, status=status)


def mount(root: Node) -> list[Body]:
    listed = linked([opaque("client") + opaque(root.path)])
    exported = linked([opaque(root.path) + linked([opaque("everyone")])])
    return [
        Body(MOUNT, 3, 0, "NULL", b"", b""),
        mnt(root),
        mnt(root, status=13),
        Body(MOUNT, 3, 2, "DUMP", b"", listed),
        Body(MOUNT, 3, 3, "UMNT", opaque(root.path), b""),
        Body(MOUNT, 3, 4, "UMNTALL", b"", b""),
        Body(MOUNT, 3, 5, "EXPORT", b"", exported),
    ]


def portmap() -> list[Body]:
    mapping = u32(NFS, 3, 6, 2049)
    rpcb = u32(NFS, 4) + opaque("tcp") + opaque("0.0.0.0.8.1") + opaque("superuser")
    return [
        Body(PORTMAP, 2, 0, "NULL", b"", b""),
        Body(PORTMAP, 2, 1, "SET", mapping, u32(1)),
        Body(PORTMAP, 2, 3, "GETPORT", u32(NFS, 3, 6, 0), u32(2049)),
        Body(PORTMAP, 2, 4, "DUMP", b"", linked([mapping, u32(MOUNT, 3, 17, 20048)])),
        Body(PORTMAP, 3, 3, "GETADDR", rpcb, opaque("10.0.0.9.8.1")),
        Body(PORTMAP, 3, 6, "GETTIME", b"", u32(1_700_000_000)),
        Body(PORTMAP, 4, 3, "GETADDR", rpcb, opaque("10.0.0.9.8.1")),
        Body(PORTMAP, 4, 9, "GETVERSADDR", rpcb, opaque("10.0.0.9.8.1")),
        Body(PORTMAP, 4, 4, "DUMP", b"", linked([rpcb])),
    ]


def alock(node: Node, offset: int, length: int) -> bytes:
    """`nlm4_lock`."""
    return opaque("client") + opaque(node.handle) + opaque("owner1") + u32(77) + u64(offset, length)


def nlm(node: Node) -> list[Body]:
    """NLM version 4; `status` is an `nlm4_stats`."""
    cookie, lock = opaque(b"\0\0\0\7"), alock(node, 4096, 512)
    granted, holder = cookie + u32(GRANTED), u32(1, 78) + opaque("owner2") + u64(0, 8192)
    truth = {"handle": node.handle, "offset": 4096, "count": 512}
    share = opaque("client") + opaque(node.handle) + opaque("owner1") + u32(0, 1)
    made: list[tuple[int, str, bytes, bytes, dict[str, object]]] = [
        (1, "TEST", u32(1) + lock, cookie + u32(DENIED) + holder, {"status": DENIED, **truth}),
        (2, "LOCK", u32(0, 1) + lock + u32(0, 3), granted, truth),
        (3, "CANCEL", u32(0, 1) + lock, granted, truth),
        (4, "UNLOCK", lock, granted, truth),
        (5, "GRANTED", u32(1) + lock, granted, truth),
        (20, "SHARE", share + u32(0), granted + u32(0), {}),
        (21, "UNSHARE", share + u32(0), granted + u32(0), {}),
    ]
    return [
        Body(NLM, 4, number, name, cookie + arguments, results, **{"status": 0, **more})  # type: ignore[arg-type]
        for number, name, arguments, results, more in made
    ]


def nsm() -> list[Body]:
    my_id = opaque("client") + u32(NLM, 4, 16)
    return [
        Body(NSM, 1, 1, "STAT", opaque("server"), u32(0, 5), status=0),
        Body(NSM, 1, 2, "MON", opaque("server") + my_id + bytes(16), u32(0, 5), status=0),
        Body(NSM, 1, 3, "UNMON", opaque("server") + my_id, u32(5)),
        Body(NSM, 1, 6, "NOTIFY", opaque("server") + u32(7), b""),
    ]


def nfsacl(node: Node) -> list[Body]:
    entries = array([u32(1, 0, 7), u32(4, 0, 5)])
    acl = u32(3, 2) + entries + u32(0) + array([])
    got = u32(0) + post(node) + acl
    truth = {"status": 0, "handle": node.handle}
    handle = opaque(node.handle)
    return [
        Body(NFSACL, 3, 0, "NULL", b"", b""),
        Body(NFSACL, 3, 1, "GETACL", handle + u32(3), got, **truth),  # type: ignore[arg-type]
        Body(NFSACL, 3, 2, "SETACL", handle + acl, u32(0) + post(node), **truth),  # type: ignore[arg-type]
    ]
