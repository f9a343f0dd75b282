"""Plants defects in the product and records which of them the tests find.

    python -m tests.planted_defects draw --seed 39 > defects.json
    python -m tests.planted_defects map MAP              (the lanes once, with coverage)
    python -m tests.planted_defects run defects.json MAP --into found_after

cosmic-ray draws Python's defects and cargo-mutants draws Rust's, the same number a line in every
room and two at least (`pip install cosmic-ray coverage`, `cargo install cargo-mutants`). `map`
learns which test passes over which line, children included. `run` plants one defect after the
other in *this* working tree, which must be a clone of its own, stops at the first test that fails
and writes into the list whether one did: in Python of those that pass over the line, the quickest
first; in Rust of the crate's, then of Python's in `AFTER` with a core built anew. What does not
compile is no defect: null.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "python/nfslab"
PYTHON_DEFECTS = 72
RUST_DEFECTS = 48
LIMIT_S = 420
"""A defect whose tests hang is found."""
MOST_S = 60.0
"""So much of the tests' own time, the quickest first, is asked of each defect in Python."""
AFTER = {
    "client": ["tests/mount", "tests/servers"],
    "files": ["tests/core", "tests/workloads/test_files.py"],
    "load": ["tests/core", "tests/offered", "tests/workloads/test_sfs.py"],
    "measure": ["tests/core"],
    "mount": ["tests/mount", "tests/mounts"],
    "python": ["tests/core", "tests/captures", "tests/servers"],
    "sealed": ["tests/results"],
    "server": ["tests/servers", "tests/mount"],
    "syscalls": ["tests/core", "tests/collectors", "tests/evidence"],
    "system": ["tests/core", "tests/collectors"],
    "toml_places": ["tests/experiment/test_reading.py"],
    "trace": ["tests/trace", "tests/captures"],
    "web": ["tests/core", "tests/workloads/web"],
    "wire": ["tests/trace", "tests/servers"],
}
"""Crate -> Python tests that use it, asked where its own tests find nothing."""
NOT_A_DEFECT = ("BitOr", "_Is", "RemoveDecorator", "Variable")
"""Operators that mostly change annotations, or what no caller can tell."""
_recording: Any = None


def rooms(paths: list[Path], count: int, chance: random.Random) -> list[Path]:
    """Draws `count` files: two a room, the others by lines."""
    by_room: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        by_room[path.relative_to(ROOT).parts[2 if path.suffix == ".py" else 1]].append(path)
    groups = {room: files for room, files in by_room.items() if room not in ("tests", "shipped")}
    weight = {path: len(path.read_text().splitlines()) for path in paths}
    drawn = []
    for files in groups.values():
        drawn += chance.choices(files, [weight[one] for one in files], k=2)
    everything = [one for files in groups.values() for one in files]
    more = chance.choices(everything, [weight[one] for one in everything], k=count * 3)
    return (drawn + more)[: max(count, len(drawn))]


def python_defect(path: Path, chance: random.Random) -> dict[str, Any] | None:
    """Draws one mutant of a module: a kind of operator first, then a place."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    nodes = list(ast_nodes(get_ast_from_path(path)))
    source = path.read_text().splitlines()
    places: dict[str, list[tuple[Any, int, int]]] = defaultdict(list)
    for name in operator_names():
        if any(part in name for part in NOT_A_DEFECT):
            continue
        operator = get_operator(name)()
        found = [at for node in nodes for at in operator.mutation_positions(node)]
        for number, (start, _end) in enumerate(found):
            if not source[start[0] - 1].lstrip().startswith("@"):
                places[name.split("_")[0]].append((operator, number, start[0]))
    if not places:
        return None
    operator, number, line = chance.choice(places[chance.choice(sorted(places))])
    before = path.read_text()
    after = mutate_code(before, operator, number)
    if after is None or after == before:
        return None
    name = str(path.relative_to(ROOT))
    return {"language": "python", "file": name, "line": line, "diff": difference(path, after)}


def difference(path: Path, after: str) -> str:
    """Returns the unified diff that makes a file's text the given one."""
    import difflib

    name = str(path.relative_to(ROOT))
    lines = path.read_text().splitlines(keepends=True), after.splitlines(keepends=True)
    return "".join(difflib.unified_diff(*lines, f"a/{name}", f"b/{name}", n=2))


def rust_defects(count: int, chance: random.Random) -> list[dict[str, Any]]:
    """Draws of what cargo-mutants lists, two a crate at least."""
    command = ["cargo", "mutants", "--list", "--json", "--diff", "--workspace"]
    listed = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    by_crate: dict[str, list[Any]] = defaultdict(list)
    for one in listed:
        by_crate[Path(one["file"]).parts[1]].append(one)
    drawn = [one for crate in sorted(by_crate) for one in chance.sample(by_crate[crate], 2)]
    drawn += chance.sample(listed, max(0, count - len(drawn)))
    return [
        {
            "language": "rust",
            "file": one["file"],
            "line": one["span"]["start"]["line"],
            # The second line of cargo-mutants' diffs says what was changed, and names no file.
            "diff": "\n".join([f"--- a/{one['file']}", f"+++ b/{one['file']}", *hunks(one)]) + "\n",
        }
        for one in drawn
    ]


def hunks(listed: dict[str, Any]) -> list[str]:
    """Returns the lines of a diff of cargo-mutants below its head."""
    diff: str = listed["diff"]
    return diff.splitlines()[2:]


def draw(seed: int) -> list[dict[str, Any]]:
    """Draws the whole list; the same seed in the same tree gives the same one."""
    chance = random.Random(seed)
    listed = subprocess.run(
        ["git", "ls-files", f"{PACKAGE}/**.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / line for line in listed.stdout.splitlines() if "__" not in line]
    defects: list[dict[str, Any]] = []
    for path in rooms(paths, PYTHON_DEFECTS * 2, chance):
        if len(defects) < PYTHON_DEFECTS and (one := python_defect(path, chance)):
            defects.append(one)
    return [{"id": n, **one} for n, one in enumerate(defects + rust_defects(RUST_DEFECTS, chance))]


# As a plug-in of pytest (`-p tests.planted_defects`): one context of coverage a test.


def pytest_configure(config: pytest.Config) -> None:
    """Begins to record in the process that runs tests."""
    global _recording
    if folder := os.environ.get("DEFECTS_MAP"):
        import coverage

        _recording = coverage.Coverage(config_file=f"{folder}/coveragerc", messages=False)
        _recording.start()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Names the context, and notes what the test took."""
    if _recording is not None:
        _recording.switch_context(item.nodeid)
    began = time.perf_counter()
    yield
    if _recording is not None:
        took = {"id": item.nodeid, "s": round(time.perf_counter() - began, 4)}
        with Path(os.environ["DEFECTS_MAP"], f"took.{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(took) + "\n")


def pytest_unconfigure() -> None:
    """Saves what was recorded."""
    if _recording is not None:
        _recording.stop()
        _recording.save()


def make_map(folder: Path) -> None:
    """Runs the unit and system lanes once, with coverage."""
    folder.mkdir(parents=True, exist_ok=True)
    Path(folder, "coveragerc").write_text(
        "[run]\nsource_pkgs = nfslab\nparallel = true\npatch = subprocess\n"
        f"data_file = {folder}/lines\ncontext = ${{PYTEST_CURRENT_TEST-}}\n"
    )
    environment = os.environ | {"DEFECTS_MAP": str(folder)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.planted_defects", "-m"]
    unit = "not system and not long and not guest"
    subprocess.run([*command, unit, "-n", "2"], cwd=ROOT, env=environment, check=False)
    system = "system and not long and not guest"
    subprocess.run([*command, system], cwd=ROOT, env=environment, check=False)


class Map:
    """Which tests pass over which lines, and what each takes."""

    def __init__(self, folder: Path) -> None:
        self.files = [p for p in folder.iterdir() if p.suffix not in (".jsonl", "")]
        self.took: dict[str, float] = {}
        for path in folder.glob("*.jsonl"):
            for line in path.read_text().splitlines():
                one = json.loads(line)
                self.took[one["id"]] = one["s"]

    def tests(self, file: str, lines: set[int]) -> list[str]:
        """Returns the tests that pass over the lines, or else over the file; quickest first."""
        from coverage.numbits import numbits_to_nums

        over: set[str] = set()
        beside: set[str] = set()
        for path in self.files:
            connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
            query = (
                "select context, numbits from line_bits join file on file.id = file_id"
                " join context on context.id = context_id where path like ?"
            )
            try:
                for context, bits in connection.execute(query, (f"%/{file}",)):
                    test = context.rpartition("|")[2].partition(" (")[0]
                    beside.add(test)
                    if lines & set(numbits_to_nums(bits)):
                        over.add(test)
            except sqlite3.DatabaseError:
                continue  # a child that was killed while it wrote
            finally:
                connection.close()
        chosen = (over & self.took.keys()) or (beside & self.took.keys())
        asked: list[str] = []
        took_s = 0.0
        for test in sorted(chosen, key=lambda test: self.took[test]):
            if (took_s := took_s + self.took[test]) > MOST_S:
                break
            asked.append(test)
        return asked


def outcome(command: list[str], limit_s: float = LIMIT_S) -> tuple[bool, str]:
    """Runs tests; returns whether they found something, and the last lines that say what."""
    environment = os.environ | {"CARGO_TERM_COLOR": "never"}
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        text, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return True, "time-out"
    failed = [
        line
        for line in text.splitlines()
        if line.startswith(("FAILED", "ERROR", "error")) or line.endswith("... FAILED")
    ]
    return process.returncode not in (0, 5), "; ".join(failed[:2])[:300]


def find_python(tests: list[str]) -> tuple[bool, str]:
    """Asks tests that pass over the defect's lines."""
    if not tests:
        return False, "no test passes over it"
    return outcome([sys.executable, "-m", "pytest", "-x", "-q", "--no-header", *tests])


def find_rust(defect: dict[str, Any]) -> tuple[bool, str]:
    """Asks the crate's own tests, then Python's with a core that has the defect."""
    crate = defect["file"].split("/")[1]
    asked = ["cargo", "test", "--quiet", "--locked", "-p", f"nfslab-{crate.replace('_', '-')}"]
    subprocess.run([*asked, "--no-run"], cwd=ROOT, capture_output=True, check=True)
    found, what = outcome(asked, 900)
    if found:
        return found, what
    build = ["maturin", "develop", "--profile", "quick", "--locked", "--quiet"]
    subprocess.run(build, cwd=ROOT, capture_output=True, check=True)
    lanes = "not long and not guest"
    tests = [one for one in AFTER[crate] if (ROOT / one).exists()]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-m", lanes, *tests]
    return outcome(command, 900)


@contextmanager
def planted(defect: dict[str, Any]) -> Iterator[None]:
    """The defect is in the tree within the block."""
    path = ROOT / defect["file"]
    before = path.read_bytes()
    apply = ["git", "apply", "-C1", "--recount", "-"]
    try:
        subprocess.run(apply, cwd=ROOT, input=defect["diff"].encode(), check=True)
        if path.suffix == ".py":
            compile(path.read_text(), path, "exec")
        yield
    finally:
        path.write_bytes(before)


def look_for(defect: dict[str, Any], known: Map) -> tuple[bool, str]:
    """Returns whether it is found, and by what; a test that fails without it, too, is left out."""
    if defect["language"] == "rust":
        with planted(defect):
            return find_rust(defect)
    tests = known.tests(defect["file"], {defect["line"]})
    tests = [test for test in tests if (ROOT / test.partition("::")[0]).exists()]
    while True:
        with planted(defect):
            found, what = find_python(tests)
        failed = next((test for test in tests if f" {test} " in f"{what} "), None)
        if not found or failed is None or not find_python([failed])[0]:
            return found, what
        tests.remove(failed)


def run(path: Path, known: Map, into: str, language: str | None) -> None:
    """Plants each defect alone; what is known already is kept, so that a stopped run goes on."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the defect is taken out again
    product = ["git", "status", "--porcelain", "--", "python", "crates"]
    if subprocess.run(product, cwd=ROOT, capture_output=True, check=True).stdout:
        sys.exit(f"{ROOT} has changes of its own in python or crates: use a clean clone")
    defects = json.loads(path.read_text())
    for defect in defects:
        if into in defect or language not in (None, defect["language"]):
            continue
        try:
            defect[into], defect["by"] = look_for(defect, known)
        except (subprocess.CalledProcessError, FileNotFoundError, SyntaxError) as error:
            defect[into], defect["by"] = None, f"cannot be planted: {error}"
        path.write_text(json.dumps(defects, indent=1) + "\n")
        print(defect["id"], defect["file"], defect["line"], defect[into], defect["by"], flush=True)
    print(f"{sum(bool(one.get(into)) for one in defects)} of {len(defects)} {into}")


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("draw").add_argument("--seed", type=int, default=39)
    commands.add_parser("map").add_argument("folder", type=Path)
    asked = commands.add_parser("run")
    asked.add_argument("defects", type=Path)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--into", default="found_after")
    asked.add_argument("--language", choices=["python", "rust"])
    told = parser.parse_args()
    if told.command == "draw":
        print(json.dumps(draw(told.seed), indent=1))
    elif told.command == "map":
        make_map(told.folder.resolve())
    else:
        run(told.defects, Map(told.folder), told.into, told.language)


if __name__ == "__main__":
    main()
