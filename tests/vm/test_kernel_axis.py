"""An experiment whose axis is the kernel: each run in a guest of its own, one of which panics."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.results.catalogue import read_every_run
from nfslab.results.emulation import is_stamped
from nfslab.results.outcomes import Outcomes
from nfslab.statistics.verdicts import EMULATED

from tests.cli.invocation import nfslab
from tests.vm.guests import cached_kernels, refused

LIMIT_S = 1800
VERSIONS = sorted({match[0] for name in cached_kernels() if (match := re.match(r"\d+\.\d+", name))})
pytestmark = [
    pytest.mark.skipif(bool(refused()), reason=refused() or "it can"),
    pytest.mark.skipif(len(VERSIONS) < 2, reason="two kernels are needed: nfslab vm fetch"),
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


def test_a_panic_fails_its_run_and_the_others_are_of_their_kernels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = VERSIONS[:2]
    text = FILE.replace("KERNELS", json.dumps([first, second])).replace("SECOND", second)
    (tmp_path / "kernels.toml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "nfslab", "run", "kernels.toml"],
        cwd=tmp_path,
        env=os.environ | {"NFSLAB_STATE": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
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
