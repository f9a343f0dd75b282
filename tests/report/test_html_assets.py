"""The vendored script: whole, made of the sources beside it, licensed, and no one's host in it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "python" / "nfslab" / "report" / "html" / "assets"
RECIPE = ROOT / "report-assets"
MANIFEST = json.loads((ASSETS / "vendor" / "BUNDLE.json").read_text())
LINES_MAX = 500


def test_the_bundle_is_the_one_that_was_recorded() -> None:
    content = (ASSETS / "vendor" / "report.min.js").read_bytes()
    assert hashlib.sha256(content).hexdigest() == MANIFEST["bundle"]["sha256"]
    assert len(content) == MANIFEST["bundle"]["bytes"]
    assert b"</script" not in content.lower()
    assert b"<!--" not in content


def test_the_bundle_was_made_of_these_sources() -> None:
    """The same sum as in report-assets/build.mjs; when it differs: npm ci && npm run build."""
    folder = ASSETS / "src"
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.js"))
    total = hashlib.sha256()
    for name in names:
        digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        total.update(f"{name}\0{digest}\n".encode())
    assert MANIFEST["sources"] == {"files": len(names), "sha256": total.hexdigest()}


def test_versions_are_pinned_and_licences_are_told() -> None:
    lock = json.loads((RECIPE / "package-lock.json").read_text())
    licences = (ASSETS / "vendor" / "LICENSES.md").read_text()
    for package in MANIFEST["packages"]:
        locked = lock["packages"][f"node_modules/{package['name']}"]
        assert (locked["version"], locked["license"]) == (package["version"], package["license"])
        assert locked["integrity"].startswith("sha512-")
        assert f"{package['name']} {package['version']}" in licences
    assert (
        MANIFEST["built_with"]["esbuild"] == (lock["packages"]["node_modules/esbuild"]["version"])
    )
    assert "resolved" not in json.dumps(lock)
    assert re.findall(r"https?://[^\"]*registry", json.dumps(lock)) == []


def test_sources_stay_small() -> None:
    long = {
        path.name: lines
        for path in (ASSETS / "src").rglob("*.js")
        if (lines := len(path.read_text().splitlines())) > LINES_MAX
    }
    assert long == {}


def test_the_sources_make_no_markup_of_text() -> None:
    """Text of others becomes text nodes only: nothing that parses markup is used."""
    unsafe = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|Function\("
    )
    found = [
        path.name for path in (ASSETS / "src").rglob("*.js") if unsafe.search(path.read_text())
    ]
    assert found == []


def test_colours_come_from_the_style_sheet_only() -> None:
    colour = re.compile(r"#[0-9a-fA-F]{3,8}\b|\brgba?\(|\bhsl\(")
    found = {
        path.name: hits
        for path in (ASSETS / "src").rglob("*.js")
        if (hits := [h for h in colour.findall(_code(path.read_text())) if h])
    }
    assert found == {}


def _code(text: str) -> str:
    return re.sub(r"//.*|/\*.*?\*/", "", text)


@pytest.mark.long
def test_a_rebuild_gives_the_same(tmp_path: Path) -> None:
    if not (RECIPE / "node_modules").is_dir() or shutil.which("node") is None:
        pytest.skip("report-assets/node_modules is not installed (npm ci, needed to rebuild only)")
    done = subprocess.run(
        ["node", "build.mjs", "--check"], cwd=RECIPE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
