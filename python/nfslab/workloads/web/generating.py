"""A load on a web server: `python -m nfslab.workloads.web.generating CONFIG`.

    parent (`nfslab.machine.agent`)      this process
    go: `at_ns`, or null for soon  <─>   ready         what it needs is there
                                   ──>   done          between: progress: `state`

CONFIG: `load`, as `nfslab._core.run_web_part` takes it, and the files that get what it returns:
`report`, and `sums` unless that is null.
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
    from nfslab._core import run_web_part

    def begin() -> int | None:
        parent.say("ready")
        at_ns: int | None = parent.obey("go")["at_ns"]
        return at_ns

    report, sums = run_web_part(json.dumps(config["load"]), begin, progress_to(parent))
    Path(config["report"]).write_text(report, encoding="utf-8")
    if config["sums"] is not None:
        Path(config["sums"]).write_text(sums, encoding="utf-8")
    parent.say("done")


if __name__ == "__main__":
    sys.exit(main(generate))
