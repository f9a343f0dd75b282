"""nfslab: how a database, web server or file load behaves on a storage, and why.

The package is used from the command line (`nfslab --help`) or from Python:

    import nfslab
    experiment = nfslab.open("results/placement-1a2b3c4d")
    experiment.runs          # a pandas data frame, one row a run

Nothing heavy is imported here: `nfslab --help` has to answer at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab.results.api import Experiment

__version__ = "0.1.0"
__all__ = ["__version__", "open"]


def open(path: str | Path) -> Experiment:
    """Open the folder of an experiment, or one above exactly one, for analysis."""
    from nfslab.results.api import open_results

    return open_results(path)
