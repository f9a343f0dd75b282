"""Client hosts of a run that are not alike: what differs, as the run's check found it.

Figures of such hosts may differ for that reason alone, so reports say it first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nfslab.results.records import CheckRecord

CHECK: Final = "hosts_alike"
"""The name of the check that compares them."""
FIRST: Final = 6
"""Differences that a first line tells; the section "Client hosts" has the others."""


def differences(checks: Iterable[CheckRecord]) -> list[str]:
    """A text for each, of one run's checks; empty: they are alike, or nobody compared them."""
    return [
        text
        for check in checks
        if check.name == CHECK
        for text in check.values.get("differences", ())
    ]


def sentence(found: Iterable[str]) -> str:
    """Of what was found in one run or in several; empty where nothing was."""
    texts = list(dict.fromkeys(found))
    return f"The client hosts differ: {'; '.join(texts)}." if texts else ""


def first_line(found: Iterable[str]) -> str:
    """The same, short enough for the head of a report."""
    texts = list(dict.fromkeys(found))
    more = ["more under Client hosts"] if len(texts) > FIRST else []
    return sentence(texts[:FIRST] + more)
