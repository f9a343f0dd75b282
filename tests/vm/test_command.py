"""The script that becomes the command in the guest, run here by a shell."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.machine.processes import TOKEN_VARIABLE
from nfslab.vm.run import GUEST_STATE, _command

pytestmark = pytest.mark.system

DUMP = "import os, sys; sys.stdout.buffer.write(repr((dict(os.environb), sys.argv[1:])).encode())"
ODD = 'it\'s "$HOME" `x` \\ \n*\t'


def ran(script: bytes, folder: Path) -> subprocess.CompletedProcess[bytes]:
    path = folder / "command.sh"
    path.write_bytes(script)
    return subprocess.run(["/bin/sh", path], env={}, capture_output=True, check=False)


def test_words_and_environment_arrive_as_they_are(tmp_path: Path) -> None:
    raw = b"\xff\xfe".decode(errors="surrogateescape")
    given = {"PATH": "/usr/bin:/bin", "ODD": ODD, "RAW": raw, "EMPTY": "", "NFSLAB_STATE": "/here"}
    left_out = {
        TOKEN_VARIABLE: "x", "SSH_AUTH_SOCK": "x", "DISPLAY": ":0", "BASH_FUNC_f%%": "() { :; }",
        "UID": "7", "1x": "x", "é": "x",
    }  # fmt: skip
    script = _command([sys.executable, "-c", DUMP, ODD, raw, ""], tmp_path, given | left_out)
    done = ran(script, tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    environment, words = eval(done.stdout)
    assert words == [ODD, raw, ""]
    expected = given | {"NFSLAB_STATE": GUEST_STATE, "PWD": str(tmp_path)}
    raws = {
        name.encode(): value.encode(errors="surrogateescape") for name, value in expected.items()
    }
    # What a shell or Python adds by itself is of no interest.
    assert {name: environment.get(name) for name in raws} == raws
    assert not {name.encode() for name in left_out} & set(environment)


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    assert ran(_command(["no-such-program"], tmp_path, {}), tmp_path).returncode == 127
    assert ran(_command(["true"], tmp_path, {}), tmp_path).returncode == 0
    assert ran(_command(["true"], tmp_path / "gone", {}), tmp_path).returncode == 126
