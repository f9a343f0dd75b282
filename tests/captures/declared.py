"""What the core finds in captures, as its stub declares it, field by field.

The typed dictionaries of `_core.pyi` are the contract. No type is written down twice.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import Any, Final

import nfslab
import typing_extensions
from pydantic import ConfigDict, TypeAdapter

STUB: Final = Path(nfslab.__file__).with_name("_core.pyi")


@functools.cache
def declared() -> dict[str, Any]:
    """The typed dictionaries of the stub, which refuse what they do not name."""
    tree = ast.parse(STUB.read_text())
    names = vars(typing_extensions) | {"type_check_only": lambda kind: kind}
    wanted: list[ast.stmt] = [
        node
        for node in tree.body
        if (isinstance(node, ast.AnnAssign) and node.value)
        or (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call))
        or (isinstance(node, ast.ClassDef) and "type_check_only" in ast.unparse(node))
    ]
    code = compile(ast.Module(wanted, []), str(STUB), "exec", dont_inherit=True)
    # Our own file, as it is imported from.
    exec(code, names)
    found = {n: kind for n, kind in names.items() if typing_extensions.is_typeddict(kind)}
    for kind in found.values():
        kind.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    return found


@functools.cache
def trace_content() -> TypeAdapter[Any]:
    """What checks the JSON of a capture's analysis (`TraceContent`)."""
    return TypeAdapter(declared()["TraceContent"])
