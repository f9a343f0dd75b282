"""A process of the tests' clusters: the product's, which may hear nothing for SILENCE_S."""

from __future__ import annotations

import os

from nfslab.cluster import hosted, serving
from nfslab.cluster.__main__ import main

if __name__ == "__main__":
    silence_s = float(os.environ["SILENCE_S"])
    hosted.SILENCE_S = silence_s  # type: ignore[misc]
    serving.FORGET_S = silence_s  # type: ignore[misc]
    main()
