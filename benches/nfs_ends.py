"""CPU of the NFS client and of the embedded server per operation, beside a bare epoll exchange.

    python benches/nfs_ends.py [--calls 200000]

Two Rust benchmarks do the work (crates/client/benches/getattr.rs, crates/server/benches/
operations.rs): each measures the CPU time of the thread in question alone, in turns with a bare
exchange of RPC NULLs over epoll (the floor), 64 calls outstanding and one; medians of 7 rounds.
This program builds and runs them and prints one table. Aims, CPU us: client GETATTR at depth 64
at most 1.5; server at depth 64 at most 3 for GETATTR and 4 for READ of 4 KiB; depth 1 within 1.5
times the bare exchange.

As root and where it is installed, NFS-Ganesha (FSAL VFS, a folder) is measured behind them, under
the same load: the CPU of its process (crates/server/benches/another.rs).
"""

from __future__ import annotations

import argparse
import platform
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from nfslab.hosts.base import Link
from nfslab.hosts.local import LocalHost
from nfslab.machine.resources import Resources
from nfslab.servers import ganesha
from nfslab.servers.ganesha import EXPORT, GaneshaParameters, GaneshaServer, configuration

ROOT = Path(__file__).resolve().parents[1]
SMALL_CALLS = 640
CLIENT_ROW = re.compile(r"depth +(\d+) +(.+?) +([\d.]+) \(([\d.]+) to ([\d.]+)\) +wall ([\d.]+)")
SERVER_ROW = re.compile(
    r"(\w+) +(GETATTR|READ_4K) +(\d+) +(\d+) +(\d+) +([\d.]+) +(\d+) +(\d+) +([\d.]+)"
)
ANOTHER_ROW = re.compile(r"ganesha +(GETATTR|READ_4K) +(\d+) +(\d+) +(\d+)")
AIMS_US = {
    ("client", "GETATTR, counters"): 1.5,
    ("server", "GETATTR"): 3.0,
    ("server", "READ"): 4.0,
}


def benchmark(name: str, profile: str, *arguments: object) -> str:
    """What the Rust benchmark prints."""
    # Of the workspace: for one package alone dependencies were built again, with other features.
    command = ["cargo", "bench", "--quiet", "--locked", "--profile", profile]
    command += ["--workspace", "--bench", name, "--", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}:\n{done.stderr}")
    return done.stdout


def client_rows(text: str) -> list[str]:
    rows = []
    floors: dict[str, float] = {}
    for depth, way, cpu, least, most, wall in CLIENT_ROW.findall(text):
        if way.startswith("bare"):
            floors[depth] = float(cpu)
            continue
        aim = AIMS_US.get(("client", way)) if depth == "64" else None
        rows.append(
            f"| client | {way} | {depth} | {float(cpu):.2f} ({least}-{most}) | {floors[depth]:.2f} "
            f"| {float(cpu) / floors[depth]:.1f} | {float(wall):.2f} | {verdict(float(cpu), aim)} |"
        )
    return rows


def server_rows(text: str) -> list[str]:
    rows = []
    for store, operation, depth, cpu, echo, ratio, wall, *_ in SERVER_ROW.findall(text):
        name = operation.partition("_")[0]
        aim = AIMS_US[("server", name)] if depth == "64" else int(echo) * 1.5e-3
        rows.append(
            f"| server, {store} | {operation.replace('_4K', ' 4 KiB')} | {depth} "
            f"| {int(cpu) / 1e3:.2f} | {int(echo) / 1e3:.2f} | {ratio} | {int(wall) / 1e3:.2f} "
            f"| {verdict(int(cpu) / 1e3, aim)} |"
        )
    return rows


def from_any_port(*given: Any) -> str:
    """Ganesha's configuration for loads that take no port below 1024."""
    return configuration(*given).replace("PrivilegedPort = true", "PrivilegedPort = false")


def ganesha_rows(calls: int, profile: str) -> list[str]:
    """NFS-Ganesha under the same load; none, and why, where it cannot be had."""
    usable = GaneshaServer.available()
    if not usable.ok:
        print(f"NFS-Ganesha left out: {usable.reason}\n")
        return []
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name, Resources("bench") as resources:
        folder = Path(name)
        export = folder / "export"
        export.mkdir()
        (export / "f").write_bytes(bytes(1 << 20))
        server = GaneshaServer(GaneshaParameters(), "ganesha")
        with mock.patch.object(ganesha, "configuration", from_any_port):
            server.start(folder, resources, host=LocalHost(), link=Link())
        assert server.process is not None
        try:
            address = f"127.0.0.1:{server.port()}"
            text = benchmark(
                "another", profile,
                "ganesha", address, server.port("mountport"), EXPORT, server.process.pid, calls,
            )  # fmt: skip
        finally:
            server.stop()
    return [
        f"| NFS-Ganesha | {operation.replace('_4K', ' 4 KiB')} | {depth} | {int(cpu) / 1e3:.2f} "
        f"| - | - | {int(wall) / 1e3:.2f} | - |"
        for operation, depth, cpu, wall in ANOTHER_ROW.findall(text)
    ]


def verdict(cpu_us: float, aim_us: float | None) -> str:
    if aim_us is None:
        return "-"
    return f"{'kept' if cpu_us <= aim_us else 'missed'} ({aim_us:.1f})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=200_000, help="of a round, at depth 64")
    parser.add_argument("--profile", default="release", help="Cargo's: release, quick, dev")
    parser.add_argument("--small", action="store_true", help="a few calls: does it still run?")
    options = parser.parse_args()
    calls = SMALL_CALLS if options.small else options.calls
    client = benchmark("getattr", options.profile, calls)
    server = benchmark("operations", options.profile, calls)
    others = ganesha_rows(calls, options.profile)
    print(f"Linux {platform.release()}, profile {options.profile}, {calls:,} calls a round\n")
    print("| end | operation | depth | CPU us/op | bare | ratio | wall us/op | aim (us) |")
    print("|---|---|---:|---:|---:|---:|---:|---|")
    rows = client_rows(client) + server_rows(server)
    print("\n".join(rows + others))
    return 0 if len(rows) == 2 * 2 + 2 * 2 * 2 else 1


if __name__ == "__main__":
    raise SystemExit(main())
