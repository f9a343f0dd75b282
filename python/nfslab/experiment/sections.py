"""The sections of an experiment file that belong to no plug-in, as pydantic models.

Targets, workloads and collectors bring their own models; everything else that may stand
in the file is declared here, so that this module is the reference of the file's shape.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from nfslab.hosts.registry import HOSTS
from nfslab.quantities import Duration, parse_size_bytes

MAX_REPETITIONS = 10_000
MAX_LEVELS = 1_000
"""Levels of one axis; more make a plot that nobody can read."""
MAX_POINTS = 10_000
"""Points of the whole matrix; at one second each a block would take three hours."""
MAX_SEED = 2**63 - 1

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


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


class ExperimentSection(Section):
    """`[experiment]`: what it is called, how often, in which order."""

    name: Annotated[str, AfterValidator(_experiment_name)]
    title: str = ""
    description: str = ""
    repetitions: int = Field(default=5, ge=1, le=MAX_REPETITIONS)
    order: Literal["blocks", "fixed"] = "blocks"
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED)
    collectors: list[str] = Field(default_factory=lambda: ["system"])
    primary: str | None = None
    skip_unavailable: bool = False


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
    if value not in HOSTS:
        raise ValueError(f"{value!r} is no host; there is: {', '.join(sorted(HOSTS))}")
    return value


class Client(Section):
    """`[client]`: where the workload's client runs."""

    host: Annotated[str, AfterValidator(_host)] = "local"


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


SECTIONS = (
    "experiment",
    "limits",
    "targets",
    "workload",
    "axes",
    "exclude",
    "collectors",
    "client",
    "reference",
)
"""Top-level keys of an experiment file, in the order of a person's thoughts."""
