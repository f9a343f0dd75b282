"""Server settings from the experiment file: `--name=value`, whole names with underscores.

What nfslab has to know or decide is refused, with the reason; all else is mariadbd's to say.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from nfslab.databases.shared.settings import SettingValue, value_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = re.compile(r"[a-z][a-z0-9_]{1,100}")
PREFIXES: Final = ("loose_", "skip_", "disable_", "enable_", "maximum_")
"""Of option names, before the name of a variable (my_getopt)."""

_PLACE = "nfslab decides where the database lives: use the roles `data` and `wal`"
_REACHED = "the server is reached by a private socket alone"
_LOG = "nfslab keeps the server's log with the run, and reads it when something fails"
RESERVED: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("datadir", "innodb_data_home_dir", "innodb_log_group_home_dir", "innodb_undo_directory",
         "innodb_data_file_path", "tmpdir", "basedir", "pid_file"),
        _PLACE,
    ),
    **dict.fromkeys(("socket", "port", "bind_address", "skip_networking"), _REACHED),
    **dict.fromkeys(("log_error", "log_warnings"), _LOG),
    **dict.fromkeys(
        ("user", "chroot", "daemonize", "bootstrap", "help", "verbose", "init_file", "plugin_load",
         "plugin_load_add", "wsrep_on", "innodb_force_recovery", "read_only"),
        "a run's server would not be what it is",
    ),
}  # fmt: skip

OWN: Final[dict[str, SettingValue]] = {
    # System calls are to be seen, and a run is to begin with what its template holds.
    "innodb_use_native_aio": False,
    "innodb_buffer_pool_load_at_startup": False,
    "innodb_buffer_pool_dump_at_shutdown": False,
}
"""Unless they are given."""
DEFAULT_MAX_CONNECTIONS: Final = 151
CONNECTIONS_BESIDE: Final = 5
"""nfslab's own, and a few to spare."""
REPORTED: Final = (
    "autocommit", "binlog_format", "innodb_buffer_pool_size", "innodb_doublewrite",
    "innodb_flush_log_at_trx_commit", "innodb_flush_method", "innodb_flush_neighbors",
    "innodb_io_capacity", "innodb_log_buffer_size", "innodb_log_file_size", "innodb_page_size",
    "innodb_use_native_aio", "log_bin", "max_connections", "sync_binlog", "tx_isolation",
)  # fmt: skip


def setting_problem(name: str, value: object) -> str:
    """Why this setting cannot be used; "" when it can, as far as nfslab can tell."""
    if not NAME.fullmatch(name):
        return f"{name!r} is no name of a server setting (lower case letters, digits, _)"
    if name in RESERVED:
        return f"{name} cannot be set here: {RESERVED[name]}"
    if name.startswith(PREFIXES) and name not in ("skip_name_resolve",):
        return f"{name}: write the variable itself with true or false"
    return value_problem(name, value)


def as_arguments(settings: Mapping[str, SettingValue]) -> list[str]:
    """For the server's argument list, in the given order."""
    return [f"--{name}={setting_text(value)}" for name, value in settings.items()]


def setting_text(value: SettingValue) -> str:
    """`true` is `ON`, numbers as they are."""
    return ("ON" if value else "OFF") if isinstance(value, bool) else str(value)


def with_defaults(settings: Mapping[str, SettingValue], clients: int) -> dict[str, SettingValue]:
    """What a run starts with: the person's, and what the load needs."""
    needed = clients + CONNECTIONS_BESIDE
    room = {"max_connections": needed} if needed > DEFAULT_MAX_CONNECTIONS else {}
    return {**OWN, **room, **settings}


def connections_problem(settings: Mapping[str, Any], clients: int) -> str:
    """Why `max_connections` as given cannot serve the clients; "" when it can."""
    try:
        limit = int(settings["max_connections"])
    except (KeyError, TypeError, ValueError):
        return ""
    least = clients + 2
    if limit < least:
        return f"max_connections = {limit} leaves no room for {clients} clients: at least {least}"
    return ""


def durability_reasons(in_effect: Mapping[str, str]) -> list[str]:
    """Why a committed transaction may be lost with the power, from settings in effect."""
    found = []
    at_commit = in_effect.get("innodb_flush_log_at_trx_commit", "1")
    if at_commit not in ("1", "3"):
        found.append(
            f"innodb_flush_log_at_trx_commit = {at_commit}: a commit does not wait for the disk"
        )
    if in_effect.get("log_bin") == "ON" and in_effect.get("sync_binlog") != "1":
        found.append(
            f"sync_binlog = {in_effect.get('sync_binlog')}: the binary log may lack commits"
        )
    if in_effect.get("innodb_flush_method", "").lower() in ("nosync", "littlesync"):
        found.append(f"innodb_flush_method = {in_effect['innodb_flush_method']}: no or few syncs")
    if in_effect.get("innodb_doublewrite") == "OFF":
        found.append("innodb_doublewrite = OFF: a page torn by a crash cannot be repaired")
    return found
