"""`nfslab files`: the file workload in one directory, at once, without an experiment file.

The table follows Bonnie's: KiB/s and the share of a CPU for each way of writing and
reading, operations a second for the random ones; then what Bonnie could not say: latencies
of single operations and the part of the time that the final sync took. Progress goes to
standard error, so the table or the JSON can be piped.

Exit code: 0 measured, 1 failed (what was measured before is printed) or data came back
wrong, 2 bad usage, 130 interrupted; the files are removed in every case but `--keep`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nfslab.cli.arguments import parsed, polite_kill
from nfslab.display.numbers import quantity
from nfslab.display.progress import Progress
from nfslab.display.terminal import table
from nfslab.errors import RunFailed, UsageError, of_core
from nfslab.machine.emulation import SENTENCE, is_emulated
from nfslab.plugins import nearest
from nfslab.quantities import format_size, parse_size_bytes, read_duration_s

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = parsed(parse_size_bytes)
QUIET_S = 1.0
"""Without a terminal, a phase is announced once it has taken this long."""
PHASES = {
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
AS_ASKED = (
    "threads", "direct", "seeks", "sync_every", "sync_kind", "seed", "seek_rewrite_share", "files",
    "seek_threads", "random_operations", "check_every", "keep",
)  # fmt: skip

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
@click.option(
    "--size",
    callback=SIZE,
    required=True,
    metavar="SIZE",
    help="Of all files together: 512M, 4G.",
)
@click.option("--files", type=int, metavar="N", help="Number of files. [default: one a thread]")
@click.option(
    "--block",
    callback=SIZE,
    default="8k",
    show_default=True,
    help="One read or write.",
)
@click.option("--threads", type=int, default=1, show_default=True, help="Each on its own blocks.")
@click.option("--direct", is_flag=True, help="Bypass the page cache (O_DIRECT).")
@click.option("--phases", metavar="A,B,...", help="Only these, in this order. [default: all]")
@click.option("--seeks", type=int, default=4000, show_default=True, help="As Bonnie's.")
@click.option("--seek-rewrite-share", type=float, default=0.1, show_default=True, help="0 to 1.")
@click.option("--seek-threads", type=int, metavar="N", help="Bonnie had 3. [default: threads]")
@click.option("--random-operations", type=int, metavar="N", help="[default: as many as seeks]")
@click.option(
    "--sync-every", type=int, default=1, show_default=True, help="random_write and log_write."
)
@click.option(
    "--sync-kind",
    type=click.Choice(["fsync", "fdatasync", "dsync"]),
    default="fdatasync",
    show_default=True,
    help="How; dsync opens with O_DSYNC.",
)
@click.option("--no-final-sync", is_flag=True, help="End writing without fsync.")
@click.option("--keep-cache", is_flag=True, help="Do not drop the files' pages before reading.")
@click.option(
    "--time-limit", callback=parsed(read_duration_s), metavar="TIME", help="Of each phase: 30s, 2m."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Contents and positions.")
@click.option("--check-every", type=int, default=64, show_default=True, help="0 = check nothing.")
@click.option("--keep", is_flag=True, help="Leave the files, and say where they are.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
def command(directory: Path, as_json: bool, **options: Any) -> None:
    """Measure file access in DIRECTORY, as Bonnie did and with what databases need."""
    config = _config(directory, options)
    result = _run(config, as_json)
    _print(result, as_json)
    wrong = list(_wrong(result))
    if wrong:
        raise RunFailed(
            f"files: data came back wrong in {', '.join(name for name, _ in wrong)}",
            why="; ".join(text for _, text in wrong),
            fix="Do not trust this storage or its figures; see the kernel's log (dmesg).",
        )


def _config(directory: Path, options: dict[str, Any]) -> dict[str, Any]:
    """The core's configuration; names and limits are checked there."""
    config: dict[str, Any] = {
        "directory": str(directory),
        "size_bytes": options["size"],
        "block_size_bytes": options["block"],
        "final_sync": not options["no_final_sync"],
        "drop_cache": not options["keep_cache"],
    }
    if options["phases"] is not None:
        config["phases"] = _phases(options["phases"])
    if options["time_limit"] is not None:
        config["time_limit_ns"] = round(options["time_limit"] * 1e9)
    config |= {name: options[name] for name in AS_ASKED}
    negative = [name for name, value in config.items() if isinstance(value, int) and value < 0]
    if negative:
        option = "--" + negative[0].replace("_", "-")
        raise UsageError(f"{option} is negative", fix="Give a whole number from 0 on.")
    return config


def _phases(text: str) -> list[str]:
    names = [name.strip().replace("-", "_") for name in text.split(",") if name.strip()]
    for name in names:
        if name not in PHASES:
            guess = nearest(name, PHASES)
            raise UsageError(
                f"there is no phase {name!r}",
                fix=f"Did you mean {guess!r}?" if guess else f"Known: {', '.join(PHASES)}.",
            )
    return names


def _run(config: dict[str, Any], as_json: bool) -> dict[str, Any]:
    """Run it with progress; what was measured before an error is printed, then the error."""
    from nfslab._core import CoreError, run_files

    try:
        with polite_kill(), Progress(sys.stderr, begun_s=QUIET_S) as progress:
            text = run_files(json.dumps(config), lambda report: _show(progress, report))
    except CoreError as error:
        if error.partial is not None:
            _print(json.loads(error.partial), as_json)
        raise of_core(error, {"config"}) from error
    result: dict[str, Any] = json.loads(text)
    if is_emulated():
        result["flags"].append(SENTENCE)
    return result


def _show(progress: Progress, text: str) -> None:
    """A report of the core, some five a second."""
    report = json.loads(text)
    step = "making files for " if report["step"] == "fill" else ""
    title = f"{report['phase_index'] + 1}/{report['phases']} {step}{PHASES[report['phase']]}"
    elapsed_s = report["elapsed_ns"] / 1e9
    rate = f"{report['bytes'] / 2**20 / elapsed_s:,.0f} MiB/s" if elapsed_s else ""
    progress.show(title, report["done"], report["total"], rate)


def _wrong(result: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for phase in result["phases"]:
        errors = phase["errors"]
        if errors["content_mismatches"]:
            count, checked = errors["content_mismatches"], phase["checked_blocks"]
            first = phase["first_mismatch"]
            yield phase["phase"], f"{count} of {checked} checked blocks differ, first {first}"
        if errors["short_reads"]:
            yield phase["phase"], f"{errors['short_reads']} reads gave less than asked"


def _print(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result))
        return
    for line in _lines(result):
        click.echo(line)


def _lines(result: dict[str, Any]) -> Iterator[str]:
    config = result["config"]
    files = f"{config['files']} file" + ("s" if config["files"] != 1 else "")
    threads = f"{config['threads']} thread" + ("s" if config["threads"] != 1 else "")
    yield (
        f"{config['directory']}: {format_size(config['size_bytes'])} in {files}, "
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
    if result["kept"]:
        yield f"files kept in {result['directory']}"
