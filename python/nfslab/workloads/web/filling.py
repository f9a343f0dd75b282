"""The documents: `python -m nfslab.workloads.web.filling CONFIG`.

CONFIG: as `nfslab._core.write_web_files` takes it. It says `progress` with `state`, and `done` with
`written`. A process of its own, so that a memory limit holds for what it leaves in the page cache.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from nfslab.workloads.web.child import main, progress_to

if TYPE_CHECKING:
    from nfslab.machine.agent import Parent


def fill(config: dict[str, Any], parent: Parent) -> None:
    """All of them."""
    from nfslab._core import write_web_files

    written = write_web_files(json.dumps(config), progress_to(parent))
    parent.say("done", written=json.loads(written))


if __name__ == "__main__":
    sys.exit(main(fill))
