"""Where servers of databases listen: a folder that no other user can enter."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest
from nfslab.databases.shared.deployment import short_private_folder
from nfslab.machine.resources import Resources

from tests.machine import needs

STRANGER = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for path in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
    except PermissionError:
        print("refused")
"""


@needs.root
@pytest.mark.system
def test_another_user_reaches_no_socket_of_a_database(resources: Resources) -> None:
    owners = (None, 1)  # of root's server (MariaDB), of an unprivileged user's (PostgreSQL)
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        paths = []
        for listener, owner in zip((one, other), owners, strict=True):
            folder = short_private_folder(resources, f"test-{owner}", owner).path
            paths.append(str(folder / "socket"))
            listener.bind(paths[-1])
            listener.listen()
            (folder / "socket").chmod(0o777)
        argv = [sys.executable, "-S", "-c", STRANGER, *paths]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n" * 2
