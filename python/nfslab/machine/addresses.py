"""Which of this machine's addresses another one sees."""

from __future__ import annotations

import socket
from typing import Final

DISCARD_PORT: Final = 9


def address_towards(host: str, port: int = DISCARD_PORT) -> str:
    """Ours, from which we would speak to it; OSError where no way leads there. Sends nothing."""
    family, kind, _, _, there = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind) as one:
        one.connect(there)
        return str(one.getsockname()[0])
