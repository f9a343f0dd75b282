"""A short name of a statement, by rule: its verb, and the table that it is about.

Texts of which only the first line is known, or the first bytes, may lack the table: the verb alone.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from nfslab.evidence.statements.facts import StatementTime

BEFORE: Final = re.compile(r"(?:\s+|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
NAME: Final = r'((?:"[^"]+"|[\w$:]+)(?:\.(?:"[^"]+"|[\w$:]+))*)'
"""A table's name as it is written, its schema before it; also a variable of pgbench (:name)."""
TABLE_OF: Final[dict[str, re.Pattern[str]]] = {
    verb: re.compile(rf"{pattern}\s+(?:ONLY\s+)?{NAME}", re.IGNORECASE)
    for verb, pattern in {
        "UPDATE": r"UPDATE",
        "INSERT": r"INSERT\s+INTO",
        "DELETE": r"DELETE\s+FROM",
        "MERGE": r"MERGE\s+INTO",
        "SELECT": r"\bFROM",
        "WITH": r"\b(?:FROM|INTO|UPDATE)",
        "COPY": r"COPY",
        "LOCK": r"LOCK(?:\s+TABLE)?",
        "TRUNCATE": r"TRUNCATE(?:\s+TABLE)?",
        "CALL": r"CALL",
        "EXECUTE": r"EXECUTE",
    }.items()
}
META: Final = re.compile(r"(\\\w+)\s*(\w*)")
VERB: Final = re.compile(r"[A-Za-z]+")


def short_name(text: str) -> str:
    r"""Of a command's text.

    >>> short_name("UPDATE pgbench_accounts SET abalance = 0;"), short_name("END;")
    ('UPDATE pgbench_accounts', 'END')
    >>> short_name(r"\set aid random(1, 10)"), short_name("select 1;")
    ('\\set aid', 'SELECT')
    """
    shown = text[BEFORE.match(text).end() :]  # type: ignore[union-attr]  # matches always
    if meta := META.match(shown):
        return " ".join(word for word in meta.groups() if word)
    verb = VERB.match(shown)
    if verb is None:
        return shown.rstrip("; ") or text
    name = verb[0].upper()
    table = TABLE_OF[name].search(shown) if name in TABLE_OF else None
    return f"{name} {table[1]}" if table else name


def labels(statements: Iterable[StatementTime]) -> Mapping[str, str]:
    """Key -> what a reader sees: the short name; where two would be equal the script and the text
    in full beside it, and the number where even that is equal."""
    known = {one.key: one for one in statements}
    several = len({one.script for one in known.values()}) > 1
    found = {key: short_name(one.text) for key, one in known.items()}
    if several:
        _tell_apart(found, lambda key: f" of {known[key].script_name}")
    _tell_apart(found, lambda key: f": {known[key].text}")
    _tell_apart(found, lambda key: f" ({known[key].occurrence + 1})")
    return found


def _tell_apart(found: dict[str, str], more: Callable[[str], str]) -> None:
    """Those that are equal get more."""
    times = Counter(found.values())
    for key, name in list(found.items()):
        if times[name] > 1:
            found[key] = name + more(key)
