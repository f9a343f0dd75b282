"""Tables of evidence in a sealed run's folder: where one is, and reading it within bounds.

What sums up single calls and stacks reads whole tables. How large one is, which columns it has and
who wrote it is asked of the file's footer first: a run of hours, a damaged table and one of a newer
nfslab are refused in words, instead of with the machine's memory or half understood.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import ResultsError
from nfslab.results.upgrade import check_table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa

ROWS_MAX: Final = 6_000_000
"""Rows of one table that are read whole (calls that are taken apart need 0.8 GB a million)."""
_FIX: Final = "restore it from a copy, or run its configuration again; other runs are not affected"


def evidence_path(run: Path, name: str, folder: str = "evidence") -> Path:
    """The file of that table, there or not; `folder` "samples": the workload's own."""
    return run / folder / f"{name}.parquet"


def has_evidence(run: Path, *names: str) -> bool:
    """Are all these tables there?"""
    return all(evidence_path(run, name).is_file() for name in names)


def read_evidence(
    run: Path,
    name: str,
    columns: Sequence[str] | None = None,
    *,
    optional: Sequence[str] = (),
    rows_max: int | None = None,
    folder: str = "evidence",
) -> pa.Table:
    """A table of a run: all its columns, or these, and of `optional` those that it has.

    ResultsError: it cannot be read, has not all of `columns`, has more than `rows_max` rows
    (None: `ROWS_MAX`), or was written by a newer nfslab.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = evidence_path(run, name, folder)
    most = ROWS_MAX if rows_max is None else rows_max
    try:
        # A mapped file handed over open: half the cost of a path for the small tables of a run.
        with pa.memory_map(str(path)) as source, pq.ParquetFile(source) as file:
            check_table(file.schema_arrow.metadata, path)
            if (rows := file.metadata.num_rows) > most:
                raise ResultsError(
                    f"{path.name} has {rows:,} rows, more than the {most:,} that are read whole",
                    fix="make shorter runs, or ask it with `nfslab query`",
                )
            known = file.schema_arrow.names
            if missing := [one for one in columns or () if one not in known]:
                why = f"it has no column {', '.join(missing)}"
                raise ResultsError(f"{path} cannot be read", why=why, fix=_FIX)
            if columns is None:
                return file.read()
            wanted = [*columns, *(one for one in optional if one in known)]
            return file.read(columns=wanted, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise ResultsError(f"{path} cannot be read", why=str(error), fix=_FIX) from error


def sample_rows(run: Path, name: str) -> list[dict[str, Any]]:
    """Rows of a table of the workload; none without it. ResultsError as above."""
    there = evidence_path(run, name, "samples").is_file()
    return read_evidence(run, name, folder="samples").to_pylist() if there else []
