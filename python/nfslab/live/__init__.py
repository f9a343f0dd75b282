"""What NFS mounts and servers of this machine do now: `nfslab top`."""

from typing import Final

INTERVAL_LEAST_S: Final = 0.25
INTERVAL_MOST_S: Final = 60.0
"""Between two readings."""
