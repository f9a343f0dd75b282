"""Servers that answer wrongly: counted by kind, no run beyond a share of them, nothing hangs."""

from __future__ import annotations

import itertools
import json
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nfslab._core import write_web_files
from nfslab.errors import RunFailed

from tests.workloads.web.running import run_web


def wrong(way: str, body: bytes) -> bytes:
    """A reply that is wrong in that way."""
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    if way == "wrong_bytes":
        return head + bytes([body[0] ^ 1]) + body[1:]
    if way == "wrong_length":
        return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body) - 1}\r\n\r\n".encode() + body[:-1]
    if way == "bad_status":
        return b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n"
    if way[:3] in ("301", "302"):
        code, location = way.split(" ", 1)
        return f"HTTP/1.1 {code} Moved\r\n{location}\r\nContent-Length: 0\r\n\r\n".encode()
    if way == "closed_early":
        return head + body[: len(body) // 2]
    if way == "head_too_long":
        return b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000
    if way == "malformed":
        return b"220 mail.example ESMTP\r\n\r\n"
    return b""


@contextmanager
def serving(root: Path, way: str, one_in: int) -> Iterator[str]:
    """A server of the files below `root` whose every n-th reply is wrong; its address."""
    numbers = itertools.count(1)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while (request := self.rfile.readline()).startswith(b"GET "):
                closes = False
                while (line := self.rfile.readline().strip().lower()) != b"":
                    closes |= line == b"connection: close"
                body = (root / request.split()[1].decode().lstrip("/")).read_bytes()
                if next(numbers) % one_in == 0:
                    self.wfile.write(wrong(way, body))
                    if way == "timeout":
                        self.rfile.readline()  # until the client gives up
                    return
                self.wfile.write(
                    b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
                )
                if closes:
                    return

    class Threads(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 64

        def handle_error(self, request: object, client_address: object) -> None:
            """Clients go away."""

    with Threads(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def documents(scratch: Path) -> Path:
    root = scratch / "hostile-documents"
    root.mkdir()
    write_web_files(json.dumps({"root": str(root), "file_set": {"seed": 1, "directories": 2}}))
    return root


WAYS = ["wrong_bytes", "head_too_long", "timeout"]
ASKED = {"load": "closed", "mix": {"static_get": 1.0}, "verify_share": 1}


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(way, marks=pytest.mark.system if way == "wrong_bytes" else pytest.mark.long)
        for way in WAYS
    ],
)
@pytest.mark.long
def test_what_is_wrong_is_named_and_the_run_does_not_count(
    scratch: Path, documents: Path, way: str
) -> None:
    with serving(documents, way, one_in=5) as address:
        limit = "0.1s" if way == "timeout" else "10s"
        _outcome, checks, run = run_web(scratch, server=address, timeout=limit, **ASKED)
    answers = checks["answers"]
    assert answers.verdict == "violation"
    assert answers.values["errors"][way] > 0
    assert way in answers.message
    others = set(answers.values["errors"]) - {way, "reset", "closed_early"}
    assert not others, "a connection that is closed in the middle may be seen as either"
    assert checks["posts"].verdict == "unknown"
    assert any("not known" in note for note in run.context.notes)


@pytest.mark.long
@pytest.mark.parametrize("code", [301])
def test_a_redirect_is_an_error_and_its_address_is_never_asked(
    scratch: Path, documents: Path, code: int
) -> None:
    """Load is aimed at the addresses alone that the experiment names."""
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.setblocking(False)
        way = f"{code} Location: http://127.0.0.1:{elsewhere.getsockname()[1]}/"
        with serving(documents, way, one_in=3) as address:
            _outcome, checks, run = run_web(scratch, server=address, **ASKED)
        with pytest.raises(BlockingIOError):
            elsewhere.accept()  # one that had connected would be in its queue
    assert set(checks["answers"].values["errors"]) == {"bad_status"}
    (report,) = (run.context.folder / "logs").glob("load-0-report.json")
    statuses = json.loads(report.read_text())["statuses"]
    assert set(statuses) == {str(code)}
    assert statuses[str(code)] > 0


@pytest.mark.long
def test_a_server_that_answers_nothing_right_is_a_failed_run(
    scratch: Path, documents: Path
) -> None:
    with serving(documents, "bad_status", one_in=1) as address, pytest.raises(RunFailed) as caught:
        run_web(scratch, server=address, **ASKED)
    assert "bad_status" in caught.value.why
    assert "with 500" in caught.value.why
    # Its log is not among ours, and more time would not help.
    assert address in caught.value.fix
    assert "longer" not in caught.value.fix
