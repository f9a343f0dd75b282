"""Words for what pydantic finds: what was expected, with an example, and the nearest name.

pydantic says precisely what is wrong but speaks to programmers ("extra inputs are not
permitted"). A person who writes an experiment file wants to know which value would be
right. Every error type that the models here can yield has its words; for any other one
pydantic's own message is used as it is.
"""

from __future__ import annotations

import json
import types
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from nfslab.plugins import meant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic_core import ErrorDetails

M = TypeVar("M", bound=BaseModel)

MAX_SHOWN_CHARACTERS = 60

LIST_OF_TEXTS = '["..."]'
_TYPES: dict[str, tuple[str, str]] = {
    "string": ("a text", '"..."'),
    "int": ("a whole number", "8"),
    "float": ("a number", "1.5"),
    "bool": ("true or false", "true"),
    "list": ("a list", "[1, 2]"),
    "tuple": ("a list", "[1, 2]"),
    "set": ("a list", '["a", "b"]'),
    "dict": ("a table", '{ name = "value" }'),
    "model": ("a table", '{ name = "value" }'),
    "path": ("a path (a text)", '"/var/tmp"'),
}


def validate(
    model: type[M], data: Mapping[str, Any], report: Callable[[tuple[Any, ...], str, str], None]
) -> M | None:
    """Validate strictly; every error goes to `report` as (path, what, fix).

    Strict as JSON is: "8" is no number and 1 no truth value, but paths and enumerations
    are written as texts and tuples as lists. None when anything was wrong.
    """
    try:
        return model.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        seen: set[tuple[Any, ...]] = set()
        for details in error.errors(include_url=False):
            path = _value_path(details["loc"], data, missing=details["type"] == "missing")
            if path in seen:
                continue  # alternatives of a union: the first one tells enough
            seen.add(path)
            what, fix = in_words(details, model, path)
            report(path, what, fix)
        return None


def in_words(
    details: ErrorDetails, model: type[BaseModel], path: tuple[Any, ...]
) -> tuple[str, str]:
    """(what is wrong, what would be right) for one of pydantic's errors."""
    kind = details["type"]
    context = details.get("ctx", {})
    name = ".".join(str(step) for step in path)
    value = shown(details["input"])
    if kind == "extra_forbidden":
        return unknown_key(str(path[-1]), known_keys(model, path[:-1]))
    if kind == "missing":
        return f"{name} is missing", f"add: {path[-1]} = {example(model, path)}"
    if kind in ("value_error", "assertion_error"):
        return f"{name}: {context.get('error', details['msg'])}", ""
    if kind in ("literal_error", "enum"):
        expected = str(context.get("expected", ""))
        return f"{name} = {value} is not one of {expected}", _nearest_of(details["input"], expected)
    if kind == "greater_than_equal":
        return f"{name} = {value} is too small", f"at least {context['ge']:g}"
    if kind == "greater_than":
        return f"{name} = {value} is too small", f"more than {context['gt']:g}"
    if kind == "less_than_equal":
        return f"{name} = {value} is too large", f"at most {context['le']:g}"
    if kind == "less_than":
        return f"{name} = {value} is too large", f"less than {context['lt']:g}"
    if kind == "too_short":
        least = context["min_length"]
        said = f"{name} needs at least {least} {'entry' if least == 1 else 'entries'}"
        return said, "write them, or remove what they are for (an axis: the whole of it)"
    if kind == "too_long":
        return f"{name} may have at most {context['max_length']} entries", ""
    stem = kind.removesuffix("_type").removesuffix("_parsing").removesuffix("_from_float")
    if stem in _TYPES and stem != kind:
        words, instance = _TYPES[stem]
        if example(model, path) == LIST_OF_TEXTS:
            instance = LIST_OF_TEXTS
        return f"{name} = {value} is not {words}", f"for example: {path[-1]} = {instance}"
    return f"{name} = {value}: {details['msg'][:1].lower()}{details['msg'][1:]}", ""


def unknown_key(name: str, known: list[str]) -> tuple[str, str]:
    """(what, fix) for a key that nobody knows."""
    return f"unknown parameter {name!r}", f"{meant(name, known)}known: {', '.join(known)}"


def known_keys(model: type[BaseModel], path: tuple[Any, ...] = ()) -> list[str]:
    """Names that may stand in the table at `path` of a model."""
    for step in path:
        inner = next(iter(_models_in(field_type(model, str(step)))), None)
        if inner is None:
            break
        model = inner
    return [info.alias or name for name, info in model.model_fields.items()]


def field_type(model: type[BaseModel], name: str) -> Any:
    """The annotated type of one field; None when there is no such field."""
    for key, info in model.model_fields.items():
        if name in (key, info.alias):
            return info.annotation
    return None


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models inside an annotation, however wrapped."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in get_args(annotation) for model in _models_in(inner)]


def example(model: type[BaseModel], path: tuple[Any, ...]) -> str:
    """A value that could stand for a missing field."""
    annotation = field_type(model, str(path[-1])) if len(path) == 1 else None
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next((a for a in get_args(annotation) if a is not type(None)), None)
    if get_origin(annotation) is Literal:
        return json.dumps(get_args(annotation)[0])
    if annotation is None:
        return "..."
    if get_origin(annotation) in (list, tuple) and get_args(annotation)[0] is str:
        return LIST_OF_TEXTS
    kind = getattr(get_origin(annotation) or annotation, "__name__", "").lower()
    names = {"str": "string", "posixpath": "path", "path": "path"}
    return _TYPES.get(names.get(kind, kind), ("", "..."))[1]


def shown(value: Any) -> str:
    """A value as it would stand in the file, cut to what fits into a message."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else text[: MAX_SHOWN_CHARACTERS - 3] + "..."


def _nearest_of(value: Any, expected: str) -> str:
    names = [part.strip("' ") for part in expected.replace(" or ", ",").split(",")]
    return meant(str(value), names).rstrip()


def _value_path(loc: tuple[int | str, ...], data: Any, *, missing: bool) -> tuple[Any, ...]:
    """The part of pydantic's location that exists in the data.

    pydantic adds steps of its own (the alternative of a union, the name of a validator);
    those lead nowhere in the file. The name of a missing key stays.
    """
    path: list[Any] = []
    here = data
    for step in loc:
        inside = step in here if isinstance(here, dict) else False
        if isinstance(here, list) and isinstance(step, int):
            inside = step < len(here)
        if not inside:
            continue
        here = here[step]
        path.append(step)
    return (*path, loc[-1]) if missing else tuple(path)
