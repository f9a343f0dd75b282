"""What an agent does: its part of one run, or all of it, by the ordinary runner, sealed there.

    prime (`multi_host_run`)                  this process, `python -m nfslab.experiment.in_part`
                                     <──  ready: `facts`
    run: `asked`                     ──>
    go: `gate` "prepare"             <─>  at: `gate`        targets are up
    go: "drop"                       <─>  at                prepared
    go: "measure"                    <─>  at                page cache dropped
    meet: `at_ns`, `common_ns`,      <─>  meet: `gate`,     as often as the workload asks, before
      `said` by each                        `said`          the timed part or in it
                                     <──  armed             collectors watch, programs are connected
    start: `at_ns` of our clock      ──>                    the timed part
    go: "finish"                     <─>  measured: `began_ns`, `busy`, and the timed part by the
                                          programs' account: `start_ns`, `end_ns`
                                     <──  sealed: `status`, `reason`
    clock, at any time               <─>  clock: our clocks, read at once
                                          between: phase, say, alive (twice a second); error;
                                          fails: the reason comes with `sealed`

Targets that are up on the server's host are taken over from it, all others are made here; of the
collectors those run here that watch a client. What it leaves is in `runs/` of its working folder.
Its standard input is its life: when that closes, the run is given up and taken down.

The agent that has the server's half, on another host or the prime's machine:

    targets up, or the workload's server ──> serves: `endpoint`  what client hosts reach it by
    no load: the timed part lasts until  <── go: "measured"      all of them have had theirs
    collectors off                       ──> measured: also `server_cpu_s`, of the workload's server
    targets down                         <── go: "finish"        none of them uses a target any more
    with a server of the workload's own  <── verify: `account`   what all hosts did
                                         ──> verified: `checks`, which are the run's
"""

from __future__ import annotations

import os
import queue
import shutil
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from nfslab import clock
from nfslab.context import Met, Share, TimedPart
from nfslab.errors import Interrupted, NfslabError, RunFailed
from nfslab.experiment.execution import Carrying, Execution
from nfslab.experiment.host_facts import facts
from nfslab.experiment.plan import PlannedRun
from nfslab.experiment.run_execution import RunExecution
from nfslab.experiment.setup import Point, Setup
from nfslab.hosts.base import Link
from nfslab.hosts.local import LocalHost
from nfslab.machine import agent
from nfslab.machine.clock_pair import clock_pair
from nfslab.machine.cpu_times import read_cpu_times
from nfslab.machine.handed import keep
from nfslab.results.catalogue import RUNS
from nfslab.results.records import CheckRecord, ExperimentRecord
from nfslab.workloads.base import Outcome, spent

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.experiment.setup import TargetSetup
    from nfslab.experiment.stop import Stop
    from nfslab.hosts.base import Host
    from nfslab.machine.cpu_times import CpuTimes
    from nfslab.machine.resources import Resources
    from nfslab.results.store import PartialRun
    from nfslab.targets.base import Target
    from nfslab.workloads.base import RunContext

ALIVE_S: Final = 0.5
"""Between two signs of life."""
LINE_BYTES_MAX: Final = 64 << 20
WAIT_SLICE_S: Final = 0.2


class AskedPart(BaseModel):
    """Asks another process for a part of one run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    record: ExperimentRecord
    point_id: str
    index: int
    factors: dict[str, Any]
    settings: dict[str, Any]
    resolved: dict[str, Any]
    """What is in force there."""
    block: int
    attempt: int
    position: int
    primary: str | None = None
    commit: tuple[str, str] | None = None
    """Of the checkout, from who reads the same files; None: it is found out there."""
    share: Share | None = None
    """None: the server's half, where there is a `link`, else all of the run."""
    link: Link | None = None
    """Of the server's host to the client hosts."""
    cache: str | None = None
    """What runs of this call share, on the prime's own machine."""
    endpoint: dict[str, Any] = Field(default_factory=dict)
    """What the server's half is reached by: the workload's own server, else target -> the same."""
    is_prime: bool = False
    """This is the prime's own machine: what else is at work there is not for us to judge."""
    made: dict[str, Any] = Field(default_factory=dict)
    """Sections of the provenance that only who made this host knows."""

    def run(self) -> PlannedRun:
        """Returns it as the runner wants it."""
        setup = Setup.of(self.resolved)
        point = Point(self.point_id, self.index, (), self.factors, self.settings, setup)
        return PlannedRun(point, self.block, self.attempt)


def asked_of(execution: Execution, resolved: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of `AskedPart` for a run under way that are not a part's own."""
    run, record = execution.run, execution.carrying.record
    same = {name: getattr(run.point, name) for name in ("point_id", "index", "factors", "settings")}
    trimmed = record.model_copy(update={"points": [], "axes": [], "resolved": {}})
    same |= {"record": trimmed, "resolved": resolved, "position": execution.position}
    return same | {"block": run.block, "attempt": run.attempt}


class Prime:
    """Is who told us to: orders come by a thread, and what is said is whole lines."""

    def __init__(
        self,
        read: Callable[[], bytes] = lambda: os.read(agent.STDIN, agent.READ_BYTES),
        write: Callable[[bytes], int] = lambda text: os.write(agent.STDOUT, text),
    ) -> None:
        """`read` returns what came next, nothing when nobody is there any more; `write` how much of
        a text went out, or raises BrokenPipeError."""
        self._read = read
        self._write = write
        self._orders: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._saying = threading.Lock()
        self.is_gone = False
        """Nobody listens any more."""
        self._stop: Stop | None = None

    def begin(self) -> None:
        """Begins to listen, and to give signs of life."""
        for work in (self._listen, self._live):
            threading.Thread(target=work, daemon=True).start()

    def stops(self, stop: Stop) -> None:
        """Says what is to stop when nobody is there any more."""
        self._stop = stop
        if self.is_gone:
            stop.request("the end of the connection")

    def say(self, name: str, **content: Any) -> None:
        """Says an event; nobody may be there to hear it."""
        text = agent.event(name, **content)
        with self._saying:
            try:
                while text:
                    text = text[self._write(text) :]
            except BrokenPipeError:
                self._leave()

    def order(self, name: str, check: Callable[[], object] = lambda: None) -> dict[str, Any]:
        """Waits for the next order, which has to be this one; Interrupted when nobody is there."""
        while True:
            check()
            try:
                told = clock.get(self._orders, WAIT_SLICE_S)
            except queue.Empty:
                continue
            if told is None:
                raise Interrupted("the controller closed the connection")
            if told.get("do") != name:
                raise RunFailed(f"{str(told)[:200]} instead of {name!r}", fix="Please report this.")
            return told

    def pass_gate(self, name: str, check: Callable[[], object]) -> None:
        """Says where we are, and waits until all may go on."""
        self.say("at", gate=name)
        self.order("go", check)

    def _listen(self) -> None:
        lines = agent.Lines(LINE_BYTES_MAX)
        known = {"run": frozenset({"asked"}), "go": frozenset({"gate"})}
        known |= {"start": frozenset({"at_ns"}), "clock": frozenset()}
        known |= {"meet": frozenset({"at_ns", "common_ns", "said"})}
        known |= {"verify": frozenset({"account"})}
        while heard := self._read():
            for line in lines.feed(heard):
                told = agent.command_of(line or b"", known, "Please report this.")
                if told["do"] == "clock":
                    wall_ns, monotonic_ns, width_ns = clock_pair()
                    self.say("clock", wall_ns=wall_ns, monotonic_ns=monotonic_ns, width_ns=width_ns)
                else:
                    self._orders.put(told)
        self._leave()

    def _live(self) -> None:
        ended = threading.Event()
        while not self.is_gone:
            self.say("alive")
            clock.wait(ended, ALIVE_S)

    def _leave(self) -> None:
        self.is_gone = True
        self._orders.put(None)
        if self._stop is not None:
            self._stop.request("the end of the connection")


class CommonStart(TimedPart):
    """Begins the timed part at the instant that all hosts are given, once all are ready."""

    def __init__(self, clock: Callable[[], int], prime: Prime, check: Callable[[], object]) -> None:
        super().__init__(clock)
        self.cpu_before: CpuTimes | None = None
        self._prime = prime
        self._check = check

    def _given(self) -> int:
        self._prime.say("armed")
        given_ns = int(self._prime.order("start", self._check)["at_ns"])
        self.cpu_before = read_cpu_times()
        return given_ns

    def meet(self, gate: str, said: Any = None) -> Met:
        """The prime gives the instant, when all hosts are there, and what each of them said."""
        self._prime.say("meet", gate=gate, said=said)
        told = self._prime.order("meet", self._check)
        return Met(int(told["at_ns"]), int(told["common_ns"]), tuple(told["said"]))


class PartExecution(RunExecution):
    """Makes the client's half of a run, on one of several client hosts."""

    def __init__(
        self, carrying: Carrying, run: PlannedRun, position: int, asked: AskedPart, prime: Prime
    ) -> None:
        super().__init__(carrying, run, position)
        self._asked = asked
        self._prime = prime
        self._spent_s: float | None = None
        self._has_server = self._workload.has_server
        """The workload has one of its own; else each client host does all of it."""
        if asked.share is not None and self._has_server:
            self._workload.connect_to(asked.endpoint)

    def _require_here(self) -> None:
        """Asks the workload; targets say it themselves when they come up."""
        usable = self._workload.check()
        if not usable.ok:
            raise RunFailed(usable.reason, fix=usable.fix)

    def _target(self, setup: TargetSetup) -> Target | None:
        if self._has_server:
            return None  # the server's, where that is
        target = setup.make()
        if (endpoint := self._asked.endpoint.get(setup.name)) is not None:
            target.connect_to(endpoint)
        return target

    def _make_context(self, partial: PartialRun, resources: Resources) -> RunContext:
        context = super()._make_context(partial, resources)
        if self._asked.share is not None:
            context.share, context.is_part = self._asked.share, True
        return context

    def _look_around(self) -> None:
        super()._look_around()
        self.found.provenance |= self._asked.made

    def _timed_part(self, host: Host) -> TimedPart:
        return CommonStart(host.monotonic_ns, self._prime, self._check)

    def _check(self) -> None:
        """Raises where going on makes no sense."""
        self._remaining_s()
        self._workload.require_up()

    def _failed(self, error: Exception, partial: PartialRun) -> None:
        """Others may fail for it, and say so before this is taken down."""
        super()._failed(error, partial)
        self._prime.say("fails")

    def _is_ours(self) -> bool:
        return not self._asked.is_prime and super()._is_ours()

    def _prepare(self, context: RunContext) -> None:
        """Waits for its turn: one host makes what is shared, then the others."""
        self._prime.pass_gate("prepare", context.remaining_s)
        super()._prepare(context)

    def _drop_page_cache(self) -> None:
        """Waits until all is prepared, on all hosts."""
        self._prime.pass_gate("drop", self._check)
        super()._drop_page_cache()

    def _start_watching(self, context: RunContext) -> None:
        """All hosts begin to watch together."""
        self._prime.pass_gate("measure", self._check)
        super()._start_watching(context)

    def _load(self, context: RunContext) -> Outcome:
        """Makes its part of the load."""
        outcome = super()._measure(context)
        if outcome.handed:
            keep(outcome.handed, context.folder)
        return outcome

    def _measure(self, context: RunContext) -> Outcome:
        """Does its timed part; nothing is taken down before all have had theirs."""
        outcome = self._load(context)
        timed = context.timed
        assert isinstance(timed, CommonStart)
        after, busy = read_cpu_times(), None
        if timed.cpu_before is not None and after is not None:
            whole = sum(after.ticks) - sum(timed.cpu_before.ticks)
            busy = (after.busy_ticks - timed.cpu_before.busy_ticks) / max(whole, 1)
        instants = {"began_ns": timed.began_ns, "start_ns": timed.start_ns, "end_ns": timed.end_ns}
        self._prime.say("measured", busy=busy, server_cpu_s=self._spent_s, **instants)
        self._prime.order("go", context.remaining_s)
        return outcome


class ServingExecution(PartExecution):
    """Makes the server's half: what client hosts use is up here until they are done with it."""

    def _require_here(self) -> None:
        if self._has_server:
            super()._require_here()

    def _bring_up_hosts(self, resources: Resources) -> None:
        super()._bring_up_hosts(resources)
        assert self._asked.link is not None
        self._hosts["client"] = LocalHost().seen_by(self._asked.link)

    def _files_host(self) -> Host:
        return self._hosts["server" if self._has_server else "client"]

    def _target(self, setup: TargetSetup) -> Target | None:
        target = setup.make()
        return target if self._has_server or target.for_others() else None

    def _prepare(self, context: RunContext) -> None:
        """Prepares the workload's own server; all else the client hosts do."""
        self._prime.pass_gate("prepare", context.remaining_s)
        self._watching.ready(context)
        if self._has_server:
            self._workload.prepare(context)
        endpoint = self._workload.endpoint() if self._has_server else self.endpoint()
        self._prime.say("serves", endpoint=endpoint)

    def _load(self, context: RunContext) -> Outcome:
        """Waits until all client hosts have had their timed part."""
        before_s = self._workload.server_cpu_s() if self._has_server else None
        with context.timed():
            self._prime.order("go", self._check)
        if self._has_server:
            self._spent_s = spent(before_s, self._workload.server_cpu_s())
        return Outcome(metrics={})

    def _verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        """Verifies the workload's own server with what all hosts did; else each verifies its part.

        What is found is the run's, and the prime's to judge.
        """
        if self._has_server:
            told = self._prime.order("verify", context.remaining_s)
            self._workload.add_account(told["account"])
            checks = self._workload.verify(context, outcome)
            self._prime.say("verified", checks=[one.model_dump(mode="json") for one in checks])
        return []

    def _finish(self, context: RunContext) -> None:
        if self._has_server:
            super()._finish(context)


def main() -> int:
    """Makes the part in the current folder; returns the exit code of `part`."""
    os.environ["NFSLAB_TURN"] = ""  # the prime has the turn
    return part(Prime(), Path.cwd())


def part(prime: Prime, folder: Path) -> int:
    """Makes the part that the prime asks for, in this folder.

    Returns 0 when it is sealed, 1 when an error was said, 3 when nobody is there.
    """
    from nfslab.experiment.provenance import take_commit
    from nfslab.experiment.shared import run_cache, warm_up
    from nfslab.experiment.stop import Stop
    from nfslab.machine.turn import Turn
    from nfslab.results.store import ExperimentFolder

    prime.begin()
    try:
        prime.say("ready", facts=facts())
        asked = AskedPart.model_validate(prime.order("run")["asked"])
        if not asked.is_prime:
            from nfslab.machine.resources import recover

            recover()
        if asked.commit is not None:
            take_commit(asked.commit)
        (folder / RUNS).mkdir()
        name, cache = asked.record.name, asked.cache
        cached = run_cache(name) if cache is None else nullcontext(Path(cache))
        with Stop() as stop, Turn() as turn, cached as shared:
            turn.take()
            warm_up()
            prime.stops(stop)
            prime.say("begins")
            carrying = Carrying(
                ExperimentFolder(folder, asked.record), asked.record, shared, stop, turn,
                lambda name: prime.say("phase", phase=name), asked.primary, asked=False,
            )  # fmt: skip
            line = _execution(carrying, asked, prime).execute()
        prime.say("sealed", status=line.status, reason=line.reason)
    except Interrupted:
        return 3
    except NfslabError as error:
        prime.say("error", **agent.error_content(error))
        return 1
    finally:
        if prime.is_gone:
            # Nobody is there who would remove it.
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def _execution(carrying: Carrying, asked: AskedPart, prime: Prime) -> RunExecution:
    if asked.link is not None:
        return ServingExecution(carrying, asked.run(), asked.position, asked, prime)
    if asked.share is not None:
        return PartExecution(carrying, asked.run(), asked.position, asked, prime)
    return RunExecution(carrying, asked.run(), asked.position)


if __name__ == "__main__":
    sys.exit(main())
