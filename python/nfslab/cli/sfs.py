"""`nfslab sfs`: an NFS server under offered load, point by point, as SPEC SFS asked it.

    loads (or a search) ──> per load: plan ──> file set made or found ──> measured ──> a row
                                                                       └──> --out, whole each time

The generator is in the core; it speaks NFSv3 itself, so that no mount and no cache lies between.
TARGET is HOST:/EXPORT (again for more mounts; options of one alone behind it, as in
HOST:/EXPORT,port=20049), or `memory` or `null`: an embedded server of its own for trying out and
for calibration. A point that cannot be made is a row that says why, and the rest goes on.

Exit code: 0 all points are valid, 1 one is not, 2 bad usage, 130 interrupted (what was measured is
printed and kept).
"""

from __future__ import annotations

import base64
import contextlib
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from nfslab.errors import Interrupted, RunFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nfslab._core import Load
    from nfslab.cli.sfs_progress import Progress
    from nfslab.offered.plans import Point
    from nfslab.offered.search import Goal

EMBEDDED: Final = ("memory", "null")
WARM_UP_S, MEASURE_S = 10.0, 30.0
"""Unless said otherwise; published SFS results took 300 s each."""
EMBEDDED_BYTES: Final = 8 << 30
SCHEMA: Final = 1
RECORD_ROOM: Final = 1 << 18
USAGE_KINDS: Final = {"config", "file_set"}

EPILOG = """\b
Examples:
  nfslab sfs filer:/vol/scratch --load 800..3200:800
  nfslab sfs 127.0.0.1:/export -o port=20049,mountport=20049 --load 1k..10k:1k --mix database
  nfslab sfs filer:/a,nconnect=4 filer:/b --load 3200 --mode closed --clients 5 --mix laddis
  nfslab sfs filer:/vol/scratch --find 'p99<20ms' --precision 5%
  nfslab sfs filer:/vol/scratch --load 200k --generators 4
  nfslab sfs null --load 50k --files 1000 --time 5s

\b
Mixes: laddis, sfs3, sfs2008, database, or a file of one's own (docs/load.md). The file set grows
with the offered load (10 MB for each operation a second in sfs3): --bytes-per-op or --files make
it smaller, and less like the published one. It is made once, reused, and left there.
"""


def _text(reader: Callable[[str], Any]) -> Callable[..., Any]:
    """A click callback of a function that raises ValueError."""

    def read(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else reader(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return read


def _loads(text: str) -> list[float]:
    from nfslab.offered.ladder import loads

    return loads(text)


def _goal(text: str) -> Goal:
    from nfslab.offered.search import goal

    return goal(text)


def _seconds(text: str) -> float:
    from nfslab.quantities import parse_duration_s

    return parse_duration_s(float(text) if text.isdecimal() else text)


def _bytes(text: str) -> float:
    from nfslab.quantities import parse_size_bytes

    return float(parse_size_bytes(text))


def _share(text: str) -> float:
    value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 <= value <= 1:
        raise ValueError(f"{text!r} is not between 0 and 1 (or 0% and 100%)")
    return value


@click.command("sfs", epilog=EPILOG)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--load", "ladder", callback=_text(_loads), metavar="LOADS",
    help="Operations a second: 800, 500,1k, 800..3200:800.")  # fmt: skip
@click.option("--find", callback=_text(_goal), metavar="GOAL",
    help="Search the highest load with mean<10ms, p99<20ms, ...")  # fmt: skip
@click.option("--precision", callback=_text(_share), default="5%", show_default=True,
    help="Of the search.")  # fmt: skip
@click.option("--mix", default="sfs3", show_default=True, metavar="NAME|FILE", help="Operations.")
@click.option("-o", "options", multiple=True, metavar="OPTIONS", help="Mount options of nfs(5).")
@click.option("--mode", type=click.Choice(["open", "closed"]), default="open", show_default=True,
    help="Arrivals do not wait for answers, or processes do.")  # fmt: skip
@click.option("--arrivals", type=click.Choice(["poisson", "uniform"]), default="poisson",
    show_default=True, help="Open load.")  # fmt: skip
@click.option("--outstanding", type=click.IntRange(1, 65536), default=1024, show_default=True,
    help="Open load: operations under way at once.")  # fmt: skip
@click.option("--clients", type=click.IntRange(1), default=1, show_default=True,
    help="Closed load.")  # fmt: skip
@click.option("--processes", type=click.IntRange(1), default=4, show_default=True,
    help="Closed load, of each client.")  # fmt: skip
@click.option("--think", type=click.Choice(["exponential", "constant", "saturated"]),
    default="exponential", show_default=True, help="Closed load.")  # fmt: skip
@click.option("--time", "measure_s", callback=_text(_seconds), metavar="TIME",
    help="Of the measured window. [30s]")  # fmt: skip
@click.option("--warm-up", "warm_up_s", callback=_text(_seconds), metavar="TIME",
    help="Before it. [10s]")  # fmt: skip
@click.option("--cool-down", "cool_down_s", callback=_text(_seconds), default="0s", metavar="TIME",
    help="After it, with the load on.")  # fmt: skip
@click.option("--silence", "silence_s", callback=_text(_seconds), metavar="TIME",
    help="Without any answer, until a server counts as gone. [30s]")  # fmt: skip
@click.option("--as-published", is_flag=True, help="Warm-up and window as the mix's source has it.")
@click.option("--threads", type=click.IntRange(1, 256), metavar="N",
    help="Threads of a generator process. [one a mount]")  # fmt: skip
@click.option("--generators", type=click.IntRange(1, 256), default=1, show_default=True,
    metavar="N", help="Generator processes, each with its share of the load.")  # fmt: skip
@click.option("--files", type=click.IntRange(1), metavar="N", help="Files of the set.")
@click.option("--bytes-per-op", callback=_text(_bytes), metavar="SIZE",
    help="Bytes of the set for each operation a second.")  # fmt: skip
@click.option("--verify", "verify_share", callback=_text(_share), default="5%", show_default=True,
    help="Share of READs whose data is compared.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the set.")
@click.option("--repetition", type=click.IntRange(0), default=0, show_default=True,
    help="Other arrivals and operations on the same set.")  # fmt: skip
@click.option("--calibration", is_flag=True, help="The server is a null store: any name is a file.")
@click.option("--prepare-only", is_flag=True, help="Make the file sets, and end.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE.json",
    help="Keep everything, after each point.")  # fmt: skip
@click.option("--calls", type=click.Path(path_type=Path), metavar="FILE.parquet",
    help="Record every call (of one load).")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(targets: tuple[str, ...], as_json: bool, **asked: Any) -> None:
    """Offer NFS load to a server and see what it achieves and how long a request takes.

    Latencies of the open mode run from the planned instant of an operation, so that a server that
    stalls is charged for those who had to wait.
    """
    _check(targets, asked)
    result: dict[str, Any] = {"schema": SCHEMA, "targets": list(targets), "points": []}
    # A polite kill ends it as Ctrl-C does: what was measured is printed.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with _mounted(targets, asked["options"]) as mounts:
            _measure(_points(mounts, targets, asked), asked, result)
    except (KeyboardInterrupt, Interrupted):
        if result["points"]:
            _print(result, as_json)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    _print(result, as_json)
    bad = [p for p in result["points"] if not p["valid"] and not result.get("search")]
    if bad:
        raise RunFailed(
            f"sfs: {len(bad)} of {len(result['points'])} points do not count",
            why=f"{bad[0]['offered_ops_per_s']:g} ops/s: {bad[0]['reasons'][0]['text']}",
            fix=bad[0].get("fix", ""),
        )


def _check(targets: tuple[str, ...], asked: dict[str, Any]) -> None:
    if (asked["ladder"] is None) == (asked["find"] is None):
        raise UsageError(
            "say how much load: one of --load and --find", fix="for instance: --load 800..3200:800"
        )
    if asked["precision"] <= 0:
        raise UsageError("--precision is above 0", fix="for instance: --precision 5%")
    if asked["files"] is not None and asked["bytes_per_op"] is not None:
        raise UsageError("--files and --bytes-per-op exclude each other", fix="give one of them")
    if any(target in EMBEDDED for target in targets) and len(targets) > 1:
        raise UsageError("memory and null stand alone", fix="give one of them, or HOST:/EXPORT...")
    if asked["calls"] is not None and (asked["find"] is not None or len(asked["ladder"]) > 1):
        raise UsageError("--calls records one load", fix="give one load with it")
    if asked["calls"] is not None and asked["generators"] > 1:
        raise UsageError("--calls records one generator process", fix="leave --generators out")
    if asked["prepare_only"] and asked["ladder"] is None:
        raise UsageError("--prepare-only needs a load", fix="give --load: it sizes the file set")
    for option in ("out", "calls"):
        path = asked[option]
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise UsageError(f"cannot write {path}", fix=f"give another file with --{option}")


@contextlib.contextmanager
def _mounted(targets: tuple[str, ...], options: tuple[str, ...]) -> Iterator[list[Any]]:
    """The exports; an embedded server of our own for `memory` and `null`."""
    from nfslab.offered.plans import Mounted

    text = ",".join(options)
    if targets[0] not in EMBEDDED:
        yield [Mounted.of(target, text) for target in targets]
        return
    import tempfile

    from nfslab.hosts.base import Link
    from nfslab.hosts.local import LocalHost
    from nfslab.machine.resources import Resources
    from nfslab.servers import embedded_process

    arguments = [f"--{targets[0]}"]
    arguments += ["--size", str(EMBEDDED_BYTES)] if targets[0] == "memory" else []
    with tempfile.TemporaryDirectory() as folder, Resources("sfs") as resources:
        server = embedded_process.start(
            arguments, Path(folder), resources, host=LocalHost(), link=Link()
        )
        try:
            ports = [f"port={server.port}", f"mountport={server.mount_port}"]
            yield [Mounted(server.source, ",".join([*ports, *options]))]
        finally:
            server.stop()


def _points(
    mounts: Sequence[Any], targets: tuple[str, ...], asked: dict[str, Any]
) -> Callable[[float], Point]:
    """The point of a load."""
    from nfslab.offered.mixes import read_mix
    from nfslab.offered.plans import Load as Offered
    from nfslab.offered.plans import Point

    mix = read_mix(asked["mix"])
    warm_up_s, measure_s = WARM_UP_S, MEASURE_S
    if asked["as_published"]:
        warm_up_s, measure_s = mix.warm_up_s or WARM_UP_S, mix.measure_s or MEASURE_S
    if asked["warm_up_s"] is not None:
        warm_up_s = asked["warm_up_s"]
    if asked["measure_s"] is not None:
        measure_s = asked["measure_s"]

    def point(rate: float) -> Point:
        names = ("mode", "arrivals", "outstanding", "clients", "processes", "think")
        return Point(
            mounts,
            mix,
            Offered(rate, **{name: asked[name] for name in names}),
            warm_up_s=warm_up_s,
            measure_s=measure_s,
            cool_down_s=asked["cool_down_s"],
            threads=asked["threads"] or len(mounts),
            generators=asked["generators"],
            seed=asked["seed"],
            repetition=asked["repetition"],
            silence_limit_s=asked["silence_s"],
            verify_share=asked["verify_share"],
            record_calls=RECORD_ROOM if asked["calls"] is not None else 0,
            files=asked["files"],
            bytes_per_op_per_s=asked["bytes_per_op"],
            calibration=asked["calibration"] or targets[0] == "null",
        )

    return point


def _measure(
    point: Callable[[float], Point], asked: dict[str, Any], result: dict[str, Any]
) -> None:
    """All points of the ladder, or of the search, into `result`."""
    from nfslab.cli.sfs_progress import progress_on

    result["mix"] = point(1.0).mix.title
    with progress_on(sys.stderr) as progress:

        def measured(rate: float, number: int, of: int | None) -> dict[str, Any]:
            progress.begin(rate, number, of)
            if asked["prepare_only"]:
                found = _prepared(point(rate), progress)
                result["points"].append(found)
                return found
            found = _point(point(rate), asked["calls"], progress)
            result["points"].append(found)
            result["curve"] = _curve(result["points"])
            _keep(result, asked["out"])
            return found

        if asked["find"] is None:
            for number, rate in enumerate(asked["ladder"], 1):
                measured(rate, number, len(asked["ladder"]))
        else:
            _search(measured, asked, result)
            _keep(result, asked["out"])


def _search(
    measured: Callable[[float, int, int | None], dict[str, Any]],
    asked: dict[str, Any],
    result: dict[str, Any],
) -> None:
    from nfslab.offered.search import Search

    search = Search(start=SEARCH_START, precision=asked["precision"])
    while (rate := search.next_load()) is not None:
        found = measured(rate, len(search.told) + 1, None)
        if found.get("failed"):
            raise RunFailed(
                "the search cannot go on",
                why=found["reasons"][0]["text"],
                fix=found["fix"] or "see to the server",
            )
        search.tell(rate, asked["find"].verdict(found))
    result["search"] = {
        "goal": str(asked["find"]),
        "found_ops_per_s": search.good,
        "missed_at_ops_per_s": search.bad,
        "generator_limit_ops_per_s": search.limited if search.bounded_by_generator else None,
        "points": len(search.told),
    }


SEARCH_START: Final = 1000.0


def _point(point: Point, calls: Path | None, progress: Progress) -> dict[str, Any]:
    """One point's report; one that could not be made has "failed" and its reason."""
    from nfslab._core import CoreError, Load
    from nfslab.offered.processes import PartFailed, measured

    plan = point.plan()
    try:
        if point.generators > 1:
            report, load = measured(plan, point.generators, progress)
        else:
            load = Load(json.dumps(plan))
            load.prepare(progress)
            report = _run(load, calls, progress)
    except (CoreError, PartFailed) as error:
        if error.kind == "cancelled":
            raise Interrupted("stopped before the point was measured") from error
        if error.kind in USAGE_KINDS:
            raise UsageError(error.what, why=error.why, fix=error.fix) from error
        text = f"{error.what}: {error.why}" if error.why else error.what
        return {
            "valid": False, "failed": error.kind, "achieved_ops_per_s": 0.0,
            "offered_ops_per_s": plan["load"]["rate_ops_per_s"], "response": {"mean_ns": None},
            "reasons": [{"kind": error.kind, "text": text}], "fix": error.fix,
        }  # fmt: skip
    report["histograms"] = {
        name: base64.b64encode(histogram.to_v2()).decode()
        for name, histogram in load.histograms().items()
    }
    return report


def _prepared(point: Point, progress: Progress) -> dict[str, Any]:
    """The file set alone: what was found and made of it on each mount."""
    from nfslab._core import CoreError, Load

    plan = point.plan()
    try:
        made = Load(json.dumps(plan)).prepare(progress)
    except CoreError as error:
        kind = UsageError if error.kind in USAGE_KINDS else RunFailed
        raise kind(error.what, why=error.why, fix=error.fix) from error
    rate = plan["load"]["rate_ops_per_s"]
    return {"offered_ops_per_s": rate, "valid": True, "mounts": made}


def _run(load: Load, calls: Path | None, progress: Progress) -> dict[str, Any]:
    """Measure, and write every call to a file if asked."""
    if calls is None:
        return load.run(progress)
    from nfslab.cli.serve_records import records_file

    file = records_file(calls)
    file.begin(load.plan())

    def take(state: dict[str, Any]) -> bool:
        file.take(load.calls()[0])
        return progress(state)

    report = load.run(take)
    columns, lost = load.calls()
    file.finish(columns)
    report["calls"] = {"file": str(calls), "rows": file.rows, "lost": lost}
    return report


def _curve(points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    from nfslab.offered.points import load_point
    from nfslab.statistics.load_curve import load_curve

    return load_curve([load_point(point) for point in points]).as_dict()


def _keep(result: dict[str, Any], path: Path | None) -> None:
    if path is None:
        return
    from nfslab.results.durable import to_json, write_durably

    write_durably(path, to_json(result))


def _print(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result))
        return
    from nfslab.cli.sfs_text import lines, prepared

    if "curve" not in result:
        for point in result["points"]:
            click.echo(prepared(point))
        return

    for line in lines(result):
        click.echo(line)
