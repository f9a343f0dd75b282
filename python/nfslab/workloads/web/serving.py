"""The embedded web server as a process: `python -m nfslab.workloads.web.serving CONFIG`.

CONFIG: the server's own (`nfslab._core.WebServer`). It says `ready` with `address` and `port`, and
at its end `ended` with `counters`: when its standard input closes, or at SIGTERM.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING, Any

from nfslab.machine.agent import STDIN
from nfslab.workloads.web.child import LINE_MAX, main

if TYPE_CHECKING:
    from types import FrameType

    from nfslab.machine.agent import Parent


class Ended(Exception):
    """Somebody wants it to end."""


def serve(config: dict[str, Any], parent: Parent) -> None:
    """Until it is to end."""
    from nfslab._core import WebServer

    def end(_signal: int, _frame: FrameType | None) -> None:
        raise Ended

    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    server = WebServer(json.dumps(config))
    try:
        signal.signal(signal.SIGTERM, end)
        parent.say("ready", address=server.address, port=server.port)
        while os.read(STDIN, LINE_MAX):
            pass
    except Ended:
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        counters = server.stop()
    parent.say("ended", counters=counters)


if __name__ == "__main__":
    sys.exit(main(serve))
