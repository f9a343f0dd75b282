"""Conversations that several tests look at from different sides."""

from __future__ import annotations

import random

from tests.trace.generator import body, companions, nfs2, nfs3, nfs4, nfs41, rpc
from tests.trace.generator.capture import CLIENT6, SERVER, SERVER6, Capture
from tests.trace.generator.flows import Connection
from tests.trace.generator.link import Endpoint


def v3_tree(seed: int = 1) -> body.Node:
    return body.tree(random.Random(seed), 28, "/export")


def v4_tree(seed: int = 3) -> body.Node:
    return body.tree(random.Random(seed), 40, "/")


def everything(seed: int = 1) -> Capture:
    """Every program and version, each on a flow of its own kind."""
    made = Capture(seed)
    v3, v4 = v3_tree(seed), v4_tree(seed + 2)
    v2 = body.tree(random.Random(seed + 1), 32, "/old")
    udp, tcp = made.udp(), made.tcp()
    first = v3.children[0].children[0]
    made.converse(udp, companions.portmap() + companions.mount(v3))
    made.converse(udp, companions.nlm(first) + companions.nsm())
    made.converse(tcp, nfs3.every(v3), depth=3)
    made.converse(tcp, companions.nfsacl(first))
    made.converse(udp, [companions.mnt(v2, 1), *nfs2.every(v2)])
    made.converse(made.tcp(CLIENT6, SERVER6), nfs4.every(v4))
    session = made.tcp(Endpoint("10.0.0.2", 801))
    made.converse(session, nfs41.sessions(v4))
    made.converse(session, nfs4.callbacks(v4, nfs41.SESSION), callback=True)
    made.converse(session, nfs41.extensions(v4))
    made.converse(made.tcp(SERVER, Endpoint("10.0.0.1", 40000)), nfs4.callbacks(v4))
    return made


def v3_mix(
    seed: int, calls: int, *, depth: int = 4, largest: int = 4096, auth: rpc.NoAuth | None = None
) -> tuple[Capture, Connection]:  # fmt: skip
    """Random READs, WRITEs, GETATTRs and LOOKUPs on one connection, behind MNT and LOOKUPs."""
    made = Capture(seed)
    root = v3_tree(seed)
    folder = root.children[0]
    flow = made.tcp()
    rng = made.rng
    bodies = [companions.mnt(root), nfs3.lookup(root, folder)]
    bodies += [nfs3.lookup(folder, node) for node in folder.children]
    made.converse(flow, bodies, auth=auth)
    bodies = []
    for _ in range(calls):
        node = rng.choice(folder.children)
        offset, count = rng.randrange(1 << 30), rng.randint(0, largest)
        bodies.append(
            rng.choice(
                [nfs3.getattr_(node), nfs3.read(node, offset, count), nfs3.access(node),
                 nfs3.write(node, offset, count), nfs3.lookup(folder, node, nfs3.NOENT)]
            )
        )  # fmt: skip
    made.converse(flow, bodies, depth=depth, auth=auth)
    return made, flow
