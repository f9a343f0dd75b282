"""The guide's three questions: their commands are run, small, as they are written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.invocation import Said, nfslab
from tests.cli.serving import serving
from tests.report.browser import browser, opened

ROOT = Path(__file__).resolve().parents[2]
CAPTURE = ROOT / "tests" / "captures" / "v3_udp_stalls_retrans.pcap.gz"
Capture = pytest.CaptureFixture[str]
SMALL = {
    "try": ["--only", "large", "--repetitions", "1"],
    "explain": ["--json"],
    "trace": [],
    "sfs": ["--files", "60", "--time", "0.3s", "--warm-up", "0.1s", "--precision", "50%"],
}
"""What makes a command take seconds; the last of an option given twice counts."""
AT_LENGTH = ("quickstart", "confirm")
"""They have tests of their own."""


def commands() -> list[list[str]]:
    text = (ROOT / "docs" / "guide.md").read_text()
    section = text[text.index("## Three questions") : text.index("## The experiment file")]
    lines = "\n".join(re.findall(r"```sh\n(.*?)```", section, flags=re.DOTALL)).splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "share"):
        (tmp_path / name).mkdir()
    return tmp_path


def run(words: list[str], port: int, capsys: Capture) -> Said:
    known = {
        "/var/tmp": "one", "/mnt/share": "share", "nfs.pcap": str(CAPTURE),
        "filer:/vol/scratch": "127.0.0.1:/export", "1k..4k:1k": "200..400:200",
    }  # fmt: skip
    (results,) = list(Path.cwd().glob("results/*"))[:1] or [Path("none")]
    typed = [
        str(results) if word.startswith("results/") else known.get(word, word) for word in words
    ]
    mount = ["-o", f"port={port},mountport={port}"] if typed[0] == "sfs" else []
    return nfslab(capsys, *typed, *SMALL[typed[0]], *mount)


@pytest.mark.long
def test_each_question_is_answered(here: Path, capsys: Capture) -> None:
    told = commands()
    assert {words[0] for words in told} == {*SMALL, *AT_LENGTH}
    with serving("--memory") as served:
        for words in told:
            if words[0] in AT_LENGTH:
                continue
            said = run(words, served.port, capsys)
            # A busy machine limits the generator, which says so and ends with 1.
            assert said.code in ((0, 1) if words[0] == "sfs" else (0,)), (words, said.err)
            assert said.out
    pages = [here / "nfs.html", here / "load.html", *here.glob("results/*/report.html")]
    assert len(pages) >= 3
    with browser() as chromium:
        for page in pages:
            with opened(chromium, page, viewport={"width": 400, "height": 800}) as shown:
                wide = shown.evaluate("document.documentElement.scrollWidth")
                assert wide <= 400, f"{page.name}: nothing is clipped on a narrow screen"
