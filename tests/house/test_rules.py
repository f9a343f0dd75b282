"""The house keeps its rules: sizes, names, registries, directions, nothing foreign in it.

Rules that nobody checks are wishes. Each test here has been seen to fail on a planted
offence (see the `*_finds_*` tests), so that a green run means something.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "nfslab"
LINES_MAX = 500
FUNCTION_LINES_MAX = 70
LINE_LENGTH_MAX = 100
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
PRAGMA = re.compile(r"\s*# (type: ignore|noqa)\S*$")
UNFINISHED = re.compile(r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"]) + r")\b")
MACHINE_PATHS = re.compile(r"/(wo" r"rk|fa" r"rm)/(main|shared|steering|\.library)")
REGISTRY_HOSTS = re.compile(
    "|".join(["-".join(["index", "url"]), "-".join(["extra", "index"]), "find-links"])
    + r"|pypi\.org|pythonhosted|npmjs\.org"
)
CARGO_LOCK_HOSTS = re.compile(r"https?://(?!github\.com/rust-lang/crates\.io-index)")


def tracked(*suffixes: str) -> list[Path]:
    """Files of the working tree that git tracks or would track, by suffix."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        pytest.skip(f"not a git checkout: {listing.stderr.strip()}")
    paths = [ROOT / name for name in listing.stdout.splitlines()]
    return [p for p in paths if p.is_file() and (not suffixes or p.suffix in suffixes)]


def source_files() -> list[Path]:
    """Sources of the product itself: no tests, no benches, no vendored bundles."""
    inside = (PACKAGE, ROOT / "crates")
    return [
        p
        for p in tracked(".py", ".rs", ".js")
        if any(p.is_relative_to(folder) for folder in inside)
        and "tests" not in p.relative_to(ROOT).parts
        and "vendor" not in p.relative_to(ROOT).parts
        and not p.name.endswith(".min.js")
    ]


def names(paths: list[Path]) -> list[str]:
    return sorted(str(p.relative_to(ROOT)) for p in paths)


@cache
def tree_of(source: str) -> ast.Module:
    return ast.parse(source)


def long_functions(source: str) -> list[tuple[str, int]]:
    """(name, lines) of the functions in a Python source that are longer than allowed.

    A docstring does not count: it is there for the reader.
    """
    found = []
    for node in ast.walk(tree_of(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            start = (first.end_lineno or first.lineno) + 1 if documented else node.lineno
            length = (node.end_lineno or node.lineno) - start + 1
            if length > FUNCTION_LINES_MAX:
                found.append((node.name, length))
    return found


@pytest.mark.system
def test_source_files_stay_short() -> None:
    too_long = {
        str(p.relative_to(ROOT)): n
        for p in source_files()
        if (n := len(p.read_text().splitlines())) > LINES_MAX
    }
    assert too_long == {}, "split these: a file holds one idea"


@pytest.mark.system
def test_functions_stay_short() -> None:
    too_long = {
        str(p.relative_to(ROOT)): found
        for p in source_files()
        if p.suffix == ".py" and (found := long_functions(p.read_text()))
    }
    assert too_long == {}


def test_long_function_rule_finds_an_offence() -> None:
    body = "\n".join(f"    x{i} = {i}" for i in range(FUNCTION_LINES_MAX))
    assert long_functions(f"def planted():\n{body}\n") == [("planted", FUNCTION_LINES_MAX + 1)]


ERRORS = {"UsageError", "RunFailed", "Unavailable", "ResultsError"}
NOTHING_TO_DO = {
    # Nobody but a programmer meets these.
    "this run is closed: nothing can be started for it any more",
    "{} cannot be told anything",
    "record of run {} given to run {}",
    "there is no {}: the run was not prepared",
}


def errors_without_fix(source: str) -> list[str]:
    """What is said by errors made in a Python source that do not say what to do next."""
    found = []
    for node in ast.walk(tree_of(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        keywords = {keyword.arg for keyword in node.keywords}
        if node.func.id in ERRORS and node.args and not keywords & {"fix", None}:
            said = re.sub(r"\{.*?\}", "{}", ast.unparse(node.args[0]))
            found.append(said.removeprefix("f").strip("'\""))
    return found


@pytest.mark.system
def test_errors_say_what_to_do_next() -> None:
    found = {
        str(p.relative_to(ROOT)): set(said) - NOTHING_TO_DO
        for p in source_files()
        if p.suffix == ".py" and (said := errors_without_fix(p.read_text()))
    }
    assert {path: said for path, said in found.items() if said} == {}


def test_error_rule_finds_an_offence() -> None:
    planted = 'raise UsageError(f"{name} is wrong")\nraise RunFailed("no", fix="do this")\n'
    assert errors_without_fix(planted) == ["{} is wrong"]


@pytest.mark.system
def test_lines_stay_within_the_page() -> None:
    offences = [
        f"{p.relative_to(ROOT)}:{number}"
        for p in source_files()
        for number, line in enumerate(p.read_text().splitlines(), 1)
        if len(PRAGMA.sub("", line)) > LINE_LENGTH_MAX
    ]
    assert offences == []


@pytest.mark.system
def test_no_module_is_a_drawer_for_everything() -> None:
    offences = [
        p
        for p in tracked(".py", ".rs")
        if set(p.relative_to(ROOT).with_suffix("").parts) & FORBIDDEN_NAMES
    ]
    assert names(offences) == []


@pytest.mark.system
def test_nothing_is_left_unfinished() -> None:
    marks = re.compile(r"\b(" + "|".join(["unimple" + "mented!", "to" + "do!"]) + ")")
    offences = [
        p for p in source_files() if UNFINISHED.search(t := p.read_text()) or marks.search(t)
    ]
    assert names(offences) == []


@pytest.mark.system
def test_the_project_speaks_only_of_itself() -> None:
    """No path of a machine and no registry's host in any tracked text file."""
    offences = []
    for path in tracked():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if path == Path(__file__).resolve() or ".min." in path.name:
            continue
        if MACHINE_PATHS.search(text) or REGISTRY_HOSTS.search(text):
            offences.append(path)
    assert names(offences) == []


def test_cargo_lock_names_crates_io_only() -> None:
    assert CARGO_LOCK_HOSTS.findall((ROOT / "Cargo.lock").read_text()) == []


def test_requirements_are_pinned_with_hashes_and_name_no_host() -> None:
    for name in ("requirements.txt", "requirements-cluster.txt", "requirements-dev.txt"):
        text = (ROOT / name).read_text()
        entries = [e for e in re.split(r"\n(?=\S)", text) if e.strip()]
        assert entries, name
        for entry in entries:
            assert re.match(r"[A-Za-z0-9_.-]+==\S+", entry), f"{name}: {entry.splitlines()[0]}"
            assert "--hash=sha256:" in entry, f"{name}: {entry.splitlines()[0]}"
        assert "http" not in text


def test_pinned_versions_satisfy_the_declared_bounds() -> None:
    """pyproject.toml states bounds, requirements.txt pins: every dependency is in both."""
    import tomllib

    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins: dict[str, list[str]] = {}
    for name, version in re.findall(
        r"^([A-Za-z0-9_.-]+)==(\S+)", (ROOT / "requirements.txt").read_text(), flags=re.MULTILINE
    ):
        pins.setdefault(name.lower().replace("_", "-"), []).append(version)
    for text in project["dependencies"]:
        requirement = Requirement(text)
        versions = pins.get(requirement.name.lower().replace("_", "-"), [])
        assert versions, f"{requirement.name} is not pinned"
        assert str(requirement.specifier), f"{requirement.name} has no bounds"
        assert all(requirement.specifier.contains(v) for v in versions), text


def pins_of(name: str) -> dict[str, str]:
    found = re.findall(r"^([A-Za-z0-9_.-]+)==(\S+)", (ROOT / name).read_text(), flags=re.MULTILINE)
    return dict(found)


def test_several_machines_are_pinned_apart_and_alike() -> None:
    """What `nfslab cluster` needs is locked in a list of its own, which changes no other pin."""
    import tomllib

    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = pins_of("requirements-cluster.txt")
    for text in project["optional-dependencies"]["cluster"]:
        requirement = Requirement(text)
        assert requirement.specifier.contains(pins[requirement.name]), text
        assert requirement.name not in pins_of("requirements.txt")
    for name in ("requirements.txt", "requirements-dev.txt"):
        others = pins_of(name)
        assert {one: pins[one] for one in pins.keys() & others.keys()} == {
            one: others[one] for one in pins.keys() & others.keys()
        }


PLUGIN_FOLDERS = ["hosts", "servers", "mounts", "targets", "workloads", "databases"]
# A plug-in that is a folder has its class in the module of this name. Databases have no registry:
# workloads name the engines that they run.
FOLDER_MODULES = {"workloads": "workload", "databases": "database"}


def plugin_modules(folder: str, registry: dict[str, str]) -> tuple[set[str], set[str]]:
    """(modules registered, modules in the folder) of one kind of plug-in."""
    registered = {entry.partition(":")[0] for entry in registry.values()}
    here = PACKAGE / folder
    present = {
        f"nfslab.{folder}.{p.stem}"
        for p in here.glob("*.py")
        if p.stem not in {"__init__", "base", "registry"}
        # A plug-in may have companions that carry its name: embedded_options belongs to embedded.
        and not any(p.stem.startswith(f"{other.stem}_") for other in here.glob("*.py"))
    }
    module = FOLDER_MODULES.get(folder, "")
    for child in here.iterdir():
        if child.is_dir() and (child / f"{module}.py").exists():
            present.add(f"nfslab.{folder}.{child.name}.{module}")
    return registered, present


@pytest.mark.parametrize("folder", [one for one in PLUGIN_FOLDERS if one != "databases"])
def test_registries_match_their_folders(folder: str) -> None:
    import importlib

    module = importlib.import_module(f"nfslab.{folder}.registry")
    registry: dict[str, str] = getattr(module, folder.upper())
    registered, present = plugin_modules(folder, registry)
    assert registered == present
    for name, entry in registry.items():
        path, _, attribute = entry.partition(":")
        assert getattr(importlib.import_module(path), attribute).kind == name


@pytest.mark.parametrize("folder", PLUGIN_FOLDERS)
def test_every_plugin_has_its_test_file(folder: str) -> None:
    _, present = plugin_modules(folder, {})
    expected = set()
    for module in present:
        parts = module.split(".")
        expected.add(parts[-2] if parts[-1] in FOLDER_MODULES.values() else parts[-1])
    tests = {p.stem.removeprefix("test_") for p in (ROOT / "tests" / folder).glob("test_*.py")}
    tests |= {p.parent.name for p in (ROOT / "tests" / folder).glob("*/test_*.py")}
    missing = {
        name for name in expected if not any(t == name or t.startswith(f"{name}_") for t in tests)
    }
    assert missing == set()


def test_evidence_registries_match_their_folders() -> None:
    """Every module with a kind or a collector is registered, under the name that it has."""
    import importlib

    from nfslab.evidence.registry import COLLECTORS, EVIDENCE

    registered = {entry.partition(":")[0] for entry in [*EVIDENCE.values(), *COLLECTORS.values()]}
    present = set()
    for name in ("kind", "collector"):
        found = (PACKAGE / "evidence").glob(f"*/{name}.py")
        present |= {f"nfslab.evidence.{path.parent.name}.{name}" for path in found}
    assert present <= registered
    for registry in (COLLECTORS, EVIDENCE):
        for name, entry in registry.items():
            path, _, attribute = entry.partition(":")
            assert getattr(importlib.import_module(path), attribute).kind == name


def test_every_kind_of_evidence_has_its_tests() -> None:
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests").glob("**/test_*.py")}
    kinds = {path.name for path in (PACKAGE / "evidence").iterdir() if (path / "kind.py").exists()}
    assert {k for k in kinds if not any(t == k or t.startswith(f"{k}_") for t in tests)} == set()


def test_command_registry_matches_its_folder() -> None:
    import importlib

    from nfslab.cli.registry import COMMANDS

    present = {p.stem for p in (PACKAGE / "cli").glob("*.py")} - {
        "__init__",
        "registry",
        "arguments",
    }
    registered = {module.rpartition(".")[2] for module, _ in COMMANDS.values()}
    assert registered <= present
    # A command may have companions that carry its name: syscalls_subject belongs to syscalls.
    assert {stem for stem in present if stem.partition("_")[0] not in registered} == set()
    for name, (module, _) in COMMANDS.items():
        command = importlib.import_module(module).command
        assert command.name == name
        text = f"{command.help or ''}\n{command.epilog or ''}"
        assert "nfslab " + name in text, f"`nfslab {name} --help` shows no example"


@pytest.mark.system
def test_crates_depend_downwards_only() -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed")
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked", "--offline"]
    text = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    # Lower rank = nearer to the bytes; a crate may depend on lower ranks only.
    rank = {
        "nfslab-wire": 0,
        "nfslab-measure": 0,
        "nfslab-generator": 1,
        "nfslab-toml-places": 1,
        "nfslab-client": 1,
        "nfslab-files": 2,
        "nfslab-system": 2,
        "nfslab-trace": 2,
        "nfslab-server": 2,
        "nfslab-mount": 2,
        "nfslab-load": 2,
        "nfslab-syscalls": 2,
        "nfslab-web": 2,
        "nfslab-python": 3,
    }
    packages = json.loads(text)["packages"]
    assert packages
    for package in packages:
        name = package["name"]
        assert name in rank, f"give {name} its place in the order"
        for dependency in package["dependencies"]:
            other = dependency["name"]
            # Tests may join both ends of a protocol (the mount's start a server).
            if other.startswith("nfslab-") and dependency["kind"] != "dev":
                assert rank[other] < rank[name], f"{name} must not depend on {other}"


@pytest.mark.system
def test_rust_library_code_does_not_panic_on_purpose() -> None:
    """No unwrap/expect/panic outside tests: what foreign bytes reach must be an error."""
    call = re.compile(r"\.unwrap\(\)|\.expect\(|\bpanic!\(|\bunreachable!\(")
    offences = []
    for path in source_files():
        if path.suffix != ".rs" or path.name == "build.rs" or path.stem.endswith("tests"):
            continue
        library = path.read_text().split("#[cfg(test)]")[0]
        for number, line in enumerate(library.splitlines(), 1):
            if call.search(line) and not line.lstrip().startswith("//"):
                offences.append(f"{path.relative_to(ROOT)}:{number}")
    assert offences == []


@pytest.mark.system
def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    """`nfslab --help` may not import any of these (0.3 s is the promise to the person)."""
    import sys

    code = (
        "import sys\n"
        "sys.argv = ['nfslab', '--help']\n"
        "from nfslab.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('LOADED', *[m for m in sys.modules if '.' not in m])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.splitlines()[-1].split()[1:])
    heavy = {
        "numpy",
        "scipy",
        "pandas",
        "pyarrow",
        "duckdb",
        "pydantic",
        "rich",
        "jinja2",
        "psycopg",
        "asyncio",
        "distributed",
        "dask",
        "cryptography",
        "asyncssh",
    }
    assert loaded & heavy == set()


RUST_BLOCK = re.compile(r"^\s*//[/!] ?```(rust)?$", re.MULTILINE)


def untested_examples(crate: Path) -> list[str]:
    """Documentation of a crate that asks for no doctests, with a block of Rust in it."""
    if "doctest = false" not in (crate / "Cargo.toml").read_text():
        return []
    return [
        path.name
        for path in sorted((crate / "src").rglob("*.rs"))
        # The first fence of each pair says what the block is.
        if any(RUST_BLOCK.match(fence) for fence in fences(path.read_text())[::2])
    ]


def fences(text: str) -> list[str]:
    return [line for line in text.splitlines() if re.match(r"\s*//[/!] ?```", line)]


def test_examples_in_the_documentation_of_crates_are_tested(tmp_path: Path) -> None:
    assert [one for crate in (ROOT / "crates").iterdir() for one in untested_examples(crate)] == []
    # As it finds an offence.
    (tmp_path / "src").mkdir()
    (tmp_path / "Cargo.toml").write_text('[lib]\nname = "one"\ndoctest = false\n')
    (tmp_path / "src" / "lib.rs").write_text(
        "//! ```text\n//! a\n//! ```\n/// ```\n/// 1\n/// ```\n"
    )
    assert untested_examples(tmp_path) == ["lib.rs"]
