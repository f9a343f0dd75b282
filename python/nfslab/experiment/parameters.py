"""Paths of parameters: what may be named by an axis, an exclude rule or `--set`.

A path is written with dots: `workload.clients`, `targets.striped.chunk`, `limits.memory`,
`workload.settings.shared_buffers`, `collectors.system.interval`, `client.host`. Below a
table with free keys (server settings) the rest of the path is one key, dots included, as
some servers have dots in the names of their settings.
"""

from __future__ import annotations

import os
import types
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from nfslab.experiment.explain import field_type
from nfslab.experiment.sections import Client, Limits, Machine, Server
from nfslab.plugins import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.experiment.source import Tree

ParameterPath = tuple[str, ...]

PATH_WORDS = frozenset({"path", "paths", "folder", "directory"})
"""Last words of names of parameters that hold paths."""


class UnknownParameter(Exception):
    """A path that leads to no parameter: what is wrong, and what would be right."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The models of one experiment file: which parameters there are."""

    targets: Mapping[str, type[BaseModel]]
    workload: type[BaseModel] | None
    collectors: Mapping[str, type[BaseModel]]

    def sections(self) -> dict[ParameterPath, type[BaseModel]]:
        """Path of a section -> the model of what may stand in it."""
        sections: dict[ParameterPath, type[BaseModel]] = {("limits",): Limits}
        if self.workload is not None:
            sections[("workload",)] = self.workload
        sections |= {("targets", name): model for name, model in self.targets.items()}
        sections |= {("collectors", name): model for name, model in self.collectors.items()}
        sections[("client",)] = Client
        sections[("server",)] = Server
        sections[("machine",)] = Machine
        return sections

    def resolve(self, text: str) -> ParameterPath:
        """The path that `text` means; `UnknownParameter` when it means none."""
        steps = tuple(text.split("."))
        for section, model in self.sections().items():
            rest = steps[len(section) :]
            if steps[: len(section)] != section or not rest:
                continue
            if rest[0] == "kind":
                raise UnknownParameter(
                    f"{text!r} cannot be an axis: another kind has other parameters",
                    "declare one target of each kind and make the role the axis "
                    '(parameter = "workload.data")',
                )
            path = _inside(model, rest)
            if path is not None:
                return (*section, *path)
        known = self.names()
        guess = nearest(text, known) or next((k for k in known if k.endswith(f".{text}")), None)
        meant = f"did you mean {guess!r}? " if guess else ""
        raise UnknownParameter(f"unknown parameter {text!r}", f"{meant}{self._hint(steps, known)}")

    def names(self) -> list[str]:
        """Every parameter that has a name of its own (not the free keys)."""
        return [
            ".".join((*section, name))
            for section, model in self.sections().items()
            for name in model.model_fields
        ]

    def _hint(self, steps: ParameterPath, known: list[str]) -> str:
        """The parameters of the section that was meant, or how a path is written."""
        section = steps[:2] if steps[0] in ("targets", "collectors") else steps[:1]
        start = ".".join(section) + "."
        names = [name.removeprefix(start) for name in known if name.startswith(start)]
        if names:
            return f"known in {'.'.join(section)}: {', '.join(names)}"
        if steps[0] == "targets":
            return f"targets of this file: {', '.join(self.targets) or 'none'}"
        return 'write the whole path, for example "workload.clients"'


def _inside(model: type[BaseModel], steps: ParameterPath) -> ParameterPath | None:
    """The path below a model, with the rest of a free table joined to one key."""
    annotation = field_type(model, steps[0])
    if annotation is None:
        return None
    if len(steps) == 1:
        return steps
    for inner in _alternatives(annotation):
        if get_origin(inner) is dict or inner is dict:
            return (steps[0], ".".join(steps[1:]))
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            path = _inside(inner, steps[1:])
            if path is not None:
                return (steps[0], *path)
    return None


def _alternatives(annotation: Any) -> list[Any]:
    """The types that an annotation allows, without wrappers."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [inner for part in get_args(annotation) for inner in _alternatives(part)]
    return [annotation]


def put(tree: Tree, path: ParameterPath, value: Any) -> None:
    """Set a parameter in a tree, making tables on the way."""
    here = tree
    for step in path[:-1]:
        inner = here.get(step)
        if not isinstance(inner, dict):
            inner = here[step] = {}
        here = inner
    here[path[-1]] = value


def get(tree: Mapping[str, Any], path: ParameterPath) -> Any:
    """The value at a path; None when it is not there."""
    here: Any = tree
    for step in path:
        if not isinstance(here, dict) or step not in here:
            return None
        here = here[step]
    return here


def path_parameters(model: type[BaseModel]) -> list[str]:
    """Names of the parameters that hold paths of files: relative ones are completed.

    Those typed as paths, and texts that say so in their name (`path`, `backing_folder`).
    """
    return [
        name
        for name, info in model.model_fields.items()
        if name.rpartition("_")[2] in PATH_WORDS
        or any(_is_path_type(inner) for inner in _alternatives(info.annotation))
    ]


def _is_path_type(annotation: Any) -> bool:
    if get_origin(annotation) in (list, tuple):
        return any(_is_path_type(inner) for inner in get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, Path)


def complete_paths(data: Tree, model: type[BaseModel], folder: Path) -> Tree:
    """`data` with "~" and relative paths made absolute, from `folder`."""
    names = [name for name in path_parameters(model) if name in data]
    if not names:
        return data

    def complete(value: Any) -> Any:
        if isinstance(value, list):
            return [complete(item) for item in value]
        if not isinstance(value, str) or not value:
            return value
        return os.path.abspath(folder / Path(value).expanduser())

    return {**data, **{name: complete(data[name]) for name in names}}
