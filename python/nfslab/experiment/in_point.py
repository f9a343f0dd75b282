"""What an agent on a host does for `nfslab sfs --hosts`: its generator processes, point by point.

    prime (`load_hosts`)                  this process, `python -m nfslab.experiment.in_point`
                                     <──  ready: `facts`
    run: `asked`                     ──>  a point: plan, which parts of it are made here
    go: `gate` "prepare", "connect"  <─>  at: `gate`    one host makes the files, then the others
                                     <──  armed             connected
    start: `at_ns` of our clock      ──>                    the load
                                     <──  measured: `parts`, and the next point
                                          between: progress: `state`; alive (twice a second); error

Its standard input is its life, as of an agent of a run (`in_part`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from nfslab.errors import Interrupted, NfslabError
from nfslab.experiment.host_facts import facts
from nfslab.experiment.in_part import Prime
from nfslab.machine import agent
from nfslab.offered.hosts import handed_over
from nfslab.offered.processes import PartFailed, started

if TYPE_CHECKING:
    from nfslab.offered.processes import Generators


class AskedPoint(BaseModel):
    """A host's part of one point."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    plan: dict[str, Any]
    """Of the whole."""
    indices: list[int]
    """Of the generator processes here, among those of all hosts."""
    of: int


def make(asked: AskedPoint, prime: Prime) -> None:
    """One point, from its plan to what its processes handed over."""

    def check() -> None:
        if prime.is_gone:
            raise Interrupted("nobody is there who asked for this")

    def progress(state: dict[str, Any]) -> bool:
        prime.say("progress", state=state)
        return not prime.is_gone

    def steps(generators: Generators) -> None:
        prime.pass_gate("prepare", check)
        generators.prepare()
        prime.pass_gate("connect", check)
        generators.connect()
        prime.say("armed")
        generators.run(int(prime.order("start", check)["at_ns"]))
        prime.say("measured", parts=[handed_over(one).model_dump() for one in generators.parts])

    with started(asked.plan, asked.indices, asked.of, progress) as generators:
        steps(generators)


def main() -> int:
    """The exit code: 1 an error was said, 3 nobody is there."""
    from nfslab._core import CoreError

    prime = Prime()
    prime.begin()
    try:
        prime.say("ready", facts=facts())
        while True:
            make(AskedPoint.model_validate(prime.order("run")["asked"]), prime)
    except Interrupted:
        return 3
    except (CoreError, PartFailed, NfslabError) as error:
        prime.say("error", **agent.error_content(error))
        return 1


if __name__ == "__main__":
    sys.exit(main())
