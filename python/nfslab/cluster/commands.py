"""What `nfslab cluster` does: each of its commands, without its arguments and words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.cluster.certificates import Papers
from nfslab.cluster.check import HostReport, checked
from nfslab.cluster.needed import require
from nfslab.cluster.record import (
    default_folder,
    forget,
    recorded,
    running_address,
    write_record,
)
from nfslab.cluster.settings import members_of
from nfslab.cluster.starting import (
    AllFailed,
    AnotherNfslab,
    Running,
    begin_scheduler,
    checked_hosts,
    start,
    waited,
)
from nfslab.errors import NfslabError, RunFailed, UsageError
from nfslab.machine.journal import state_folder
from nfslab.machine.resources import Resources, recover

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab.cluster.remote import MemberThere

END_S: Final = 20.0
END_POLL_S: Final = 0.1


def check(
    hosts: Sequence[str],
    scheduler: str | None,
    folder: Path | None,
    python: str = "",
    wanted: int | None = None,
) -> list[HostReport]:
    """Of these hosts, or of a cluster that runs; UsageError, RunFailed: there is none."""
    require()
    if hosts and scheduler:
        raise UsageError(
            "hosts and a scheduler", why="hosts are reached over ssh, by a cluster of their own",
            fix="give the one or the other",
        )  # fmt: skip
    if not hosts:
        found = folder or default_folder()
        return _of_running(running_address(found, scheduler), found, wanted)
    checked_hosts(hosts)
    with Resources("cluster check") as resources:
        place = resources.make_directory(state_folder() / resources.name).path
        try:
            running = waited(start(hosts, place, python=python, stays=False, tolerant=True))
        except AllFailed as error:
            return [_of_failed(name, error.failed[name]) for name in hosts]
        try:
            fit = {report.name: report for report in _of_running(running.address, place)}
        finally:
            running.end()
    return [fit.get(name) or _of_failed(name, running.failed.get(name)) for name in hosts]


def _of_failed(name: str, problem: NfslabError | None) -> HostReport:
    """Of a host that is not in the cluster; one with another nfslab was reached."""
    facts = problem.facts if isinstance(problem, AnotherNfslab) else {}
    return HostReport(name, problem=problem, facts=facts)


def _of_running(address: str, folder: Path, wanted: int | None = None) -> list[HostReport]:
    """Of its hosts, and of those that its record names and that are not there any more."""
    from nfslab.cluster.remote import ClusterThere, client_of, workers_of

    found = recorded(folder) or {}
    named = found.get("hosts", []) if found.get("address") == address else []
    client = client_of(address, Papers.of(folder))
    members: list[MemberThere] = []
    try:
        if wanted is not None or not named or workers_of(client):
            members = members_of(client, wanted)
        reports = checked(members)
    finally:
        ClusterThere(members, client).close()
    there = {member.name for member in members}
    return reports + [_of_failed(name, _gone(name)) for name in named if name not in there]


def _gone(name: str) -> RunFailed:
    return RunFailed(
        f"{name} is not in the cluster any more",
        why="the record names it; its worker ended, stands still, or cannot be reached",
        fix="see its log there, in nfslab's state folder: cluster-logs; then stop and start",
    )


def start_to_stay(
    hosts: Sequence[str],
    folder: Path | None,
    python: str,
    port: int,
    say: Callable[[str], None],
) -> Running:
    """Start it and leave it; RunFailed, UsageError: one is running already."""
    require()
    for sentence in recover():
        say(sentence)
    place = folder or default_folder()
    if (found := recorded(place)) is not None and _answers(str(found["address"]), place):
        raise UsageError(
            f"a cluster is running already, at {found['address']}",
            why=f"its record is in {place}",
            fix="nfslab cluster stop, or give another --dir",
        )
    forget(place)
    if hosts:
        running = waited(start(hosts, place, python=python, stays=True, port=port))
        for name, told in running.cleaned.items():
            for sentence in told:
                say(f"{name}: {sentence}")
        return running
    Papers.new().write(place)
    running = begin_scheduler(place, "", stays=True, port=port)
    write_record(place, running.address, [])
    return running


def _answers(address: str, folder: Path) -> bool:
    from nfslab.cluster.remote import client_of

    try:
        client_of(address, Papers.of(folder)).close()
    except NfslabError:
        return False
    return True


def stop_running(
    hosts: Sequence[str], scheduler: str | None, folder: Path | None
) -> dict[str, str]:
    """By host, why it did not end; RunFailed, UsageError: there is no cluster."""
    require()
    from nfslab.cluster.remote import client_of, workers_of

    place = folder or default_folder()
    address = running_address(place, scheduler)
    ours = scheduler is None
    if ours and not hosts and not _answers(address, place):
        # It died, or this machine was started anew: its keys are of no use to anybody.
        forget(place)
        raise RunFailed(
            f"the cluster at {address} did not run any more",
            why="nothing of it answers",
            fix="nothing has to be done: its certificates are removed, its workers have ended",
        )
    client = client_of(address, Papers.of(place))
    try:
        there = workers_of(client)
        if unknown := [name for name in hosts if name not in there]:
            raise UsageError(
                f"{', '.join(unknown)} is not in the cluster",
                why=f"its hosts: {', '.join(sorted(there)) or 'none'}",
                fix="name those, or none for all",
            )
        told = _end_workers(client, {name: there[name] for name in (hosts or there)})
        if not hosts:
            client.shutdown()
    finally:
        client.close()
    found = recorded(place)
    if found is not None and hosts:
        write_record(place, found["address"], [one for one in found["hosts"] if one not in hosts])
    elif found is not None:
        # Ours. Others' certificates are not ours to remove.
        forget(place)
    return told


def _end_workers(client: Any, workers: dict[str, str]) -> dict[str, str]:
    """Tell them to end, their agents before them; by host, why it did not."""
    from nfslab.cluster.hosted import ask_to_end
    from nfslab.cluster.remote import workers_of

    if workers:
        client.run(ask_to_end, workers=list(workers.values()), on_error="ignore")
    deadline = clock.monotonic() + END_S
    while workers.keys() & workers_of(client).keys() and clock.monotonic() < deadline:
        clock.sleep(END_POLL_S)
    left = workers_of(client)
    return {name: f"it goes on after {END_S:g} s" if name in left else "" for name in workers}
