"""No circle of files in the package: what one file imports does not lead back to it.

Imports inside functions count: a circle that is put off is a circle. Imports for type checking
alone do not, nor do those of the package itself (its version), which every file is inside of.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2] / "python"


def _imports(node: ast.AST) -> Iterator[str]:
    """Dotted names that may be modules, outside of `if TYPE_CHECKING`."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child)


def imports_of(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Module -> the modules of `sources` that it imports; of a.b and a (a package) a.b alone."""
    found = {}
    for name, text in sources.items():
        wanted = {one for one in _imports(ast.parse(text)) if one in sources and one != name}
        found[name] = {
            one for one in wanted if not any(other.startswith(f"{one}.") for other in wanted)
        }
    return found


def circle(imports: Mapping[str, set[str]]) -> list[str]:
    """The files of one circle, each importing the next; empty: there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def package_sources() -> dict[str, str]:
    files = [
        path for path in (ROOT / "nfslab").rglob("*.py") if path != ROOT / "nfslab/__init__.py"
    ]
    names = [path.relative_to(ROOT).with_suffix("").as_posix() for path in files]
    dotted = [name.removesuffix("/__init__").replace("/", ".") for name in names]
    return {name: path.read_text("utf-8") for name, path in zip(dotted, files, strict=True)}


def test_no_circle_of_files() -> None:
    imports = imports_of(package_sources())
    assert len(imports) > 100
    assert circle(imports) == []


def test_the_check_finds_a_circle() -> None:
    late = "def f():\n    from p.a import g\n"
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import g\n"
    assert set(circle(imports_of({"p.a": "import p.b", "p.b": late}))) == {"p.a", "p.b"}
    assert circle(imports_of({"p.a": "from p import b", "p.b": typed})) == []
