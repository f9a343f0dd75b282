"""Loading a plug-in (target, workload, collector, report) by its registered name.

A registry is a plain dictionary from name to "module:Class". Nothing is imported until
it is asked for, so that a missing optional part of one plug-in cannot hurt another and
`nfslab --help` stays quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nfslab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a person most likely meant, or None."""
    import difflib

    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return matches[0] if matches else None


def meant(name: str, known: Iterable[str]) -> str:
    """The beginning of a `fix`: "did you mean 'disk'? ", or nothing."""
    guess = nearest(name, known)
    return f"did you mean {guess!r}? " if guess else ""


def load_plugin(registry: Mapping[str, str], name: str, *, what: str) -> Any:
    """The class registered under `name`; `UsageError` when nobody knows the name."""
    entry = registry.get(name)
    if entry is None:
        fix = f"{meant(name, registry)}known: {', '.join(sorted(registry))}"
        raise UsageError(f"unknown {what} {name!r}", fix=fix)
    module, _, attribute = entry.partition(":")
    return getattr(importlib.import_module(module), attribute)
