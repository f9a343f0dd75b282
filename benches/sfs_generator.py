"""What the NFS load generator can do on one core, beside a bare epoll exchange.

    python benches/sfs_generator.py [--window-ms 1000]

Two Rust benchmarks do the work. crates/load/benches/generator.rs: one generator thread with 64
closed processes against the embedded server's null store in a thread of its own, every reply
checked; then the lateness of an open load of 50,000 operations a second. And
crates/client/benches/getattr.rs in the same run, for the floor: a bare exchange of RPC NULLs over
epoll. Medians of 7 rounds. Aims: 150,000 GETATTR and LOOKUP a second at 2 us of CPU, 80,000 READs
of 4 KiB at 3 us; lateness p99 within 100 us; recording every call within 5 % of CPU.
"""

from __future__ import annotations

import argparse
import platform
import re

from nfs_ends import CLIENT_ROW, SMALL_CALLS, benchmark

SPEED_ROW = re.compile(r"(.+?)  +(\d+) ops/s \((\d+) to (\d+)\) +CPU ([\d.]+) us/op \((.+?)\)")
PACED_ROW = re.compile(r"paced (\d+): (.+?) +([\d.]+) \((.+?)\)")
RECORDED = "the same, every call recorded"
AIMS = {"GETATTR and LOOKUP": (150_000, 2.0), "READ of 4 KiB": (80_000, 3.0)}
LATE_P99_US = 100.0
RECORDING_SHARE = 0.05
SMALL_WINDOW_MS = 20


def verdict(kept: bool) -> str:
    return "kept" if kept else "missed"


def speed_rows(text: str, floor_us: float) -> list[str]:
    rows = []
    plain_us = 0.0
    for name, rate, least, most, cpu, spread in SPEED_ROW.findall(text):
        aim = "-"
        if name in AIMS:
            rate_aim, cpu_aim = AIMS[name]
            aim = verdict(int(rate) >= rate_aim and float(cpu) <= cpu_aim)
        if name == RECORDED:
            cost = float(cpu) / plain_us - 1
            aim = f"{verdict(cost <= RECORDING_SHARE)} ({cost:+.1%})"
        plain_us = plain_us or float(cpu)
        rows.append(
            f"| {name} | {int(rate):,} ({int(least):,} to {int(most):,}) | {float(cpu):.2f} "
            f"({spread}) | {float(cpu) / floor_us:.1f} | {aim} |"
        )
    return rows


def paced_rows(text: str) -> list[str]:
    rows = []
    for rate, name, value, spread in PACED_ROW.findall(text):
        aim = verdict(float(value) <= LATE_P99_US) if name == "late p99 us" else "-"
        rows.append(f"| {int(rate):,}/s open: {name} | {value} ({spread}) | - | - | {aim} |")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--window-ms", type=int, default=1000, help="of one measurement")
    parser.add_argument("--profile", default="release", help="Cargo's: release, quick, dev")
    parser.add_argument("--small", action="store_true", help="a moment: does it still run?")
    options = parser.parse_args()
    window_ms = SMALL_WINDOW_MS if options.small else options.window_ms
    client = benchmark(
        "nfslab-client", "getattr", options.profile, *([SMALL_CALLS] if options.small else [])
    )
    bare = [row for row in CLIENT_ROW.findall(client) if row[1].startswith("bare")]
    floor_us = next(float(row[2]) for row in bare if row[0] == "64")
    text = benchmark("nfslab-load", "generator", options.profile, window_ms)
    print(f"Linux {platform.release()}, profile {options.profile}, windows of {window_ms} ms")
    print(f"bare exchange at depth 64: {floor_us:.2f} us/op\n")
    print("| load | ops/s | CPU us/op | times bare | aim |")
    print("|---|---:|---:|---:|---|")
    rows = speed_rows(text, floor_us) + paced_rows(text)
    print("\n".join(rows))
    return 0 if len(rows) == 4 + 4 else 1


if __name__ == "__main__":
    raise SystemExit(main())
