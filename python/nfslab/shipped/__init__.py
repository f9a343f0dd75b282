"""What comes with nfslab beside its code: ready experiments and published tables.

The files lie in this package, so that they are there however nfslab was installed. In a
clone `experiments` and `published` at the top are links to the two folders here.
"""

from __future__ import annotations

from pathlib import Path

from nfslab.errors import ResultsError, UsageError
from nfslab.plugins import nearest

PACKAGE = Path(__file__).resolve().parent


def shipped_folder(name: str) -> Path:
    """The folder of that name; `ResultsError` when it was not installed."""
    folder = PACKAGE / name
    if folder.is_dir():
        return folder
    raise ResultsError(
        f"the folder {name} is missing from this installation",
        why=f"there is no {folder}",
        fix="install nfslab again",
    )


def experiment_files() -> dict[str, Path]:
    """Name -> file of the experiments that come with nfslab."""
    return {path.stem: path for path in sorted(shipped_folder("experiments").glob("*.toml"))}


def template_files() -> dict[str, Path]:
    """Kind of workload -> an experiment to begin with, which runs as it stands."""
    return {path.stem: path for path in sorted(shipped_folder("templates").glob("*.toml"))}


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
