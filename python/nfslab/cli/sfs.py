"""`nfslab sfs`: an NFS server under offered load, point by point, as SPEC SFS asked it.

The options become an experiment of the workload `sfs`, which is run, and its results shown. TARGET
is HOST:/EXPORT (again for more mounts; options of one alone behind it, as in
HOST:/EXPORT,port=20049), or `memory` or `null`: an embedded server of its own for trying out and
for calibration. A point that cannot be made is a row that says why, and the rest goes on.

Exit code: 0 all points are valid, 1 one is not, 2 bad usage, 130 interrupted (what was measured is
printed and kept).
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from nfslab.cli.arguments import anyway_option, check_output, parsed, polite_kill, results_option
from nfslab.cli.run_written import NO_LIMIT, carry_out, parameters_of, view_of
from nfslab.display.progress import Progress
from nfslab.display.terminal import section_lines
from nfslab.errors import RunFailed, UsageError, of_core
from nfslab.offered.ladder import loads
from nfslab.offered.search import Search, goal
from nfslab.quantities import parse_size_bytes, read_duration_s, read_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab._core import Load
    from nfslab.experiment.progress import View
    from nfslab.experiment.session import Options, Session
    from nfslab.offered.search import Goal
    from nfslab.report.model import Analysis

EMBEDDED: Final = ("memory", "null")
EMBEDDED_SIZE: Final = "8G"
SEARCH_START: Final = 1000.0
SAME: Final = (
    "mix", "mode", "arrivals", "outstanding", "clients", "processes", "think", "cool_down",
    "silence", "files", "bytes_per_op", "verify_share", "seed", "calibration",
)  # fmt: skip
"""Options that are parameters of the workload."""

EPILOG = """\b
Examples:
  nfslab sfs filer:/vol/scratch --load 800..3200:800
  nfslab sfs 127.0.0.1:/export -o port=20049,mountport=20049 --load 1k..10k:1k --mix database
  nfslab sfs filer:/a,nconnect=4 filer:/b --load 3200 --mode closed --clients 5 --mix laddis
  nfslab sfs filer:/vol/scratch --find 'p99<20ms' --precision 5%
  nfslab sfs filer:/vol/scratch --load 1k..8k:1k --html load.html
  nfslab sfs filer:/vol/scratch --load 200k --generators 4
  nfslab sfs filer:/vol/scratch --find 'mean<10ms' --hosts 4 --cluster tls://controller:8786
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
@click.option("--time", "duration", callback=parsed(read_duration_s), metavar="TIME",
    help="Of the measured window. [30s]")  # fmt: skip
@click.option("--warm-up", callback=parsed(read_duration_s), metavar="TIME",
    help="Before it. [10s]")  # fmt: skip
@click.option("--cool-down", callback=parsed(read_duration_s), default="0s", metavar="TIME",
    help="After it, with the load on.")  # fmt: skip
@click.option("--silence", callback=parsed(read_duration_s), metavar="TIME",
    help="Without any answer, until a server counts as gone. [30s]")  # fmt: skip
@click.option("--as-published", is_flag=True, help="Warm-up and window as the mix's source has it.")
@click.option("--threads", type=click.IntRange(1, 256), default=1, metavar="N",
    help="Threads of a generator process. [one a mount]")  # fmt: skip
@click.option("--generators", type=click.IntRange(1, 256), default=1, show_default=True,
    metavar="N", help="Generator processes, each with its share of the load.")  # fmt: skip
@click.option("--hosts", metavar="N|NAMES",
    help="Hosts that make each point together, each with --generators processes.")  # fmt: skip
@click.option("--namespaces", is_flag=True,
    help="--hosts are network namespaces on this machine (root), not agents on it.")  # fmt: skip
@click.option("--cluster", metavar="ADDRESS", help="--hosts are machines of this cluster.")
@click.option("--certificates", type=click.Path(), metavar="DIR",
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
@click.option("--calls", type=click.Path(path_type=Path), metavar="FILE.parquet",
    help="Record every call (of one load).")  # fmt: skip
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a page.")
@results_option
@anyway_option
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
def command(targets: tuple[str, ...], as_json: bool, **asked: Any) -> None:
    """Offer NFS load to a server and see what it achieves and how long a request takes.

    Latencies of the open mode run from the planned instant of an operation, so that a server that
    stalls is charged for those who had to wait.
    """
    from nfslab.experiment.session import Options, run_experiment

    _check(targets, asked)
    ladder = list(dict.fromkeys(asked["ladder"] or [SEARCH_START]))
    sections = _sections(targets, asked)
    for rate in ladder if asked["prepare_only"] else ladder[:1]:
        load = _load(targets, asked, sections["workload"] | {"load": rate})
        if asked["prepare_only"]:
            _prepare(load, rate)
    if asked["prepare_only"]:
        return
    view, called = view_of(as_json=as_json), ("nfslab", *sys.argv[1:])
    result: dict[str, Any] = {"targets": list(targets)}

    def run(file: Path) -> Session:
        given = {name: asked[name] for name in ("results", "anyway")}
        options = Options(file, called=called, new=True, **given)
        if asked["find"] is None:
            return run_experiment(options, view)
        search = Search(start=SEARCH_START, precision=asked["precision"])
        return _search(search, asked["find"], options, sections, result, view)

    def tell(analysis: Analysis) -> tuple[dict[str, Any], list[str]]:
        return _tell(analysis, result, asked["calls"])

    carry_out(
        "sfs", _text(sections, ladder), run, tell,
        as_json=as_json, html=asked["html"], failures_count=asked["find"] is None,
        failures_told=True,
    )  # fmt: skip


def _check(targets: tuple[str, ...], asked: dict[str, Any]) -> None:
    if (asked["ladder"] is None) == (asked["find"] is None):
        raise UsageError(
            "say how much load: one of --load and --find", fix="for instance: --load 800..3200:800"
        )
    if asked["precision"] <= 0:
        raise UsageError("--precision is above 0", fix="for instance: --precision 5%")
    if any(target in EMBEDDED for target in targets) and len(targets) > 1:
        raise UsageError("memory and null stand alone", fix="give one of them, or HOST:/EXPORT...")
    if asked["calls"] is not None and (asked["find"] is not None or len(asked["ladder"]) > 1):
        raise UsageError("--calls records one load", fix="give one load with it")
    for option in ("namespaces", "cluster"):
        if asked[option] and asked["hosts"] is None:
            raise UsageError(f"--{option} says what hosts are", fix="give --hosts, too")
    if asked["namespaces"] and asked["cluster"] is not None:
        raise UsageError("--namespaces and --cluster exclude each other", fix="give one of them")
    if asked["prepare_only"] and (
        asked["hosts"] is not None or asked["ladder"] is None or targets[0] in EMBEDDED
    ):
        raise UsageError(
            "--prepare-only is of a server that stays, and of this process",
            fix="give HOST:/EXPORT and --load, which sizes the file set, and leave --hosts out",
        )
    for option in ("calls", "html"):
        if asked[option] is not None:
            check_output(f"--{option}", asked[option])


def _sections(targets: Sequence[str], asked: dict[str, Any]) -> dict[str, Any]:
    """Of the experiment's file, without its loads."""
    from nfslab.offered.mixes import read_mix, shipped_mixes
    from nfslab.offered.plans import Mounted
    from nfslab.workloads.sfs import MOUNTS

    if len(targets) > len(MOUNTS):
        raise UsageError(f"{len(MOUNTS)} mounts at most", fix="give fewer targets")
    mix = read_mix(asked["mix"])
    roles = {role: role.replace("data", "server") for role in MOUNTS[: len(targets)]}
    sections: dict[str, Any] = {
        "experiment": {
            "name": "sfs", "title": f"{', '.join(targets)}: {mix.title}", "repetitions": 1,
            "order": "fixed", "seed": asked["repetition"], "primary": "achieved_ops_per_s",
        },
        "limits": {"run_s": NO_LIMIT, "drop_page_cache": False},
    }  # fmt: skip
    several = asked["hosts"] is not None
    if several:
        text, cluster = asked["hosts"], asked["cluster"] is not None
        sections["client"] = {
            "host": "namespace" if asked["namespaces"] else "cluster" if cluster else "local",
            "hosts": int(text) if text.isdecimal() else [one.strip() for one in text.split(",")],
            "processes": asked["generators"],
        }
        if cluster:
            of_cluster = {"scheduler": asked["cluster"], "certificates": asked["certificates"]}
            sections["cluster"] = of_cluster
    for role, target in zip(roles.values(), targets, strict=True):
        mounted = Mounted.of(target, ",".join(asked["options"]))
        section: dict[str, Any] = {"kind": "nfs", "client": "none"}
        section["mount_options"] = mounted.options.split(",") if mounted.options else None
        if target in EMBEDDED:
            section |= {"store": target, "size": EMBEDDED_SIZE if target == "memory" else None}
        else:
            section["server"] = mounted.source
        sections[f"targets.{role}"] = section
    published = (mix.warm_up_s, mix.measure_s) if asked["as_published"] else (None, None)
    sections["workload"] = {
        "kind": "sfs", **roles, **{name: asked[name] for name in SAME},
        "warm_up": published[0] if asked["warm_up"] is None else asked["warm_up"],
        "duration": published[1] if asked["duration"] is None else asked["duration"],
        "threads": asked["threads"],
        "generators": 1 if several else asked["generators"],
        "calls": asked["calls"] is not None,
    }  # fmt: skip
    if asked["mix"] not in shipped_mixes():
        # Other machines have no such file.
        sections["workload"] |= {"mix": None, "mix_table": mix.content | {"title": mix.title}}
    return sections


def _text(sections: dict[str, Any], ladder: Sequence[float]) -> str:
    from nfslab.experiment.trial import file_text

    axis = {"name": "load", "parameter": "workload.load"}
    whole = [int(rate) if rate == int(rate) else rate for rate in ladder]
    return file_text(["Made by `nfslab sfs`."], sections | {"axes": [axis | {"values": whole}]})


def _load(targets: Sequence[str], asked: dict[str, Any], workload: dict[str, Any]) -> Load:
    """The core's, of a point; what it refuses is bad usage."""
    from nfslab._core import CoreError, Load
    from nfslab.offered.plans import Mounted
    from nfslab.workloads.sfs import SfsParameters

    parameters = parameters_of(SfsParameters, workload)
    is_null, options = targets[0] == "null", ",".join(asked["options"])
    given = ["127.0.0.1:/export"] if targets[0] in EMBEDDED else targets
    mounts = [Mounted.of(one, options) for one in given]
    plan = parameters.point(mounts, asked["repetition"], calibration=is_null).plan()
    if parameters.generators > 1 and not asked["prepare_only"]:
        plan["part"] = {"index": 0, "of": parameters.generators}
    try:
        return Load(json.dumps(plan))
    except CoreError as error:
        raise of_core(error, {"config", "file_set"}) from error


def _prepare(load: Load, rate: float) -> None:
    from nfslab._core import CoreError

    try:
        with polite_kill(), Progress(sys.stderr, begun_s=0.0) as progress:

            def show(state: dict[str, Any]) -> bool:
                title = f"{rate:,.0f} ops/s: file set, {state['step']}"
                progress.show(title, state["done"], max(state["total"], 1))
                return True

            made = load.prepare(show)
    except CoreError as error:
        raise of_core(error, {"file_set"}) from error
    words = [
        f"{mount['server']}: {mount['files_found']:,} files found, {mount['files_made']:,} made"
        for mount in made
    ]
    click.echo(f"for {rate:,.0f} ops/s: {'; '.join(words)}")


def _search(
    search: Search,
    wanted: Goal,
    options: Options,
    sections: dict[str, Any],
    result: dict[str, Any],
    view: View,
) -> Session:
    """A load after the other, until the highest is known; RunFailed where one cannot be made."""
    from nfslab.experiment.session import run_experiment

    session = None
    ladder: list[float] = []
    while (asked := search.next_load()) is not None:
        rate = float(f"{asked:.6g}")
        ladder.append(rate)
        options.file.write_text(_text(sections, ladder), encoding="utf-8")
        session = run_experiment(options, view)
        options = replace(options, new=False, continue_in=session.folder.path, keep_failed=True)
        line = max(session.folder.sealed_runs(), key=lambda one: one.position)
        if line.status == "failed" and not line.metrics:
            why = "; ".join(one.strip() for one in line.reason.splitlines())
            raise RunFailed("the search cannot go on", why=why, fix="see to the server")
        search.tell(rate, wanted.verdict(line.metrics, valid=line.status == "ok"))
    result["search"] = {
        "goal": str(wanted),
        "found_ops_per_s": search.good,
        "missed_at_ops_per_s": search.bad,
        "generator_limit_ops_per_s": search.limited if search.bounded_by_generator else None,
        "points": len(search.told),
    }
    assert session is not None, "a search begins with a load"
    return session


def _tell(
    analysis: Analysis, result: dict[str, Any], calls: Path | None
) -> tuple[dict[str, Any], list[str]]:
    """For programs every point as the core tells it; for a person the report's section."""
    from nfslab.evidence.offered_load.content import as_content
    from nfslab.evidence.offered_load.section import load_section
    from nfslab.workloads.sfs import CALLS

    points: list[dict[str, Any]] = []
    failed: dict[str, None] = {}
    for run in analysis.runs:
        logs = Path(analysis.path) / "runs" / run.run_id / "logs"
        if (stored := logs / "sfs.json").is_file():
            points.append(json.loads(stored.read_text(encoding="utf-8")))
        else:
            reasons = [{"kind": "failed", "text": run.reason}]
            failed[run.reason] = None
            points.append({"valid": False, "failed": True, "reasons": reasons})
        if calls is not None and (logs / CALLS).is_file():
            shutil.copyfile(logs / CALLS, calls)
    told = result | {"points": points, "offered_load": as_content(analysis)}
    told["emulated"] = analysis.emulated
    section = load_section(analysis, analysis.title, in_short=True)
    lines = [analysis.emulated, ""] if analysis.emulated else []
    lines += [] if section is None else section_lines(section)
    lines += failed | dict.fromkeys(note for one in points for note in one.get("notes", []))
    return told, lines + ([_searched(result["search"])] if "search" in result else [])


def _searched(search: dict[str, Any]) -> str:
    found = search["found_ops_per_s"]
    if found is None:
        return f"{search['goal']}: at no load that was tried ({search['points']} points)"
    told = f"{search['goal']}: up to {found:,.0f} ops/s ({search['points']} points"
    if (limit := search["generator_limit_ops_per_s"]) is not None:
        return f"{told}); at {limit:,.0f} the generator was the limit, the server may do more"
    return f"{told}; missed at {search['missed_at_ops_per_s']:,.0f})"
