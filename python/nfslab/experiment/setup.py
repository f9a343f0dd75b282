"""Everything that is in force at one point of an experiment, validated and typed.

A `Setup` is what the runner works from: limits, targets, the workload, collectors. Its
`resolved()` is the same as plain JSON, with every default filled in; that is what a run's
record keeps and what the experiment's identity is made of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nfslab.experiment.guest_section import GUEST_KEYS

if TYPE_CHECKING:
    from nfslab.cluster.settings import ClusterSection
    from nfslab.evidence.collector import Collector, CollectorParameters
    from nfslab.experiment.sections import Client, Limits, Machine, Server
    from nfslab.targets.base import Target, TargetParameters
    from nfslab.workloads.base import Workload, WorkloadParameters


@dataclass(frozen=True, slots=True)
class TargetSetup:
    """One target of the file with its parameters."""

    name: str
    kind: str
    parameters: TargetParameters

    def make(self) -> Target:
        """The target itself (nothing is brought up yet)."""
        from nfslab.targets.registry import target_class

        return target_class(self.kind)(self.name, self.parameters)


@dataclass(frozen=True, slots=True)
class WorkloadSetup:
    """The workload with its parameters."""

    kind: str
    parameters: WorkloadParameters

    def make(self) -> Workload:
        """The workload itself (nothing is prepared yet)."""
        from nfslab.workloads.registry import workload_class

        return workload_class(self.kind).of(self.parameters)

    def roles(self) -> dict[str, str]:
        """Role -> name of the target that it is played by; roles not given are left out."""
        from nfslab.workloads.registry import workload_class

        named = ((role, getattr(self.parameters, role)) for role in workload_class(self.kind).roles)
        return {role: name for role, name in named if name is not None}


@dataclass(frozen=True, slots=True)
class CollectorSetup:
    """One collector with its parameters."""

    kind: str
    parameters: CollectorParameters

    def make(self) -> Collector:
        """The collector itself (not started yet)."""
        from nfslab.evidence.registry import collector_class

        return collector_class(self.kind)(self.parameters)

    def side(self) -> str:
        """ "client" or "server": on which host it watches."""
        from nfslab.evidence.registry import collector_class

        return collector_class(self.kind).side

    def of_machine(self) -> bool:
        """Whether it watches a whole machine, whatever runs there."""
        from nfslab.evidence.registry import collector_class

        return collector_class(self.kind).of_machine


@dataclass(frozen=True, slots=True)
class Setup:
    """All parameters at one point."""

    limits: Limits
    client: Client
    server: Server
    machine: Machine
    targets: dict[str, TargetSetup]
    workload: WorkloadSetup
    collectors: dict[str, CollectorSetup]
    cluster: ClusterSection | None = None
    """The machines of client hosts, where they are others than this one."""

    def resolved(self) -> dict[str, Any]:
        """As plain JSON, in the layout of the experiment file."""
        # Not where there is none: experiments without keep their identity.
        guest = self.machine.kernel is not None
        machine = {"machine": self.machine.model_dump(mode="json")} if guest else {}
        several = self.client.hosts is not None
        left_out = set() if several else {"hosts", "processes"}
        if self.client.kernel is None:
            left_out |= GUEST_KEYS
        no_guest = set(GUEST_KEYS) if self.server.kernel is None else None
        server = {"server": self.server.model_dump(mode="json", exclude=no_guest)}
        return {
            "limits": self.limits.model_dump(mode="json"),
            "client": self.client.model_dump(mode="json", exclude=left_out),
            **(server if self.server.is_elsewhere else {}),
            **machine,
            **({"cluster": self.cluster.model_dump(mode="json")} if self.cluster else {}),
            "targets": {
                name: {"kind": target.kind, **target.parameters.model_dump(mode="json")}
                for name, target in self.targets.items()
            },
            "workload": {
                "kind": self.workload.kind,
                **self.workload.parameters.model_dump(mode="json"),
            },
            "collectors": {
                name: collector.parameters.model_dump(mode="json")
                for name, collector in self.collectors.items()
            },
        }

    def used_targets(self) -> dict[str, TargetSetup]:
        """The targets that the workload uses here: they are brought up for a run."""
        return {name: self.targets[name] for name in dict.fromkeys(self.workload.roles().values())}

    @classmethod
    def of(cls, resolved: dict[str, Any]) -> Setup:
        """What `resolved` said, read again; whatever pydantic raises where it did not."""
        from nfslab.evidence.registry import collector_class
        from nfslab.experiment.sections import Client, Limits, Machine, Server
        from nfslab.targets.registry import target_class
        from nfslab.workloads.registry import workload_class

        def split(section: dict[str, Any]) -> tuple[str, dict[str, Any]]:
            return section["kind"], {k: v for k, v in section.items() if k != "kind"}

        targets = {}
        for name, section in resolved["targets"].items():
            kind, values = split(section)
            parameters = target_class(kind).Parameters.model_validate(values)
            targets[name] = TargetSetup(name, kind, parameters)
        kind, values = split(resolved["workload"])
        return cls(
            limits=Limits.model_validate(resolved["limits"]),
            client=Client.model_validate(resolved["client"]),
            server=Server.model_validate(resolved.get("server", {})),
            machine=Machine.model_validate(resolved.get("machine", {})),
            targets=targets,
            workload=WorkloadSetup(kind, workload_class(kind).Parameters.model_validate(values)),
            collectors={
                name: CollectorSetup(name, collector_class(name).Parameters.model_validate(values))
                for name, values in resolved["collectors"].items()
            },
        )


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of the matrix."""

    name: str
    parameters: tuple[tuple[str, ...], ...]
    """Paths of what it sets."""
    labels: tuple[Any, ...]
    """What people see of its levels: labels, or the values as written."""
    raw: tuple[tuple[Any, ...], ...]
    """Per level one value for each parameter, as written."""
    scale: str | None
    zipped: bool

    def parameter_names(self) -> list[str]:
        """The parameters as written in the file."""
        return [".".join(path) for path in self.parameters]


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of the axes."""

    point_id: str
    index: int
    levels: tuple[int, ...]
    """Per axis: the number of its level."""
    factors: dict[str, Any]
    settings: dict[str, Any]
    setup: Setup

    def label(self) -> str:
        """For people: "placement=log apart clients=8"."""
        return " ".join(f"{name}={value}" for name, value in self.factors.items()) or "all"
