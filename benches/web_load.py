"""The web load generator beside wrk and oha: CPU a request, offered load kept, slow connections.

    python benches/web_load.py [--small] [--rounds 9] [--seconds 3]

All clients ask one nginx (the embedded server where there is none) for the same requests: GETs of
small files over 20 kept connections, one thread each, in turns; CPU is of the client's process
(nfslab: of its threads in the timed part). wrk and oha have the same list of files, drawn as the
generator draws: wrk goes through it, oha draws from it. Then what comparing all bytes costs, an
offered load, and connections with a line speed, with the memory of the process that holds them.

Aims: CPU a request at most 0.7 of that of the better of both and at most 10 us, 50,000 requests a
second kept on one core, 10,000 connections in less than 200 MB. A program that is not in PATH is
left out, and said: apt install wrk; cargo install oha --locked. The load average stands above:
figures of a busy machine are none to keep.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

from nfslab._core import WebServer, run_web_load, web_tables, write_web_files

DIRECTORIES = 25
CONNECTIONS = 20
URLS = 10_000
ONLY_FILES = {"mix": {"static_get": 1.0}, "close_share": 0.0}
OHA_AT_END = "aborted due to deadline"
AIM_RATIO, AIM_US, AIM_RATE_PER_S, AIM_MB = 0.7, 10.0, 50_000, 200

NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 20000; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000;
  open_file_cache max=10000 inactive=60s;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen 127.0.0.1:{port} backlog=4096; root {folder}/root; }}
}}
"""

WRK = """
local requests, count, at = {}, 0, 0
init = function(arguments)
  for line in io.lines(arguments[1]) do
    count = count + 1
    requests[count] = wrk.format("GET", line)
  end
end
request = function() at = at % count + 1; return requests[at] end
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """Who serves, and where."""
    if shutil.which("nginx") is None:
        with WebServer(json.dumps({"listen": "127.0.0.1:0", "root": str(folder / "root")})) as one:
            yield "embedded server (nginx is not installed)", one.address
        return
    port = free_port()
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port))
    server = subprocess.Popen(["nginx", "-c", str(folder / "nginx.conf")])
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield "nginx", f"127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def load(address: str, mode: dict[str, Any], seconds: float, **more: object) -> dict[str, Any]:
    config = {
        "address": address, "file_set": {"directories": DIRECTORIES}, "load": mode,
        "measure_s": seconds, "warm_up_s": 0.3,
    }  # fmt: skip
    report: dict[str, Any] = json.loads(run_web_load(json.dumps(config | ONLY_FILES | more)))
    if report["errors"]:
        raise SystemExit(f"the server answered wrong: {report['errors']}")
    return report


def cpu_us(report: dict[str, Any]) -> float:
    cpu_ns = sum(thread["cpu_ns"] for thread in report["threads"])
    return float(cpu_ns / 1e3 / report["requests"]["done"])


def nfslab(address: str, seconds: float, **more: object) -> tuple[int, float]:
    report = load(address, {"mode": "closed", "connections": CONNECTIONS}, seconds, **more)
    return report["requests"]["done"], cpu_us(report)


def of_program(
    command: list[str], requests: Callable[[str], int], environment: dict[str, str] | None = None
) -> tuple[int, float]:
    """Requests and us of CPU a request of a program that was run."""
    given = {**os.environ, **(environment or {})}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=given)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    count = requests(done.stdout)
    return count, used_s * 1e6 / count


def wrk(address: str, folder: Path, seconds: float) -> tuple[int, float]:
    def requests(printed: str) -> int:
        found = re.search(r"(\d+) requests in", printed)
        if found is None or "Non-2xx" in printed or "Socket errors" in printed:
            raise SystemExit(f"wrk: {printed}")
        return int(found[1])

    script = ["-s", str(folder / "wrk.lua"), f"http://{address}", "--", str(folder / "paths")]
    whole = max(1, round(seconds))
    return of_program(["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{whole}s", *script], requests)


def oha(address: str, folder: Path, seconds: float) -> tuple[int, float]:
    urls = folder / "urls"
    if not urls.exists():
        paths = (folder / "paths").read_text().splitlines()
        urls.write_text("".join(f"http://{address}{path}\n" for path in paths))

    def requests(printed: str) -> int:
        _, _, found = printed.partition("Status code distribution:")
        answers = dict(re.findall(r"\[(\d+)\] (\d+) responses", found))
        errors = re.findall(r"\[\d+\] (?!\d+ responses)(.*)", found)
        if [*answers] != ["200"] or set(errors) - {OHA_AT_END}:
            raise SystemExit(f"oha: {printed}")
        return int(answers["200"])

    whole = max(1, round(seconds))
    options = ["--no-tui", "-c", str(CONNECTIONS), "-z", f"{whole}s", "--urls-from-file"]
    return of_program(["oha", *options, str(urls)], requests, {"TOKIO_WORKER_THREADS": "1"})


PEERS: Final = {"wrk": wrk, "oha": oha}


def draw_paths(folder: Path) -> None:
    """Files as the generator draws them, for the others to ask for."""
    tables, draw = web_tables(DIRECTORIES), random.Random(1)
    directories = draw.choices(range(DIRECTORIES), tables["directory_shares"], k=URLS)
    classes = draw.choices(range(4), tables["class_shares"], k=URLS)
    numbers = draw.choices(range(1, 10), tables["file_shares"], k=URLS)
    paths = [
        f"/file_set/dir{directory:05}/class{of}_{number}"
        for directory, of, number in zip(directories, classes, numbers, strict=True)
    ]
    (folder / "paths").write_text("".join(f"{path}\n" for path in paths))
    (folder / "wrk.lua").write_text(WRK)


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def verdict(kept: bool) -> str:
    return "kept" if kept else "missed"


def side_by_side(
    clients: dict[str, Callable[[], tuple[int, float]]], rounds: int, seconds: float
) -> None:
    """All in turns; ratios within a round."""
    seen: dict[str, list[tuple[int, float]]] = {name: [] for name in clients}
    for number in range(rounds):
        for name in random.Random(number).sample(list(clients), len(clients)):
            seen[name].append(clients[name]())
    row("client", "requests/s", "us CPU a request", "nfslab / it", "range", f"aim {AIM_RATIO}")
    row(*["---"] * 6)
    ours = [us for _, us in seen["nfslab"]]
    own = f"10 us: {verdict(median(ours) <= AIM_US)}"
    row("nfslab", rate(seen["nfslab"], seconds), f"{median(ours):.2f}", "1.00", "", own)
    peers = [name for name in seen if name in PEERS]
    better = min(peers, key=lambda name: median(us for _, us in seen[name]), default="")
    for name, results in seen.items():
        if name == "nfslab":
            continue
        ratios = [our / us for our, (_, us) in zip(ours, results, strict=True)]
        span = f"{min(ratios):.2f}-{max(ratios):.2f}"
        us = f"{median(us for _, us in results):.2f}"
        middle = median(ratios)
        aim = verdict(middle <= AIM_RATIO) if name == better else ""
        row(name, rate(results, seconds), us, f"{middle:.3f}", span, aim)


def rate(results: list[tuple[int, float]], seconds: float) -> str:
    return f"{median(done for done, _ in results) / seconds:,.0f}"


def offered(address: str, rates: list[int], seconds: float) -> None:
    row("offered/s", "planned/s", "done/s", "skipped", "late p50, us", "us CPU a request", "aim")
    row(*["---"] * 7)
    for rate_per_s in rates:
        mode = {"mode": "open", "rate_per_s": rate_per_s, "connections": 100}
        report = load(address, mode, seconds)
        requests, us = report["requests"], cpu_us(report)
        late_us = (report["late"]["p50_ns"] or 0) / 1e3
        kept = requests["skipped"] == 0 and requests["done"] >= 0.99 * requests["planned"]
        core = us * rate_per_s / 1e6
        aim = verdict(kept and core <= 1.0) if rate_per_s >= AIM_RATE_PER_S else ""
        row(
            f"{rate_per_s:,}", f"{requests['planned'] / seconds:,.0f}",
            f"{requests['done'] / seconds:,.0f}", requests["skipped"], f"{late_us:,.0f}",
            f"{us:.2f}", aim,
        )  # fmt: skip


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def slow_lines(address: str, counts: list[int], seconds: float) -> None:
    row("connections", "before, MB", "highest, MB", "MB/s", "conforming", "core", "aim 200 MB")
    row(*["---"] * 7)
    for count in counts:
        before, highest = resident_mb(), [0.0]

        def look(_: str, highest: list[float] = highest) -> bool:
            highest[0] = max(highest[0], resident_mb())
            return True

        config = {
            "address": address, "file_set": {"directories": DIRECTORIES}, "measure_s": seconds,
            "warm_up_s": seconds, "drain_s": 0,
            "load": {"mode": "line_speed", "connections": count},
        }  # fmt: skip
        report = json.loads(run_web_load(json.dumps(config | ONLY_FILES), progress=look))
        mb_per_s = report["requests"]["received_bytes"] / 1e6 / seconds
        row(
            f"{count:,}", f"{before:.0f}", f"{highest[0]:.0f}", f"{mb_per_s:.0f}",
            f"{report['connections']['conforming']:,}",
            f"{report['threads'][0]['cpu_share']:.2f}", verdict(highest[0] < AIM_MB),
        )  # fmt: skip


def limited(root: Path, counts: list[int], seconds: float) -> None:
    """A server with a known bandwidth: a connection conforms with 40,000 bytes/s."""
    bandwidth = 2_000_000
    print(f"\nEmbedded server that sends {bandwidth:,} bytes/s: it allows {bandwidth // 40_000}.\n")
    row("connections", "conforming", "slowest, bit/s", "fastest, bit/s", "bytes/s")
    row(*["---"] * 5)
    for count in counts:
        config = {"listen": "127.0.0.1:0", "root": str(root), "bandwidth_bytes_per_s": bandwidth}
        with WebServer(json.dumps(config)) as server:
            mode = {"mode": "line_speed", "connections": count}
            report = load(server.address, mode, seconds, drain_s=0, warm_up_s=seconds / 2)
        rates = report["connections"]["rates_bits_per_s"]
        got = report["requests"]["received_bytes"] / seconds
        conforming = report["connections"]["conforming"]
        row(count, conforming, f"{min(rates):,}", f"{max(rates):,}", f"{got:,.0f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="does it work? no figures to keep")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    options = parser.parse_args()
    rounds, seconds = (1, 1.0) if options.small else (options.rounds, options.seconds)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp")))
        folder.chmod(0o755)  # nginx reads as a user of its own
        (folder / "root").mkdir()
        file_set = {"root": str(folder / "root"), "file_set": {"directories": DIRECTORIES}}
        write_web_files(json.dumps(file_set))
        who, address = stack.enter_context(served(folder))
        draw_paths(folder)
        print(f"Server: {who}. {rounds} rounds of {seconds:g} s, {CONNECTIONS} connections; "
              f"{os.cpu_count()} processors, Linux {platform.release()}, load average "
              f"{os.getloadavg()[0]:.1f}.\n")  # fmt: skip
        clients: dict[str, Callable[[], tuple[int, float]]] = {
            "nfslab": lambda: nfslab(address, seconds),
            "nfslab, no byte compared": lambda: nfslab(address, seconds, verify_share=0.0),
            "nfslab, all bytes compared": lambda: nfslab(address, seconds, verify_share=1.0),
        }
        for name, ask in PEERS.items():
            if shutil.which(name):
                clients[name] = lambda ask=ask: ask(address, folder, seconds)  # type: ignore[misc]
            else:
                print(f"{name} is not installed\n")
        side_by_side(clients, rounds, seconds)
        print()
        offered(address, [500] if options.small else [10_000, 30_000, 50_000], seconds)
        print()
        slow_lines(address, [50] if options.small else [1000, 4000, 10_000], seconds)
        limited(
            folder / "root", [10] if options.small else [45, 48, 49, 50, 51, 52, 55], 2 * seconds
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
