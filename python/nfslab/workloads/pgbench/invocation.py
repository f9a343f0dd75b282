"""pgbench's command line for a run, from the parameters.

Every option is an argument of its own and no shell is involved. `--no-vacuum`, because
the cluster was vacuumed when it was loaded and nothing may happen that is not measured;
`--progress` with an interval that never comes, because it makes pgbench keep detailed
statistics, which the transaction log is checked against; `--report-per-command` for the time of
each statement (two readings of the clock a command); a weight behind every script,
because pgbench would take what follows an `@` in a path for one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from nfslab.machine.availability import Availability
from nfslab.workloads.pgbench.parameters import script_digest
from nfslab.workloads.pgbench.transaction_log import LogLayout

if TYPE_CHECKING:
    from nfslab.databases.postgres.installation import Installation
    from nfslab.databases.postgres.server import Reached
    from nfslab.workloads.pgbench.parameters import PgbenchParameters

NEVER_S: Final = 100_000_000
"""Three years: an interval between progress lines that does not come."""
MAX_TRIES_SINCE: Final = 15
SCRIPT_BYTES_MAX: Final = 1 << 20
SEED_MASK: Final = 2**63 - 1


def log_layout(parameters: PgbenchParameters) -> LogLayout:
    """Which columns pgbench writes with these options."""
    return LogLayout(lag=parameters.rate is not None, retries=parameters.max_tries != 1)


def pgbench_arguments(
    parameters: PgbenchParameters,
    server: Reached,
    *,
    seed: int,
    log_prefix: Path | None,
    warm_up: bool = False,
) -> list[str]:
    """The whole argument list of the timed part (or of the warm-up before it)."""
    p = parameters
    argv = [
        server.deployment.installation.program("pgbench"),
        *("--client", str(p.clients), "--jobs", str(p.effective_threads)),
        *("--protocol", p.protocol),
        *("--no-vacuum", "--random-seed", str(seed & SEED_MASK)),
        *("--progress", str(NEVER_S)),
    ]
    if warm_up:
        argv += ["--time", str(int(p.warm_up))]
    elif p.duration is not None:
        argv += ["--time", str(int(p.duration))]
    else:
        argv += ["--transactions", str(p.transactions)]
    if not warm_up:
        argv.append("--report-per-command")
    if log_prefix is not None:
        argv += ["--log", "--log-prefix", str(log_prefix)]
        if p.sampling_rate < 1:
            argv += ["--sampling-rate", f"{p.sampling_rate:.12g}"]
    if p.rate is not None:
        argv += ["--rate", f"{p.rate:.12g}"]
    if p.latency_limit is not None:
        argv += ["--latency-limit", milliseconds_argument(p.latency_limit)]
    if p.max_tries != 1:
        argv += ["--max-tries", str(p.max_tries)]
    if p.connect_each:
        argv.append("--connect")
    for name, value in p.variables.items():
        argv += ["--define", f"{name}={value}"]
    for name, weight in p.builtin_scripts().items():
        argv += ["--builtin", f"{name}@{weight}"]
    for path, weight in p.own_scripts().items():
        argv += ["--file", f"{script_path(path)}@{weight}"]
    if not p.builtin_scripts():
        # pgbench knows the scale from its own tables only with its own scripts.
        argv += ["--scale", str(p.scale)]
    return [*argv, *server.client_arguments(), server.deployment.database]


def milliseconds_argument(seconds: float) -> str:
    """Seconds as the milliseconds that pgbench reads, without float noise."""
    return f"{seconds * 1000:.12g}"


def script_path(path: Path) -> Path:
    """An own script's path, absolute."""
    return path.expanduser().resolve()


def invocation_possible(parameters: PgbenchParameters, installation: Installation) -> Availability:
    """Can this pgbench do what is asked, and are the scripts there?"""
    if parameters.max_tries != 1 and installation.major < MAX_TRIES_SINCE:
        return Availability(
            False,
            f"pgbench {installation.version} has no --max-tries",
            f"leave max_tries out, or take PostgreSQL {MAX_TRIES_SINCE} or newer",
        )
    digests = parameters.script_digests or [""] * len(parameters.scripts)
    for name, digest in zip(parameters.scripts, digests, strict=False):
        path = script_path(name)
        try:
            size = path.stat().st_size
            path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            return Availability(
                False, f"the script {path} cannot be read: {error}", "correct workload.scripts"
            )
        if digest and script_digest(path) != digest:
            return Availability(
                False,
                f"the script {path} is not the one of this experiment: it was changed",
                "bring it back, or start a new experiment with the changed one",
            )
        if size > SCRIPT_BYTES_MAX:
            return Availability(
                False,
                f"the script {path} has {size} bytes, more than {SCRIPT_BYTES_MAX}",
                "a transaction script is a few lines of SQL",
            )
    return Availability(True)
