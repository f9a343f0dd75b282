"""A worker of the tests: the product's, which may hear nothing of its prime for SILENCE_S."""

from __future__ import annotations

import os

from nfslab.cluster import attended
from nfslab.cluster.__main__ import main

if __name__ == "__main__":
    attended.SILENCE_S = float(os.environ["SILENCE_S"])  # type: ignore[misc]
    main()
