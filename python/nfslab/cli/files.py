"""`nfslab files`: the file workload in one directory, at once, without an experiment file.

The options become an experiment of the workload `files`, which is run. The table follows Bonnie's:
KiB/s and the share of a CPU for each way of writing and reading, operations a second for the
random ones; then what Bonnie could not say: latencies of single operations and the part of the
time that the final sync took.

Exit code: 0 measured, 1 failed (what was measured before is printed) or data came back wrong, 2 bad
usage, 130 interrupted; the files are removed in every case.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from nfslab.cli.arguments import anyway_option, parsed, results_option
from nfslab.cli.run_written import NO_LIMIT, carry_out, parameters_of, view_of
from nfslab.display.numbers import quantity
from nfslab.display.terminal import table
from nfslab.quantities import format_size, parse_size_bytes, read_duration_s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nfslab.experiment.session import Session
    from nfslab.report.model import Analysis

SIZE = parsed(parse_size_bytes)
PHASES: Final = {
    "char_write": "write by character",
    "block_write": "write by block",
    "rewrite": "rewrite",
    "char_read": "read by character",
    "block_read": "read by block",
    "seeks": "seeks",
    "random_read": "random read",
    "random_write": "random write",
    "log_write": "log write",
}
"""The core's phases, in its default order, as the table names them."""

EPILOG = """\b
Examples:
  nfslab files /mnt/nfs --size 4G
  nfslab files /data --size 1G --phases block_write,block_read --block 1M --direct
  nfslab files /data --size 1G --phases random_write --sync-every 1 --sync-kind fdatasync

\b
Phases: char_write, block_write, rewrite, char_read, block_read, seeks, random_read,
random_write; log_write only where it is named. Writing ends with fsync, inside its time.
Use a size well above the memory, or --direct, when the page cache is not what you want to measure.
"""


@click.command("files", epilog=EPILOG)
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--size", "file_size", callback=SIZE, required=True, metavar="SIZE",
    help="Of all files together: 512M, 4G.")  # fmt: skip
@click.option("--files", type=int, metavar="N", help="Number of files. [default: one a thread]")
@click.option("--block", callback=SIZE, default="8k", show_default=True, help="One read or write.")
@click.option("--threads", type=int, default=1, show_default=True, help="Each on its own blocks.")
@click.option("--direct", is_flag=True, help="Bypass the page cache (O_DIRECT).")
@click.option("--phases", metavar="A,B,...", help="Only these, in this order. [default: all]")
@click.option("--seeks", type=int, default=4000, show_default=True, help="As Bonnie's.")
@click.option("--seek-rewrite-share", type=float, default=0.1, show_default=True, help="0 to 1.")
@click.option("--seek-threads", type=int, metavar="N", help="Bonnie had 3. [default: threads]")
@click.option("--random-operations", type=int, metavar="N", help="[default: as many as seeks]")
@click.option("--sync-every", type=int, default=1, show_default=True,
    help="random_write and log_write.")  # fmt: skip
@click.option("--sync-kind", type=click.Choice(["fsync", "fdatasync", "dsync"]),
    default="fdatasync", show_default=True, help="How; dsync opens with O_DSYNC.")  # fmt: skip
@click.option("--no-final-sync", is_flag=True, help="End writing without fsync.")
@click.option("--keep-cache", is_flag=True, help="Do not drop the files' pages before reading.")
@click.option("--time-limit", callback=parsed(read_duration_s), metavar="TIME",
    help="Of each phase: 30s, 2m.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="Contents and positions.")
@click.option("--check-every", type=int, default=64, show_default=True, help="0 = check nothing.")
@results_option
@anyway_option
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
def command(directory: Path, as_json: bool, results: Path, anyway: bool, **asked: Any) -> None:
    """Measure file access in DIRECTORY, as Bonnie did and with what databases need."""
    from nfslab.experiment.session import Options, run_experiment
    from nfslab.experiment.trial import file_text
    from nfslab.workloads.files import FilesParameters

    asked["final_sync"] = not asked.pop("no_final_sync")
    asked["drop_cache"] = not asked.pop("keep_cache")
    asked["phases"] = asked["phases"] and asked["phases"].replace("-", "_")
    workload = {"kind": "files", "data": "directory", **asked}
    parameters_of(FilesParameters, workload)
    title = f"File access in {directory}"
    sections = {
        "experiment": {"name": "files", "title": title, "repetitions": 1},
        "limits": {"run_s": NO_LIMIT, "drop_page_cache": False},
        "targets.directory": {"kind": "local", "path": str(directory.resolve())},
        "workload": workload,
    }
    called, view = ("nfslab", *sys.argv[1:]), view_of(as_json=as_json)

    def run(file: Path) -> Session:
        options = Options(file, results=results, new=True, anyway=anyway, called=called)
        return run_experiment(options, view)

    text = file_text(["Made by `nfslab files`."], sections)
    carry_out("files", text, run, _tell, as_json=as_json)


def _tell(analysis: Analysis) -> tuple[dict[str, Any], list[str]]:
    """What the core told of the run, also of one that failed."""
    stored = Path(analysis.path) / "runs" / analysis.runs[-1].run_id / "logs" / "files.json"
    text = stored.read_text(encoding="utf-8") if stored.is_file() else ""
    result: dict[str, Any] = json.loads(text) if text else {}
    result["emulated"] = analysis.emulated
    lines = [analysis.emulated, ""] if analysis.emulated else []
    asked = analysis.fixed["targets.directory.path"]
    return result, lines + (list(_lines(result, asked)) if text else [])


def _lines(result: dict[str, Any], directory: str) -> Iterator[str]:
    config = result["config"]
    files = f"{config['files']} file" + ("s" if config["files"] != 1 else "")
    threads = f"{config['threads']} thread" + ("s" if config["threads"] != 1 else "")
    yield (
        f"{directory}: {format_size(config['size_bytes'])} in {files}, "
        f"blocks of {format_size(config['block_size_bytes'])}, {threads}, "
        f"{'direct' if config['direct'] else 'through the page cache'}, seed {config['seed']}"
    )
    yield ""
    yield table(HEADINGS, [_row(phase) for phase in result["phases"]], right=range(1, 9))
    yield ""
    yield from _notes(result)


HEADINGS = ("", "KiB/s", "%CPU", "op/s", "median", "p99", "p99.9", "max", "sync")


def _row(phase: dict[str, Any]) -> tuple[str, ...]:
    wall_ns = phase["wall_ns"] or 1
    latency = phase["latency"]
    shown = [quantity(latency[name], "ns") for name in ("p50_ns", "p99_ns", "p999_ns", "max_ns")]
    synced = phase["final_sync_ns"] if phase["final_sync"] else 0
    cut = " *" if phase["stopped_by"] == "time_limit" else ""
    return (
        PHASES[phase["phase"]] + cut,
        f"{phase['bytes'] / 1024 / (wall_ns / 1e9):,.0f}",
        f"{phase['cpu_ns'] / wall_ns:.1%}"[:-1],
        f"{phase['operations'] / (wall_ns / 1e9):,.0f}",
        *shown,
        f"{synced / wall_ns:.0%}" if phase["final_sync"] else "-",
    )


def _notes(result: dict[str, Any]) -> Iterator[str]:
    """What a reader has to know to read the table right."""
    yield "%CPU: user and system time of the threads; 100 is one CPU. Sync: share of the final"
    yield "fsync in the time. Latencies: of one block, without syncs, at most 0.1 % too high."
    for phase in result["phases"]:
        if phase["sync"]:
            sync = phase["sync"]
            latency = sync["latency"]
            yield (
                f"{PHASES[phase['phase']]}: {sync['operations']:,} syncs, median "
                f"{quantity(latency['p50_ns'], 'ns')}, "
                f"p99 {quantity(latency['p99_ns'], 'ns')}, "
                f"max {quantity(latency['max_ns'], 'ns')}"
            )
        cache = phase["cache"]
        if cache and cache["resident_bytes"]:
            share = cache["resident_bytes"] / cache["size_bytes"]
            yield f"{PHASES[phase['phase']]}: {share:.0%} of the files was in the page cache before"
        if phase["stopped_by"] == "time_limit":
            yield f"* {PHASES[phase['phase']]}: stopped by the time limit"
    for skipped in result["skipped"]:
        yield f"{PHASES[skipped['phase']]}: left out, {skipped['why']}"
    for flag in result["flags"]:
        if flag == "debug_build":
            yield "DEBUG BUILD: these figures mean nothing; build with maturin develop --release"
        else:
            yield f"note: {flag}"
