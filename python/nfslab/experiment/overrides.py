"""`--set key=value`: one call's change to the file, as if it had been written there.

The value is TOML: numbers, `true`, `"quoted"`, lists; what is none of these is a text, so
that `--set limits.memory=512M` needs no quotes. `axes.<name>` replaces the values of an
axis. A changed value counts as part of the file: it makes another experiment.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from nfslab.errors import UsageError
from nfslab.experiment.sections import SECTIONS
from nfslab.plugins import meant, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.experiment.source import Source, Step

EXAMPLE = "--set workload.clients=8"


def apply_overrides(source: Source, settings: Sequence[str]) -> None:
    """Change the source's values; `UsageError` names the option that is wrong."""
    for setting in settings:
        key, equals, text = setting.partition("=")
        option = f"--set {key.strip()}"
        if not equals or not key.strip():
            raise UsageError(
                f"--set {setting}: no value", fix=f"write key=value, for example {EXAMPLE}"
            )
        value = _value(option, text.strip())
        path = _path(source, option, key.strip())
        _put(source, option, path, value)


def _value(option: str, text: str) -> Any:
    """A TOML value, or the text itself when it is a bare word."""
    try:
        document = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError as error:
        if text[:1] in ("[", "{", '"', "'"):
            raise UsageError(
                f"{option}: {text} is not a valid TOML value",
                why=str(error),
                fix="quote the whole option for the shell: --set 'key=[1, 2]'",
            ) from error
        return text
    if set(document) != {"value"}:
        raise UsageError(
            f"{option}: one value is expected",
            why=repr(text),
            fix="give one key with one value: --set workload.clients=8",
        )
    value = document["value"]
    return value if isinstance(value, str | int | float | bool | list | dict) else text


def _path(source: Source, option: str, key: str) -> tuple[Step, ...]:
    """The path that a dotted key means; quotes keep a dot inside a name."""
    try:
        tree: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"{option}: not a valid key", why=str(error), fix=f"for example {EXAMPLE}"
        ) from error
    path: list[Step] = []
    while isinstance(tree, dict):
        if len(tree) != 1:
            raise UsageError(f"{option}: not a valid key", fix=f"for example {EXAMPLE}")
        step, tree = next(iter(tree.items()))
        path.append(step)
    if path[0] not in SECTIONS:
        raise UsageError(
            f"{option}: there is no section {path[0]!r}",
            fix=f"{meant(str(path[0]), SECTIONS)}for example {EXAMPLE}",
        )
    if path[0] == "axes":
        return _axis_path(source, option, path)
    if len(path) < 2 and path[0] != "exclude":
        raise UsageError(f"{option}: name a parameter of it", fix=f"for example {EXAMPLE}")
    return tuple(path)


def _axis_path(source: Source, option: str, path: list[Step]) -> tuple[Step, ...]:
    """`axes.<name>` means the values of the axis of this name."""
    axes = source.tree.get("axes")
    names = [axis_name(axis) for axis in axes] if isinstance(axes, list) else []
    if len(path) == 2 and path[1] in names:
        return ("axes", names.index(str(path[1])), "values")
    guess = nearest(str(path[-1]), names)
    raise UsageError(
        f"{option}: there is no such axis",
        why=f"axes of this file: {', '.join(names) or 'none'}",
        fix=f"did you mean axes.{guess}?" if guess else "for example --set 'axes.clients=[1, 8]'",
    )


def axis_name(axis: Any) -> str:
    """An axis's name as in the file: given, or the last part of its one parameter."""
    if not isinstance(axis, dict):
        return ""
    if isinstance(axis.get("name"), str):
        return str(axis["name"])
    parameter = axis.get("parameter")
    listed = axis.get("parameters")
    if parameter is None and isinstance(listed, list) and len(listed) == 1:
        parameter = listed[0]
    return parameter.rpartition(".")[2] if isinstance(parameter, str) else ""


def _put(source: Source, option: str, path: tuple[Step, ...], value: Any) -> None:
    """Set the value, making tables on the way where there are none."""
    here: Any = source.tree
    for step in path[:-1]:
        if isinstance(here, dict):
            here = here.setdefault(step, {})
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            here = here[step]
        if not isinstance(here, dict | list):
            raise UsageError(
                f"{option}: {step} is a value, not a table: nothing can be in it",
                fix=f"set {step} itself, or another key",
            )
    if isinstance(here, list):
        raise UsageError(f"{option}: a list cannot be changed in part", fix="set the whole list")
    if path[0] == "axes" and "labels" in here:
        del here["labels"]  # they belong to the values that are replaced
    here[path[-1]] = value
    source.overridden[path] = option
