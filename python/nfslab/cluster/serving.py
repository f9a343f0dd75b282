"""The scheduler and the workers as processes: how they begin, what they say of it, how they end.

Each says one line on its standard output (`machine.agent`): `up` with its address, or `error`.
With a life (`lives_by_input`) it ends when its standard input closes; otherwise by SIGTERM, by the
prime's word, and a worker when its scheduler is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.cluster.here import MemberHere
from nfslab.cluster.hosted import HostActor, end_visits
from nfslab.cluster.needed import require
from nfslab.errors import NfslabError, RunFailed, one_line
from nfslab.machine import agent
from nfslab.machine.addresses import address_towards
from nfslab.machine.processes import TOKEN_VARIABLE
from nfslab.machine.resources import Resources, recover

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from nfslab.cluster.certificates import Papers

JOIN_S: Final = 20.0
FORGET_S: Final = 60.0
"""Without a sign of life from a worker, until the scheduler forgets it, and it ends when it wakes.
That a host is lost for a run, its prime sees long before."""
DASHBOARD: Final = "127.0.0.1:8787"
"""Of the scheduler; another port where that one is taken. It shows figures where bokeh is there."""


def serve_scheduler(papers: Papers, host: str, port: int, *, lives_by_input: bool = False) -> int:
    """Run the scheduler to its end; the exit code."""

    async def served() -> None:
        import dask
        from distributed import Scheduler

        with Resources("cluster scheduler") as resources:
            folder = Path(tempfile.gettempdir()) / resources.name
            with resources.make_directory(folder) as entry:
                dask.config.set({"temporary-directory": str(entry.path)})
                server = Scheduler(
                    security=papers.security(),
                    protocol="tls",
                    host=host,
                    port=port,
                    dashboard_address=DASHBOARD,
                )
                where = host or "all addresses"
                await _begun(server, f"the scheduler cannot listen on {where}:{port}")
                _say(agent.event("up", address=server.address))
                await _until_end(server, lives_by_input)

    return _run(served)


def serve_worker(
    papers: Papers, scheduler: str, name: str, host: str | None, *, lives_by_input: bool = False
) -> int:
    """Run a worker to its end, after what a dead one left here was undone; the exit code."""

    async def served() -> None:
        from distributed import Worker

        told = recover()
        with Resources(f"cluster worker {name}") as resources:
            # What agents start carries it: the next start here ends what outlived a killed worker.
            os.environ[TOKEN_VARIABLE] = resources.token
            folder = Path(tempfile.gettempdir()) / resources.name
            with resources.make_directory(folder) as entry:
                HostActor.member = MemberHere(name, resources)
                server = Worker(
                    scheduler,
                    name=name,
                    nthreads=1,
                    host=host or _address_towards(scheduler),
                    protocol="tls",
                    security=papers.security(),
                    memory_limit=0,
                    local_directory=str(entry.path),
                    death_timeout=JOIN_S,
                    dashboard_address="127.0.0.1:0",
                )
                await _begun(server, f"{name} cannot join the cluster at {scheduler}")
                _say(agent.event("up", address=server.address, cleaned=told))
                try:
                    await _until_end(server, lives_by_input)
                finally:
                    await asyncio.to_thread(end_visits)

    return _run(served)


def _address_towards(scheduler: str) -> str | None:
    """Ours, by which we reach it: a worker listens on no other. None: it cannot be found."""
    host, _, port = scheduler.removeprefix("tls://").rpartition(":")
    try:
        found = address_towards(host.strip("[]"), int(port))
    except (OSError, ValueError):
        return None
    return f"[{found}]" if ":" in found else found


async def _begun(server: Any, what: str) -> None:
    try:
        await server
    except Exception as error:
        cause = error.__cause__ or error
        raise RunFailed(
            what, why=one_line(cause) or type(cause).__name__, fix=_fix(cause)
        ) from error


def _fix(cause: BaseException) -> str:
    if isinstance(cause, TimeoutError):
        return "see that a firewall lets this host reach the scheduler, and that one runs there"
    if isinstance(cause, ValueError):
        return "name each host once; nfslab cluster stop ends workers of before"
    return (
        "see that nothing else listens there, and that both sides have this cluster's certificates"
    )


async def _until_end(server: Any, lives_by_input: bool) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    HostActor.on_stop = lambda: loop.call_soon_threadsafe(ended.set)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if lives_by_input:
        loop.add_reader(sys.stdin.fileno(), ended.set)
    waits = [asyncio.create_task(work) for work in (ended.wait(), server.finished())]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for one in waits:
        one.cancel()
    if lives_by_input:
        loop.remove_reader(sys.stdin.fileno())
    await server.close()


def _run(served: Callable[[], Coroutine[Any, Any, None]]) -> int:
    try:
        require()
        _configure()
        asyncio.run(served())
    except NfslabError as error:
        _say(agent.event("error", **agent.error_content(error)))
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _configure() -> None:
    import dask

    # The person's settings of Dask are for the person's own clusters.
    dask.config.refresh(paths=[], env={})
    dask.config.set(
        {
            "distributed.scheduler.worker-ttl": f"{FORGET_S:g}s",
            "distributed.scheduler.allowed-failures": 0,
            "distributed.worker.profile.enabled": False,
        }
    )
    import distributed  # noqa: F401  # it sets levels of its own

    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _say(line: bytes) -> None:
    """Whoever began us may have gone after the first line."""
    with contextlib.suppress(OSError):
        os.write(agent.STDOUT, line)
