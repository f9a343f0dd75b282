"""`[cluster]` of an experiment file, and the cluster that it asks for.

[cluster]
hosts = ["load1", "load2", "root@load3"]     # over ssh: started for the experiment, then stopped

[cluster]
certificates = "/shared/certificates"        # one that runs, of `nfslab cluster start --dir`
scheduler = "tls://prime:8786"               # or one whose scheduler something else started
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from nfslab.cluster.base import Some
from nfslab.cluster.loop import waited
from nfslab.cluster.needed import require
from nfslab.cluster.record import default_folder, running_address
from nfslab.cluster.starting import checked_hosts, start
from nfslab.errors import RunFailed, UsageError
from nfslab.machine.journal import state_folder
from nfslab.machine.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab.cluster.base import Cluster
    from nfslab.cluster.certificates import Papers
    from nfslab.cluster.loop import Loop
    from nfslab.cluster.remote import ClusterThere, MemberThere


JOIN_S: Final = 60.0
"""How long hosts that launchers start are waited for."""
JOIN_POLL_S: Final = 0.2


class ClusterSection(BaseModel):
    """What `[cluster]` may hold."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hosts: list[str] | None = None
    """Over ssh; each is "host" or "user@host"."""
    scheduler: str | None = None
    """Of a cluster that runs already; default: that of which `certificates` has the record."""
    certificates: str | None = None
    """Its folder of certificates; default, with `scheduler`: that of `nfslab cluster start`."""
    members: int | None = Field(default=None, ge=1)
    """Of a cluster that runs: so many hosts; they are waited for, and no other number will do."""
    python: str = ""
    """nfslab's Python on the hosts; default: the same path as here."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        runs = self.scheduler is not None or self.certificates is not None
        if (self.hosts is None) != runs:
            raise ValueError(
                'either hosts = ["load1", ...], or of a cluster that runs '
                'scheduler = "tls://HOST:PORT" or certificates = "DIR"'
            )
        if not runs and self.members is not None:
            raise ValueError("members counts those of a cluster that runs: name it, too")
        if runs and self.python:
            raise ValueError("python is for hosts that are reached over ssh")
        if self.hosts is not None:
            try:
                checked_hosts(self.hosts)
            except UsageError as error:
                raise ValueError(f"{error.in_a_line()}; {error.fix}") from error
        return self

    def chosen(self, hosts: int | list[str], apart: Sequence[str] = ()) -> list[str]:
        """Names of the first ones, or these; those of a scheduler that runs are not known yet.

        Those `apart` are none of the first. UsageError: they are not among this cluster's.
        """
        if self.hosts is None:
            if self.members is not None and isinstance(hosts, int):
                _require_so_many(hosts, self.members - len(apart), apart)
            return hosts if isinstance(hosts, list) else []
        if strange := [name for name in apart if name not in self.hosts]:
            raise self._strange(strange[0])
        if isinstance(hosts, int):
            return _first(hosts, self.hosts, apart)
        if strange := [name for name in hosts if name not in self.hosts]:
            raise self._strange(strange[0])
        return hosts

    def _strange(self, name: str) -> UsageError:
        return UsageError(
            f"{name!r} is no host of the cluster",
            why=f"it has {', '.join(self.hosts or ())}",
            fix="name it in [cluster] hosts, too, written alike",
        )


def _first(wanted: int, names: Sequence[str], apart: Sequence[str]) -> list[str]:
    """The first so many of those that are not `apart`; UsageError."""
    free = [name for name in names if name not in apart]
    _require_so_many(wanted, len(free), apart)
    return free[:wanted]


def _require_so_many(asked: int, there: int, apart: Sequence[str]) -> None:
    if asked > there:
        beside = f" beside that of the server, {apart[0]}" if apart else ""
        raise UsageError(
            f"{asked} hosts are asked for, the cluster has {there}{beside}",
            fix="ask for fewer, or add hosts",
        )


def connect(section: ClusterSection) -> ClusterThere:
    """The cluster, with all its members greeted; RunFailed, UsageError before anything is run."""
    require()
    if section.hosts is None:
        folder = Path(section.certificates) if section.certificates else default_folder()
        address = running_address(folder, section.scheduler)
        return joined(address, folder, wanted=section.members)
    resources = Resources("cluster of an experiment")
    try:
        folder = resources.make_directory(state_folder() / resources.name).path
        running = waited(start(section.hosts, folder, python=section.python, stays=False))
    except BaseException:
        resources.close()
        raise

    def end() -> None:
        running.end()
        resources.close()

    try:
        cluster = joined(running.address, folder, order=section.hosts, end=end)
    except BaseException:
        end()
        raise
    cluster.cleaned = running.cleaned
    return cluster


def connect_some(
    section: ClusterSection, hosts: int | list[str], apart: Sequence[str] = ()
) -> Cluster:
    """The first so many hosts of the cluster, or these, and then those `apart`.

    RunFailed, UsageError.
    """
    names = [*section.chosen(hosts, apart), *apart]
    if section.hosts is not None:
        return connect(section.model_copy(update={"hosts": names}))
    whole = connect(section)
    try:
        by_name = {member.name: member for member in whole.members}
        if isinstance(hosts, int):
            names = [*_first(hosts, list(by_name), apart), *apart]
        if missing := [name for name in names if name not in by_name]:
            raise UsageError(
                f"{missing[0]!r} is no host of the cluster",
                why=f"it has {', '.join(by_name)}",
                fix="name hosts as they joined: nfslab cluster check",
            )
        return Some(whole, [by_name[name] for name in names])
    except BaseException:
        whole.close()
        raise


def joined(
    address: str,
    folder: Path,
    *,
    order: list[str] | None = None,
    wanted: int | None = None,
    end: Callable[[], object] | None = None,
) -> ClusterThere:
    """All members of the scheduler at this address; RunFailed, UsageError."""
    from nfslab.cluster.certificates import papers_in
    from nfslab.cluster.loop import Loop
    from nfslab.cluster.remote import ClusterThere

    papers = papers_in(folder, "prime")
    loop = Loop()
    members: list[MemberThere] = []
    try:
        members = ordered(members_of(address, papers, loop, wanted), order)
        for member in members:
            member.connect()
    except BaseException:
        # Those that were greeted are left, so that they are free for others.
        ClusterThere(members, loop).close()
        raise
    return ClusterThere(members, loop, end)


def members_of(
    address: str, papers: Papers, loop: Loop, wanted: int | None = None
) -> list[MemberThere]:
    """Who joined, not greeted yet, by name; RunFailed: nobody, or not so many as `wanted`."""
    from nfslab.cluster.link import Link, members_at
    from nfslab.cluster.remote import MemberThere

    deadline = time.monotonic() + JOIN_S
    while True:
        found = loop.call(members_at(address, papers))
        if wanted is None or len(found) >= wanted or time.monotonic() >= deadline:
            break
        time.sleep(JOIN_POLL_S)
    if wanted is not None and len(found) != wanted:
        raise RunFailed(
            f"{len(found)} hosts have joined the cluster at {address}, not {wanted}",
            why=f"those that are there: {', '.join(sorted(name for name, _ in found)) or 'none'}",
            fix="see the log of the launcher that starts the workers, or correct the number",
        )
    if not found:
        raise RunFailed(
            f"no host has joined the cluster at {address}",
            why="its scheduler knows of no worker",
            fix="start workers: nfslab cluster start HOST..., or docs/cluster.md for launchers",
        )
    return [MemberThere(Link(name, where, papers, loop), loop) for name, where in sorted(found)]


def ordered(members: list[MemberThere], names: list[str] | None) -> list[MemberThere]:
    """As the user named them."""
    if names is None:
        return members
    by_name = {member.name: member for member in members}
    if missing := [name for name in names if name not in by_name]:
        raise RunFailed(
            f"{', '.join(missing)} did not stay in the cluster",
            why="its worker joined and is not there any more",
            fix="see its log there, in nfslab's state folder: cluster-logs",
        )
    return [by_name[name] for name in names]
