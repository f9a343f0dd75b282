"""A cluster on this machine for benchmarks: scheduler and workers are processes, joined over TLS.

    with cluster_here.up(folder, ["one", "two"]) as cluster:
        nfslab run FILE, whose section [cluster] is `cluster.section`

It ends with the program that has it. Where the environment says how long somebody may be silent
(`be_small`), all of nfslab's modules are run by this file, so that on a busy machine nobody is lost
who is only slow:

    python benches/cluster_here.py nfslab run FILE
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from nfslab.cluster import attended, base, link, remote
from nfslab.cluster.certificates import Authority, Role, papers_in

SILENCE = "NFSLAB_BENCH_SILENCE_S"
SMALL_SILENCE_S = 10.0
PATIENCE_S = 120.0


@dataclass(slots=True)
class Cluster:
    """One that runs."""

    section: str
    """[cluster] of an experiment file."""
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """By name; whoever stops or kills one needs no others of this cluster any more."""


def parser(doc: str, example: str) -> argparse.ArgumentParser:
    """With the first line of what a benchmark says of itself, and `--small`."""
    made = argparse.ArgumentParser(
        description=doc.partition("\n")[0], epilog=f"Example: python benches/{example}"
    )
    made.add_argument("--small", action="store_true", help="does it still work?")
    return made


def asked(made: argparse.ArgumentParser) -> argparse.Namespace:
    """What the command line asks for, heeded where it is to be small."""
    found = made.parse_args()
    if found.small:
        be_small()
    return found


def be_small() -> None:
    """From now on, for us and all that we start: nobody is lost who is only slow."""
    os.environ[SILENCE] = str(SMALL_SILENCE_S)
    be_patient()


def be_patient() -> None:
    """As the environment says."""
    if (silence_s := os.environ.get(SILENCE)) is None:
        return
    for module, name, seconds in (
        (attended, "SILENCE_S", float(silence_s)),
        (link, "SILENCE_S", float(silence_s)),
        (link, "CONNECT_S", PATIENCE_S),
        (remote, "CONNECT_S", PATIENCE_S),
        (remote, "BEGIN_S", PATIENCE_S),
    ):
        vars(module)[name] = seconds
    patience = base.Patience(PATIENCE_S, PATIENCE_S, PATIENCE_S, start_s=2.0)
    base.Member.patience = patience  # type: ignore[assignment, method-assign]


def nfslab(*words: str) -> list[str]:
    """A command of nfslab's."""
    return _command("nfslab", *words)


def _command(module: str, *words: str) -> list[str]:
    by = [str(Path(__file__).resolve())] if SILENCE in os.environ else ["-m"]
    return [sys.executable, *by, module, *words]


@contextlib.contextmanager
def up(folder: Path, names: Sequence[str]) -> Iterator[Cluster]:
    """A cluster of workers with these names; its files are in `folder`, which is empty."""
    certificates = folder / "certificates"
    Authority.new().write(certificates)
    # Of workers that are killed: what they leave goes with the folder.
    temporary = folder / "tmp"
    temporary.mkdir()
    with contextlib.ExitStack() as stack:

        def begun(role: Role, **order: object) -> tuple[subprocess.Popen[bytes], str]:
            papers = asdict(papers_in(certificates, role))
            order |= {"do": role, "papers": papers, "host": "127.0.0.1", "lives_by_input": True}
            process = subprocess.Popen(
                _command("nfslab.cluster", "ordered"),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
                env=os.environ | {"TMPDIR": str(temporary)},
            )  # fmt: skip
            stack.callback(_end, process)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
            said = json.loads(process.stdout.readline())
            if "address" not in said:
                raise SystemExit(f"the {role} did not begin: {said}")
            return process, said["address"]

        _, address = begun("scheduler", port=0)
        found = Cluster(
            f'[cluster]\nscheduler = "{address}"\ncertificates = "{certificates}"\n'
            f"members = {len(names)}\n"
        )
        for name in names:
            found.workers[name], _ = begun("worker", scheduler=address, name=name)
        yield found


def _end(process: subprocess.Popen[bytes]) -> None:
    """In its own time, where it can."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


if __name__ == "__main__":
    be_patient()
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
