"""`nfslab doctor`: what this machine can do, what is missing for what, what would add it.

Always ends with exit code 0: a missing capability is an answer, not a failure.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from nfslab.experiment.probes import Probe, probes
from nfslab.results.groups import grouped

if TYPE_CHECKING:
    from collections.abc import Iterator

EPILOG = """\b
Examples:
  nfslab doctor
  nfslab doctor --json
"""
NARROW_COLUMNS = 90
"""Below this width a table's columns would be unreadable: plain lines instead."""


@click.command("doctor", epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document for programs.")
def command(as_json: bool) -> None:
    """What this machine can do, what is missing for what, and the command that adds it."""
    found = [*probes(), *plugin_probes()]
    if as_json:
        click.echo(json.dumps({"probes": [asdict(probe) for probe in found]}, indent=2))
    elif sys.stdout.isatty() and shutil.get_terminal_size().columns >= NARROW_COLUMNS:
        _print_table(found)
    else:
        _print_lines(found)


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
                    click.echo(f"        add: {probe.fix}")
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
            cells = [probe.name, probe.found, probe.purpose, "" if probe.ok else probe.fix]
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
