"""Where the files are that come with nfslab: ready experiments and published tables.

In a clone they are the folders `experiments/` and `published/` beside `python/`, where a
person looks for them; a wheel carries copies of both inside the package (made when the
wheel is built). The copies are looked for first: an installed package does not depend on
a clone that happens to lie around it.
"""

from __future__ import annotations

from pathlib import Path

from nfslab.errors import ResultsError, UsageError
from nfslab.plugins import nearest

PACKAGE = Path(__file__).resolve().parent
CLONE = PACKAGE.parents[1]


def shipped_folder(name: str) -> Path:
    """The folder `experiments` or `published`; `ResultsError` when it was not installed."""
    for folder in (PACKAGE / "shipped" / name, CLONE / name):
        if folder.is_dir():
            return folder
    raise ResultsError(
        f"the folder {name} is missing from this installation",
        why=f"looked in {PACKAGE / 'shipped'} and {CLONE}",
        fix="install nfslab again, or run it from a clone",
    )


def experiment_files() -> dict[str, Path]:
    """Name -> file of the experiments that come with nfslab."""
    return {path.stem: path for path in sorted(shipped_folder("experiments").glob("*.toml"))}


def find_experiment_file(given: str) -> Path:
    """The file at a path, or the shipped experiment of that name.

    `UsageError` with the nearest known name when it is neither.
    """
    path = Path(given)
    if path.exists() or path.name != given:
        return path
    files = experiment_files()
    found = files.get(given.removesuffix(".toml"))
    if found is not None:
        return found
    guess = nearest(given, files)
    meant = f"did you mean {guess}? " if guess else ""
    raise UsageError(
        f"there is no experiment file {given}",
        why="it is neither a file here nor an experiment that comes with nfslab",
        fix=f"{meant}shipped experiments: {', '.join(files)}",
    )


def published_tables() -> list[str]:
    """Names of the published tables."""
    return sorted(path.stem for path in shipped_folder("published").glob("*.csv"))


def published_table(name: str) -> Path:
    """The CSV of a published table; its description is beside it, with suffix .toml."""
    return shipped_folder("published") / f"{name}.csv"
