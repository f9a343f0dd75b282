"""`--repetitions`: a number, or as many blocks as it takes (4..30:5%).

Without pydantic, so that `nfslab --help` does not wait for it.
"""

from __future__ import annotations

import re
from typing import Any

from nfslab.quantities import read_share

_AS_NEEDED = re.compile(r"(\d+)\.\.(\d+):(.+)")


def read_width(value: object) -> float:
    """A share from "5%" or 0.05: above 0, at most 1; ValueError otherwise."""
    share = read_share(value) if isinstance(value, str) else value
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise ValueError(f'{value!r} is no width; write "5%" (more than 0, at most 100%)')
    return float(share)


def read_repetitions(text: str) -> int | dict[str, Any]:
    """8, or {"at_least": 4, "at_most": 30, "until": 0.05} from 4..30:5%; ValueError otherwise."""
    if text.isdecimal():
        return int(text)
    match = _AS_NEEDED.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is neither a number nor MIN..MAX:WIDTH, such as 4..30:5%")
    return {"at_least": int(match[1]), "at_most": int(match[2]), "until": read_width(match[3])}


def repetitions_text(given: int | dict[str, Any]) -> str:
    """What `read_repetitions` reads."""
    if isinstance(given, int):
        return str(given)
    return f"{given['at_least']}..{given['at_most']}:{100 * given['until']:.12g}%"
