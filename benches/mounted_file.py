"""A file of random bytes on our mount of our server, both in this process: to be read."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nfslab._core import Mount, Server

BLOCK_BYTES = 4096
FILE_BLOCKS = 4096


@contextmanager
def mounted_file(options: str = "") -> Iterator[tuple[Server, Mount, Path]]:
    """16 MiB in the memory store. `options` of the mount, besides. Needs root and /dev/fuse."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Server(json.dumps({"store": "memory", "memory_bytes": 1 << 30})) as server,
    ):
        ports = f"port={server.port},mountport={server.port}"
        mount = Mount("127.0.0.1:/export", folder, ",".join(filter(None, [ports, options])))
        try:
            path = Path(folder) / "file"
            path.write_bytes(os.urandom(BLOCK_BYTES * FILE_BLOCKS))
            yield server, mount, path
        finally:
            mount.unmount("force")
