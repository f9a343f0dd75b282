"""`nfslab try`: storages that a person names, compared without a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from nfslab.cli.arguments import anyway_option, parsed, results_option
from nfslab.cli.run_written import carry_out, view_of
from nfslab.display.numbers import quantity
from nfslab.display.terminal import table
from nfslab.plugins import meant
from nfslab.quantities import read_duration_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.report.model import Analysis

NAMES: Final = ("commit", "pgbench", "files", "large", "reads")
"""Kinds of work (`nfslab.workloads.storage`), here without its import: `--help` stays quick."""


USUAL_S: Final = 90.0


def _works(text: str) -> list[str]:
    found = [word.strip() for word in text.split(",")]
    for word in found:
        if word not in NAMES:
            raise ValueError(f"{word!r} is no kind of work; {meant(word, NAMES)}{', '.join(NAMES)}")
    return list(dict.fromkeys(found))


@click.command(
    "try",
    epilog="""\b
Examples:
  nfslab try /var/tmp /mnt/share
  nfslab try /mnt/share filer:/vol/scratch --for 10m
  nfslab try /srv/fast /srv/slow --only commit,pgbench --save mine.toml

\b
commit    8 KiB more of a log, an fdatasync after each: how a database commits
pgbench   PostgreSQL with data and log there, 4 clients
files     new files of 16 KiB, written and synced
large     a large file, written and synced
reads     random reads of 8 KiB that this machine has not in its cache

Folders of its own are made in each storage, and removed. HOST:/EXPORT is mounted through FUSE.
""",
)
@click.argument("given", nargs=-1, required=True, metavar="STORAGE...")
@click.option(
    "-o",
    "mount_options",
    multiple=True,
    metavar="OPTIONS",
    help="Mount options of nfs(5), for HOST:/EXPORT.",
)
@click.option(
    "--for",
    "time_s",
    callback=parsed(read_duration_s),
    default=f"{USUAL_S:g}s",
    show_default=True,
    metavar="TIME",
    help="How long, about: all kinds of work are repeated.",
)
@click.option(
    "--only", "works", callback=parsed(_works), metavar="WORK,...", help="Only these kinds of work."
)
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.toml",
    help="Also write it as an experiment file, for `nfslab run`.",
)
@click.option("--repetitions", type=int, metavar="N", help="So many, whatever their time.")
@results_option
@anyway_option
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON.")
def command(
    given: tuple[str, ...], mount_options: tuple[str, ...], time_s: float,
    works: list[str] | None, save: Path | None, as_json: bool, **asked: Any,
) -> None:  # fmt: skip
    """Compare storages: folders, or exports HOST:/EXPORT. The first is the baseline."""
    from nfslab.cli.new import write_new
    from nfslab.experiment.session import Options
    from nfslab.experiment.trial import run_trial, shared_devices, storages, text

    view = view_of(as_json=as_json)
    found = storages(given, mount_options)
    for names in shared_devices(found):
        view.message(f"{names} are on one device: they share it")
    content = text(found, works or _usual(view), time_s)
    if save is not None:
        write_new(save, content, "--save")
    called = ["nfslab", "try", *given]
    called += [word for one in mount_options for word in ("-o", one)]
    called += ["--only", ",".join(works)] if works else []
    called += ["--for", f"{time_s:g}s"] if time_s != USUAL_S else []

    def tell(analysis: Analysis) -> tuple[dict[str, Any], list[str]]:
        told = {"works": outcome(analysis), "durability": analysis.durability_line}
        told |= {"emulated": analysis.emulated, "next_step": analysis.next_step}
        return told, lines_of(analysis)

    carry_out(
        "try", content,
        lambda file: run_trial(Options(file, called=tuple(called), **asked), time_s, view),
        tell, as_json=as_json,
    )  # fmt: skip


def _usual(view: Any) -> list[str]:
    """All kinds of work, PostgreSQL only where there is one."""
    from nfslab.workloads.registry import workload_class

    answer = workload_class("pgbench").available()
    if not answer.ok:
        view.message(f"without pgbench: {answer.reason} ({answer.fix})")
    return [name for name in NAMES if answer.ok or name != "pgbench"]


def outcome(analysis: Analysis) -> list[dict[str, Any]]:
    """By kind of work: what is counted, and of each storage its median and comparison."""
    from nfslab.statistics.effect_text import headline
    from nfslab.workloads.storage import RATE, WORKS

    beside = {row.point: row.result for row in analysis.comparisons.get(RATE, [])}
    found: list[dict[str, Any]] = []
    for work in _levels(analysis, "work"):
        rows = []
        for number, point in enumerate(analysis.points):
            if point.factors["work"] != work or RATE not in point.estimates:
                continue
            row = {"storage": str(point.factors["storage"]), "n": point.estimates[RATE].n}
            row["median_per_s"] = point.estimates[RATE].median
            if (result := beside.get(number)) is not None:
                row |= {"verdict": str(result.verdict), "said": headline(result)}
                ends = result.interval
                row |= {"ratio": result.ratio, "interval": ends and [ends.low, ends.high]}
            rows.append(row)
        found.append({"work": work, "counts": WORKS[work].counts, "storages": rows})
    return found


def lines_of(analysis: Analysis) -> list[str]:
    """Unequal durability first; a row and a line for each kind of work; what next."""
    from nfslab.workloads.storage import WORKS

    storages = _levels(analysis, "storage")
    rows, said, counted = [], [], []
    for found in outcome(analysis):
        work, unit = found["work"], WORKS[found["work"]].unit
        per = 1.0 if unit == "1/s" else WORKS[work].per
        medians = {row["storage"]: row["median_per_s"] * per for row in found["storages"]}
        rows.append([work, *(quantity(medians.get(name), unit) for name in storages)])
        told = [row for row in found["storages"] if "said" in row]
        said += [f"{work}: {row['storage']} {row['said']}" for row in told]
        counted.append(f"{work}: {found['counts']}")
    lines = [
        word
        for line in (analysis.emulated, analysis.durability_line)
        if line
        for word in (line, "")
    ]
    lines += [table(["work", *storages], rows, right=range(1, len(storages) + 1)), ""]
    lines += [*said, ""] if said else []
    return [*lines, *counted, *([analysis.next_step] if analysis.next_step else [])]


def _levels(analysis: Analysis, name: str) -> Sequence[str]:
    return next([str(one) for one in axis.levels] for axis in analysis.axes if axis.name == name)
