"""A load on a web server: `python -m nfslab.workloads.web.generating CONFIG`.

CONFIG: `load`, as `nfslab._core.run_web_load` takes it, and `report`, the file that gets what it
returns. It says `progress` with `state`, and `done` at its end.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab.workloads.web.child import main, progress_to

if TYPE_CHECKING:
    from nfslab.machine.agent import Parent


def generate(config: dict[str, Any], parent: Parent) -> None:
    """The load, once."""
    from nfslab._core import run_web_load

    report = run_web_load(json.dumps(config["load"]), None, progress_to(parent))
    Path(config["report"]).write_text(report, encoding="utf-8")
    parent.say("done")


if __name__ == "__main__":
    sys.exit(main(generate))
