"""What several machines need and one does not: is it installed?"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

from nfslab.errors import Unavailable

PACKAGES: Final = ("distributed", "cryptography", "asyncssh")


def engine_version() -> str:
    """Of dask.distributed; empty: something of `PACKAGES` is missing."""
    if any(find_spec(name) is None for name in PACKAGES):
        return ""
    try:
        return version("distributed")
    except PackageNotFoundError:
        return ""


def require() -> None:
    """Unavailable, with the command that adds it."""
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise Unavailable(
            f"several machines need {', '.join(missing)}",
            why="one machine needs none of it, so that it is not installed with nfslab",
            fix="in a checkout: nfslab cluster --help (installs it, once); "
            'else: pip install "nfslab[cluster]"',
        )
