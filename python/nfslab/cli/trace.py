"""`nfslab trace`: packet captures to every NFS call: what is slow, and why.

Several captures are read as one (the files of a capture that was rotated), or with
`--compare` side by side. The report goes to standard output, progress to standard error, so
that `--json` prints one object and nothing else.

Exit code: 0 read, 1 a capture cannot be read or has no NFS in it, 2 bad usage (no such file),
130 interrupted. What was half written is removed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nfslab.cli.arguments import bold, check_output, parsed, polite_kill
from nfslab.display.progress import Progress
from nfslab.errors import RunFailed, UsageError, system_errors
from nfslab.quantities import format_size, parse_duration_s
from nfslab.results.durable import to_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nfslab._core import TraceContent, TraceProgress
    from nfslab.captures.analysis import Asked, CaptureAnalysis, Source
    from nfslab.captures.comparison import CaptureComparison
    from nfslab.cluster.base import Member
    from nfslab.display.sections import Section, Table

STANDARD_INPUT = "-"
STDIN = 0
BY = {
    "client": "clients", "server": "clients", "connection": "clients", "user": "clients",
    "file": "files", "class": "files",
}  # fmt: skip
"""What tables can be by, and the lens that makes them."""
TOP = 20
QUIET_S = 1.0
"""Shorter than this, nobody waits for a bar."""
LINE_EVERY_S = 10.0
LATEST_NS = 2**62
"""146 years."""

EPILOG = """\b
Examples:
  nfslab trace nfs.pcap
  nfslab trace nfs.pcapng.gz --html nfs.html --calls nfs.parquet
  nfslab trace --quick --json ring_*.pcap
  nfslab trace --quick --by client --workers 8 day/*.pcap.gz
  nfslab trace --quick --cluster tls://controller:8786 --workers 16 /shared/day/*.pcap
  timeout 60 tcpdump -i any -w - port 2049 | nfslab trace -
  nfslab trace ring_*.pcap --from 12 --to 14.5 --by file
  nfslab trace --compare before.pcap after.pcap

\b
CAPTURE is pcap or pcapng, plain or compressed with gzip or zstd; - is standard input.
Ctrl-C ends what fills the pipe; the report is of what came.
Several are read as one. With --compare each is a capture of its own and is compared with the
first; a quoted pattern ('after_*.pcap') is then one capture of several files.
Calls are found by their bytes, on any port. Times are seconds from the first packet.
"""


def _moment(text: str) -> int:
    """Nanoseconds of a text such as 12.5, 90s, 1m30s."""
    try:
        moment_ns = round(float(text) * 1e9)
    except (ValueError, OverflowError):
        moment_ns = round(parse_duration_s(text) * 1e9)
    if not 0 <= moment_ns <= LATEST_NS:
        raise ValueError(f"{text} is not between 0 and the longest capture's end")
    return moment_ns


_MOMENT = parsed(_moment)


def _class(text: str) -> tuple[str, str]:
    """("wal", "*/pg_wal/*") of a text such as wal=*/pg_wal/*."""
    name, equals, pattern = text.partition("=")
    if not (equals and name and pattern):
        raise ValueError(f"{text!r} is not NAME=PATTERN, such as wal=*/pg_wal/*")
    return name, pattern


@click.command("trace", epilog=EPILOG)
@click.argument("captures", nargs=-1, required=True, metavar="CAPTURE...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write a page: all calls as points.",
)
@click.option(
    "--calls", metavar="FILE|DIR/",
    help="Write all calls as Parquet: one file, or in a folder one for each CAPTURE.",
)  # fmt: skip
@click.option("--from", "from_ns", callback=_MOMENT, metavar="S", help="Only calls sent from here.")
@click.option("--to", "to_ns", callback=_MOMENT, metavar="S", help="Only calls sent before.")
@click.option(
    "--by",
    type=click.Choice(list(BY)),
    multiple=True,
    help="A table by this, too (again for more).",
)
@click.option(
    "--class", "file_classes", multiple=True, callback=parsed(_class), metavar="NAME=PATTERN",
    help="A class of files by path, in front of the others (again for more).",
)  # fmt: skip
@click.option(
    "--classes", type=click.Path(path_type=Path), metavar="FILE",
    help="Classes of files (TOML) instead of those that come with nfslab.",
)  # fmt: skip
@click.option(
    "--quick", is_flag=True,
    help="Only the table per operation, and those --by: a fraction of the work.",
)  # fmt: skip
@click.option(
    "--workers", type=click.IntRange(1), default=1, metavar="N",
    help="With --quick: read files side by side, by N processes (of each host).",
)  # fmt: skip
@click.option(
    "--cluster", metavar="ADDRESS",
    help="By hosts of this cluster, which see CAPTUREs at the same paths.",
)  # fmt: skip
@click.option(
    "--certificates", type=click.Path(path_type=Path), metavar="DIR",
    help="Those of --cluster. [of nfslab cluster start]",
)  # fmt: skip
@click.option("--compare", is_flag=True, help="Compare each CAPTURE with the first.")
@click.option(
    "--top", type=click.IntRange(1), default=TOP, show_default=True, help="Rows of a table."
)
def command(captures: tuple[str, ...], **options: Any) -> None:
    """Read packet captures: every NFS call, how long it took, and what was in its way."""
    if (calls := options["calls"]) is not None:
        options["calls"] = Path(calls)
        options["by_file"] = calls.endswith(os.sep) or Path(calls).is_dir()
    sides = _sides(captures, options["compare"])
    _check(sides, options)
    asked = _asked(options)
    with polite_kill():
        found = [_read(side, asked, options) for side in sides]
        for capture in found:
            _require_nfs(capture, asked)
        comparison = _compared(found) if options["compare"] else None
        if options["html"] is not None:
            _write_page(options["html"], found, comparison)
    _print(found, comparison, options)


def _sides(captures: Sequence[str], compare: bool) -> list[list[Source]]:
    """The captures to be read apart, each of one or several files."""
    if not compare:
        return [[_source(name) for name in captures]]
    if len(captures) < 2:
        raise UsageError(
            "there is nothing to compare with", fix="give two captures: --compare BEFORE AFTER"
        )
    import glob

    sides: list[list[Source]] = []
    for name in captures:
        # A file may have brackets in its name: what exists is no pattern.
        files = sorted(glob.glob(name)) if not Path(name).exists() else []
        sides.append([_source(file) for file in files or [name]])
    return sides


def _source(name: str) -> Source:
    if name != STANDARD_INPUT:
        return name
    try:
        terminal = os.isatty(STDIN)
        os.fstat(STDIN)
    except OSError as error:
        raise UsageError("standard input is closed", fix="pipe a capture into it") from error
    if terminal:
        raise UsageError(
            "standard input is a terminal",
            fix="pipe a capture: tcpdump -i any -w - port 2049 | nfslab trace -",
        )
    return ("standard input", STDIN)


def _check(sides: list[list[Source]], options: dict[str, Any]) -> None:
    if sum(isinstance(source, tuple) for side in sides for source in side) > 1:
        raise UsageError("standard input can be read once only", fix="give - once")
    if options["compare"] and options["calls"] is not None:
        raise UsageError(
            "--calls writes the calls of one capture", fix="run it for each capture by itself"
        )
    if options["html"] is not None:
        _check_output("--html", options["html"], sides)
    if options["calls"] is not None:
        if options["by_file"]:
            _check_folder(options["calls"])
        else:
            _check_output("--calls", options["calls"], sides)
    if options["html"] is not None and _same(options["html"], options["calls"]):
        raise UsageError("--html and --calls name the same file", fix="give each its own")
    from_ns, to_ns = options["from_ns"], options["to_ns"]
    if to_ns is not None and to_ns <= (from_ns or 0):
        raise UsageError("--to is not behind --from", fix="give seconds from the first packet")
    for option, given in (("--html", "html"), ("--compare", "compare")):
        if options["quick"] and options[given]:
            raise UsageError(
                f"--quick makes the table per operation and those --by, {option} needs more",
                fix=f"leave --quick or {option} out",
            )
    if options["as_json"] and options["by"] and not options["quick"]:
        raise UsageError("--by is for the text; --json has all tables", fix="leave --by out")


def _check_output(option: str, path: Path, sides: list[list[Source]]) -> None:
    """UsageError where the file cannot be written, or is a capture."""
    check_output(option, path)
    for source in (source for side in sides for source in side):
        if not isinstance(source, tuple) and _same(path, Path(source)):
            raise UsageError(
                f"{option} would overwrite the capture {source}",
                fix=f"name another file with {option}",
            )


def _check_folder(path: Path) -> None:
    """UsageError where the folder of calls cannot be made, or has anything in it."""
    check_output("--calls", path, folder=True)
    if path.exists() and any(path.iterdir()):
        raise UsageError(
            f"{path} is a folder with something in it", fix="name a new one with --calls DIR/"
        )


def _same(one: Path, other: Path | None) -> bool:
    if other is None:
        return False
    try:
        return one.samefile(other)
    except OSError:
        return one.absolute() == other.absolute()


def _asked(options: dict[str, Any]) -> Asked:
    from nfslab.captures.analysis import LENSES_OF_REPORT, Asked

    window = None
    if options["from_ns"] is not None or options["to_ns"] is not None:
        to_ns = options["to_ns"]
        window = (options["from_ns"] or 0, to_ns if to_ns is not None else LATEST_NS)
    wanted = {"operations", *(BY[what] for what in options["by"])}
    lenses = [lens for lens in LENSES_OF_REPORT if lens in wanted or not options["quick"]]
    if options["html"] is not None:
        lenses.append("points")
    if options["compare"]:
        lenses.append("blocks")
    classes = list(options["file_classes"])
    if "files" in lenses or options["classes"] is not None:
        # Nothing of the other tables needs classes: only a file that was given is read.
        from nfslab.storage.file_classes import read_file_classes

        classes += read_file_classes(options["classes"])
    by_file = options.get("by_file", False)
    return Asked(lenses, classes, window, options["calls"], by_file)


def _read(side: list[Source], asked: Asked, options: dict[str, Any]) -> CaptureAnalysis:
    from nfslab.captures.analysis import name_of, read_captures

    label = name_of(side[0])
    several = options["workers"] > 1 or options["cluster"] is not None
    if several and (found := _by_several(side, asked, options, label)) is not None:
        return found
    with Progress(sys.stderr, quiet_s=QUIET_S, every_s=LINE_EVERY_S) as progress:
        return read_captures(side, asked, lambda state: _show(progress, label, state))


def _by_several(
    side: list[Source], asked: Asked, options: dict[str, Any], label: str
) -> CaptureAnalysis | None:
    """None, and a note, where one process does it all."""
    from nfslab.captures.side_by_side import NotSideBySide, read_side_by_side

    why = _by_one_because(side, asked)
    notes: list[str] = []
    found = None
    if why is None:
        files = [source for source in side if not isinstance(source, tuple)]
        try:
            with (
                _members(options) as members,
                Progress(sys.stderr, quiet_s=QUIET_S, every_s=LINE_EVERY_S) as progress,
            ):
                workers = options["workers"] * max(len(members), 1)
                show = partial(_show, progress, label)
                found = read_side_by_side(files, asked.lenses, workers, show, members, notes.append)
        except NotSideBySide as apart:
            why = str(apart)
    if why is not None:
        notes = [f"read by one process, here: {why}"]
    for note in notes:
        click.echo(f"nfslab: note: {note}", err=True)
    return found


def _by_one_because(side: Sequence[Source], asked: Asked) -> str | None:
    """Why several processes cannot read them; None if they can."""
    from nfslab.captures.side_by_side import PUT_TOGETHER

    if asked.calls is not None or not PUT_TOGETHER.issuperset(asked.lenses):
        return "only --quick, with no --calls and no table by files, is made of files side by side"
    files = [source for source in side if not isinstance(source, tuple)]
    if len(files) < len(side):
        return "a stream is read by one process"
    if not all(Path(file).is_file() for file in files):
        return "not all are regular files"
    if len(files) == 1:
        return "there is one file"
    if asked.window_ns is not None:
        return "--from and --to need the files in a row"
    return None


@contextlib.contextmanager
def _members(options: dict[str, Any]) -> Iterator[Sequence[Member]]:
    """The hosts of the cluster that is asked for; none: this machine."""
    if options["cluster"] is None:
        yield ()
        return
    from nfslab.cluster.settings import ClusterSection, connect_answering

    folder = options["certificates"]
    certificates = None if folder is None else str(folder)
    section = ClusterSection(scheduler=options["cluster"], certificates=certificates)
    cluster = connect_answering(section)
    for note in cluster.notes:
        click.echo(f"nfslab: note: {note}", err=True)
    try:
        yield cluster.members
    finally:
        cluster.close()


def _show(progress: Progress, label: str, state: TraceProgress) -> None:
    """A stream has no known end: what was read so far is shown."""
    read, total = state["read_bytes"], state["total_bytes"]
    share = f"{read / total:.0%}, " if total else ""
    words = f"{share}{format_size(read)}, {state['frames']:,} packets, {state['calls']:,} calls"
    progress.show(label, read, total, words)


def _require_nfs(capture: CaptureAnalysis, asked: Asked) -> None:
    """`RunFailed` when no call of NFS is there, with what is there instead."""
    from nfslab.captures.contents import has_nfs, instead

    if has_nfs(capture):
        return
    if asked.window_ns is not None and capture.content.get("calls"):
        raise RunFailed(
            f"no NFS call was sent in this part of {capture.label}",
            why=f"it lasts {capture.duration_ns / 1e9:.3f} s and has "
            f"{capture.content['calls']:,} calls in all",
            fix="give other seconds with --from and --to",
        )
    why, fix = instead(capture)
    raise RunFailed(f"{capture.label} has no NFS in it", why=why, fix=fix)


def _compared(found: Sequence[CaptureAnalysis]) -> CaptureComparison:
    from nfslab.captures.comparison import compare_captures

    return compare_captures(found)


def _write_page(
    path: Path, found: Sequence[CaptureAnalysis], comparison: CaptureComparison | None
) -> None:
    from nfslab._core import build_info
    from nfslab.evidence.capture.section import facts, page_sections
    from nfslab.report.html.section_page import write

    labels = [capture.label for capture in found]
    with system_errors(f"cannot write {path}", "give another file with --html FILE"):
        write(
            page_sections(found, comparison),
            path,
            "-".join(labels)[:80],
            command=["nfslab", *sys.argv[1:]],
            title=" and ".join(labels) if len(labels) < 4 else f"{len(labels)} captures",
            about="NFS captures" if len(found) > 1 else "NFS capture",
            facts={capture.label: facts(capture) for capture in found} | {"core": build_info()},
        )


def _print(
    found: Sequence[CaptureAnalysis], comparison: CaptureComparison | None, options: dict[str, Any]
) -> None:
    if options["as_json"]:
        _print_json(found, comparison)
        return
    from nfslab.display.terminal import printable, section_lines
    from nfslab.evidence.capture.section import capture_section, comparison_section, summary

    sections = []
    for capture in found:
        for line in summary(capture):
            click.echo(printable(line))
        if comparison is None:
            sections.append(replace(capture_section(capture, "", by=options["by"]), title=""))
    if comparison is not None:
        sections += comparison_section(found, comparison)
    for section in sections:
        click.echo()
        for line in section_lines(_shortened(section, options["top"]), bold):
            click.echo(line)
    for name, path in (("page", options["html"]), ("calls", options["calls"])):
        if path is not None:
            click.echo(f"\n{name}: {path}")


def _shortened(section: Section, top: int) -> Section:
    """The first rows of every table; how many are left out is said."""

    def cut(table: Table) -> Table:
        left = len(table.rows) - top
        if left <= 0 or not any(column.title for column in table.columns):
            return table
        more = f"({left:,} more rows: --top N, or --json for all)"
        return replace(table, rows=table.rows[:top], note=f"{table.note} {more}".strip())

    return replace(section, tables=[cut(table) for table in section.tables])


def _print_json(found: Sequence[CaptureAnalysis], comparison: CaptureComparison | None) -> None:
    content: TraceContent | dict[str, Any] = found[0].content
    if comparison is not None:
        captures = [{"inputs": capture.names, **capture.content} for capture in found]
        content = {"captures": captures, "comparison": comparison.as_dict()}
    click.echo(to_json(content))
