"""Where tests put what must lie on a disk, in a folder that every user can enter."""

from __future__ import annotations

import os
from pathlib import Path

DISK = Path(os.environ.get("NFSLAB_TEST_DISK", "/var/tmp"))
