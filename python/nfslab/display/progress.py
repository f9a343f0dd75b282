"""The one progress display: a bar with the time left on a terminal, plain lines elsewhere.

It shares the machine with what is measured, so no thread redraws: a bar is drawn when something
is told, at most `DRAWS_PER_S` times a second, and goes away at the end.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final, Self, TextIO

from nfslab import clock
from nfslab.quantities import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

DRAWS_PER_S: Final = 4.0


class Progress:
    """Steps, one after the other. `quiet_s`: of what is over sooner no bar is shown.

    Without a terminal a step's title is told once it lasts `begun_s`, and how it stands every
    `every_s` (None: never).
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        quiet_s: float = 0.0,
        begun_s: float | None = None,
        every_s: float | None = None,
        clock: Callable[[], float] = clock.monotonic,
    ) -> None:
        self._stream, self._clock, self._quiet_s = stream, clock, quiet_s
        self._begun_s, self._every_s = begun_s, every_s
        self._on_terminal = stream.isatty()
        self._bar: Any = None
        self._title: str | None = None
        self._from = 0.0
        """What was done of the step when it was first shown."""
        self._opened = self._began = self._told = clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def show(
        self,
        title: str,
        done: float = 0,
        total: float | None = None,
        words: str = "",
        *,
        left_s: float | None = None,
        at_once: bool = False,
    ) -> None:
        """How the step stands; `left_s` where it is known better than from the speed so far."""
        now, is_new = self._clock(), title != self._title
        if is_new:
            self._title, self._from, self._began = title, done, now
            self._said = False
        left = left_s
        if left is None and total and done > self._from:
            left = (now - self._began) * max(0.0, total - done) / (done - self._from)
        left_text = f"{format_duration(left)} left" if left else ""
        if self._on_terminal:
            due = at_once or is_new or now - self._told >= 1 / DRAWS_PER_S
            if due and now - self._opened >= self._quiet_s:
                self._told = now
                self._draw(title, done, total, words, left_text)
        elif self._every_s is not None and now - self._told >= self._every_s:
            self._told = now
            self.say(f"{title}: {', '.join(filter(None, (words, left_text)))}")
        elif self._begun_s is not None and not self._said and now - self._began >= self._begun_s:
            self._said = True
            self.say(title)

    def say(self, text: str) -> None:
        """A line; a reader that went away (`| head`) ends nothing."""
        with contextlib.suppress(OSError):
            if self._on_terminal:
                self._open().console.print(text, markup=False, soft_wrap=True)
            else:
                print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()

    def _draw(self, title: str, done: float, total: float | None, words: str, left: str) -> None:
        bar = self._open()
        told = {"total": total, "completed": done, "words": words, "left": left}
        if not bar.task_ids:
            bar.add_task(title, **told)
            bar.start()
        bar.update(bar.task_ids[0], description=title, **told)
        bar.refresh()

    def _open(self) -> Any:
        """rich's bar; rich is imported when something is first shown."""
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = [
                TextColumn(f"{{task.{name}}}", markup=False)
                for name in ("description", "fields[words]", "fields[left]")
            ]
            columns.insert(1, BarColumn(bar_width=24))  # type: ignore[arg-type]
            console = Console(file=self._stream, highlight=False)
            self._bar = Progress(*columns, console=console, auto_refresh=False, transient=True)
        return self._bar
