"""A host on which every program joins one control group: the memory limit of a workload.

The workload starts its programs as ever; it need not know of the limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.machine.cgroup import Cgroup
    from nfslab.machine.host import Completed, Host, Process


class LimitedHost:
    """Hands everything on to another host, with the group added."""

    def __init__(self, host: Host, cgroup: Cgroup) -> None:
        self.name = host.name
        self._host = host
        self._cgroup = cgroup

    def spawn(self, argv: Sequence[str], **options: Any) -> Process:
        """As `Host.spawn`, inside of the group."""
        return self._host.spawn(argv, **{**options, "cgroup": self._group(options)})

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        """As `Host.run`, inside of the group."""
        return self._host.run(argv, **{**options, "cgroup": self._group(options)})

    def _group(self, options: dict[str, Any]) -> Cgroup:
        given: Cgroup | None = options.get("cgroup")
        return given if given is not None else self._cgroup
