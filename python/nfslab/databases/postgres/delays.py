"""Planted latency of a PostgreSQL of ours: calls on files of one class wait (preload library).

An intervention of experiments. The library waits before the call, within what is seen of it by the
shim and in wait events; eBPF sees the call itself, without the wait. Writes that make themselves
durable (wal_sync_method = open_datasync) are writes of the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from nfslab.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DelayedCall = Literal["log_sync", "log_write", "data_sync", "data_read", "data_write"]
DATA_FOLDERS: Final = ("base", "global", "pg_tblspc")


@dataclass(frozen=True, slots=True)
class PlantedDelays:
    """What waits, by kind of call: seconds; and where the files are."""

    seconds: Mapping[DelayedCall, float]
    data: Path | None = None
    log: Path | None = None

    def environment(self, folder: Path) -> dict[str, str]:
        """For the server's launch; the library is written into `folder`, which it can read."""
        asked = {name: seconds for name, seconds in self.seconds.items() if seconds > 0}
        if not asked:
            return {}
        from nfslab._core import CoreError, shim_path

        try:
            library = shim_path(folder)
        except CoreError as error:
            raise RunFailed(
                "planted_delay needs the preload library", why=error.what, fix=error.fix
            ) from error
        parts = [
            f"{name.partition('_')[2]}:{round(seconds * 1e9)}:{prefix}"
            for name, seconds in asked.items()
            for prefix in self._prefixes(name)
        ]
        return {"LD_PRELOAD": library, "NFSLAB_SHIM_DELAY": ";".join(parts)}

    def _prefixes(self, name: DelayedCall) -> list[str]:
        """Where files of that class lie, links followed as the kernel shows them."""
        if self.data is None or self.log is None:
            return []
        if name.startswith("log_"):
            return [f"{self.log.resolve()}/"]
        return [f"{(self.data / one).resolve()}/" for one in DATA_FOLDERS]


NO_DELAYS: Final = PlantedDelays({})
