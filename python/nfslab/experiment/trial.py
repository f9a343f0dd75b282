"""An experiment of storages that a person names, in as many blocks as the time gives.

It is an ordinary experiment: `text` is its file. The first block tells how long one takes; then as
many are asked for as end in time, and again where they took less than was thought.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import UsageError
from nfslab.experiment.session import run_experiment
from nfslab.results.groups import grouped
from nfslab.workloads.storage import WORKS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.experiment.progress import View
    from nfslab.experiment.session import Options, Session

NAME: Final = "try"
NAMED_CHARACTERS: Final = 40
SECONDS_OF_A_RUN: Final = ((1800.0, 10), (300.0, 3), (0.0, 1))
"""Time that there is, from which on a timed part lasts so many seconds."""


@dataclass(frozen=True, slots=True)
class Storage:
    """A storage that was named."""

    given: str
    """As the person wrote it: the level's label."""
    name: str
    """Of the target."""
    section: dict[str, Any]
    device: int | None
    """st_dev of a folder."""


def storages(given: Sequence[str], mount_options: Sequence[str] = ()) -> list[Storage]:
    """What was named; UsageError for what is neither a folder nor HOST:/EXPORT, or there twice."""
    found: list[Storage] = []
    for text in given:
        path = Path(text).expanduser()
        section: dict[str, Any]
        if path.is_dir():
            section, device = {"kind": "local", "path": str(path.resolve())}, path.stat().st_dev
        elif ":/" in text and not path.exists():
            section, device = {"kind": "nfs", "server": text}, None
            section |= {"mount_options": list(mount_options)} if mount_options else {}
        else:
            raise UsageError(
                f"{text} is no storage",
                why="it is a file" if path.exists() else "there is no such folder",
                fix="name a folder that is there, or HOST:/EXPORT",
            )
        if any(section == other.section for other in found):
            raise UsageError(f"{text} is named twice", fix="name different storages")
        name = re.sub("[^A-Za-z0-9]+", "-", text).strip("-")[-NAMED_CHARACTERS:].strip("-")
        name = name or "root"
        while any(name == other.name for other in found):
            name += "x"
        found.append(Storage(text, name, section, device))
    return found


def shared_devices(found: Sequence[Storage]) -> list[str]:
    """Which of them lie on one device: what loads one, loads the other."""
    by_device = grouped((one.device, one.given) for one in found if one.device is not None)
    return [" and ".join(names) for names in by_device.values() if len(names) > 1]


def text(found: Sequence[Storage], works: Sequence[str], time_s: float) -> str:
    """The experiment's file."""
    seconds = next(seconds for least_s, seconds in SECONDS_OF_A_RUN if time_s >= least_s)
    names = [one.name for one in found]
    given = [one.given for one in found]
    title = f"{', '.join(given)} compared" if len(found) > 1 else given[0]
    about = ["Made by `nfslab try`: kinds of work on storages, a figure each."]
    sections: dict[str, Any] = {
        "experiment": {"name": NAME, "title": title, "repetitions": 5, "collectors": ["system"]}
    }
    sections |= {f"targets.{one.name}": one.section for one in found}
    sections["workload"] = {
        "kind": "storage", "data": names[0], "work": works[0], "seconds": f"{seconds}s",
    }  # fmt: skip
    sections["axes"] = [
        {"name": "storage", "parameter": "workload.data", "values": names, "labels": given},
        {"name": "work", "parameter": "workload.work", "values": list(works)},
    ]
    return file_text([*about, *(f"{name}: {WORKS[name].counts}" for name in works)], sections)


def file_text(comments: Sequence[str], sections: Mapping[str, Any]) -> str:
    """An experiment's file; a list of sections stands for one that is repeated."""
    lines = [f"# {comment}" for comment in comments]
    for name, section in sections.items():
        some = section if isinstance(section, list) else [section]
        for one in some:
            lines += ["", f"[[{name}]]" if some is section else f"[{name}]"]
            lines += [f"{key} = {_toml(it)}" for key, it in one.items() if it is not None]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)} = {_toml(one)}' for key, one in value.items())}}}"
    # Strings, numbers and lists of TOML are those of JSON.
    return json.dumps(value, ensure_ascii=False)


def run_trial(options: Options, time_s: float, view: View) -> Session:
    """Blocks until the time is over, one at least; what `run_experiment` raises."""
    if options.repetitions is not None:
        return run_experiment(options, view)
    session = run_experiment(replace(options, repetitions=1, new=True), view)
    blocks, left_s = 1, time_s - session.seconds
    while (more := int(left_s / _block_s(session))) > 0:
        blocks += more
        session = run_experiment(replace(options, repetitions=blocks), view)
        left_s -= session.seconds
    return session


def _block_s(session: Session) -> float:
    """Of the quickest block so far: the first one makes what later ones find."""
    taken: dict[int, float] = {}
    for line in session.folder.sealed_runs():
        taken[line.block] = taken.get(line.block, 0.0) + line.duration_ns / 1e9
    return max(min(taken.values()), 0.1)
