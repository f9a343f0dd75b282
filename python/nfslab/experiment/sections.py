"""The sections of an experiment file that belong to no plug-in, as pydantic models.

Targets, workloads and collectors bring their own models; everything else that may stand
in the file is declared here, so that this module is the reference of the file's shape.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from nfslab.experiment.guest_section import GUEST_KEYS, VM, GuestKeys
from nfslab.experiment.repetitions import read_width
from nfslab.hosts.registry import HOSTS
from nfslab.machine.wire import Wire
from nfslab.quantities import Duration, Size, parse_size_bytes
from nfslab.results.records import Stopping
from nfslab.statistics.verdicts import MIN_RUNS_SEQUENTIAL
from nfslab.vm.packages import STOCK

LOCAL = "local"
CLUSTER = "cluster"
"""Of client hosts: machines of the section [cluster]."""
HOSTS_MAX = 32
"""Client hosts of one run."""
THIS_MACHINE = frozenset({LOCAL, "localhost", socket.gethostname(), socket.getfqdn()})
"""Names under which it would be a client host of itself."""
MAX_REPETITIONS = 10_000
MAX_LEVELS = 1_000
"""Levels of one axis; more make a plot that nobody can read."""
MAX_POINTS = 10_000
"""Points of the whole matrix; at one second each a block would take three hours."""
MAX_SEED = 2**63 - 1

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._-]{0,127}")


def _experiment_name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError(
            f'{value!r} cannot name a folder: small letters, digits and "-", at most 64, '
            "beginning with a letter or digit"
        )
    return value


MIN_MEMORY_BYTES = 16 << 20


def _memory(value: object) -> int | None:
    """A limit, or "none": a level of an axis can then be "no limit"."""
    if value is None or value == "none":
        return None
    size = parse_size_bytes(value)
    if size < MIN_MEMORY_BYTES:
        raise ValueError(f'{size} bytes hold no program; give at least 16M, or "none"')
    return size


class Section(BaseModel):
    """Base of the sections: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Repetitions(Section):
    """`repetitions = {...}`: as many blocks as it takes."""

    at_least: int = Field(default=MIN_RUNS_SEQUENTIAL, ge=MIN_RUNS_SEQUENTIAL, le=MAX_REPETITIONS)
    at_most: int = Field(default=30, ge=MIN_RUNS_SEQUENTIAL, le=MAX_REPETITIONS)
    until: Annotated[float, BeforeValidator(read_width)]
    """Half-width of the widest interval of the primary metric, as a share of the ratio."""

    @model_validator(mode="after")
    def _ordered(self) -> Repetitions:
        if self.at_most < self.at_least:
            raise ValueError(f"at_most = {self.at_most} is below at_least = {self.at_least}")
        return self


class ExperimentSection(Section):
    """`[experiment]`: what it is called, how often, in which order."""

    name: Annotated[str, AfterValidator(_experiment_name)]
    title: str = ""
    description: str = ""
    repetitions: Annotated[
        Annotated[int, Field(ge=1, le=MAX_REPETITIONS), Tag("a number")]
        | Annotated[Repetitions, Tag("a table")],
        Discriminator(lambda given: "a number" if isinstance(given, int | str) else "a table"),
    ] = 5
    order: Literal["blocks", "fixed"] = "blocks"
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED)
    collectors: list[str] = Field(default_factory=lambda: ["system"])
    primary: str | None = None
    skip_unavailable: bool = False

    @property
    def stopping(self) -> Stopping | None:
        """What ends the experiment, where its number of blocks is not given."""
        given = self.repetitions
        return None if isinstance(given, int) else Stopping(**given.model_dump())

    @property
    def blocks(self) -> tuple[int, int]:
        """Least and most blocks."""
        given = self.repetitions
        return (given, given) if isinstance(given, int) else (given.at_least, given.at_most)


class Limits(Section):
    """`[limits]`: bounds on time and memory, and what happens between runs."""

    run_s: Duration = Field(default=1800.0, gt=0)
    """One run with all its phases."""
    experiment_s: Duration | None = Field(default=None, gt=0)
    """One call of `nfslab run`; what is missing then is done by the next call."""
    memory: Annotated[int | None, BeforeValidator(_memory)] = None
    """Server and client of the workload together, in a control group; page cache too."""
    drop_page_cache: bool = True
    settle_s: Duration = 0.0
    """Pause before each run, for what the one before has left under way."""


def _host(value: str) -> str:
    if value not in HOSTS and value not in (CLUSTER, VM):
        known = ", ".join([*sorted(HOSTS), CLUSTER, VM])
        raise ValueError(f"{value!r} is no host; there is: {known}")
    return value


def _host_name(name: object) -> str:
    if not isinstance(name, str) or not HOST_NAME.fullmatch(name):
        raise ValueError(f'{name!r} cannot name a host: letters, digits, "@", ".", "_", "-"')
    return name


def _is_here(host: str) -> bool:
    """Whether the name, or the loopback address, is this machine's."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host in THIS_MACHINE


def _hosts(value: list[object]) -> list[object]:
    """Names of several client hosts."""
    for name in value:
        if _is_here(_host_name(name).rpartition("@")[2]):
            raise ValueError(
                f"{name!r} is this machine, where the servers are: as a client host it would "
                "compete with them; name another one"
            )
    if twice := [name for name in dict.fromkeys(value) if value.count(name) > 1]:
        raise ValueError(
            f"{twice[0]!r} stands twice: a host is one part of the load; give it more "
            "processes instead"
        )
    if not value:
        raise ValueError(
            "no host is named: name one, or leave the line out for a load from this machine"
        )
    return value


def _require_guest(section: Client | Server) -> None:
    """ValueError for a kernel and its like of what is no guest."""
    if section.host != VM and (given := sorted(GUEST_KEYS & section.model_fields_set)):
        raise ValueError(
            f'{", ".join(given)} of no virtual machine: with host = "{VM}" these hosts are such; '
            "the whole run is in one with these keys in [machine]"
        )


class Client(GuestKeys):
    """`[client]`: where the workload's client runs; a kernel and its like are those of guests."""

    host: Annotated[str, AfterValidator(_host)] = LOCAL
    delay: Duration = Field(default=0.0, ge=0, le=10)
    """Of each way between client and servers."""
    loss: float = Field(default=0.0, ge=0, lt=100)
    """Packets of each way that are lost, in percent."""
    rate: Size | None = Field(default=None, gt=0)
    """Bytes a second of each way; None: as fast as it goes."""
    hosts: (
        Annotated[
            Annotated[int, Field(strict=True, ge=1, le=HOSTS_MAX), Tag("a number")]
            | Annotated[
                list[str], Field(max_length=HOSTS_MAX), BeforeValidator(_hosts), Tag("a list")
            ],
            Discriminator(lambda given: "a list" if isinstance(given, list) else "a number"),
        ]
        | None
    ) = None
    """Several client hosts of that kind that make the load together: how many, or their names."""
    processes: int = Field(default=1, ge=1, le=256)
    """Of the workload, on each of several client hosts."""

    @property
    def host_names(self) -> list[str]:
        """Of several client hosts; empty where there is one that has no agent."""
        if isinstance(self.hosts, int):
            return [f"host{number}" for number in range(1, self.hosts + 1)]
        return list(self.hosts or ())

    @property
    def wire(self) -> Wire:
        """Between client and servers."""
        return Wire(self.delay, self.loss, self.rate or 0)

    @model_validator(mode="before")
    @classmethod
    def _is_one_guest(cls, given: Any) -> Any:
        """Guests are client hosts with an agent: one with Debian's own kernel, unless given."""
        if isinstance(given, dict) and given.get("host") == VM:
            return {"hosts": 1, "kernel": STOCK} | given
        return given

    @model_validator(mode="after")
    def _of_a_guest(self) -> Client:
        if self.host == VM and (self.hosts is None or self.kernel is None):
            raise ValueError(f'host = "{VM}" needs hosts, and a kernel')
        _require_guest(self)
        return self

    @model_validator(mode="after")
    def _has_a_wire(self) -> Client:
        if self.wire and self.host != "namespace":
            why = "loopback has no wire" if self.host == LOCAL else "no other wire is ours"
            raise ValueError(f'delay, loss and rate need host = "namespace": {why}')
        return self

    @model_validator(mode="after")
    def _has_hosts(self) -> Client:
        if self.hosts is None and "processes" in self.model_fields_set:
            raise ValueError("processes are those of each of several client hosts: give hosts, too")
        if isinstance(self.hosts, list) and self.host == LOCAL:
            raise ValueError(
                "named hosts are machines of a section [cluster], or with "
                'host = "namespace" or "vm" network namespaces or guests of this machine; '
                "a number of them on this machine needs no names"
            )
        if self.hosts is None and self.host == CLUSTER:
            raise ValueError("say which machines of the cluster: hosts, by name or how many")
        return self


class Server(GuestKeys):
    """`[server]`: which host has the run's servers; a kernel and its like are those of a guest."""

    host: Annotated[str, AfterValidator(_host)] = LOCAL
    """"local": this machine."""
    name: Annotated[str, AfterValidator(_host_name)] = ""
    """Which machine of the cluster; of other kinds whatever reports are to call it."""

    @model_validator(mode="before")
    @classmethod
    def _is_a_guest(cls, given: Any) -> Any:
        """With Debian's own kernel, unless another is given."""
        if isinstance(given, dict) and given.get("host") == VM:
            return {"kernel": STOCK} | given
        return given

    @model_validator(mode="after")
    def _of_a_guest(self) -> Server:
        _require_guest(self)
        return self

    @model_validator(mode="after")
    def _is_named(self) -> Server:
        if self.host == LOCAL and self.name:
            raise ValueError("the server's host is this machine, which has a name: give host, too")
        if self.host == CLUSTER and not self.name:
            raise ValueError("say which machine of the cluster: name")
        return self

    @property
    def wire(self) -> Wire:
        """None of its own: those of the clients are between them and it."""
        return Wire()

    @property
    def is_elsewhere(self) -> bool:
        """On a host of its own."""
        return self.host != LOCAL

    @property
    def host_name(self) -> str:
        """Of a host of its own."""
        return self.name or "server"


class Machine(GuestKeys):
    """`[machine]`: each run in a virtual machine of its own; without it they are made here."""

    @model_validator(mode="after")
    def _of_a_guest(self) -> Machine:
        if self.kernel is None and (given := self.given_of_a_guest()):
            raise ValueError(
                f"{', '.join(given)} of no virtual machine: give it a "
                'kernel, for example kernel = "6.12"'
            )
        return self


class AxisSection(Section):
    """One `[[axes]]`: a parameter, or several that move together, and their values."""

    name: str | None = None
    parameter: str | None = None
    parameters: list[str] | None = Field(default=None, min_length=1, max_length=16)
    values: list[Any] = Field(min_length=1, max_length=MAX_LEVELS)
    labels: list[str] | None = None
    scale: Literal["linear", "log"] | None = None


class Reference(Section):
    """`[reference]`: the published table that a report lays beside the results."""

    table: str
    metric: dict[str, str] = Field(default_factory=dict)
    match: dict[str, str] = Field(default_factory=dict)


OF_A_POINT = ("limits", "client", "server", "machine", "cluster")
"""Sections without a plug-in that an axis may set."""
SECTIONS = (
    "experiment",
    "limits",
    "targets",
    "workload",
    "axes",
    "exclude",
    "collectors",
    "client",
    "server",
    "machine",
    "cluster",
    "reference",
)
"""Top-level keys of an experiment file, in the order of a person's thoughts."""
