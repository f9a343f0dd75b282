"""`python launcher.py run FILE ...`: the real command line with the fakes registered."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nfslab.cli import main
from nfslab.cluster.base import Member

from tests.experiment import fakes
from tests.syncs import nobody_waits

if __name__ == "__main__":
    fakes.register()
    Member.patience = fakes.UNHURRIED  # type: ignore[assignment,method-assign]
    with nobody_waits():
        main()
