"""`[cluster]` of an experiment file, and the cluster that it asks for.

[cluster]
hosts = ["load1", "load2", "root@load3"]     # over ssh: started for the experiment, then stopped

[cluster]
certificates = "/shared/certificates"        # one that runs, of `nfslab cluster start --dir`
scheduler = "tls://controller:8786"               # or one whose scheduler something else started
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from nfslab import clock
from nfslab.cluster.base import NoAnswer
from nfslab.cluster.needed import require
from nfslab.cluster.record import default_folder, running_address
from nfslab.cluster.starting import checked_hosts, start, waited
from nfslab.errors import RunFailed, UsageError
from nfslab.machine.journal import state_folder
from nfslab.machine.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nfslab.cluster.remote import ClusterThere, MemberThere

    Greet = Callable[[list[MemberThere]], tuple[list[MemberThere], list[str]]]
    """Of those who joined: whom it greeted, and what is worth telling; RunFailed, UsageError."""

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


GREETED_AT_ONCE: Final = 16


def _require_so_many(asked: int, there: int, apart: Sequence[str]) -> None:
    if asked > there:
        beside = f" beside that of the server, {apart[0]}" if apart else ""
        raise UsageError(
            f"{asked} hosts are asked for, the cluster has {there}{beside}",
            fix="ask for fewer, or add hosts",
        )


def connect(section: ClusterSection, greet: Greet | None = None) -> ClusterThere:
    """The cluster, with all its members greeted, or of one that runs those that `greet` returns.

    RunFailed, UsageError before anything is run.
    """
    require()
    if section.hosts is None:
        folder = Path(section.certificates) if section.certificates else default_folder()
        address = running_address(folder, section.scheduler)
        return joined(address, folder, wanted=section.members, greet=greet)
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
) -> ClusterThere:
    """The first so many hosts of the cluster that answer, or these, and then those `apart`.

    Of a cluster that runs nobody else is greeted: one that hangs, or that another nfslab holds, is
    no harm where it is not needed. RunFailed, UsageError.
    """
    names = [*section.chosen(hosts, apart), *apart]
    if section.hosts is not None:
        return connect(section.model_copy(update={"hosts": names}))

    def greet(there: list[MemberThere]) -> tuple[list[MemberThere], list[str]]:
        named, _ = _greeted(_of_names(there, names))
        if not isinstance(hosts, int):
            return named, []
        first, notes = _first_that_answer(there, hosts, apart)
        return [*first, *named], notes

    return connect(section, greet)


def connect_answering(section: ClusterSection) -> ClusterThere:
    """Those hosts of a cluster that runs which answer; its notes tell of the others.

    RunFailed: none does. UsageError.
    """

    def greet(there: list[MemberThere]) -> tuple[list[MemberThere], list[str]]:
        silent = _silent(there)
        if len(silent) == len(there):
            raise _no_answer("no host of the cluster answers", silent)
        return [member for member in there if member.name not in silent], _passed_over(silent)

    return connect(section, greet)


def _of_names(there: list[MemberThere], names: Sequence[str]) -> list[MemberThere]:
    """UsageError: one is not there."""
    by_name = {member.name: member for member in there}
    if missing := [name for name in names if name not in by_name]:
        raise UsageError(
            f"{missing[0]!r} is no host of the cluster",
            why=f"it has {', '.join(by_name)}",
            fix="name hosts as they joined: nfslab cluster check",
        )
    return [by_name[name] for name in names]


def _greeted(members: list[MemberThere]) -> tuple[list[MemberThere], list[str]]:
    """All of them; RunFailed, which names those that do not answer."""
    if silent := _silent(members):
        raise _no_answer(f"hosts that are needed do not answer: {', '.join(silent)}", silent)
    return members, []


def _first_that_answer(
    there: list[MemberThere], wanted: int, apart: Sequence[str]
) -> tuple[list[MemberThere], list[str]]:
    """So many, and what is worth telling of those that were passed over; RunFailed, UsageError."""
    free = [member for member in there if member.name not in apart]
    _require_so_many(wanted, len(free), apart)
    found: list[MemberThere] = []
    silent: dict[str, NoAnswer] = {}
    while lacking := wanted - len(found):
        if not free:
            what = f"{wanted} hosts are asked for, {len(found)} of the cluster's answer"
            raise _no_answer(what, silent)
        some, free = free[:lacking], free[lacking:]
        silent |= _silent(some)
        found += [member for member in some if member.name not in silent]
    return found, _passed_over(silent)


def _passed_over(silent: Mapping[str, NoAnswer]) -> list[str]:
    """What is worth telling of each."""
    return [f"{name} was passed over: {error.in_a_line()}" for name, error in silent.items()]


def _silent(members: list[MemberThere]) -> dict[str, NoAnswer]:
    """Greet them, side by side; those that do not answer; RunFailed: one refuses."""

    def greeted(member: MemberThere) -> NoAnswer | None:
        try:
            member.connect()
        except NoAnswer as error:
            return error
        return None

    with ThreadPoolExecutor(min(len(members), GREETED_AT_ONCE) or 1) as pool:
        answers = list(pool.map(greeted, members))
    return {one.name: error for one, error in zip(members, answers, strict=True) if error}


def _no_answer(what: str, silent: dict[str, NoAnswer]) -> NoAnswer:
    """The error for all of them."""
    whys = [error.in_a_line(": ") for error in silent.values()]
    return NoAnswer(what, why="; ".join(whys), fix=next(iter(silent.values())).fix)


def joined(
    address: str,
    folder: Path,
    *,
    order: list[str] | None = None,
    wanted: int | None = None,
    end: Callable[[], object] | None = None,
    greet: Greet | None = None,
) -> ClusterThere:
    """All members of the scheduler at this address, or those that `greet` returns.

    RunFailed, UsageError.
    """
    from nfslab.cluster.certificates import Papers
    from nfslab.cluster.remote import ClusterThere, client_of

    client = client_of(address, Papers.of(folder))
    members: list[MemberThere] = []
    try:
        members = ordered(members_of(client, wanted), order)
        greeted, notes = (greet or _greeted)(members)
    except BaseException:
        # Those that were greeted are left, so that they are free for others.
        ClusterThere(members, client).close()
        raise
    cluster = ClusterThere(greeted, client, end)
    cluster.notes = notes
    return cluster


def members_of(client: Any, wanted: int | None = None) -> list[MemberThere]:
    """Who joined, not greeted yet, by name; RunFailed: nobody, or not so many as `wanted`."""
    from nfslab.cluster.remote import MemberThere, workers_of

    deadline = clock.monotonic() + JOIN_S
    while True:
        found = workers_of(client)
        if wanted is None or len(found) >= wanted or clock.monotonic() >= deadline:
            break
        clock.sleep(JOIN_POLL_S)
    address = client.scheduler_info()["address"]
    if wanted is not None and len(found) != wanted:
        raise RunFailed(
            f"{len(found)} hosts have joined the cluster at {address}, not {wanted}",
            why=f"those that are there: {', '.join(sorted(found)) or 'none'}",
            fix="see the log of the launcher that starts the workers, or correct the number",
        )
    if not found:
        raise RunFailed(
            f"no host has joined the cluster at {address}",
            why="its scheduler knows of no worker",
            fix="start workers: nfslab cluster start HOST..., or docs/cluster.md for launchers",
        )
    return [MemberThere(name, where, client) for name, where in sorted(found.items())]


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
