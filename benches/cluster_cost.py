"""What control of several machines costs, and how soon a lost one is told of: three workers here.

    python benches/cluster_cost.py [--seconds 30] [--small]

Prime (this program), scheduler and workers are processes of this machine, joined over TLS on the
loopback interface. CPU is that of the whole process by /proc/PID/stat (ticks of 10 ms). Agents say
one event of 500 bytes a second. Three states, one after the other: no prime is connected; one is;
agents say events. Then a folder of random bytes comes home, clocks are compared (they are the same
clock: the truth is 0), processors are loaded, and workers are frozen and killed.

Aims: at most 2 % of a core for each process with events, nothing lost under load, lost within 3 s.
"""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import cluster_here
from nfslab.cluster.certificates import Authority, papers_in
from nfslab.cluster.link import Link, members_at
from nfslab.cluster.loop import Loop
from nfslab.cluster.remote import AgentThere, ClusterThere, MemberThere

WORKERS = ("one", "two", "three")
BUSY = 8
TICKS = os.sysconf("SC_CLK_TCK")
SHARE_MOST = 0.02
LOST_MOST_S = 3.0
PATIENCE_S = 120


def agent() -> None:
    """An event a second, until its input ends."""
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(3)), daemon=True).start()
    while True:
        print(json.dumps({"event": "progress", "pad": "x" * 500}), flush=True)
        time.sleep(1)


def begun_agent(_module: str, *, cwd: Path, **_named: Any) -> Any:
    from nfslab.machine.children import Child

    complaints = tempfile.TemporaryFile()  # noqa: SIM115
    argv = [sys.executable, str(Path(__file__).resolve()), "--agent"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        argv, stdin=pipe, stdout=pipe, stderr=complaints, cwd=cwd, start_new_session=True
    )
    return Child(process, complaints)


def role(words: list[str]) -> None:
    """`python -m nfslab.cluster`, whose agents are those of this program."""
    from nfslab.cluster.__main__ import main as cluster
    from nfslab.machine import children

    children.begin = begun_agent  # type: ignore[assignment]
    cluster_here.be_patient()
    cluster(words)


def begin(*words: str) -> tuple[subprocess.Popen[bytes], str]:
    argv = [sys.executable, str(Path(__file__).resolve()), "--role", *words]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert process.stdout is not None
    return process, str(json.loads(process.stdout.readline())["address"])


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(pid: int) -> float:
    return (
        int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    )


def shares(pids: dict[str, int], seconds: float, agents: list[AgentThere]) -> dict[str, float]:
    before, began = {name: cpu_s(pid) for name, pid in pids.items()}, time.monotonic()
    while (left_s := began + seconds - time.monotonic()) > 0:
        if agents:
            for one in agents:
                one.events(min(0.2, left_s))
        else:
            time.sleep(left_s)
    wall_s = time.monotonic() - began
    return {name: (cpu_s(pid) - before[name]) / wall_s for name, pid in pids.items()}


def lost_after_s(one: AgentThere) -> float:
    began = time.monotonic()
    while (passed_s := time.monotonic() - began) < PATIENCE_S:
        if any(event["event"] == "lost" for event in one.events(10.0)):
            return time.monotonic() - began
    raise SystemExit(f"no loss was told within {passed_s:.0f} s: it was lost before")


def home_mib_per_s(one: AgentThere, folder: Path, worker: int, mib: int) -> float:
    ((child, *_),) = [Path(f"/proc/{worker}/task/{worker}/children").read_text().split()]
    with (Path(os.readlink(f"/proc/{child}/cwd")) / "samples").open("wb") as file:
        for _ in range(mib):
            file.write(os.urandom(2**20))
    began = time.monotonic()
    one.fetch(folder / "home")
    return mib / (time.monotonic() - began)


def under_load(agents: list[AgentThere], seconds: float) -> int:
    """How many were lost beside more busy processes than there are processors."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    lost, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        lost += sum(event["event"] == "lost" for one in agents for event in one.events(0.1))
    for one in busy:
        one.kill()
        one.wait()
    return lost


def main() -> int:
    if sys.argv[1:2] == ["--agent"]:
        agent()
    if sys.argv[1:2] == ["--role"]:
        role(sys.argv[2:])
    parser = cluster_here.parser(__doc__, "cluster_cost.py --seconds 30")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each state")
    # Where it is small: what is lost before it is frozen has no time.
    options = cluster_here.asked(parser)
    seconds = 1.0 if options.small else options.seconds
    with tempfile.TemporaryDirectory() as place:
        os.environ["NFSLAB_STATE"] = place
        return measured(Path(place), seconds, 8 if options.small else 300, options.small)


def measured(place: Path, seconds: float, mib: int, small: bool) -> int:
    folder = place / "certificates"
    Authority.new().write(folder)
    common = ("--dir", str(folder))
    scheduler, address = begin("scheduler", *common, "--host", "127.0.0.1", "--port", "0")
    workers = {
        name: begin("worker", *common, "--scheduler", address, "--name", name)[0]
        for name in WORKERS
    }
    pids = {"prime": os.getpid(), "scheduler": scheduler.pid}
    pids |= {f"worker {name}": one.pid for name, one in workers.items()}
    idle = shares(pids, seconds, [])
    papers, loop = papers_in(folder, "prime"), Loop()
    found = sorted(loop.call(members_at(address, papers)))
    members = [MemberThere(Link(name, where, papers, loop), loop) for name, where in found]
    for member in members:
        member.connect()
    cluster = ClusterThere(members, loop)
    connected = shares(pids, seconds, [])
    agents = {member.name: member.begin("nfslab.bench") for member in members}
    talking = shares(pids, seconds, list(agents.values()))
    print(f"{platform.node() or 'machine'}: {os.cpu_count()} processors, {seconds:g} s each\n")
    print("| process | no prime, % of a core | connected | an event a second | resident, MiB |")
    print("|---|---|---|---|---|")
    for name, pid in pids.items():
        cells = [f"{100 * state[name]:.2f}" for state in (idle, connected, talking)]
        print(f"| {name} | {' | '.join(cells)} | {resident_mib(pid):.0f} |")
    speed = home_mib_per_s(agents["one"], place, workers["one"].pid, mib)
    clock = members[0].clocks().monotonic
    lost = under_load(list(agents.values()), seconds)
    workers["two"].send_signal(signal.SIGSTOP)
    frozen_s = lost_after_s(agents["two"])
    workers["three"].kill()
    killed_s = lost_after_s(agents["three"])
    print(f"\n* {mib} MiB came home at {speed:.0f} MiB/s.")
    print(f"* Clocks: {clock.offset_ns / 1e3:.1f} µs off, to ± {clock.error_ns / 1e3:.1f} µs.")
    print(f"* Beside {BUSY} busy processes for {seconds:g} s: {lost} of {len(agents)} lost.")
    print(f"* Lost: a frozen worker after {frozen_s:.2f} s, a killed one after {killed_s:.2f} s.")
    cluster.close()
    for process in (scheduler, *workers.values()):
        process.kill()
        process.wait()
    met = (
        max(talking.values()) <= SHARE_MOST and not lost and max(frozen_s, killed_s) <= LOST_MOST_S
    )
    print(f"* The aims are {'met' if met else 'MISSED'}.")
    return 0 if met or small else 1


if __name__ == "__main__":
    sys.exit(main())
