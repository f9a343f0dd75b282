"""No two parts of a bar look alike."""

from __future__ import annotations

from nfslab.evidence.anatomy.section import COLOURS, _coloured
from nfslab.evidence.anatomy.whole import ORDER


def test_parts_have_colours_of_their_own_until_there_are_none() -> None:
    colours = [part.colour for part in _coloured([*ORDER, "client"])]
    some = [colour for colour in colours if colour]
    assert len(set(some)) == len(some) == len(COLOURS)
    few = ["data_write", "row_locks", "running", "data_read", "log_sync", "client"]
    assert len({part.colour for part in _coloured(few)} - {""}) == len(few)
