"""`nfslab syscalls`: the table of 2001 and the curve of every sync, of anything that runs.

    a process, a server, or a command ──> watch ──> tables ──> text, JSON, page, Parquet

Ctrl-C ends the watching, not what is watched, and shows what was seen; a command of ours gets it
from the terminal as well.

Exit code: 0, also after Ctrl-C while a running process is watched (there it is the way to end);
1 when it cannot be watched, or the command failed; 2 bad usage; 130 when Ctrl-C ended a command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from nfslab import clock
from nfslab.cli.arguments import bold, check_output, parsed, polite_kill
from nfslab.display.numbers import counted, quantity
from nfslab.display.progress import Progress
from nfslab.display.terminal import section_lines
from nfslab.errors import RunFailed, UsageError, system_errors
from nfslab.quantities import read_duration_s
from nfslab.results.durable import to_json, write_durably

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nfslab.cli.syscalls_subject import Target
    from nfslab.display.sections import Section
    from nfslab.evidence.syscalls.watch import Seen, SyscallWatch

POLL_S: Final = 0.1
NOT_FOUND = 127
LOST: Final = "make room or name another place next time; what was seen is above"

EPILOG = """\b
Examples:
  nfslab syscalls --postgres /var/lib/postgresql/15/main --duration 30s
  nfslab syscalls --level counts --pid 4711 --by-file
  nfslab syscalls --level events --postgres /srv/pg --by-relation --html calls.html
  nfslab syscalls --level counts --html calls.html -- sqlite3 bank.db '.read load.sql'
  nfslab syscalls --blocks --pid 4711 --duration 10s

\b
Levels: sync (fsync, fdatasync, sync_file_range, O_DSYNC writes: each one), counts (and all calls
on files, by file), events (and each read and write). Ways, the first that can be used: eBPF (any
process; needs root), a preloaded library (commands), PostgreSQL's own views. docs/syscalls.md has
what each costs.
"""


def _seconds(text: str) -> float:
    seconds = read_duration_s(text)
    if seconds <= 0:
        raise ValueError("it is above 0")
    return seconds


@click.command("syscalls", epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@click.argument("argv", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
@click.option("--pid", "pids", type=click.IntRange(1), multiple=True, metavar="PID",
    help="A process and its descendants (again for more).")  # fmt: skip
@click.option("--postgres", type=click.Path(path_type=Path), metavar="DATADIR",
    help="The PostgreSQL server of this data directory.")  # fmt: skip
@click.option("--level", type=click.Choice(["sync", "counts", "events"]), default="sync",
    show_default=True, help="How much is seen.")  # fmt: skip
@click.option("--duration", "duration_s", callback=parsed(_seconds), metavar="TIME",
    help="End after this time. [until Ctrl-C, or the end of what is watched]")  # fmt: skip
@click.option("--classes", type=click.Path(path_type=Path), metavar="FILE",
    help="Classes of files (TOML) instead of those that come with nfslab.")  # fmt: skip
@click.option("--by-file", is_flag=True, help="A table by file, too.")
@click.option("--by-relation", is_flag=True,
    help="Each table and index of --postgres a class of its own.")  # fmt: skip
@click.option("--blocks", is_flag=True, help="Block requests during syncs (eBPF).")
@click.option("--lseek", is_flag=True, help="Count lseek, too: often the most frequent call.")
@click.option("--way", type=click.Choice(["ebpf", "shim", "views"]),
    help="Watch this way or not at all.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a page.")
@click.option("--parquet", type=click.Path(path_type=Path), metavar="DIR",
    help="Write the tables into this folder.")  # fmt: skip
def command(argv: tuple[str, ...], **asked: Any) -> None:
    """System calls on files by class of files, and every fsync timed."""
    _check(argv, asked)
    from nfslab.cli.syscalls_subject import target_of
    from nfslab.databases.postgres.relations import RelationNames
    from nfslab.evidence.syscalls.seen import evidence_tables
    from nfslab.storage.file_classes import read_file_classes

    classes = read_file_classes(asked["classes"])
    relations = None
    with polite_kill():
        target = target_of(argv, asked["pids"], asked["postgres"])
        if asked["by_relation"]:
            relations = RelationNames(target.conninfo, asked["postgres"])
            relations.read()
            for note in relations.notes:
                click.echo(note, err=True)
        seen, summary, ended = _watch(target, argv, asked)
    summary["exit_code"] = ended.code
    zero_ns = _first_ns(seen)
    tables = evidence_tables(seen, classes, zero_ns, zero_ns)
    if relations is not None:
        relations.name(tables, summary)
    _show(seen, summary, tables, asked)
    _leave(ended)


def _first_ns(seen: Seen) -> int:
    """Where time begins: the first call that was seen by itself."""
    known = [seen.tables[name] for name in ("syncs", "events") if name in seen.tables]
    return min((int(one["start_ns"].to_numpy().min()) for one in known if one.num_rows), default=0)


def _check(argv: Sequence[str], asked: dict[str, Any]) -> None:
    given = [
        name for name, there in (
            ("--pid", asked["pids"]), ("--postgres", asked["postgres"] is not None),
            ("a command", argv),
        ) if there
    ]  # fmt: skip
    if len(given) != 1:
        raise UsageError(
            "say what is to be watched"
            if not given
            else f"{' and '.join(given)} exclude each other",
            fix="give one of --pid PID, --postgres DATADIR, or -- COMMAND...",
        )
    if asked["by_relation"] and asked["postgres"] is None:
        raise UsageError(
            "--by-relation asks a PostgreSQL for the names of its tables",
            fix="give --postgres DATADIR",
        )
    if asked["lseek"] and asked["level"] == "sync":
        raise UsageError("--lseek needs a level that counts", fix="give --level counts")
    if asked["html"] is not None:
        check_output("--html", asked["html"])
    if asked["parquet"] is not None:
        check_output("--parquet", asked["parquet"], folder=True)


@dataclass
class _Ended:
    """How the watching came to its end."""

    code: int | None = None
    interrupted: bool = False
    command: str = ""


def _watch(
    target: Target, argv: Sequence[str], asked: dict[str, Any]
) -> tuple[Seen, dict[str, Any], _Ended]:
    from nfslab._core import CoreError
    from nfslab.evidence.syscalls.seen import summary_of
    from nfslab.evidence.syscalls.watch import SyscallWatch, attach_error
    from nfslab.evidence.syscalls.ways import NAMES, Asked, choose

    wanted = Asked(asked["level"], asked["lseek"], asked["blocks"], asked["way"])
    choice = choose(wanted, target.subject)
    for way, reason in choice.why_not:
        click.echo(f"not by {NAMES[way]}: {reason}", err=True)  # type: ignore[index]
    said = f"watching by {choice.name}, level {wanted.level}"
    watch = SyscallWatch(choice, wanted, target.subject, target.conninfo)
    ended = _Ended()
    try:
        try:
            if argv:
                click.echo(said, err=True)
                ended = _launch(watch, argv, asked["duration_s"])
            else:
                try:
                    with _undisturbed():
                        watch.attach()
                        click.echo(said, err=True)
                    _wait(watch, target.alive, asked["duration_s"], ended)
                except KeyboardInterrupt:  # while it was being attached: the way to end, too
                    ended.interrupted = True
        except CoreError as error:
            raise attach_error(choice, error) from error
    finally:
        seen = watch.end(wait=False)
    return seen, summary_of(choice, wanted, seen), ended


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits: it must not leave half of a library loaded, or of a watch attached."""
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda one, _frame: came.append(one))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


def _launch(watch: SyscallWatch, argv: Sequence[str], duration_s: float | None) -> _Ended:
    """Start the command, watched from its first instruction, and wait for it."""
    wrapped, added = watch.wrap(argv)
    with system_errors(f"cannot start {argv[0]}", "see that it runs without nfslab", RunFailed):
        program = subprocess.Popen(wrapped, env={**os.environ, **added})
    ended = _Ended(command=argv[0])
    try:
        watch.launched(lambda: program.poll() is not None)
        _wait(watch, lambda: program.poll() is None, duration_s, ended)
    finally:
        # Interrupted: the terminal has told it as well; it is given time to end.
        ended.code = _code_of(program, ended)
    return ended


def _code_of(program: subprocess.Popen[bytes], ended: _Ended) -> int | None:
    """Its exit code; None when it goes on without us."""
    if not ended.interrupted and program.poll() is None:
        return None
    try:
        return program.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        return None


GRACE_S: Final = 5.0


def _wait(
    watch: SyscallWatch, alive: Callable[[], bool], duration_s: float | None, ended: _Ended
) -> None:
    """Until the time is over, it has ended, or Ctrl-C."""
    began = clock.monotonic()
    deadline = None if duration_s is None else began + duration_s
    with Progress(sys.stderr) as progress:
        try:
            while alive() and (deadline is None or clock.monotonic() < deadline):
                left_s = POLL_S if deadline is None else deadline - clock.monotonic()
                clock.sleep(max(0.0, min(POLL_S, left_s)))
                words = _so_far(watch) if sys.stderr.isatty() else ""
                progress.show("watching", clock.monotonic() - began, duration_s, words)
        except KeyboardInterrupt:
            ended.interrupted = True


def _so_far(watch: SyscallWatch) -> str:
    """Such as: 1,234 syncs, the latest 0.412 ms, 3 processes (Ctrl-C ends)."""
    figures = watch.figures()
    parts = [counted(figures.get("syncs", 0), "sync")]
    calls, mean_ns = watch.latest
    if calls:
        parts.append(f"the latest {quantity(mean_ns, 'ns')}")
    if watched := figures.get("watched"):
        parts.append(f"{watched:,} process{'' if watched == 1 else 'es'}")
    if lost := sum(count for name, count in figures.items() if name.startswith("lost_")):
        parts.append(f"{lost:,} records lost")
    return ", ".join(parts) + " (Ctrl-C ends)"


def _show(
    seen: Seen, summary: dict[str, Any], tables: dict[str, Any], asked: dict[str, Any]
) -> None:
    from nfslab.evidence.syscalls.accesses import accesses_of, as_content, as_table
    from nfslab.evidence.syscalls.facts import facts_of_watch
    from nfslab.evidence.syscalls.kind import watch_section

    by_file = asked["by_file"]
    facts, whole = facts_of_watch(tables, summary, by_file=by_file)
    if asked["parquet"] is not None:
        accesses = as_table(accesses_of(whole))
        tables |= {"accesses": accesses} if accesses.num_rows else {}
    # First what needs no room on a disk: it is not lost when there is none.
    if asked["as_json"]:
        from nfslab.evidence.syscalls.content import ACCESSES_MOST, content

        made = content(facts)
        made["accesses"] = as_content(accesses_of(whole, by_file=by_file), ACCESSES_MOST)
        made |= {"exit_code": summary["exit_code"], "watched_s": seen.wall_s}
        click.echo(to_json(made))
    else:
        section = replace(watch_section(facts, lambda: whole), title="")
        click.echo("\n".join(section_lines(section, bold)))
    if asked["parquet"] is not None:
        _write_tables(asked["parquet"], tables)
    if asked["html"] is not None:
        _write_page(asked["html"], watch_section(facts, lambda: whole))
    for option, what in (("html", "page"), ("parquet", "tables")):
        if asked[option] is not None and not asked["as_json"]:
            click.echo(f"{what}: {asked[option]}")


def _write_tables(folder: Path, tables: dict[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with system_errors(f"cannot write {folder}", LOST, RunFailed):
        folder.mkdir(exist_ok=True)
        for name, table in tables.items():
            buffer = pa.BufferOutputStream()
            pq.write_table(table, buffer)
            write_durably(folder / f"{name}.parquet", buffer.getvalue().to_pybytes())


def _write_page(path: Path, section: Section) -> None:
    from nfslab.report.html.section_page import write

    with system_errors(f"cannot write {path}", LOST, RunFailed):
        write([section], path, "system-calls", command=["nfslab", *sys.argv[1:]])


def _leave(ended: _Ended) -> None:
    """The command's exit code is told; ours says whether all is well."""
    if not ended.command:
        return
    if ended.interrupted:
        raise KeyboardInterrupt
    if ended.code is None:
        click.echo(f"{ended.command} still runs", err=True)
    elif ended.code == NOT_FOUND:
        raise RunFailed(
            f"{ended.command} was not found (exit code {ended.code})",
            why="so says that code, of it or of a program that it starts",
            fix="correct the name, or give the path",
        )
    elif ended.code != 0:
        how = f"exit code {ended.code}" if ended.code > 0 else f"signal {-ended.code}"
        raise RunFailed(
            f"{ended.command} ended with {how}",
            why="it failed by itself: what was seen until then is above",
            fix="see what it said, and that it runs without nfslab",
        )
