"""Validating every point of the matrix with the plug-ins' own models.

A point's parameters are the file's with the values of the axes put in. Its sections are
validated one by one; a section that stands the same at many points is validated once.
What is wrong is told at the line of the value that caused it: of the axis where an axis
set the parameter, of the section otherwise. A problem that only a combination has names
the first point that shows it.
"""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab.errors import UsageError
from nfslab.experiment.explain import shown, validate
from nfslab.experiment.identity import canonical
from nfslab.experiment.members import together
from nfslab.experiment.parameters import Catalogue, complete_paths, get, put
from nfslab.experiment.sections import CLUSTER, OF_A_POINT, Client, Limits, Machine, Server
from nfslab.experiment.setup import (
    Axis,
    CollectorSetup,
    Point,
    Setup,
    TargetSetup,
    WorkloadSetup,
)
from nfslab.plugins import meant
from nfslab.quantities import parse_duration_s, parse_size_bytes
from nfslab.results.records import AxisRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel

    from nfslab.cluster.settings import ClusterSection
    from nfslab.experiment.matrix import Levels
    from nfslab.experiment.parameters import ParameterPath
    from nfslab.experiment.problems import Problems
    from nfslab.experiment.source import Source, Step, Tree


class PointReader:
    """Makes the `Setup` of points; remembers sections that were validated before."""

    def __init__(
        self,
        source: Source,
        catalogue: Catalogue,
        kinds: Mapping[str, str],
        axes: list[Axis],
        problems: Problems,
    ) -> None:
        self.source = source
        self.catalogue = catalogue
        self.kinds = kinds
        self.axes = axes
        self.problems = problems
        self._known: dict[tuple[tuple[str, ...], bytes], Any] = {}
        self._told: set[tuple[str, str]] = set()

    def read(self, levels: Levels) -> Setup | None:
        """The validated parameters of one point; None when something is wrong there."""
        tree = self._tree(levels)
        limits = self._validated(("limits",), Limits, tree, levels)
        client = self._validated(("client",), Client, tree, levels)
        server = self._validated(("server",), Server, tree, levels)
        machine = self._validated(("machine",), Machine, tree, levels)
        cluster = self._cluster(tree, levels)
        targets = {
            name: self._validated(("targets", name), model, tree, levels)
            for name, model in self.catalogue.targets.items()
        }
        collectors = {
            name: self._validated(("collectors", name), model, tree, levels)
            for name, model in self.catalogue.collectors.items()
        }
        workload = None
        if self.catalogue.workload is not None:
            workload = self._validated(("workload",), self.catalogue.workload, tree, levels)
        parts = [limits, client, server, machine, *targets.values(), *collectors.values()]
        if workload is None or any(part is None for part in parts):
            return None
        setup = Setup(
            limits=limits,
            client=client,
            server=server,
            machine=machine,
            cluster=cluster,
            targets={n: TargetSetup(n, self.kinds[n], p) for n, p in targets.items()},
            workload=WorkloadSetup(self.kinds[""], workload),
            collectors={n: CollectorSetup(n, p) for n, p in collectors.items()},
        )
        sound = self._roles_are_targets(setup, levels) and self._hosts_are_there(setup)
        return setup if sound and self._server_is_there(setup) else None

    def check_replaced(self, levels: Levels, setup: Setup) -> None:
        """Reports a value of the file that is wrong although an axis replaces it at every point."""
        sections: dict[str, type[BaseModel]]
        sections = {"limits": Limits, "client": Client, "server": Server, "machine": Machine}
        of_plugins = {"targets": self.catalogue.targets, "collectors": self.catalogue.collectors}
        for path in (path for axis in self.axes for path in axis.parameters):
            written = get(self.source.tree, path)
            section = path[:2] if path[0] in of_plugins else path[:1]
            model = of_plugins.get(path[0], {}).get(path[1]) or sections.get(path[0])
            if path[0] == "workload":
                model = self.catalogue.workload
            if written is None or model is None:
                continue
            tree = self._tree(levels)
            put(tree, path, written)
            data = {k: v for k, v in get(tree, section).items() if k != "kind"}
            tell = partial(self._tell_replaced, section, path)
            sound = validate(model, data, tell) is not None
            if sound and path[0] == "workload" and path[1] in setup.workload.roles():
                self._is_target(path[1], written, tell)

    def _tell_replaced(
        self, section: ParameterPath, path: ParameterPath, at: tuple[Any, ...], what: str, fix: str
    ) -> None:
        """What is wrong elsewhere follows from putting it in."""
        if (*section, *at)[: len(path)] == path:
            self.problems.add((*section, *at), f"[{'.'.join(section)}] {what}", fix)

    def settings(self, levels: Levels, setup: Setup) -> dict[str, Any]:
        """Parameter -> value as understood, for every parameter that an axis sets."""
        resolved = setup.resolved()
        return {
            ".".join(path): get(resolved, path) for axis in self.axes for path in axis.parameters
        }

    def warn_unused(self, points: list[Point]) -> None:
        """Say which targets no point uses, and which points do not differ in what they use."""
        used = {name for point in points for name in point.setup.workload.roles().values()}
        for name in self.catalogue.targets:
            if name not in used:
                self.problems.warn(("targets", name), f"no configuration uses target {name!r}")
        first: dict[bytes, Point] = {}
        same: list[tuple[Point, Point]] = []
        for point in points:
            resolved = point.setup.resolved()
            kept = point.setup.used_targets()
            resolved["targets"] = {n: t for n, t in resolved["targets"].items() if n in kept}
            earlier = first.setdefault(canonical(resolved), point)
            if earlier is not point:
                same.append((earlier, point))
        if same:
            one, other = same[0]
            self.problems.warn(
                ("axes",),
                f"{len(same)} configurations repeat others: an axis sets what is not used there "
                f"(first: {other.label()} is {one.label()})",
                "leave them out with [[exclude]]",
            )

    def _tree(self, levels: Levels) -> Tree:
        """The file's values with those of the axes put in."""
        tree = {
            key: copy.deepcopy(self.source.tree[key])
            for key in (*OF_A_POINT, "targets", "workload", "collectors")
            if isinstance(self.source.tree.get(key), dict)
        }
        if CLUSTER in tree:
            for one in {"client", "server"} & {"client", *tree}:
                tree.setdefault(one, {}).setdefault("host", CLUSTER)
        for axis, level in zip(self.axes, levels, strict=True):
            for path, value in zip(axis.parameters, axis.raw[level], strict=True):
                put(tree, path, copy.deepcopy(value))
        return tree

    def _cluster(self, tree: Tree, levels: Levels) -> ClusterSection | None:
        """The machines of the client hosts, which then are the client's kind of host."""
        if CLUSTER not in tree:
            return None
        from nfslab.cluster.settings import ClusterSection

        found: ClusterSection | None = self._validated((CLUSTER,), ClusterSection, tree, levels)
        return found

    def _hosts_are_there(self, setup: Setup) -> bool:
        """Are client hosts of a cluster among its machines, as far as the file tells?"""
        client, cluster = setup.client, setup.cluster
        if client.host != CLUSTER:
            return True
        if cluster is None:
            if CLUSTER in self.source.tree:
                return False  # there is one, and what is wrong with it was told
            fix = 'write [cluster] hosts = ["load1", ...], or scheduler = "tls://HOST:PORT"'
            self.problems.add(("client", "host"), "there is no section [cluster]", fix)
            return False
        try:
            apart = [setup.server.host_name] if setup.server.host == CLUSTER else []
            cluster.chosen(client.hosts or 0, apart)
        except UsageError as error:
            self.problems.add(("client", "hosts"), error.in_a_line(": "), error.fix)
            return False
        return True

    def _server_is_there(self, setup: Setup) -> bool:
        """Is a server's host one that the client hosts can reach?"""
        server, client = setup.server, setup.client
        if not server.is_elsewhere:
            return True
        what, fix, where = "", "", ("server", "host")
        if client.hosts is None:
            what = "a server on a host of its own is used by client hosts, and there are none"
            fix = "give [client] hosts, too: one is enough"
        elif not together(client.host, server.host):
            what = f"the client hosts are of a kind that cannot reach it ({client.host})"
            fix = f'let [client] host be "{server.host}", too'
        elif server.host_name in client.host_names:
            what = f"{server.host_name!r} is a client host, too, and would compete with itself"
            fix, where = "name another one", ("server", "name")
        if what:
            self.problems.add(where, what, fix)
        return not what

    def _validated(
        self, section: tuple[str, ...], model: type[BaseModel], tree: Tree, levels: Levels
    ) -> Any:
        """One section as its model, or None; validated once for the same content."""
        data = get(tree, section)
        if data is None:
            data = {}
        if not isinstance(data, dict):
            # A list where a table belongs: told once by the reader of the whole file,
            # except for sections that have no plug-in.
            self.problems.add(
                section, f"{'.'.join(section)} is not a table", f"write [{'.'.join(section)}]"
            )
            return None
        data = {k: v for k, v in data.items() if k != "kind" or section[0] in OF_A_POINT}
        key = (section, canonical(data))
        if key not in self._known:
            data = complete_paths(data, model, self._folder(section, data))
            self._known[key] = validate(
                model, data, lambda path, what, fix: self._tell(section, path, what, fix, levels)
            )
        return self._known[key]

    def _folder(self, section: tuple[str, ...], data: Tree) -> Path:
        """Where relative paths begin: the file's folder, or here for an option's."""
        steps: list[tuple[Step, ...]] = [(*section, key) for key in data]
        if any(step in self.source.overridden for step in steps):
            return Path.cwd()
        return self.source.path.resolve().parent

    def _tell(
        self, section: tuple[str, ...], path: tuple[Any, ...], what: str, fix: str, levels: Levels
    ) -> None:
        """Report a problem of a section at the place that caused it."""
        whole = (*section, *path)
        for number, (axis, level) in enumerate(zip(self.axes, levels, strict=True)):
            for column, parameter in enumerate(axis.parameters):
                if whole[: len(parameter)] == parameter:
                    at: tuple[Step, ...] = ("axes", number, "values", level)
                    at = (*at, column) if axis.zipped else at
                    self.problems.add(at, f"axis {axis.name}: {what}", fix)
                    return
        name = ".".join(section)
        mark = (name, what)
        if mark in self._told:
            return
        self._told.add(mark)
        varied = any(p[: len(section)] == section for axis in self.axes for p in axis.parameters)
        if varied and not path:
            point = ", ".join(
                f"{axis.name}={shown(axis.labels[level])}"
                for axis, level in zip(self.axes, levels, strict=True)
            )
            what = f"{what} (first at {point})"
        self.problems.add(
            whole, f"[{name}] {what.removeprefix(': ')}", fix, key=what.startswith("unknown")
        )

    def _roles_are_targets(self, setup: Setup, levels: Levels) -> bool:
        """Is every role played by a target of this file?"""

        def tell(at: tuple[Any, ...], what: str, fix: str) -> None:
            self._tell(("workload",), at, what, fix, levels)

        good = [self._is_target(*one, tell) for one in setup.workload.roles().items()]
        return all(good)

    def _is_target(self, role: str, name: Any, tell: Callable[..., None]) -> bool:
        """Is it one of this file? Else that is told."""
        targets = self.catalogue.targets
        if name not in targets:
            fix = f"{meant(str(name), targets)}targets: {', '.join(targets) or 'none'}"
            tell((role,), f"{role} = {shown(name)} is no target of this file", fix)
        return name in targets


def axis_records(axes: list[Axis], points: list[Point]) -> list[AxisRecord]:
    """The axes as a record keeps them, with the values as understood."""
    records = []
    for number, axis in enumerate(axes):
        values: list[list[Any]] = []
        for level, raw in enumerate(axis.raw):
            point = next((p for p in points if p.levels[number] == level), None)
            names = axis.parameter_names()
            values.append([point.settings[n] for n in names] if point else list(raw))
        numeric = len(axis.parameters) == 1 and all(
            isinstance(v[0], int | float) and not isinstance(v[0], bool) for v in values
        )
        record = AxisRecord(
            name=axis.name,
            parameters=axis.parameter_names(),
            levels=list(axis.labels),
            values=values,
            numeric=numeric,
            unit=_unit(axis, values) if numeric else "",
        )
        if axis.scale is not None:
            record = AxisRecord.model_validate({**record.model_dump(), "scale": axis.scale})
        records.append(record)
    return records


def _unit(axis: Axis, values: list[list[Any]]) -> str:
    """The unit of values that were written as sizes or durations ("8k", "10m")."""
    texts = [(raw[0], value[0]) for raw, value in zip(axis.raw, values, strict=True)]
    texts = [(raw, value) for raw, value in texts if isinstance(raw, str)]
    for unit, parse in (("bytes", parse_size_bytes), ("s", parse_duration_s)):
        try:
            if texts and all(parse(raw) == value for raw, value in texts):
                return unit
        except ValueError:
            continue
    return ""
