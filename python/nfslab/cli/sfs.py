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

import contextlib
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from nfslab.cli.arguments import check_output, parsed, polite_kill
from nfslab.display.progress import Progress
from nfslab.display.terminal import section_lines
from nfslab.errors import Interrupted, RunFailed, UsageError, system_errors
from nfslab.machine.emulation import SENTENCE, is_emulated
from nfslab.offered.ladder import loads
from nfslab.offered.search import goal
from nfslab.quantities import parse_size_bytes, read_duration_s, read_share
from nfslab.results.durable import to_json, write_durably

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nfslab.experiment.load_hosts import LoadHosts
    from nfslab.offered.plans import Point

EMBEDDED: Final = ("memory", "null")
WARM_UP_S, MEASURE_S = 10.0, 30.0
"""Unless said otherwise; published SFS results took 300 s each."""
EMBEDDED_BYTES: Final = 8 << 30
SCHEMA: Final = 1
RECORD_ROOM: Final = 1 << 18
AS_ASKED: Final = ("cool_down_s", "generators", "seed", "repetition", "verify_share", "files")

EPILOG = """\b
Examples:
  nfslab sfs filer:/vol/scratch --load 800..3200:800
  nfslab sfs 127.0.0.1:/export -o port=20049,mountport=20049 --load 1k..10k:1k --mix database
  nfslab sfs filer:/a,nconnect=4 filer:/b --load 3200 --mode closed --clients 5 --mix laddis
  nfslab sfs filer:/vol/scratch --find 'p99<20ms' --precision 5%
  nfslab sfs filer:/vol/scratch --load 1k..8k:1k --html load.html
  nfslab sfs filer:/vol/scratch --load 200k --generators 4
  nfslab sfs filer:/vol/scratch --find 'mean<10ms' --hosts 4 --cluster tls://prime:8786
  nfslab sfs null --load 50k --files 1000 --time 5s

\b
Mixes: laddis, sfs3, sfs2008, database, or a file of one's own (docs/load.md). The file set grows
with the offered load (10 MB for each operation a second in sfs3): --bytes-per-op or --files make
it smaller, and less like the published one. It is made once, reused, and left there.
"""


@click.command("sfs", epilog=EPILOG)
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--load", "ladder", callback=parsed(loads), metavar="LOADS",
    help="Operations a second: 800, 500,1k, 800..3200:800.")  # fmt: skip
@click.option("--find", callback=parsed(goal), metavar="GOAL",
    help="Search the highest load with mean<10ms, p99<20ms, ...")  # fmt: skip
@click.option("--precision", callback=parsed(read_share), default="5%", show_default=True,
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
@click.option("--time", "measure_s", callback=parsed(read_duration_s), metavar="TIME",
    help="Of the measured window. [30s]")  # fmt: skip
@click.option("--warm-up", "warm_up_s", callback=parsed(read_duration_s), metavar="TIME",
    help="Before it. [10s]")  # fmt: skip
@click.option("--cool-down", "cool_down_s", callback=parsed(read_duration_s), default="0s",
    metavar="TIME", help="After it, with the load on.")  # fmt: skip
@click.option("--silence", "silence_s", callback=parsed(read_duration_s), metavar="TIME",
    help="Without any answer, until a server counts as gone. [30s]")  # fmt: skip
@click.option("--as-published", is_flag=True, help="Warm-up and window as the mix's source has it.")
@click.option("--threads", type=click.IntRange(1, 256), metavar="N",
    help="Threads of a generator process. [one a mount]")  # fmt: skip
@click.option("--generators", type=click.IntRange(1, 256), default=1, show_default=True,
    metavar="N", help="Generator processes, each with its share of the load.")  # fmt: skip
@click.option("--hosts", metavar="N|NAMES",
    help="Hosts that make each point together, each with --generators processes.")  # fmt: skip
@click.option("--namespaces", is_flag=True,
    help="--hosts are network namespaces on this machine (root), not agents on it.")  # fmt: skip
@click.option("--cluster", metavar="ADDRESS", help="--hosts are machines of this cluster.")
@click.option("--certificates", type=click.Path(path_type=Path), metavar="DIR",
    help="Those of --cluster. [of nfslab cluster start]")  # fmt: skip
@click.option("--files", type=click.IntRange(1), metavar="N", help="Files of the set.")
@click.option("--bytes-per-op", callback=parsed(parse_size_bytes), metavar="SIZE",
    help="Bytes of the set for each operation a second.")  # fmt: skip
@click.option("--verify", "verify_share", callback=parsed(read_share), default="5%",
    show_default=True, help="Share of READs whose data is compared.")  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the set.")
@click.option("--repetition", type=click.IntRange(0), default=0, show_default=True,
    help="Other arrivals and operations on the same set.")  # fmt: skip
@click.option("--calibration", is_flag=True, help="The server is a null store: any name is a file.")
@click.option("--prepare-only", is_flag=True, help="Make the file sets, and end.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE.json",
    help="Keep everything, after each point.")  # fmt: skip
@click.option("--calls", type=click.Path(path_type=Path), metavar="FILE.parquet",
    help="Record every call (of one load).")  # fmt: skip
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a page.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(targets: tuple[str, ...], as_json: bool, **asked: Any) -> None:
    """Offer NFS load to a server and see what it achieves and how long a request takes.

    Latencies of the open mode run from the planned instant of an operation, so that a server that
    stalls is charged for those who had to wait.
    """
    _check(targets, asked)
    result: dict[str, Any] = {"schema": SCHEMA, "targets": list(targets), "points": []}
    result["emulated"] = SENTENCE if is_emulated() else ""
    try:
        with (
            polite_kill(),
            _hosts(asked) as hosts,
            _mounted(targets, asked["options"], hosts) as mounts,
        ):
            _measure(_points(mounts, targets, asked), asked, result, hosts)
    except (KeyboardInterrupt, Interrupted):
        if result["points"]:
            _tell(result, asked["html"], as_json)
        raise
    _tell(result, asked["html"], as_json)
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
    for option in ("namespaces", "cluster"):
        if asked[option] and asked["hosts"] is None:
            raise UsageError(f"--{option} says what hosts are", fix="give --hosts, too")
    if asked["namespaces"] and asked["cluster"] is not None:
        raise UsageError("--namespaces and --cluster exclude each other", fix="give one of them")
    if asked["hosts"] is not None and (asked["calls"] is not None or asked["prepare_only"]):
        raise UsageError(
            "--calls and --prepare-only are of this process", fix="leave --hosts out with them"
        )
    if asked["calls"] is not None and asked["generators"] > 1:
        raise UsageError("--calls records one generator process", fix="leave --generators out")
    if asked["prepare_only"] and asked["ladder"] is None:
        raise UsageError("--prepare-only needs a load", fix="give --load: it sizes the file set")
    if asked["html"] is not None and asked["prepare_only"]:
        raise UsageError("--prepare-only makes no figures for --html", fix="give one of them")
    for option in ("out", "calls", "html"):
        if asked[option] is not None:
            check_output(f"--{option}", asked[option])


@contextlib.contextmanager
def _hosts(asked: dict[str, Any]) -> Iterator[LoadHosts | None]:
    """Those that are asked for; None: the load is made here."""
    if asked["hosts"] is None:
        yield None
        return
    from nfslab.experiment.load_hosts import LoadHosts, asked_hosts

    wanted = asked_hosts(
        asked["hosts"], namespaces=asked["namespaces"], scheduler=asked["cluster"],
        certificates=asked["certificates"],
    )  # fmt: skip
    with LoadHosts.up(wanted, asked["generators"]) as hosts:
        yield hosts


@contextlib.contextmanager
def _mounted(
    targets: tuple[str, ...], options: tuple[str, ...], hosts: LoadHosts | None
) -> Iterator[list[Any]]:
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
            arguments,
            Path(folder),
            resources,
            host=LocalHost(),
            link=Link() if hosts is None else hosts.link,
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
            threads=asked["threads"] or len(mounts),
            silence_limit_s=asked["silence_s"],
            **{name: asked[name] for name in AS_ASKED},
            record_calls=RECORD_ROOM if asked["calls"] is not None else 0,
            bytes_per_op_per_s=asked["bytes_per_op"],
            calibration=asked["calibration"] or targets[0] == "null",
        )

    return point


def _measure(
    point: Callable[[float], Point],
    asked: dict[str, Any],
    result: dict[str, Any],
    hosts: LoadHosts | None,
) -> None:
    """All points of the ladder, or of the search, into `result`."""
    from nfslab.offered.measuring import find, measure_point, prepare_point, whole

    result["mix"] = point(1.0).mix.title
    with Progress(sys.stderr, begun_s=0.0) as progress:

        def measured(rate: float, number: int, of: int | None) -> dict[str, Any]:
            place = f"{number}" if of is None else f"{number}/{of}"
            show = partial(_show, progress, f"[{place}] {rate:,.0f} ops/s")
            if asked["prepare_only"]:
                found = prepare_point(point(rate), show)
                result["points"].append(found)
                return found
            made = None if hosts is None else hosts.measured
            found = measure_point(point(rate), asked["calls"], show, made)
            result["points"].append(found)
            _keep(whole(result), asked["out"])
            return found

        if asked["find"] is None:
            for number, rate in enumerate(asked["ladder"], 1):
                measured(rate, number, len(asked["ladder"]))
        else:
            result["search"] = find(measured, asked["find"], asked["precision"])
            _keep(result, asked["out"])


def _show(progress: Progress, title: str, state: dict[str, Any]) -> bool:
    """A report of the core, several a second; false would stop it."""
    if state["stage"] == "prepare":
        mount = f" of mount {state['mount'] + 1}" if state["mounts"] > 1 else ""
        step, done, total = f"file set, {state['step']}{mount}", state["done"], state["total"]
        words = f"{state['written_bytes'] / 2**20:,.0f} MiB written"
    else:
        step, done, total = (
            state["phase"].replace("_", " "),
            state["elapsed_ns"],
            state["total_ns"],
        )
        words = f"{state['answered']:,} answered, {state['outstanding']:,} outstanding"
    progress.show(f"{title}: {step}", done, max(total, 1), words)
    return True


def _keep(result: dict[str, Any], path: Path | None) -> None:
    if path is None:
        return
    write_durably(path, to_json(result))


def _tell(result: dict[str, Any], html: Path | None, as_json: bool) -> None:
    """Print it; the page first, so that it is there whatever becomes of the output."""
    if html is not None and "curve" in result:
        from nfslab.offered.page import section
        from nfslab.report.html.section_page import write

        with system_errors(f"cannot write {html}", "give another file with --html FILE", RunFailed):
            command = ["nfslab", *sys.argv[1:]]
            write([section(result)], html, "offered-load", command=command, title="Offered load")
        click.echo(f"page: {html}", err=as_json)
    _print(result, as_json)


def _print(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(result))
        return
    from nfslab.offered.page import prepared, section

    if result["emulated"]:
        click.echo(f"{result['emulated']}\n")
    if "curve" in result:
        click.echo("\n".join(section_lines(section(result, in_short=True))))
    else:
        click.echo("\n".join(map(prepared, result["points"])))
