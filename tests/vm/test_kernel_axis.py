"""An experiment whose axis is the kernel: each run in a guest of its own, one of which panics."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.results.catalogue import read_every_run
from nfslab.results.emulation import is_stamped
from nfslab.results.evidence_tables import read_evidence
from nfslab.results.outcomes import Outcomes
from nfslab.statistics.verdicts import EMULATED
from nfslab.vm.kernel import cache_folder

from tests.cli.invocation import nfslab
from tests.vm.guests import cached_kernels, cached_versions, refused_two

LIMIT_S = 1800
VERSIONS = cached_versions()[::-1]
pytestmark = [
    pytest.mark.skipif(bool(refused_two()), reason=refused_two() or "it can"),
    pytest.mark.long,
    pytest.mark.guest,
    pytest.mark.timeout(LIMIT_S + 60),
]
FILE = """\
[experiment]
name = "kernels"
title = "Two kernels"
repetitions = 1
order = "fixed"
collectors = ["system"]
[targets.memory]
kind = "local"
path = "/var/tmp"
[machine]
memory = "1G"
cpus = 1
[workload]
kind = "command"
data = "memory"
argv = ["sh", "-c", "uname -r; {do}"]
[workload.values]
do = "true"
[[axes]]
parameter = "machine.kernel"
values = KERNELS
[[axes]]
parameter = "workload.values.do"
values = ["echo c >/proc/sysrq-trigger; sleep 1000", "true"]
labels = ["panic", "good"]
[[exclude]]
"machine.kernel" = "SECOND"
do = "panic"
"""


PATCHED = """\
[experiment]
name = "patched"
title = "One kernel, two folders of modules"
repetitions = 1
collectors = ["profile"]
[targets.memory]
kind = "local"
path = "/var/tmp"
[machine]
kernel = KERNEL
memory = "1G"
cpus = 1
[workload]
kind = "command"
data = "memory"
argv = ["sh", "-c", "cat /lib/modules/$(uname -r)/mine; modprobe nfsd; {load}"]
[workload.values]
load = "dd if=/dev/zero of=/dev/null bs=64k count=9999"
[[axes]]
parameter = "machine.modules"
values = FOLDERS
labels = ["stock", "patched"]
"""


def ran(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nfslab", "run", "kernels.toml"],
        cwd=folder,
        env=os.environ | {"NFSLAB_STATE": str(folder / "state")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_two_folders_of_modules_with_the_kernels_profile_beside_them(tmp_path: Path) -> None:
    """The form of a study of a patch: who built two sets of modules compares them."""
    release = cached_kernels()[0]
    kept = cache_folder() / "kernels" / release / "modules" / "lib" / "modules" / release
    folders = [tmp_path / name for name in ("stock", "patched")]
    for modules in folders:
        shutil.copytree(kept, modules)
        (modules / "mine").write_text(f"{modules.name}\n")
    text = PATCHED.replace("KERNEL", json.dumps(VERSIONS[-1]))
    text = text.replace("FOLDERS", json.dumps([str(modules) for modules in folders]))
    (tmp_path / "kernels.toml").write_text(text)
    done = ran(tmp_path)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "results").iterdir()
    _, records = read_every_run(folder)
    seen = {}
    for run_id, record in records.items():
        sealed = folder / "runs" / run_id
        seen[record.factors["modules"]] = (sealed / "logs" / "command.out").read_text()
        stacks = read_evidence(sealed, "profile_stacks").to_pylist()
        assert any("ksys_read" in one["stack"] for one in stacks if one["class"] == "run")
    assert seen == {"stock": "stock\n", "patched": "patched\n"}


def test_a_panic_fails_its_run_and_the_others_are_of_their_kernels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = VERSIONS[:2]
    text = FILE.replace("KERNELS", json.dumps([first, second])).replace("SECOND", second)
    (tmp_path / "kernels.toml").write_text(text)
    done = ran(tmp_path)
    assert done.returncode == 1, done.stderr
    (folder,) = (tmp_path / "results").iterdir()
    catalogue, records = read_every_run(folder)
    assert catalogue.damaged == {}
    assert catalogue.partial == []
    panic, *good = catalogue.lines
    assert [line.factors["do"] for line in catalogue.lines] == ["panic", "good", "good"]
    assert panic.status == "failed"
    assert "Kernel panic - not syncing: sysrq triggered crash" in panic.reason
    assert records[panic.run_id].failure_phase == "guest/command"
    assert [line.status for line in good] == ["ok", "ok"], [line.reason for line in good]
    seen = []
    for line in good:
        run = folder / "runs" / line.run_id
        provenance = json.loads((run / "provenance.json").read_text())
        release = provenance["kernel"]["release"]
        assert (run / "logs" / "command.out").read_text() == f"{release}\n"
        assert provenance["virtual_machine"]["kernel"] == release
        assert provenance["virtual_machine"]["runs_on"]["kernel"] == os.uname().release
        emulated = provenance["virtual_machine"]["processor"] == "emulated"
        assert is_stamped(line.flags) is emulated
        assert (EMULATED in done.stdout) is emulated
        assert any(name.startswith("evidence/") for name in records[line.run_id].evidence[0].tables)
        seen.append(release)
    assert [re.match(r"\d+\.\d+", release)[0] for release in seen] == [first, second]  # type: ignore[index]
    assert list((tmp_path / "state" / "journals").glob("*.jsonl")) == []
    assert Outcomes.open(folder).catalogue.missing_lines == 0
    assert nfslab(capsys, "check", folder).code == 0
