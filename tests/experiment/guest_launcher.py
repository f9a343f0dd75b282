"""`guest_launcher.py FOLDER run FILE ...`: the command line, with guests that are processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from nfslab.cli import main

from tests.experiment.guest_support import install
from tests.syncs import nobody_waits

if __name__ == "__main__":
    install(Path(sys.argv.pop(1)), pytest.MonkeyPatch())
    with nobody_waits():
        main()
