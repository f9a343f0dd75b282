"""Calling the runner from a test, and looking at what it left."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab.experiment.progress import View
from nfslab.experiment.session import Options, run_experiment
from nfslab.results.store import ExperimentFolder

from tests.waiting import until

if TYPE_CHECKING:
    from nfslab.experiment.session import Session
    from nfslab.results.records import RunRecord


class Told(View):
    """A view that keeps what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def message(self, text: str) -> None:
        self.texts.append(text)

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


def run(file: Path, **options: Any) -> tuple[Session, Told]:
    """Run a file with its results beside it."""
    told = Told()
    options.setdefault("results", file.parent / "results")
    return run_experiment(Options(file=file, **options), told), told


def only_folder(file: Path) -> ExperimentFolder:
    """The one experiment in the results beside a file."""
    (path,) = (file.parent / "results").iterdir()
    return ExperimentFolder.open(path)


def records(folder: ExperimentFolder) -> list[RunRecord]:
    """Whole records of all sealed runs, in the order in which they were carried out."""
    found = [folder.run_record(line.run_id) for line in folder.sealed_runs()]
    return sorted(found, key=lambda record: record.position)


def left_behind(tmp_path: Path) -> list[str]:
    """Everything that a run may not leave: open journals, places, half-written runs."""
    left = [str(p) for p in (tmp_path / "state" / "journals").glob("*.jsonl")]
    left += [str(p) for p in (tmp_path / "places").iterdir()]
    left += [str(p) for p in tmp_path.glob("results*/*/runs/.partial-*")]
    return left


def journal_tokens(tmp_path: Path) -> set[str]:
    """Tokens of every journal that is there now."""
    return {p.stem for p in (tmp_path / "state" / "journals").glob("*.jsonl")}


def processes_with(token: str) -> list[int]:
    """Living processes that carry a run's token in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if token.encode() in environment:
            found.append(int(entry.name))
    return found


def processes_of_state(state: Path) -> list[int]:
    """Living processes that were started below a runner with this state folder."""
    return processes_with(f"NFSLAB_STATE={state}")


def none_left_running(state: Path) -> bool:
    """Waits until none of them goes on: one that was just killed needs a processor to end."""
    return until(lambda: not processes_of_state(state))


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())
