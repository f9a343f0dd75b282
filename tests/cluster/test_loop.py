"""Coroutines that are waited for on a thread of their own."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from nfslab.cluster.loop import waited


async def where() -> int:
    await asyncio.sleep(0)
    return threading.get_native_id()


async def fails() -> None:
    raise ValueError("planted")


def test_who_runs_a_loop_already_can_wait_too() -> None:
    """As in a notebook: asyncio.run refuses there."""

    async def notebook() -> int:
        return waited(where())

    # Not in this thread: tests of pages leave a loop of theirs running in it.
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(asyncio.run, notebook()).result() != threading.get_native_id()


def test_what_it_raises_is_raised_here_and_its_thread_goes() -> None:
    before = threading.active_count()
    with pytest.raises(ValueError, match="planted"):
        waited(fails())
    assert threading.active_count() == before
