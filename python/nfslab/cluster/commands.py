"""What `nfslab cluster` does: each of its commands, without its arguments and words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from nfslab.cluster.certificates import Authority, papers_in
from nfslab.cluster.check import HostReport, checked
from nfslab.cluster.loop import waited
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
)
from nfslab.errors import NfslabError, RunFailed, UsageError
from nfslab.machine.journal import state_folder
from nfslab.machine.resources import Resources, recover

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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
    from nfslab.cluster.link import facts_of

    facts = facts_of(json.dumps(problem.facts)) if isinstance(problem, AnotherNfslab) else {}
    return HostReport(name, problem=problem, facts=facts)


def _of_running(address: str, folder: Path, wanted: int | None = None) -> list[HostReport]:
    from nfslab.cluster.loop import Loop
    from nfslab.cluster.remote import ClusterThere

    papers = papers_in(folder, "prime")
    loop = Loop()
    try:
        members = members_of(address, papers, loop, wanted)
    except BaseException:
        loop.close()
        raise
    cluster = ClusterThere(members, loop)
    try:
        return checked(members)
    finally:
        cluster.close()


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
    Authority.new().write(place)
    running = begin_scheduler(place, "", stays=True, port=port)
    write_record(place, running.address, [])
    return running


def _answers(address: str, folder: Path) -> bool:
    from nfslab.cluster.link import members_at

    try:
        waited(members_at(address, papers_in(folder, "prime")))
    except NfslabError:
        return False
    return True


def stop_running(
    hosts: Sequence[str], scheduler: str | None, folder: Path | None
) -> dict[str, str]:
    """By host, why it did not end; RunFailed, UsageError: there is no cluster."""
    require()
    from nfslab.cluster.stopping import stop

    place = folder or default_folder()
    address = running_address(place, scheduler)
    if scheduler is None and not hosts and not _answers(address, place):
        # It died, or this machine was started anew: its keys are of no use to anybody.
        forget(place)
        raise RunFailed(
            f"the cluster at {address} did not run any more",
            why="nothing of it answers",
            fix="nothing has to be done: its certificates are removed, its workers have ended",
        )
    told = waited(stop(address, papers_in(place, "prime"), hosts))
    if not hosts and recorded(place) is not None:
        # Ours. Others' certificates are not ours to remove.
        forget(place)
    return told
