"""Which package a version means, by an apt-cache of the test's own."""

from __future__ import annotations

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


def said_by_apt_cache(*words: str) -> str:
    """As apt-cache answers; 6.12.200 is a name that it knows and cannot fetch."""
    match words:
        case ("depends", *_):
            return "linux-image-cloud-amd64\n  Depends: linux-image-6.1.0-50-cloud-amd64\n"
        case ("pkgnames", *_):
            return "".join(f"linux-image-{one}\n" for one in KNOWN)
        case ("show", *names):
            is_gone = any("6.12.200" in name for name in names)
            return "" if is_gone else "Package: x\nFilename: x.deb\n"
    return ""


@pytest.fixture(autouse=True)
def _apt_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "_apt_cache", said_by_apt_cache)
    monkeypatch.setattr(packages, "architecture", lambda: "amd64")


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
