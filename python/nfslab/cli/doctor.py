"""`nfslab doctor`: what this machine can do, what is missing for what, what would add it.

Its first line says whether the two commands of the README will work, and what they lack. Always
ends with exit code 0: a missing capability is an answer, not a failure.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nfslab.display.called import as_called
from nfslab.experiment.probes import CHECKOUT, Probe, probes
from nfslab.results.groups import grouped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nfslab.experiment.preflight import Preflight

EPILOG = """\b
Examples:
  nfslab doctor
  nfslab doctor --json
"""
NARROW_COLUMNS = 90
"""Below this width a table's columns would be unreadable: plain lines instead."""
FOR_TESTS = ("cargo", "cargo-clippy", "cargo-fmt", "cc")
"""Probes without which ./test fails."""


@dataclass(frozen=True, slots=True)
class Lack:
    """One thing that a command lacks, and what would add it."""

    what: str
    fix: str = ""

    def __str__(self) -> str:
        return f"{self.what} ({self.fix})" if self.fix else self.what


@dataclass(frozen=True, slots=True)
class Ready:
    """Whether a command of the README will work here."""

    command: str
    missing: list[Lack] = field(default_factory=list)
    """What it fails without."""
    left_out: list[Lack] = field(default_factory=list)
    """Why it will leave out a part."""

    def as_dict(self) -> dict[str, object]:
        """Plain values, for `--json`."""
        return {"ok": not self.missing} | asdict(self)


@click.command("doctor", epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document for programs.")
def command(as_json: bool) -> None:
    """What this machine can do, what is missing for what, and the command that adds it.

    The first line: will the two commands of the README work here?
    """
    found = [*probes(), *plugin_probes()]
    ready = readiness(found)
    if as_json:
        told = {"commands": [one.as_dict() for one in ready]}
        click.echo(json.dumps(told | {"probes": [asdict(probe) for probe in found]}, indent=2))
        return
    click.echo(as_called(first_line(ready)))
    if sys.stdout.isatty() and shutil.get_terminal_size().columns >= NARROW_COLUMNS:
        _print_table(found)
    else:
        _print_lines(found)


def readiness(found: Sequence[Probe]) -> list[Ready]:
    """Whether each command of the README will work; `./test` is there in a checkout only."""
    essential = [Lack(f"{one.name}: {one.found}", one.fix) for one in found if _begins(one)]
    here = Path.cwd()
    if not os.access(here, os.W_OK):
        essential.append(Lack(f"{here} is not writable, where results go", "cd elsewhere"))
    ready = [Ready("nfslab quickstart", essential)]
    if not essential:
        try:
            ready = [quickstart_ready(_quickstart())]
        except Exception as error:  # what it would end with as well
            ready = [Ready("nfslab quickstart", [Lack(" ".join(str(error).split()))])]
    if (CHECKOUT / "test").is_file():
        test = "./test" if here == CHECKOUT else shlex.quote(str(CHECKOUT / "test"))
        lacks = [one for one in found if one.name in FOR_TESTS and not one.ok]
        if any(one.name == "cargo" for one in lacks):  # whatever brings it brings these
            lacks = [one for one in lacks if not one.name.startswith("cargo-")]
        missing = [Lack(f"{one.name}: {one.found}", one.fix) for one in lacks]
        if not os.access(CHECKOUT, os.W_OK):
            missing.append(Lack(f"you may not write to {CHECKOUT}", "test in a copy of your own"))
        ready.append(Ready(test, missing))
    return ready


def _begins(probe: Probe) -> bool:
    return probe.essential and not probe.ok


def _quickstart() -> Preflight:
    """What it asks itself before it runs anything."""
    from nfslab.experiment.preflight import preflight
    from nfslab.experiment.reading import read_experiment
    from nfslab.shipped import experiment_files

    return preflight(read_experiment(experiment_files()["quickstart"]).points)


def quickstart_ready(asked: Preflight) -> Ready:
    """The answer of its preflight: it leaves out what cannot run, if anything can."""
    lacks = [Lack(f"{one.part}: {one.reason}", one.fix) for one, _ in asked.obstacles()]
    if asked.refuses(skip=True):
        return Ready("nfslab quickstart", missing=lacks)
    return Ready("nfslab quickstart", left_out=lacks)


def first_line(ready: Sequence[Ready]) -> str:
    """Returns one line: which commands will work here, and what is missing where one will not."""
    works = " and ".join(one.command for one in ready if not one.missing)
    said = [f"{works} will work here"] if works else []
    for one in ready:
        lacks = "; ".join(map(str, one.missing or one.left_out))
        if one.missing:
            said.append(f"{one.command} will NOT work here, it lacks: {lacks}")
        elif one.left_out:
            said.append(f"{one.command} leaves out what needs: {lacks}")
    return ". ".join(said) + "."


def plugin_probes() -> Iterator[Probe]:
    """What the targets, workloads and collectors say of themselves."""
    from nfslab.evidence.registry import COLLECTORS, collector_class
    from nfslab.targets.registry import TARGETS, target_class
    from nfslab.workloads.registry import WORKLOADS, workload_class

    kinds = (
        ("targets", TARGETS, target_class),
        ("workloads", WORKLOADS, workload_class),
        ("collectors", COLLECTORS, collector_class),
    )
    for group, registry, load in kinds:
        for name in registry:
            try:
                plugin = load(name)
                usable = plugin.available()
            except Exception as error:
                yield Probe(name, False, f"could not be asked: {error}", group=group)
                continue
            how = f": {usable.how}" if usable.how else ""
            said = f"usable{how}" if usable.ok else usable.reason
            yield Probe(name, usable.ok, said, plugin.summary, usable.fix, group=group)


def _groups(found: list[Probe]) -> dict[str, list[Probe]]:
    return grouped((probe.group, probe) for probe in found)


def _print_lines(found: list[Probe]) -> None:
    for group, members in _groups(found).items():
        click.echo(group)
        for probe in members:
            click.echo(f"  {'yes' if probe.ok else 'no ':3} {probe.name}: {probe.found}")
            if not probe.ok:
                if probe.purpose:
                    click.echo(f"        for: {probe.purpose}")
                if probe.fix:
                    click.echo(f"        add: {as_called(probe.fix)}")
    click.echo(_summary(found))


def _print_table(found: list[Probe]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("", "what", "found", "for", "to add it"):
        table.add_column(title, overflow="fold")
    for group, members in _groups(found).items():
        table.add_row()
        table.add_row("", Text(group, style="bold cyan"))
        for probe in members:
            mark = Text("yes", style="green") if probe.ok else Text("no", style="yellow")
            # Text, not str: what a program printed is no markup of ours.
            fix = "" if probe.ok else as_called(probe.fix)
            cells = [probe.name, probe.found, probe.purpose, fix]
            table.add_row(mark, *(Text(cell) for cell in cells))
    console.print(table)
    console.print(_summary(found), style="bold")


def _summary(found: list[Probe]) -> str:
    there = sum(probe.ok for probe in found)
    missing = [probe.name for probe in found if probe.essential and not probe.ok]
    counted = f"{there} of {len(found)} capabilities are there"
    if missing:
        return f"{counted}; missing to begin at all: {', '.join(missing)}."
    return f"{counted}; nothing that is missing is needed to begin."
