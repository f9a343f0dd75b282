"""Server settings from the experiment file: which are allowed, how they reach the server.

Any setting of PostgreSQL may be given; it becomes `-c name=value` on the server's command
line (an argument list, never a shell). The names are checked against a pattern, so that
nothing else can be smuggled in, and a few are refused because nfslab has to know their
value: each with its reason. Whether a setting exists and its value fits is PostgreSQL's
to say: it is asked before the first run (`postgres -C`), and its own words are shown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from nfslab.databases.shared.settings import SettingValue, value_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")
NAME_LENGTH_MAX: Final = 127
"""Twice PostgreSQL's NAMEDATALEN - 1 and a dot: longer ones cannot exist."""

_PLACE = "nfslab decides where the cluster lives: use the roles `data` and `wal`"
_LISTEN = "nfslab chooses a private socket or a free port: use workload.socket"
_LOG = "nfslab keeps the server's log with the run, and reads it when something fails"
RESERVED: Final[dict[str, str]] = {
    "data_directory": _PLACE,
    "config_file": _PLACE,
    "hba_file": "nfslab decides who may connect: only this run",
    "ident_file": "nfslab decides who may connect: only this run",
    "external_pid_file": _PLACE,
    "port": _LISTEN,
    "listen_addresses": _LISTEN,
    "unix_socket_directories": _LISTEN,
    "unix_socket_group": _LISTEN,
    "unix_socket_permissions": _LISTEN,
    "logging_collector": _LOG,
    "log_destination": _LOG,
    "log_directory": _LOG,
    "log_filename": _LOG,
    "log_line_prefix": _LOG,
    "lc_messages": _LOG,
    "syslog_facility": _LOG,
    "syslog_ident": _LOG,
    "restart_after_crash": "a crash has to fail the run, not to be survived unseen",
    "password_encryption": "nfslab makes the password of the run itself",
    "ssl": "not supported yet: connections are private sockets or loopback",
}


def setting_problem(name: str, value: object) -> str:
    """Why this setting cannot be used; "" when it can (as far as nfslab can tell)."""
    if not NAME.fullmatch(name) or len(name) > NAME_LENGTH_MAX:
        return f"{name!r} is no name of a server setting (lower case letters, digits, _)"
    if name in RESERVED:
        return f"{name} cannot be set here: {RESERVED[name]}"
    return value_problem(name, value)


def setting_text(value: SettingValue) -> str:
    """A value as PostgreSQL reads it: `true` is `on`, numbers as they are."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def as_arguments(settings: Mapping[str, SettingValue]) -> list[str]:
    """`-c name=value` for the server's argument list, in the given order."""
    arguments: list[str] = []
    for name, value in settings.items():
        arguments += ["-c", f"{name}={setting_text(value)}"]
    return arguments


def with_defaults(
    settings: Mapping[str, SettingValue], clients: int, major: int
) -> dict[str, SettingValue]:
    """The settings that a run starts with: the person's, and what the load needs.

    A server for more clients than PostgreSQL's default of 100 connections gets room for
    them, unless `max_connections` was set. Writes and syncs of the log are timed where the
    server (of version `major`) can: two readings of the clock beside a flush that takes a
    thousand times as long.
    """
    result: dict[str, SettingValue] = {"log_checkpoints": True, "log_timezone": "UTC"}
    if major >= WAL_TIMING_SINCE:
        result["track_wal_io_timing"] = True
    needed = clients + CONNECTIONS_BESIDE
    if needed > DEFAULT_MAX_CONNECTIONS:
        result["max_connections"] = needed
    return result | dict(settings)


WAL_TIMING_SINCE: Final = 14
"""First PostgreSQL that has `track_wal_io_timing`."""
CONNECTIONS_BESIDE: Final = 13
"""Connections beside the clients: pgbench's first, the collector's, nfslab's own, and
PostgreSQL's three that are kept for superusers; a few to spare."""
DEFAULT_MAX_CONNECTIONS: Final = 100


def connections_problem(settings: Mapping[str, Any], clients: int) -> str:
    """Why `max_connections` as given cannot serve the clients; "" when it can."""
    given = settings.get("max_connections")
    try:
        limit = int(given) if given is not None else None
    except (TypeError, ValueError):
        return ""
    if limit is not None and limit < clients + 5:
        return (
            f"max_connections = {limit} leaves no room for {clients} clients: "
            f"at least {clients + CONNECTIONS_BESIDE}, or leave it out"
        )
    return ""


def durability_reasons(in_effect: Mapping[str, str]) -> list[str]:
    """Why a committed transaction may be lost with the power, from settings in effect."""
    reasons = []
    if in_effect.get("fsync") == "off":
        reasons.append("fsync = off: PostgreSQL does not wait for the storage at all")
    if in_effect.get("synchronous_commit") == "off":
        reasons.append("synchronous_commit = off: the last commits before a crash may be lost")
    if in_effect.get("full_page_writes") == "off":
        reasons.append("full_page_writes = off: a page torn by a crash cannot be repaired")
    return reasons


REPORTED_SETTINGS: Final = (
    "autovacuum",
    "checkpoint_completion_target",
    "checkpoint_timeout",
    "commit_delay",
    "commit_siblings",
    "data_checksums",
    "effective_io_concurrency",
    "fsync",
    "full_page_writes",
    "io_method",
    "max_connections",
    "max_wal_size",
    "min_wal_size",
    "shared_buffers",
    "synchronous_commit",
    "track_io_timing",
    "track_wal_io_timing",
    "wal_buffers",
    "wal_compression",
    "wal_init_zero",
    "wal_level",
    "wal_recycle",
    "wal_segment_size",
    "wal_sync_method",
)
UNINTERESTING: Final = re.compile(
    r"application_name|client_encoding|(lock|statement)_timeout|DateStyle|TimeZone|lc_.*|log_.*|"
    r"transaction_.*|default_text_search_config|config_file|data_directory|hba_file|ident_file|"
    r"port|listen_addresses|unix_socket_.*|logging_collector|password_encryption|ssl|"
    r"restart_after_crash|server_encoding"
)
"""Settings whose value nfslab itself gives, or that cannot change a figure."""
