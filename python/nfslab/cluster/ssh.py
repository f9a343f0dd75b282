"""Hosts reached over ssh: keys alone, host keys known beforehand, one short command each.

asyncssh reads what ssh does: `~/.ssh/config`, the agent, `known_hosts`. Nothing is asked: a host
that would ask for a password, or whose key nobody has accepted, is refused with what to do.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import socket
from typing import TYPE_CHECKING, Any, Final, Self

import asyncssh

from nfslab.errors import NfslabError, RunFailed, one_line
from nfslab.machine.agent import error_of

if TYPE_CHECKING:
    from types import TracebackType

CONNECT_S: Final = 15.0
COMMAND_S: Final = 60.0
SAID_BYTES_MAX: Final = 1 << 20
NOT_FOUND: Final = 127


class _Client(asyncssh.SSHClient):  # type: ignore[misc]
    """Remembers why a host key was refused."""

    changed = False

    def connection_made(self, conn: Any) -> None:
        """See `asyncssh.SSHClient`."""
        self._connection = conn

    def validate_host_public_key(self, *_key: Any) -> bool:
        """Called for a key that `known_hosts` does not have: was there another one?"""
        self.changed = bool(getattr(self._connection, "_trusted_host_keys", None))
        return False


class SshHost:
    """A host while we are connected to it."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def __aenter__(self) -> Self:
        """RunFailed, with what to do about it."""
        user, _, host = self.name.rpartition("@")
        client = _Client()
        try:
            self._connection = await asyncssh.connect(
                host,
                client_factory=lambda: client,
                preferred_auth="publickey",
                connect_timeout=CONNECT_S,
                **({"username": user} if user else {}),
            )
        except asyncssh.HostKeyNotVerifiable as error:
            raise self._key_refused(host, client.changed) from error
        except asyncssh.PermissionDenied as error:
            raise RunFailed(
                f"{self.name} refuses our ssh key", why=one_line(error),
                fix=f"ssh-copy-id {self.name}, or ssh-add the key: nfslab types no password",
            ) from error  # fmt: skip
        except socket.gaierror as error:
            raise RunFailed(
                f"nobody knows a host {host!r}", why=error.strerror or str(error),
                fix="see how it is written; give it an entry in ~/.ssh/config or /etc/hosts",
            ) from error  # fmt: skip
        except (OSError, TimeoutError, ValueError, asyncssh.Error) as error:
            raise RunFailed(
                f"{self.name} cannot be reached over ssh",
                why=one_line(error) or f"no answer within {CONNECT_S:g} s",
                fix=f"see that `ssh {self.name} true` works without a question",
            ) from error
        return self

    def _key_refused(self, host: str, changed: bool) -> RunFailed:
        if changed:
            return RunFailed(
                f"the host key of {self.name} has changed",
                why="it is another one than known_hosts has: a machine that was set up anew, or "
                "somebody in between",
                fix=f"ask who runs it; if it is new: ssh-keygen -R {host}, then ssh {self.name}",
            )
        return RunFailed(
            f"the host key of {self.name} is not known",
            why="it is not in known_hosts, and nfslab accepts none by itself",
            fix=f"ssh {self.name} once, and compare the key before you accept it",
        )

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._connection.abort()

    @property
    def our_address(self) -> str:
        """The one of ours that this host is reached from."""
        return str(self._connection.get_extra_info("sockname")[0])

    async def ask(self, python: str, words: list[str], told: str = "") -> dict[str, Any]:
        """What `python -m nfslab.cluster WORDS` says there, one line of JSON; RunFailed."""
        command = shlex.join([python, "-P", "-m", "nfslab.cluster", *words])
        try:
            async with asyncio.timeout(COMMAND_S):
                done = await self._connection.run(
                    command, input=told, encoding="utf-8", errors="replace"
                )
        except (OSError, TimeoutError, asyncssh.Error) as error:
            raise RunFailed(
                f"{self.name} did not do as told", why=one_line(error) or "it took too long",
                fix=f"try it: ssh {self.name} {shlex.quote(command)}",
            ) from error  # fmt: skip
        return self._answer(done, python)

    def _answer(self, done: Any, python: str) -> dict[str, Any]:
        said, complaints = str(done.stdout)[:SAID_BYTES_MAX], str(done.stderr)[-2000:]
        try:
            found = json.loads(said)
            if found.get("event") == "error":
                raise _named(self.name, error_of(found))
            return dict(found)
        except (ValueError, AttributeError, KeyError, TypeError) as error:
            missing = done.exit_status == NOT_FOUND or "No module named" in complaints
            last = complaints.strip().splitlines()[-1:] or [f"exit code {done.exit_status}"]
            raise RunFailed(
                f"no nfslab as ours on {self.name}" if missing
                else f"nfslab on {self.name} does not answer",
                why=f"{python} there: {last[0]}",
                fix="install this nfslab there at the same path, or say where it is: "
                '[cluster] python = "/path/to/nfslab/.venv/bin/python" (--python)',
            ) from error  # fmt: skip


def _named(name: str, error: NfslabError) -> NfslabError:
    """A host's error, with its name."""
    return RunFailed(f"{name}: {error.what}", why=error.why, fix=error.fix)
