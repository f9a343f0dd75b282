"""Checking `[reference]`: does the published table exist, and does it have these columns?

The table itself is read by the reports; here only the names are checked, so that a slip
is told before hours of measuring and not after.
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from nfslab.experiment.parameters import UnknownParameter
from nfslab.plugins import meant
from nfslab.shipped import published_table, published_tables

if TYPE_CHECKING:
    from nfslab.experiment.parameters import Catalogue
    from nfslab.experiment.problems import Problems
    from nfslab.experiment.sections import Reference
    from nfslab.experiment.setup import Axis


def check_reference(
    reference: Reference, axes: list[Axis], catalogue: Catalogue, problems: Problems
) -> None:
    """Tell every name in `[reference]` that leads nowhere."""
    tables = published_tables()
    if reference.table not in tables:
        problems.add(
            ("reference", "table"),
            f"no published table {reference.table!r}",
            f"{meant(reference.table, tables)}known: {', '.join(tables)}",
        )
        return
    columns = table_columns(reference.table)
    for key, entries in (("metric", reference.metric), ("match", reference.match)):
        for column in entries:
            if column not in columns:
                problems.add(
                    ("reference", key, column),
                    f"{reference.table} has no column {column!r}",
                    f"{meant(column, columns)}known: {', '.join(columns)}",
                    key=True,
                )
    names = [axis.name for axis in axes]
    for column, name in reference.match.items():
        if name in names:
            continue
        try:
            catalogue.resolve(name)
        except UnknownParameter as error:
            problems.add(
                ("reference", "match", column),
                f"{name!r} is neither an axis nor a parameter",
                f"axes: {', '.join(names) or 'none'}; {error.fix}",
            )


def table_columns(name: str) -> list[str]:
    """The columns of a published table."""
    text = published_table(name).read_text(encoding="utf-8")
    return next(csv.reader(io.StringIO(text)), [])
