"""What an experiment file may say of the PostgreSQL of a workload, under the same names in each."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from nfslab.databases.postgres.delays import DelayedCall
from nfslab.databases.postgres.settings import setting_problem
from nfslab.databases.shared.settings import SettingValue, refuse_problems
from nfslab.quantities import Duration, Size

DELAY_MAX_S: Final = 10.0


class PostgresParameters(BaseModel):
    """The server, where it lives, and how its data gets there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: str
    """Role: the target of the data directory."""
    wal: str | None = None
    """Role: the target of the write-ahead log; default: with the data."""
    postgres: str = "auto"
    """"auto", "system", "embedded", "embedded-16", or the folder of the programs."""
    load: Literal["copy", "fresh"] = "copy"
    """"copy": loaded once and copied for every run; "fresh": loaded anew for every run."""
    data_checksums: bool | None = None
    """None: as this version's initdb has it (on since 18)."""
    wal_segment_size: Size | None = None
    settings: dict[str, SettingValue] = Field(default_factory=dict)
    """Server settings, any: name = value."""
    planted_delay: dict[DelayedCall, Duration] = Field(default_factory=dict)
    """Planted: each such call of the server on files waits so long: {log_sync = "2ms"}."""

    @field_validator("wal_segment_size")
    @classmethod
    def _segment(cls, value: int | None) -> int | None:
        sizes = [1 << power for power in range(20, 31)]
        if value is not None and value not in sizes:
            raise ValueError("wal_segment_size is a power of two from 1M to 1G")
        return value

    @field_validator("settings")
    @classmethod
    def _settings(cls, value: dict[str, SettingValue]) -> dict[str, SettingValue]:
        refuse_problems(value, setting_problem)
        return value

    @field_validator("planted_delay")
    @classmethod
    def _delays(cls, value: dict[DelayedCall, float]) -> dict[DelayedCall, float]:
        if any(not 0 <= seconds <= DELAY_MAX_S for seconds in value.values()):
            raise ValueError(f"a planted delay is at most {DELAY_MAX_S:g} s")
        return value
