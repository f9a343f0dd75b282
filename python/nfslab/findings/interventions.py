"""What can be changed at a point to test a cause: settings that an experiment file can say.

Where base and new differ in a parameter that the cause is known to depend on, the intervention is
that parameter as at the baseline and all else as at the new point: where they differ in several,
this tells them apart. Else a setting of neither point, that takes the cause away.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from nfslab.findings.confirm import Intervention
from nfslab.workloads.registry import WORKLOADS, workload_class

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.report.model import Analysis

ROLES: Final = ("workload.data", "workload.wal", "workload.log")
SHOWN: Final = 60
"""Characters of an intervention's label."""


@dataclass(frozen=True, slots=True)
class At:
    """The new point of a comparison: its parameters, set by an axis or by the file."""

    settings: Mapping[str, Any]
    fixed: Mapping[str, Any]

    @classmethod
    def of(cls, pair: Compared, analysis: Analysis) -> At:
        """Of a comparison in an analysis."""
        return cls(analysis.points[pair.result.point].settings, analysis.fixed)

    def value(self, path: str) -> Any:
        """None: not set, or set to nothing."""
        return self.settings.get(path, self.fixed.get(path))

    def takes(self, parameter: str) -> bool:
        """Has the workload that parameter?"""
        kind = self.value("workload.kind")
        return kind in WORKLOADS and parameter in workload_class(kind).Parameters.model_fields

    def targets(self, kind: str) -> list[str]:
        """Names of targets of that kind that the workload uses here."""
        names = dict.fromkeys(self.value(role) for role in ROLES)
        return [name for name in names if name and self.value(f"targets.{name}.kind") == kind]

    def of_nfs(self, parameter: str) -> dict[str, Any]:
        """That parameter of the NFS targets here, where it is set: by its path."""
        paths = [f"targets.{name}.{parameter}" for name in self.targets("nfs")]
        return {path: value for path in paths if (value := self.value(path)) is not None}

    def setting(self, name: str, default: Any, other: Any) -> dict[str, tuple[Any, Any]]:
        """A setting of our PostgreSQL, where it is not so: (what it is, the other value)."""
        path = f"workload.settings.{name}"
        now = self.value(path)
        now = default if now is None else now
        return {path: (now, other)} if self.takes("settings") and now != other else {}


def differing(pair: Compared, analysis: Analysis) -> dict[str, Any]:
    """Parameters that are not the same at both points, with their values at the baseline."""
    base, new = (analysis.points[at].settings for at in (pair.result.base_point, pair.result.point))
    return {path: base[path] for path in new if path in base and base[path] != new[path]}


def as_at_base(
    depends: Sequence[str], pair: Compared, analysis: Analysis, *, apart: bool
) -> Intervention | None:
    """Parameters of these patterns as at the baseline. `apart`: only where others differ, too."""
    differ = differing(pair, analysis)
    mine = {
        path: value
        for path, value in differ.items()
        if any(fnmatchcase(path, pattern) for pattern in depends)
    }
    if not mine or (len(mine) < len(differ)) != apart:
        return None
    said = ", ".join(f"{path.rpartition('.')[2]} = {value}" for path, value in mine.items())
    more = "" if apart else " (all that differs)"
    return Intervention(f"{said[:SHOWN]} as at the baseline{more}", mine)


def set_to(changes: Mapping[str, tuple[Any, Any]]) -> Intervention | None:
    """Parameters by (what it is, what it becomes); None: there is none to be changed."""
    if not changes:
        return None
    settings = {path: becomes for path, (_, becomes) in changes.items()}
    said = ", ".join(f"{path.rpartition('.')[2]} = {value}" for path, value in settings.items())
    return Intervention(said[:SHOWN], settings, {path: was for path, (was, _) in changes.items()})
