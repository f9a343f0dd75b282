"""OpenSSH's server for a test: on a port of the system's choice, one process a connection."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
usable = SSHD is not None and shutil.which("ssh-keygen") is not None and os.geteuid() == 0
WHY_NOT = "sshd, ssh-keygen and root are needed: apt install openssh-server"


class SshServer:
    """Its hosts are names in a `~/.ssh/config` of the test's own."""

    def __init__(self, folder: Path, state: Path) -> None:
        self.home = folder / "home"
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        self._folder = folder
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._key("host_key")
        self._key("home/.ssh/id_ed25519")
        public = (self.home / ".ssh" / "id_ed25519.pub").read_text()
        (folder / "authorized").write_text(public)
        # Without the separation of privileges there is no user `sshd` and no /run/sshd to be had.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        (folder / "sshd_config").write_text(
            f"HostKey {folder}/host_key\nAuthorizedKeysFile {folder}/authorized\nStrictModes no\n"
            "UsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            f"PermitRootLogin yes\nSetEnv NFSLAB_STATE={state}\n"
        )
        self._processes: list[subprocess.Popen[bytes]] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def knows(self, *names: str, key: str = "host_key") -> None:
        """`~/.ssh` of a person who accepted the keys of these hosts."""
        host_key = (self._folder / f"{key}.pub").read_text().split()[:2]
        known = [f"[127.0.0.1]:{self.port} {' '.join(host_key)}\n"] if names else []
        (self.home / ".ssh" / "known_hosts").write_text("".join(known))

    def configure(self, *names: str) -> None:
        (self.home / ".ssh" / "config").write_text(
            "".join(
                f"Host {name}\n  HostName 127.0.0.1\n  Port {self.port}\n  User root\n"
                for name in names
            )
        )

    def another_key(self, name: str) -> None:
        self._key(name)

    def deny(self) -> None:
        """No key of anybody."""
        (self._folder / "authorized").write_text("")

    def close(self) -> None:
        if self._thread.is_alive():
            # Closing alone does not end an accept(2) that waits.
            self._listener.shutdown(socket.SHUT_RDWR)
            self._thread.join()
            self._listener.close()
        for process in self._processes:
            process.terminate()
            process.wait()

    def _key(self, name: str) -> None:
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self._folder / name)]
        subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)

    def _serve(self) -> None:
        assert SSHD is not None
        argv = [SSHD, "-i", "-e", "-f", str(self._folder / "sshd_config")]
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, (self._folder / "sshd.log").open("ab") as log:
                self._processes.append(
                    subprocess.Popen(argv, stdin=connection, stdout=connection, stderr=log)
                )
