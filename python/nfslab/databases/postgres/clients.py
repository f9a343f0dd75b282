"""When the clients' sessions are over, and what they counted is in the server's counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nfslab import clock

if TYPE_CHECKING:
    import psycopg

GONE_LIMIT_S: Final = 5.0
GONE_POLL_S: Final = 0.02
OLD_STATISTICS_LAG_S: Final = 1.1
"""Before 15 a statistics process writes its file at most every half a second."""


def clients_are_gone(connection: psycopg.Connection[Any], name: str, major: int) -> bool:
    """Wait until no session with this application_name is left; False when the limit is over.

    A session may outlive its client, and hands its counts over before it is listed no more
    (pgstat_shutdown_hook is a before_shmem_exit callback, pgstat_beshutdown_hook an on_shmem_exit
    one: storage/ipc.c). `connection` commits by itself: within a transaction the list stays the
    same.
    """
    deadline = clock.monotonic() + GONE_LIMIT_S
    listed = "SELECT 1 FROM pg_stat_activity WHERE application_name = %s LIMIT 1"
    while connection.execute(listed, (name,)).fetchone() is not None:
        if clock.monotonic() > deadline:
            return False
        clock.sleep(GONE_POLL_S)
    if major < 15:
        clock.sleep(OLD_STATISTICS_LAG_S)
    return True
