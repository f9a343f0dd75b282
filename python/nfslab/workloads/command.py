"""Any program as a workload, with its metrics read by a pattern or from JSON.

    [workload]
    kind = "command"
    data = "disk"
    argv = ["fio", "--directory={data}", "--output-format=json", "job.fio"]
    [[workload.metrics]]
    name = "iops"
    json = "jobs.0.write.iops"
    unit = "1/s"
    better = "higher"

The program is an argument list and never meets a shell. `{data}`, `{run_folder}`, `{seed}`,
`{clients}`, `{host}`, `{hosts}` and the keys of `values` are replaced in an argument, which stays
one argument whatever the value holds; any other brace is left as it is.

Decisions: a metric that is missing fails the run, and one that a pattern finds several
times with different values does too unless the file says which is meant: a figure that
was picked by chance is worse than none. Wall and CPU time of the program (with the
children that it waited for) are always metrics. Output is kept with the run, bounded.

On several client hosts the program runs once on each, from one instant on; `{host}` is its number
there, from 0, and `{hosts}` how many there are. Rates (units that end in /s) and CPU times are
added up, the wall time is the longest, of any other metric the run has the mean of the hosts; which
was done stands in the run's notes, and each host's own figures in its part.
"""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability
from nfslab.machine.endings import failed
from nfslab.plugins import nearest
from nfslab.quantities import Duration, Size
from nfslab.results.records import Metric
from nfslab.workloads.base import Outcome, Workload, WorkloadParameters
from nfslab.workloads.command_hosts import OWN_METRICS, adds_up, together

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Self

    from nfslab.context import HostPart
    from nfslab.machine.started import Process
    from nfslab.workloads.base import RunContext

OUTPUT_BYTES_MAX: Final = 64 << 20
"""A program that says more than this is ended: its output is kept with every run."""
LINES_SHOWN: Final = 12
LINE_CHARACTERS: Final = 120
WAIT_SLICE_S: Final = 0.2
STOP_GRACE_S: Final = 3.0
CLEAN_LIMIT_S: Final = 60.0
ARGUMENTS_MAX: Final = 10_000
PLACEHOLDER: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")
BUILT_IN: Final = ("data", "run_folder", "seed", "clients", "host", "hosts")
METRIC_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def _json_path(value: object) -> object:
    """A path with dots as its steps; a list is taken as it is (keys that hold dots)."""
    if isinstance(value, str):
        return [int(step) if step.isdecimal() else step for step in value.split(".")]
    return value


class MetricPattern(BaseModel):
    """One metric and where it stands in the program's output."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    pattern: str | None = None
    """A regular expression with one group: the number. `^` and `$` are those of a line."""
    json_path: Annotated[list[str | int] | None, BeforeValidator(_json_path)] = Field(
        default=None, alias="json"
    )
    """Path in the JSON that the program prints: "jobs.0.write.iops", or a list of steps."""
    choose: Literal["only", "first", "last"] = "only"
    """Which one, when the pattern matches several times."""
    source: Literal["stdout", "stderr"] = "stdout"
    unit: str = "1"
    better: Literal["higher", "lower"] | None = None
    primary: bool = False
    scale: float = 1.0
    """The number found is multiplied by this."""

    @model_validator(mode="before")
    @classmethod
    def _accept_either_name(cls, value: Any) -> Any:
        # What was dumped with the field's own name is read back as well.
        if isinstance(value, dict) and "json_path" in value and "json" not in value:
            value = dict(value)
            value["json"] = value.pop("json_path")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not METRIC_NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no name of a metric (letters, digits, _ . -)")
        if self.name in OWN_METRICS:
            raise ValueError(f"{self.name} is measured by nfslab itself: choose another name")
        if (self.pattern is None) == (self.json_path is None):
            raise ValueError(f"metric {self.name}: give either pattern or json")
        if self.pattern is not None:
            try:
                groups = re.compile(self.pattern, re.MULTILINE).groups
            except re.error as error:
                raise ValueError(f"metric {self.name}: bad pattern: {error}") from None
            if groups != 1:
                raise ValueError(
                    f"metric {self.name}: the pattern needs exactly one group ( ), it has {groups}"
                )
        if not math.isfinite(self.scale) or self.scale == 0:
            raise ValueError(f"metric {self.name}: scale is a number other than 0")
        return self

    def read(self, text: str) -> float:
        """The metric's value in the program's output; ValueError says why there is none."""
        found = self._by_pattern(text) if self.pattern is not None else self._by_path(text)
        try:
            value = float(found) * self.scale
        except (TypeError, ValueError):
            raise ValueError(f"{found!r} is not a number") from None
        if isinstance(found, bool) or not math.isfinite(value):
            raise ValueError(f"{found!r} is not a finite number")
        return value

    def _by_pattern(self, text: str) -> Any:
        matches = [m[1] for m in re.finditer(self.pattern or "", text, re.MULTILINE)]
        if not matches:
            like = _like(self.pattern or "", text)
            raise ValueError(f"nothing in {self.source} matches {self.pattern!r}{like}")
        if self.choose == "only" and len(set(matches)) > 1:
            raise ValueError(
                f"{self.pattern!r} matches {len(matches)} times with different values "
                f'({matches[0]}, {matches[1]}, ...): set choose to "first" or "last"'
            )
        return matches[-1] if self.choose == "last" else matches[0]

    def _by_path(self, text: str) -> Any:
        whole: Any = first_json(text)
        here = whole
        for depth, step in enumerate(self.json_path or []):
            if isinstance(here, dict) and str(step) in here:
                here = here[str(step)]
            elif isinstance(here, list) and isinstance(step, int) and step < len(here):
                here = here[step]
            else:
                taken = ".".join(map(str, (self.json_path or [])[:depth])) or "the top"
                known = ", ".join(list(here)[:12]) if isinstance(here, dict) else type(here)
                raise ValueError(
                    f"there is no {step!r} at {taken} (there is: {known})"
                    f"{_nearest_path(self.json_path or [], whole)}"
                )
        return here


def _like(pattern: str, text: str) -> str:
    """ "; a line with "iops": ..." for a pattern that matches nothing."""
    for word in sorted(re.findall(r"[A-Za-z]{3,}", pattern), key=len, reverse=True):
        for line in text.splitlines():
            if word.lower() in line.lower():
                return f"; a line with {word!r}: {line.strip()[:LINE_CHARACTERS]!r}"
    return ""


def _nearest_path(wanted: list[str | int], document: Any) -> str:
    """ "; did you mean jobs.0.write.iops?": of the numbers there, one of that name, else alike."""
    paths = [".".join(map(str, path)) for path in _numbers(document, ())]
    named = [path for path in paths if path.rpartition(".")[2] == str(wanted[-1])]
    guess = nearest(".".join(map(str, wanted)), named or paths) or next(iter(named), None)
    return f"; did you mean {guess}?" if guess else ""


def _numbers(node: Any, at: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """Paths of the numbers in a document."""
    if isinstance(node, dict | list):
        steps: Any = node.items() if isinstance(node, dict) else enumerate(node)
        for step, below in steps:
            yield from _numbers(below, (*at, step))
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield at


def first_json(text: str) -> Any:
    """The first JSON object or array that begins a line; ValueError when there is none."""
    decoder = json.JSONDecoder()
    for match in re.finditer(r"^\s*[\[{]", text, re.MULTILINE):
        try:
            return decoder.raw_decode(text, match.end() - 1)[0]
        except ValueError:
            continue
    raise ValueError("the program printed no JSON object or array")


Argv = Annotated[list[str], Field(min_length=1, max_length=ARGUMENTS_MAX)]


class CommandParameters(WorkloadParameters):
    """What `[workload]` may hold with `kind = "command"`."""

    data: str
    """Role: the target whose folder is `{data}`."""
    argv: Argv
    """The program and its arguments; the program is found in PATH, or has a whole path."""
    env: dict[str, str] = Field(default_factory=dict)
    """Added to the environment; placeholders are replaced in the values."""
    working_directory: str | None = None
    """Default: the folder on the target."""
    clients: int = Field(default=1, ge=1, le=1_000_000)
    """For `{clients}`."""
    values: dict[str, str | int | float] = Field(default_factory=dict)
    """More placeholders: name = value. Each can be an axis (workload.values.NAME)."""
    metrics: list[MetricPattern] = Field(default_factory=list)
    success_codes: list[int] = Field(default_factory=lambda: [0], min_length=1)
    prepare: Argv | None = None
    """Run before, not timed: makes the data."""
    clean: Argv | None = None
    """Run afterwards, also when the program failed."""
    expected: Duration = 60.0
    """Rough seconds of one run, for the plan."""
    size: Size = 0
    """Rough bytes needed on the target, for the plan and the check of space."""

    @field_validator("argv", "prepare", "clean")
    @classmethod
    def _no_zero_bytes(cls, value: list[str] | None) -> list[str] | None:
        if any("\0" in argument for argument in value or []):
            raise ValueError("an argument cannot contain a zero byte")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [metric.name for metric in self.metrics]
        if len(set(names)) != len(names):
            raise ValueError("two metrics have the same name")
        if sum(metric.primary for metric in self.metrics) > 1:
            raise ValueError("only one metric is the primary one")
        for name in self.values:
            if not PLACEHOLDER.fullmatch(f"{{{name}}}") or name in BUILT_IN:
                raise ValueError(f"{name!r} cannot be the name of a value (a-z, 0-9, _; not taken)")
        known = [*BUILT_IN, *self.values]
        texts = [*self.argv, *(self.prepare or []), *(self.clean or []), *self.env.values()]
        for name in {m for text in texts for m in PLACEHOLDER.findall(text)} - set(known):
            guess = nearest(name, known)
            if guess is not None:
                raise ValueError(f"unknown placeholder {{{name}}}: did you mean {{{guess}}}?")
        return self


def substituted(argument: str, values: Mapping[str, str]) -> str:
    """One argument with its placeholders replaced; it stays one argument."""
    return PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), argument)


class CommandWorkload(Workload):
    """A program of one's own."""

    kind: ClassVar[str] = "command"
    summary: ClassVar[str] = "any program; its metrics by a pattern or from JSON"
    Parameters: ClassVar[type[WorkloadParameters]] = CommandParameters
    roles: ClassVar[tuple[str, ...]] = ("data",)
    others_serve: ClassVar[bool] = True
    parameters: CommandParameters

    def __init__(self, parameters: WorkloadParameters) -> None:
        super().__init__(parameters)
        self._process: Process | None = None
        self._to_clean = False

    @classmethod
    def available(cls) -> Availability:
        """Programs can be run everywhere."""
        return Availability(True)

    def check(self) -> Availability:
        """Are the programs there?"""
        p = self.parameters
        for argv in (p.argv, p.prepare, p.clean):
            if argv is None or PLACEHOLDER.search(argv[0]):
                continue
            if "/" in argv[0] and not Path(argv[0]).is_absolute():
                return Availability(
                    False, f"{argv[0]!r} is a relative path", "write the program's whole path"
                )
            if shutil.which(argv[0]) is None:
                return Availability(
                    False,
                    f"the program {argv[0]!r} was not found",
                    "install it, or correct its name or path",
                )
        return Availability(True)

    def estimate_s(self) -> float:
        """As the file says."""
        return self.parameters.expected

    def estimate_bytes(self) -> dict[str, int]:
        """As the file says."""
        return {"data": self.parameters.size}

    def prepare(self, context: RunContext) -> None:
        """Run `prepare`, when there is one."""
        self._process = None
        self._to_clean = self.parameters.clean is not None
        if self.parameters.prepare is not None:
            with context.phase("command"):
                self._run_beside(context, self.parameters.prepare, context.remaining_s())

    def measure(self, context: RunContext) -> Outcome:
        """Run the program; read its metrics."""
        p = self.parameters
        logs = context.logs
        argv = [substituted(argument, self._values(context)) for argument in p.argv]
        context.commands.append(argv)
        with context.timed() as part, context.phase("command"):
            self._process = process = context.client_host.spawn(
                argv,
                resources=context.resources,
                log=logs / "command.err",
                stdout=logs / "command.out",
                env=self._environment(context),
                cwd=self._directory(context),
                watcher=part.watcher,
            )
            # Not now: it may have run for a while, where processors are scarce.
            start_ns = process.started_monotonic_ns
            try:
                code = self._wait(context, process)
            finally:
                end_ns = clock.monotonic_ns()
                process.stop(grace_s=STOP_GRACE_S)
        part.was(start_ns, end_ns)
        part.began(start_ns)
        said = {
            "stdout": _text(logs / "command.out"),
            "stderr": _text(logs / "command.err"),
        }
        if code not in p.success_codes:
            raise failed(
                Path(argv[0]).name, code, _last_lines(said),
                "see logs/command.out and logs/command.err of the run",
            )  # fmt: skip
        user_s, system_s = process.cpu_s()
        metrics = {
            "wall_s": _seconds((end_ns - start_ns) / 1e9),
            "user_s": _seconds(user_s),
            "system_s": _seconds(system_s),
        }
        for pattern in p.metrics:
            metrics[pattern.name] = self._metric(pattern, said)
        first = self._primary()
        metrics["wall_s" if first is None else first.name].primary = True
        return Outcome(metrics=metrics)

    def check_hosts(self, hosts: int, processes: int) -> Availability:
        """The program runs once on each host, and the primary metric is one of all of them."""
        if processes != 1:
            return Availability(
                False,
                "the program of the workload command runs once on each client host",
                "leave client.processes out, and let the program start more: {clients} in its argv",
            )
        first = self._primary()
        if hosts > 1 and first is not None and not adds_up(first.name, first.unit):
            return Availability(
                False,
                f"what client hosts say of the primary metric {first.name!r} does not add up: "
                f"{first.unit!r} is no rate",
                'make another one the primary, of a unit such as "1/s"',
            )
        return Availability(True)

    def _primary(self) -> MetricPattern | None:
        """The metric that is shown first; None: the wall time."""
        metrics = self.parameters.metrics
        return next((one for one in metrics if one.primary), metrics[0] if metrics else None)

    def merge(self, context: RunContext, parts: Sequence[HostPart]) -> Outcome:
        """What the hosts' programs said, put together by the unit."""
        return together(context, parts)

    def finish(self, context: RunContext) -> None:
        """End the program if it still runs; run `clean`."""
        if self._process is not None:
            self._process.stop(grace_s=STOP_GRACE_S)
            self._process = None
        if self._to_clean and self.parameters.clean is not None:
            self._to_clean = False
            try:
                self._run_beside(context, self.parameters.clean, CLEAN_LIMIT_S, watch=False)
            except RunFailed as error:
                context.notes.append(f"`clean` failed: {error.what}: {error.why}")

    def _wait(self, context: RunContext, process: Process) -> int:
        """Until the program ends; looks after the run's time and the output's size."""
        logs = context.logs
        while True:
            left_s = context.remaining_s()
            try:
                return process.wait(min(WAIT_SLICE_S, max(0.01, left_s)))
            except RunFailed:
                for name in ("command.out", "command.err"):
                    if (logs / name).stat().st_size > OUTPUT_BYTES_MAX:
                        raise RunFailed(
                            f"the program printed more than {OUTPUT_BYTES_MAX} bytes",
                            why=f"logs/{name} is kept with the run",
                            fix="let it say less, or write to a file in {run_folder} or {data}",
                        ) from None

    def _run_beside(
        self, context: RunContext, argv: list[str], limit_s: float, *, watch: bool = True
    ) -> None:
        """A program before or after the timed one."""
        values = self._values(context)
        command = [substituted(argument, values) for argument in argv]
        context.commands.append(command)
        context.client_host.run(
            command,
            resources=context.resources,
            timeout_s=limit_s,
            env=self._environment(context),
            cwd=self._directory(context),
            log=context.logs / "command-beside.log",
            cancelled=context.remaining_s if watch else None,
        )

    def _values(self, context: RunContext) -> dict[str, str]:
        p = self.parameters
        own = {name: str(value) for name, value in p.values.items()}
        return own | {
            "data": str(context.places["data"].path),
            "run_folder": str(context.folder),
            "seed": str(context.seed),
            "clients": str(p.clients),
            "host": str(context.share.host),
            "hosts": str(context.share.hosts),
        }

    def _environment(self, context: RunContext) -> dict[str, str]:
        values = self._values(context)
        return {name: substituted(text, values) for name, text in self.parameters.env.items()}

    def _directory(self, context: RunContext) -> Path:
        given = self.parameters.working_directory
        return Path(given) if given is not None else context.places["data"].path

    @staticmethod
    def _metric(pattern: MetricPattern, said: Mapping[str, str]) -> Metric:
        try:
            value = pattern.read(said[pattern.source])
        except ValueError as error:
            raise RunFailed(
                f"the metric {pattern.name!r} is not in the program's output: {error}",
                why=f"its last lines were: {_last_lines(said)}",
                fix="correct its pattern or json in [[workload.metrics]]",
            ) from error
        return Metric(value=value, unit=pattern.unit, better=pattern.better)


def _seconds(value: float) -> Metric:
    return Metric(value=value, unit="s", better="lower")


def _text(path: Path) -> str:
    with path.open("rb") as stream:
        return stream.read(OUTPUT_BYTES_MAX).decode(errors="replace")


def _last_lines(said: Mapping[str, str]) -> str:
    """What the program said last: errors first, since they usually tell why."""
    lines = [line for text in (said["stdout"], said["stderr"]) for line in text.splitlines()]
    shown = [line[:400] for line in lines if line.strip()][-LINES_SHOWN:]
    return "\n       ".join(shown) or "it said nothing"
