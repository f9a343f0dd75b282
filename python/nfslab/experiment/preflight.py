"""Can it be carried out here? Asked before anything runs, and for `--dry-run`.

Targets, the workload and the required collectors are asked once for each set of parameters
that occurs. A point that cannot run refuses the whole file, with every reason, unless such
points are to be skipped: hours of measuring that end with half a matrix help nobody who
did not ask for half.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from nfslab.errors import NfslabError, RunFailed, Unavailable, UsageError
from nfslab.experiment.members import KINDS
from nfslab.experiment.sections import CLUSTER
from nfslab.hosts.registry import HOSTS, host_class
from nfslab.machine.availability import Availability
from nfslab.quantities import format_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nfslab.experiment.setup import CollectorSetup, Point, Setup, TargetSetup

MAX_REASONS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a part of the experiment cannot run here."""

    part: str
    """"target striped", "workload pgbench", "memory limit", "space on disk"."""
    reason: str
    fix: str = ""


@dataclass(slots=True)
class Preflight:
    """What can run, what cannot and why, and the space that is needed."""

    runnable: list[Point] = field(default_factory=list)
    blocked: list[tuple[Point, list[Obstacle]]] = field(default_factory=list)
    collectors: dict[str, Availability] = field(default_factory=dict)
    space: dict[str, tuple[int, int | None]] = field(default_factory=dict)
    """Target -> (bytes that its largest run needs, bytes free; None when not known yet)."""
    notes: list[str] = field(default_factory=list)
    """What can run, but not as one may think."""

    def refuses(self, *, skip: bool) -> bool:
        """Whether a run would end before it begins: some point cannot run, and none is left out."""
        return bool(self.blocked) and not (skip and self.runnable)

    def obstacles(self) -> list[tuple[Obstacle, int]]:
        """Every obstacle with the number of points that it blocks."""
        counts: dict[Obstacle, int] = defaultdict(int)
        for _, obstacles in self.blocked:
            for obstacle in obstacles:
                counts[obstacle] += 1
        return list(counts.items())


def preflight(points: Sequence[Point]) -> Preflight:
    """Ask everything that the points use whether it can run here."""
    result = Preflight()
    asked: dict[tuple[str, Any], list[Obstacle]] = {}
    free: dict[Any, int | None] = {}
    for point in points:
        guest = point.setup.machine.kernel is not None
        obstacles = _of_guest(point, asked) if guest else _of_point(point, asked, result.notes)
        if not obstacles and not guest:
            obstacles = _space(point, result, free)
        if obstacles:
            result.blocked.append((point, obstacles))
        else:
            result.runnable.append(point)
    here = points and points[0].setup.machine.kernel is None
    for name, setup in points[0].setup.collectors.items() if here else ():
        if _watches_here(points[0].setup, setup):
            workload = points[0].setup.workload.make()
            result.collectors[name] = _answer(partial(setup.make().expected, workload))
    return result


def _hosts_are_others(setup: Setup) -> bool:
    """Are the client hosts machines of their own, which alone know what they can do?"""
    return setup.client.hosts is not None and not KINDS[setup.client.host].is_here


def _watches_here(setup: Setup, collector: CollectorSetup) -> bool:
    """Is anything of a collector's work done on this machine?"""
    if collector.side() == "server" or setup.workload.make().has_server:
        return not setup.server.is_elsewhere
    return not _hosts_are_others(setup) or collector.of_machine()


def _target_here(setup: Setup, target: TargetSetup) -> Availability:
    """What is needed here of a target; what client hosts do with it is asked there."""
    made = target.make()
    if _hosts_are_others(setup) and not made.for_others():
        return Availability(True)
    return made.check()


def require_runnable(result: Preflight, *, skip: bool) -> list[Point]:
    """The points to run; `UsageError` with the reasons when some cannot (unless skipped)."""
    if result.refuses(skip=skip):
        total = len(result.blocked) + len(result.runnable)
        reasons = []
        for obstacle, count in result.obstacles()[:MAX_REASONS_SHOWN]:
            fix = f" ({obstacle.fix})" if obstacle.fix else ""
            points = f"{'all' if count == total else f'{count} of {total}'} configurations"
            reasons.append(f"{obstacle.part}, {points}: {obstacle.reason}{fix}")
        raise UsageError(
            "this experiment cannot run here"
            if not result.runnable
            else f"{len(result.blocked)} of {total} configurations cannot run here; "
            "nothing was run",
            why="\n       ".join(reasons),
            fix=f"mend that ({_knows_more(result.obstacles())} knows more)"
            + (", or leave these out with --skip-unavailable" if result.runnable else ""),
        )
    return result.runnable


def _hosts(kind: str) -> str:
    """The part that client hosts of a kind are."""
    return f"client hosts ({kind})"


def _knows_more(obstacles: Sequence[tuple[Obstacle, int]]) -> str:
    """The command that says most of them: of other machines the doctor here knows nothing."""
    others = any(obstacle.part == _hosts(CLUSTER) for obstacle, _ in obstacles)
    return "`nfslab cluster check`" if others else "`nfslab doctor`"


def require_here(point: Point) -> None:
    """RunFailed when the point cannot run on this machine: for a guest, which nobody has asked."""
    if found := _of_point(point, {}, []):
        raise RunFailed(
            "this configuration cannot run in its virtual machine",
            why="; ".join(f"{one.part}: {one.reason}" for one in found),
            fix="; ".join(one.fix for one in found if one.fix),
        )


def _of_guest(point: Point, asked: dict[tuple[str, Any], list[Obstacle]]) -> list[Obstacle]:
    """What guests need of this machine; all else is asked in them."""
    from nfslab.vm import kernel as kernels
    from nfslab.vm.run import require

    machine = point.setup.machine
    if point.setup.client.kernel is not None:
        reason = "the whole run is in a virtual machine ([machine] kernel), which makes none itself"
        fix = "leave out [machine] kernel: servers are on this machine then, clients in guests"
        return [Obstacle(_hosts("vm"), reason, fix)]
    if point.setup.client.hosts is not None:
        reason = "a run in a virtual machine has one client host: the guest"
        return [Obstacle("client hosts", reason, "leave out client.hosts, or [machine] kernel")]
    part = f"kernel {machine.kernel}"

    def question() -> Availability:
        require(machine.size)
        kernels.require(machine.kernel or "", machine.modules)
        return Availability(True)

    workload = point.setup.workload
    found: list[Obstacle] = []
    for about, key, ask in (
        (part, machine, question),
        # It has the files of this machine: what is not installed here is not there.
        (f"workload {workload.kind}", workload.parameters.model_dump_json(), workload.make().check),
        *(
            (f"target {name}", target.parameters.model_dump_json(), target.make().sound)
            for name, target in point.setup.used_targets().items()
        ),
    ):
        if (about, key) not in asked:
            answer = _answer(ask)
            asked[about, key] = [] if answer.ok else [Obstacle(about, answer.reason, answer.fix)]
        found += asked[about, key]
    return found


def _of_point(
    point: Point, asked: dict[tuple[str, Any], list[Obstacle]], notes: list[str]
) -> list[Obstacle]:
    """What stands in the way of one point, but for space."""
    setup = point.setup
    found: list[Obstacle] = []

    def ask(part: str, key: Any, question: Callable[[], Availability]) -> None:
        if (part, key) not in asked:
            answer = _answer(question)
            asked[part, key] = [] if answer.ok else [Obstacle(part, answer.reason, answer.fix)]
        found.extend(asked[part, key])

    for name, target in setup.used_targets().items():
        if _is_elsewhere(setup, target):
            continue  # the server's host says it when it comes up
        target_key = (target.parameters.model_dump_json(), _hosts_are_others(setup))
        ask(f"target {name}", target_key, lambda t=target: _target_here(setup, t))  # type: ignore[misc]
    workload = setup.workload
    if not (setup.server.host == CLUSTER and workload.make().has_server):
        ask(
            f"workload {workload.kind}",
            workload.parameters.model_dump_json(),
            lambda: workload.make().check(),
        )
    others = [name for name, one in setup.used_targets().items() if not one.make().is_export()]
    ask(
        f"targets of workload {workload.kind}",
        tuple(others),
        lambda: workload.make().check_exports(others),
    )
    host = setup.client.host
    if setup.client.hosts is not None:
        processes = setup.client.processes
        connections = workload.make().connections(processes)
        named = f"{setup.client} {setup.server} {setup.cluster} {connections}"

        def hosts_are_there() -> Availability:
            answer = KINDS[host].available(setup, processes, connections)
            if answer.how and answer.how not in notes and _serves(setup):
                notes.append(answer.how)
            return answer

        ask(_hosts(host), named, hosts_are_there)
    elif host != "local":
        wire = setup.client.wire
        ask(f"host {host}", wire, lambda: host_class(host).available(wire))
    if host in HOSTS and host != "local":
        asked_of = (host, workload.parameters.model_dump_json())
        ask(f"host {host}", asked_of, lambda: workload.make().check_host(host))
    found += _of_client_hosts(setup)
    if setup.limits.memory is not None:
        from nfslab.machine.cgroup import memory_cgroup_available

        ask("memory limit", "", memory_cgroup_available)
    for name, collector in setup.collectors.items():
        if collector.parameters.required and _watches_here(setup, collector):
            key = collector.parameters.model_dump_json()
            ask(f"collector {name}", key, lambda c=collector: c.make().available())  # type: ignore[misc]
    return found


def _serves(setup: Setup) -> bool:
    """Is a server of the run's own loaded, here or on the server's host?"""
    targets = setup.used_targets().values()
    return setup.workload.make().has_server or any(one.make().for_others() for one in targets)


def _is_elsewhere(setup: Setup, target: TargetSetup) -> bool:
    """Is what it is on up on another host, the server's?"""
    has_server = setup.workload.make().has_server
    return setup.server.is_elsewhere and (has_server or target.make().for_others())


def _of_client_hosts(setup: Setup) -> list[Obstacle]:
    """Can several client hosts make it together?"""
    client = setup.client
    if client.hosts is None:
        return []
    workload, names, part = setup.workload.make(), client.host_names, "client hosts"
    if setup.limits.memory is not None:
        reason = "limits.memory is of server and client on one machine, not of several client hosts"
        return [Obstacle(part, reason, "leave out limits.memory, or client.hosts")]
    if setup.server.is_elsewhere and workload.has_server:
        answer = workload.check_server(has_our_files=setup.server.host != CLUSTER)
        if not answer.ok:
            return [Obstacle("server host", answer.reason, answer.fix)]
    answer = workload.check_hosts(len(names), client.processes)
    return [] if answer.ok else [Obstacle(part, answer.reason, answer.fix)]


def _answer(question: Callable[[], Availability]) -> Availability:
    """Ask; an error is an answer as well."""
    try:
        return question()
    except NfslabError as error:
        return Availability(False, error.in_a_line(), error.fix)
    except OSError as error:
        return Availability(False, str(error))


def needed_bytes(point: Point) -> dict[str, int]:
    """Target -> bytes that one run of this point needs there."""
    roles = point.setup.workload.roles()
    needed: dict[str, int] = defaultdict(int)
    for role, size in point.setup.workload.make().estimate_bytes().items():
        if role in roles:
            needed[roles[role]] += size
    return dict(needed)


def _space(point: Point, result: Preflight, free: dict[Any, int | None]) -> list[Obstacle]:
    """Is there room? Remembers the largest need of every target."""
    obstacles = []
    for name, needed in needed_bytes(point).items():
        target = point.setup.targets[name]
        if _hosts_are_others(point.setup) and not target.make().for_others():
            continue
        key = (name, target.parameters.model_dump_json())
        if key not in free:
            try:
                there = _is_elsewhere(point.setup, target)
                free[key] = None if there else target.make().free_bytes()
            except (Unavailable, OSError):
                free[key] = None
        room = free[key]
        before = result.space.get(name, (0, room))
        result.space[name] = (max(needed, before[0]), room)
        if room is not None and needed > room:
            obstacles.append(
                Obstacle(
                    f"space on {name}",
                    f"a run needs about {format_size(needed)}, {format_size(room)} are free",
                    "make room, choose another path, or a smaller size",
                )
            )
    return obstacles


def skipped_records(blocked: Iterable[tuple[Point, list[Obstacle]]]) -> list[dict[str, Any]]:
    """The points that are left out, for the experiment's record."""
    return [
        {
            "point_id": point.point_id,
            "factors": point.factors,
            "settings": point.settings,
            "reasons": [f"{o.part}: {o.reason}" for o in obstacles],
            "fixes": [o.fix for o in obstacles if o.fix],
        }
        for point, obstacles in blocked
    ]
