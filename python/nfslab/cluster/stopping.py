"""Stopping a cluster that was left running: all of it, or the workers of some hosts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from nfslab.cluster.link import dial, members_at
from nfslab.cluster.worker import LEAVE
from nfslab.errors import NfslabError, RunFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.cluster.certificates import Papers

END_S: Final = 20.0


async def stop(address: str, papers: Papers, names: Sequence[str]) -> dict[str, str]:
    """By host, why it did not end, or nothing; `names`: those alone. RunFailed, UsageError."""
    found = dict(await members_at(address, papers))
    if unknown := [name for name in names if name not in found]:
        raise UsageError(
            f"{', '.join(unknown)} is not in the cluster",
            why=f"its hosts: {', '.join(sorted(found)) or 'none'}",
            fix="name those, or none for all",
        )
    ending = {name: _ended(found[name], papers) for name in (names or found)}
    told = await asyncio.gather(*ending.values())
    if not names:
        await end_scheduler(address, papers)
    return dict(zip(ending, told, strict=True))


async def _ended(address: str, papers: Papers) -> str:
    """Why a worker did not end; empty when it did."""
    try:
        comm = await dial(address, "worker", papers)
        await _told(comm, {"op": LEAVE, "reply": False})
    except NfslabError as error:
        return error.in_a_line()
    except TimeoutError:
        return f"it goes on after {END_S:g} s"
    return ""


async def end_scheduler(address: str, papers: Papers) -> None:
    """And with it its workers; RunFailed."""
    try:
        comm = await dial(address, "scheduler", papers)
        await _told(comm, {"op": "terminate", "reply": False})
    except TimeoutError as error:
        raise RunFailed(
            f"the scheduler at {address} goes on", why=f"it was told {END_S:g} s ago",
            fix="end its process: python -m nfslab.cluster",
        ) from error  # fmt: skip


async def _told(comm: Any, message: dict[str, Any]) -> None:
    """Say it, and wait until the other side is gone; TimeoutError."""
    try:
        async with asyncio.timeout(END_S):
            await comm.write(message)
            while True:
                await comm.read()
    except TimeoutError:
        raise
    except OSError:
        return
    finally:
        comm.abort()
