"""Parameters of the workload `pgbench`, as written in the experiment file.

Names are pgbench's and PostgreSQL's own wherever there is one, so that what a person
knows from there holds here. Impossible combinations are refused here with the reason;
what depends on the installation (a version too old for an option) is refused by
`PgbenchWorkload.check`.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from nfslab.databases.postgres.parameters import PostgresParameters
from nfslab.databases.postgres.settings import connections_problem
from nfslab.quantities import Duration
from nfslab.workloads.base import WorkloadParameters

if TYPE_CHECKING:
    from typing import Self

Builtin = Literal["tpcb-like", "simple-update", "select-only"]
CLIENTS_MAX: Final = 10_000
SCALE_MAX: Final = 21_474
"""Beyond it account numbers need 64 bits (pgbench's SCALE_32BIT_THRESHOLD is near)."""
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SCRIPTS_MAX: Final = 128
"""pgbench's MAX_SCRIPTS."""
WEIGHT_MAX: Final = 2**31 - 1


def _weights(value: object) -> object:
    """One name, a list of names, or names with weights: always names with weights."""
    if isinstance(value, str):
        return {value: 1}
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        if len(set(value)) != len(value):
            raise ValueError(f"{value!r} names one twice; write a table with weights")
        return dict.fromkeys(value, 1)
    return value


def _listed(value: object) -> object:
    return [value] if isinstance(value, str | Path) else value


Weight = Annotated[int, Field(ge=0, le=WEIGHT_MAX)]


def script_digest(path: Path) -> str:
    """SHA-256 of a script's content; "" when it cannot be read."""
    try:
        return hashlib.sha256(path.expanduser().read_bytes()).hexdigest()
    except OSError:
        return ""


class PgbenchParameters(PostgresParameters, WorkloadParameters):
    """What `[workload]` may hold with `kind = "pgbench"`."""

    # What is loaded
    scale: int = Field(default=1, ge=1, le=SCALE_MAX)
    fillfactor: int = Field(default=100, ge=10, le=100)
    foreign_keys: bool = False
    partitions: int = Field(default=0, ge=0, le=10_000)
    partition_method: Literal["range", "hash"] = "range"

    # The load
    clients: int = Field(default=1, ge=1, le=CLIENTS_MAX)
    threads: int = Field(default=1, ge=1, le=CLIENTS_MAX)
    transactions: int | None = Field(default=None, ge=1, le=2**31 - 1)
    """Per client. Either this or `duration`."""
    duration: Duration | None = None
    """Whole seconds."""
    warm_up: Duration = 0.0
    """Whole seconds of the same load before the timed part."""
    rate: float | None = Field(default=None, gt=0, le=1e7)
    """Transactions a second of all clients, at random instants (Poisson)."""
    latency_limit: Duration | None = None
    """Slower ones count as late; with `rate`, those that cannot make it are skipped."""
    protocol: Literal["simple", "extended", "prepared"] = "simple"
    builtin: Annotated[dict[Builtin, Weight], BeforeValidator(_weights)] = Field(
        default_factory=dict
    )
    """pgbench's own scripts: a name, names, or names with weights; default "tpcb-like"."""
    scripts: Annotated[list[Path], BeforeValidator(_listed)] = Field(default_factory=list)
    """Own scripts: a path or paths (relative ones: from the experiment file)."""
    script_weights: list[Weight] = Field(default_factory=list)
    """One weight a script; default: all alike."""
    script_digests: list[str] = Field(default_factory=list)
    """SHA-256 of each script: filled in, so that a changed script is another experiment."""
    variables: dict[str, int | float | str] = Field(default_factory=dict)
    """For own scripts (pgbench -D)."""
    socket: Literal["unix", "tcp"] = "unix"
    connect_each: bool = False
    """A new connection for every transaction."""
    max_tries: int = Field(default=1, ge=1, le=1_000_000)
    """How often a transaction is tried after a serialisation error or a deadlock."""
    sampling_rate: float = Field(default=1.0, gt=0, le=1)
    """Share of transactions that are logged: below 1 quantiles are estimates."""

    @field_validator("duration", "warm_up")
    @classmethod
    def _whole_seconds(cls, value: float | None) -> float | None:
        if value is not None and value != int(value):
            raise ValueError(f"pgbench takes whole seconds, not {value:g}")
        return value

    @field_validator("scripts")
    @classmethod
    def _scripts(cls, value: list[Path]) -> list[Path]:
        if len(set(value)) != len(value):
            raise ValueError("a script is named twice: use script_weights")
        return value

    @field_validator("variables")
    @classmethod
    def _variables(cls, value: dict[str, int | float | str]) -> dict[str, int | float | str]:
        for name in value:
            if not VARIABLE.fullmatch(name):
                raise ValueError(f"{name!r} is no name of a pgbench variable (letters, digits, _)")
        return value

    @model_validator(mode="before")
    @classmethod
    def _digests(cls, value: Any) -> Any:
        """Note what the scripts hold; one that cannot be read is refused by `check`."""
        if not isinstance(value, dict) or value.get("script_digests"):
            return value
        scripts = _listed(value.get("scripts") or [])
        if not isinstance(scripts, list) or not all(isinstance(s, str | Path) for s in scripts):
            return value
        return {**value, "script_digests": [script_digest(Path(s)) for s in scripts]}

    @model_validator(mode="after")
    def _combination(self) -> Self:
        if (self.transactions is None) == (self.duration is None):
            both = "both are given" if self.transactions is not None else "none is given"
            raise ValueError(f"give either transactions (per client) or duration (seconds): {both}")
        if self.duration is not None and self.duration < 1:
            raise ValueError("duration is at least one second")
        if self.script_weights and len(self.script_weights) != len(self.scripts):
            raise ValueError(
                f"{len(self.scripts)} scripts, but {len(self.script_weights)} script_weights"
            )
        if self.variables and not self.scripts:
            raise ValueError("variables are for own scripts: there are no `scripts`")
        weights = [*self.builtin.values(), *self.own_scripts().values()]
        if weights and not any(weights):
            raise ValueError("all scripts have weight 0")
        if len(weights) > SCRIPTS_MAX:
            raise ValueError(f"pgbench takes at most {SCRIPTS_MAX} scripts")
        if self.latency_limit is not None and self.latency_limit < 1e-4:
            raise ValueError("latency_limit is at least 0.1 ms, pgbench's resolution")
        if problem := connections_problem(self.settings, self.clients):
            raise ValueError(problem)
        return self

    def builtin_scripts(self) -> dict[str, int]:
        """pgbench's own scripts with their weights, the default filled in."""
        if self.builtin or self.scripts:
            return {str(name): weight for name, weight in self.builtin.items()}
        return {"tpcb-like": 1}

    def own_scripts(self) -> dict[Path, int]:
        """Own scripts with their weights."""
        weights = self.script_weights or [1] * len(self.scripts)
        return dict(zip(self.scripts, weights, strict=False))

    def script_names(self) -> list[str]:
        """All scripts in the order in which pgbench numbers them."""
        return [*self.builtin_scripts(), *map(str, self.scripts)]

    @property
    def effective_threads(self) -> int:
        """pgbench never has more threads than clients."""
        return min(self.threads, self.clients)
