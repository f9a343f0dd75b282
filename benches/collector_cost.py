"""What watching costs: the collector `system` at 10 Hz, on an idle machine and beside a load.

    python benches/collector_cost.py --seconds 20

The sampler reports the CPU time of its own thread (CLOCK_THREAD_CPUTIME_ID); as a second
witness the whole process is measured from outside (`/proc/self/stat` by getrusage), with
nothing else running in it. The aim is at most 1 % of one core.
"""

from __future__ import annotations

import argparse
import platform
import resource
import subprocess
import sys
import time

from nfslab._core import SystemSampler, build_info

INTERVAL_NS = 100_000_000
BURN = "import time; end = time.monotonic() + float(__import__('sys').argv[1])\n" + (
    "while time.monotonic() < end: sum(range(1000))"
)


def process_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(seconds: float) -> tuple[float, float, int, int]:
    """(share by the sampler, share of the whole process, samples, missed ticks)."""
    sampler = SystemSampler(INTERVAL_NS, None)
    before, began = process_cpu_s(), time.monotonic()
    sampler.start()
    time.sleep(seconds)
    result = sampler.stop()
    wall = time.monotonic() - began
    share = (process_cpu_s() - before) / wall
    return result["cost"]["cpu_share"], share, result["samples"], result["missed_ticks"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--small", action="store_true", help="one second: does it still run?")
    options = parser.parse_args()
    seconds = 1.0 if options.small else options.seconds
    print(
        f"{platform.node() or 'machine'}: Linux {platform.release()}, "
        f"core {build_info()['profile']} build, {INTERVAL_NS // 10**6} ms interval\n"
    )
    print("| machine | samples | missed | sampler, % of a core | whole process, % of a core |")
    print("|---|---|---|---|---|")
    for name in ("idle", "one core busy"):
        load = None
        if name != "idle":
            load = subprocess.Popen([sys.executable, "-c", BURN, str(seconds + 1)])
        try:
            own, process, samples, missed = measure(seconds)
        finally:
            if load is not None:
                load.kill()
                load.wait()
        print(f"| {name} | {samples} | {missed} | {100 * own:.3f} | {100 * process:.3f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
