"""Kinds of targets by name: one line each, imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.plugins import load_plugin

if TYPE_CHECKING:
    from nfslab.targets.base import Target

TARGETS: dict[str, str] = {
    "local": "nfslab.targets.local:LocalTarget",
    "nfs": "nfslab.targets.nfs:NfsTarget",
    "path": "nfslab.targets.path:PathTarget",
    "stripe": "nfslab.targets.stripe:StripeTarget",
}


def target_class(kind: str) -> type[Target]:
    """The class of a kind of target; `UsageError` names the nearest known kind."""
    found: type[Target] = load_plugin(TARGETS, kind, what="target kind")
    return found
