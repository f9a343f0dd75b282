"""The web workload through Python, against another HTTP server and against planted faults."""

from __future__ import annotations

import json
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from nfslab._core import (
    CoreError,
    WebServer,
    run_web_load,
    web_directories,
    web_tables,
    write_web_files,
)

pytestmark = pytest.mark.system

DIRECTORIES = 2
ONLY_FILES = {"static_get": 1.0}


def files(root: Path) -> str:
    return json.dumps({"root": str(root), "file_set": {"directories": DIRECTORIES}})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    write_web_files(files(root))
    return root


def serve(root: Path, **more: object) -> WebServer:
    return WebServer(json.dumps({"listen": "127.0.0.1:0", "root": str(root)} | more))


def config_of(address: str, **more: object) -> str:
    config = {
        "address": address,
        "file_set": {"directories": DIRECTORIES},
        "load": {"mode": "closed", "connections": 4},
        "warm_up_s": 0.1,
        "measure_s": 0.5,
        "timeout_s": 10,
    }
    return json.dumps(config | more)


def load(address: str, **more: object) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(run_web_load(config_of(address, **more)))
    return report


def load_of(address: str, enough: int, **more: object) -> dict[str, Any]:
    """Until so many requests are done, however long that takes."""
    asked = {"warm_up_s": 0, "measure_s": 3600}
    text = config_of(address, **(asked | more))
    report: dict[str, Any] = json.loads(
        run_web_load(text, progress=lambda line: json.loads(line)["done"] < enough)
    )
    assert report["ended"] == "stopped"
    return report


class Quiet(SimpleHTTPRequestHandler):
    """Another implementation of HTTP/1.1, with connections that are kept."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def python_server(root: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_files_of_another_server_are_all_right(root: Path) -> None:
    with python_server(root) as address:
        report = load_of(address, 100, mix=ONLY_FILES, verify_share=1.0)
    assert report["errors"] == {}
    assert report["requests"]["done"] == report["requests"]["verified_replies"] > 0
    assert report["kinds"][0]["done"] == report["requests"]["done"]
    assert report["connections"]["connects"] > 4, "some requests close"


def test_progress_stops_it_and_errors_say_what_to_do(root: Path, tmp_path: Path) -> None:
    with serve(root) as server:
        text = config_of(server.address, mix=ONLY_FILES, measure_s=3600)
        report = json.loads(run_web_load(text, progress=lambda _: False))
        assert report["ended"] == "stopped"
        assert not report["valid"]

        def raises(_: str) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_web_load(text, progress=raises)
        with pytest.raises(CoreError) as taken:
            WebServer(json.dumps({"listen": server.address, "root": str(root)}))
        assert taken.value.kind == "in_use"
        with pytest.raises(CoreError) as late:
            run_web_load(text, begin=lambda: 1)
        assert "ready" in late.value.what
    for wrong in (
        {"mix": {"static_get": 0.5}},
        {"threads": 9},
        {"close_share": 1.5},
        {"load": {"mode": "closed", "connections": 0}},
        {"load": {"mode": "open", "connections": 1, "rate_per_s": 0}},
        {"no_such_field": 1},
    ):
        with pytest.raises(CoreError) as bad:
            load("127.0.0.1:1", **wrong)
        assert bad.value.kind == "config"
        assert bad.value.fix
    other = json.dumps({"root": str(root), "file_set": {"seed": 2, "directories": 1}})
    with pytest.raises(CoreError) as seed:
        write_web_files(other)
    assert seed.value.kind == "file_set"
    with pytest.raises(CoreError) as nowhere:
        write_web_files(files(tmp_path / "nowhere"))
    assert nowhere.value.kind == "missing"


def test_more_connections_than_open_files_are_refused_with_the_number(root: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
    try:
        with serve(root) as server:
            report = load(server.address, mix=ONLY_FILES, measure_s=0.1)
            assert report["open_files"]["soft"] == 300, "enough as it is"
            mode = {"mode": "closed", "connections": 100}
            report = load(server.address, load=mode, mix=ONLY_FILES, measure_s=0.1)
        raised = report["open_files"]
        assert (raised["soft_before"], raised["soft"]) == (300, raised["needed"])
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == raised["needed"] > 300
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_tables_are_exact() -> None:
    tables = web_tables(3)
    assert [round(share * 11) for share in tables["directory_shares"]] == [6, 3, 2]
    for shares in (tables["class_shares"], tables["file_shares"], tables["kind_shares"].values()):
        assert abs(sum(shares) - 1) < 1e-12
    assert [row[0] for row in tables["sizes_bytes"]] == [102, 1024, 10240, 102400]
    assert tables["bytes"] == 3 * sum(map(sum, tables["sizes_bytes"]))
    assert web_directories(1000) == 25 + 400_000 * 1000 // (122_000 * 5)
