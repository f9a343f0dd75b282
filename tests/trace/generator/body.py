"""What a call and its reply say, with the truth that a reader should find in them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Body:
    """Arguments and results of one procedure, encoded, and what they mean."""

    program: int
    version: int
    procedure: int
    operation: str
    arguments: bytes
    results: bytes
    #: Status of the protocol; None where the procedure has none.
    status: int | None = None
    #: The object that the call is about; None where that is a matter of taste.
    handle: bytes | None = None
    path: str | None = None
    offset: int | None = None
    count: int | None = None
    bytes_read: int = 0
    bytes_written: int = 0
    operations: tuple[str, ...] = ()


@dataclass
class Node:
    """A file or directory of the synthetic server."""

    handle: bytes
    path: str
    file_id: int
    kind: int = 1
    size: int = 1 << 20
    children: list[Node] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def tree(rng: random.Random, handle_bytes: int, root_path: str, files: int = 6) -> Node:
    """A root with one directory of `files` files."""
    numbers = iter(range(2, 2 + files + 2))

    def node(path: str, kind: int) -> Node:
        return Node(rng.randbytes(handle_bytes), path, next(numbers), kind)

    root = node(root_path, 2)
    folder = node(root_path.rstrip("/") + "/data", 2)
    root.children.append(folder)
    for index in range(files):
        folder.children.append(node(f"{folder.path}/file{index}.dat", 1))
    return root
