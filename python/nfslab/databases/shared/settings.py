"""Settings of any engine's server, as the experiment file gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SettingValue = bool | int | float | str

SETTINGS_MAX: Final = 200
VALUE_LENGTH_MAX: Final = 4096


def value_problem(name: str, value: object) -> str:
    """Why such a text cannot be an argument; "" when it can."""
    if isinstance(value, str):
        if len(value) > VALUE_LENGTH_MAX:
            return f"the value of {name} is longer than {VALUE_LENGTH_MAX} characters"
        if any(ord(character) < 32 for character in value):
            return f"the value of {name} contains a control character"
    return ""


def refuse_problems(
    settings: Mapping[str, SettingValue], problem_of: Callable[[str, object], str]
) -> None:
    """ValueError names all settings in which an engine's own rules find a problem."""
    if len(settings) > SETTINGS_MAX:
        raise ValueError(f"more than {SETTINGS_MAX} settings")
    if problems := [p for name, value in settings.items() if (p := problem_of(name, value))]:
        raise ValueError("; ".join(problems))
