"""Which package a version means, by an apt-cache of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from nfslab.vm import packages

KNOWN = [
    "6.1.0-9-cloud-amd64",
    "6.1.0-50-cloud-amd64",
    "6.1.0-56-cloud-amd64-dbg",
    "6.12-cloud-amd64",
    "6.12.9+deb12-cloud-amd64",
    "6.12.117+deb12-cloud-amd64",
    "6.12.200+deb12-cloud-amd64",
    "6.12.117+deb12-cloud-amd64-unsigned",
    "6.12.117+deb12-amd64",
    "cloud-amd64",
]
APT_CACHE = """#!/bin/sh
case "$1" in
  depends) printf 'linux-image-cloud-amd64\\n  Depends: linux-image-6.1.0-50-cloud-amd64\\n' ;;
  pkgnames) cat "$0.names" ;;
  show) case "$3" in *6.12.200*) ;; *) printf 'Package: x\\nFilename: x.deb\\n' ;; esac ;;
esac
"""


@pytest.fixture(autouse=True)
def apt_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "apt-cache"
    program.write_text(APT_CACHE)
    program.chmod(0o755)
    (tmp_path / "apt-cache.names").write_text("".join(f"linux-image-{one}\n" for one in KNOWN))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(packages, "architecture", lambda: "amd64")
    return program


@pytest.mark.parametrize(
    ("version", "release"),
    [
        # 6.12.200 is a name that apt knows and cannot fetch.
        ("6.12", "6.12.117+deb12-cloud-amd64"),
        ("6.12.9", "6.12.9+deb12-cloud-amd64"),
        ("6.12.117+deb12-cloud-amd64", "6.12.117+deb12-cloud-amd64"),
        ("6.1", "6.1.0-50-cloud-amd64"),
        ("6.1.0-9", "6.1.0-9-cloud-amd64"),
        ("6.1.0-5", None),
        ("5.10", None),
        (packages.STOCK, "6.1.0-50-cloud-amd64"),
    ],
)
def test_a_version_is_its_newest_package(version: str, release: str | None) -> None:
    assert packages.newest(version) == release


def test_an_unknown_version_tells_those_there_are() -> None:
    assert "6.1, 6.12 " in packages.unknown_version("5.10").why


def test_no_apt_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert packages.newest("6.12") is None
    assert packages.unknown_version("6.12").fix
