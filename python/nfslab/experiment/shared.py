"""What the runs of one call share: a cache, and a runner that is warm."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nfslab.experiment.bounds import physical_bounds

if TYPE_CHECKING:
    from collections.abc import Iterator

CACHE_PLACES = (Path("/var/tmp"),)
"""Where the cache of a call is made: on a disk, and where a server's user can get to."""


def warm_up() -> None:
    """Load what the first run would load, and ask what is asked once a process.

    Otherwise the first run of every call would be unlike the others.
    """
    import pyarrow as pa
    import pyarrow.parquet

    from nfslab.experiment.provenance import provenance
    from nfslab.statistics.checks.clock_steps import check_clock_steps
    from nfslab.statistics.checks.littles_law import check_littles_law
    from nfslab.statistics.checks.steady_state import check_steady_state

    provenance()
    physical_bounds()
    pa.table({"t_ns": pa.array([1], pa.int64())})  # the first array looks for pandas: seconds
    check_clock_steps([0, 1], [0, 1])
    check_littles_law(clients=1, rate_per_s=1.0, mean_latency_ns=1e9)
    check_steady_state([1.0, 2.0] * 50, 1)


@contextmanager
def run_cache(name: str) -> Iterator[Path]:
    """A folder for what runs share (a loaded cluster): journalled, removed at the end.

    Others may pass through it but not list it: a database server that runs as another
    user has to reach what the workload puts there.
    """
    from nfslab.machine.journal import state_folder
    from nfslab.machine.resources import Resources

    with Resources(f"cache of {name}") as resources:
        places = [place for place in CACHE_PLACES if os.access(place, os.W_OK | os.X_OK)]
        parent = places[0] if places else state_folder()
        entry = resources.make_directory(parent / f"{resources.name}-cache", mode=0o711)
        yield entry.path
