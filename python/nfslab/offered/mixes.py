"""Mixes: which operations a load is made of, with its sizes and its file set. Data, one file each.

Those that come with nfslab lie in `shipped/mixes`, each number with its source; one's own is a file
of the same form (TOML, or JSON in a file `*.json`). A mix is a part of the generator's plan
(docs/load.md tells its fields): what is wrong with it, the core says with the field's name.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nfslab.errors import UsageError
from nfslab.plugins import nearest
from nfslab.shipped import shipped_folder

KEYS = frozenset(
    {
        "title", "point", "mix", "read_sizes_bytes", "write_sizes_bytes", "stability",
        "append_share", "lookup_missing_share", "file_set",
    }
)  # fmt: skip
"""What a mix's file may hold; the rest of a plan is not the mix's to say."""


SIZES = {"READ": "read_sizes_bytes", "WRITE": "write_sizes_bytes"}
"""Operations that need the sizes of their transfers."""


@dataclass(frozen=True, slots=True)
class Mix:
    """A mix by name."""

    name: str
    title: str
    content: dict[str, Any]
    """Fields of a plan: mix, sizes, stability, shares, file_set."""
    warm_up_s: float | None = None
    """What its source asks for; None: it says nothing."""
    measure_s: float | None = None


def shipped_mixes() -> dict[str, Path]:
    """Name -> file of the mixes that come with nfslab."""
    return {path.stem: path for path in sorted(shipped_folder("mixes").glob("*.toml"))}


def read_mix(name: str) -> Mix:
    """A shipped mix by name, or one's own by its file's path; `UsageError`."""
    known = shipped_mixes()
    path = known.get(name, Path(name))
    if name not in known and not path.is_file():
        guess = nearest(name, known)
        hint = f" (did you mean {guess}?)" if guess else ""
        raise UsageError(
            f"there is no mix {name!r}{hint}",
            why=f"nfslab knows {', '.join(known)}",
            fix="give one of these, or the path of a file written like them",
        )
    try:
        text = path.read_text("utf-8")
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot read the mix in {path}",
            why=str(error),
            fix=f"write it like those in {shipped_folder('mixes')}",
        ) from error
    return mix_of(path.stem, content)


def mix_of(name: str, content: dict[str, Any]) -> Mix:
    """A mix from the content of its file, or of a table `[workload.mix_table]`; `UsageError`."""
    rest = dict(content)
    title = rest.pop("title", name)
    point = rest.pop("point", {})
    if not isinstance(rest.get("mix"), dict) or not isinstance(rest.get("file_set"), dict):
        raise UsageError(
            f"the mix {name} is not whole",
            why="a mix has the tables [mix] and [file_set]",
            fix=f"write it like those in {shipped_folder('mixes')}",
        )
    for key in content:
        if key not in KEYS:
            guess = nearest(key, sorted(KEYS))
            raise UsageError(
                f"the mix {name} has an unknown key {key!r}",
                why=f"a mix knows {', '.join(sorted(KEYS))}",
                fix=f"did you mean {guess}?" if guess else "leave it out",
            )
    for operation, weight in rest["mix"].items():
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise UsageError(
                f"the mix {name}: {operation} = {weight!r} is no weight",
                fix="give each operation a number, best so that they sum to 100",
            )
    for operation, sizes in SIZES.items():
        if rest["mix"].get(operation) and not rest.get(sizes):
            raise UsageError(
                f"the mix {name} has {operation} and no table [{sizes}]",
                why="how many bytes each of them asks for is drawn from it",
                fix=f"add [{sizes}], a weight for each size: 8192 = 1",
            )
    if not isinstance(point, dict) or set(point) - {"warm_up_s", "measure_s"}:
        raise UsageError(
            f"the mix {name}: [point] holds warm_up_s and measure_s",
            fix="leave everything else out of it",
        )
    return Mix(name, str(title), rest, point.get("warm_up_s"), point.get("measure_s"))
