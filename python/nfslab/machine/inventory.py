"""What the machine consists of: processors, memory, disks, network, firmware, and what a
person has written down about it.

Everything comes from /proc and /sys, without starting programs. Serial numbers and
hardware addresses are left out on purpose: results are shared. A testbed's own
description (switches, servers, cabling: what no kernel knows) is taken verbatim from a
text file: $NFSLAB_INVENTORY, ~/.config/nfslab/inventory.toml or /etc/nfslab/inventory.toml.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab.machine.mounts import backing_file
from nfslab.machine.readings import Reader, selected

if TYPE_CHECKING:
    from collections.abc import Iterable

DISKS_MAX = 64
INTERFACES_MAX = 64
CPUS_MAX = 4096
CPU_FOLDER = "/sys/devices/system/cpu"
MEMORY_FIELDS = (
    "MemTotal",
    "MemFree",
    "MemAvailable",
    "Buffers",
    "Cached",
    "Dirty",
    "Writeback",
    "SwapTotal",
    "SwapFree",
    "HugePages_Total",
    "Hugepagesize",
)
QUEUE_FILES = (
    "write_cache",
    "fua",
    "rotational",
    "nr_requests",
    "read_ahead_kb",
    "logical_block_size",
    "physical_block_size",
    "minimum_io_size",
    "optimal_io_size",
    "max_sectors_kb",
    "discard_max_bytes",
    "wbt_lat_usec",
    "nomerges",
    "rq_affinity",
    "io_poll",
    "zoned",
)


def cpu(reader: Reader) -> dict[str, Any]:
    """Model, counts, frequencies and caches."""
    fields, packages, cores, logical = _cpuinfo(reader.text("/proc/cpuinfo") or "")
    governors, drivers = set(), set()
    frequencies: dict[str, Any] = {}
    for name in reader.names(CPU_FOLDER)[:CPUS_MAX]:
        if not (name.startswith("cpu") and name[3:].isdigit()):
            continue
        folder = f"{CPU_FOLDER}/{name}/cpufreq"
        found = reader.several(folder, ("scaling_governor", "scaling_driver"))
        governors.add(found.get("scaling_governor"))
        drivers.add(found.get("scaling_driver"))
        if not frequencies:
            frequencies = reader.several(folder, ("scaling_min_freq", "scaling_max_freq"))
    if governors <= {None}:
        reader.note(f"{CPU_FOLDER}/*/cpufreq", "no frequency scaling is visible (virtual machine?)")
    caches = {}
    folder = f"{CPU_FOLDER}/cpu0/cache"
    for name in reader.names(folder):
        about = reader.several(f"{folder}/{name}", ("level", "type", "size"))
        if "size" in about:
            caches[f"L{about.get('level')} {about.get('type')}"] = about["size"]
    return {
        "architecture": os.uname().machine,
        "model": fields.get("model name") or fields.get("Model") or fields.get("cpu model"),
        "vendor": fields.get("vendor_id") or fields.get("CPU implementer"),
        "microcode": fields.get("microcode"),
        "frequency_mhz_now": fields.get("cpu MHz"),
        "logical": logical,
        "cores": cores or None,
        "sockets": packages or None,
        "online": reader.text(f"{CPU_FOLDER}/online"),
        "allowed": len(os.sched_getaffinity(0)),
        "smt_active": reader.number(f"{CPU_FOLDER}/smt/active", optional=True),
        "numa_nodes": reader.text("/sys/devices/system/node/online", optional=True),
        "governors": sorted(g for g in governors if g),
        "drivers": sorted(d for d in drivers if d),
        "frequencies_khz": frequencies,
        "turbo": reader.several(CPU_FOLDER, ("intel_pstate/no_turbo", "cpufreq/boost")),
        "caches": caches,
        "hypervisor_flag": "hypervisor" in (fields.get("flags") or "").split(),
    }


def _cpuinfo(text: str) -> tuple[dict[str, str], int, int, int]:
    """(fields of the first processor, sockets, cores, logical processors)."""
    fields: dict[str, str] = {}
    packages, cores, logical = set(), set(), 0
    package = ""
    for line in text.splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        fields.setdefault(name, value)
        if name == "processor":
            logical += 1
        elif name == "physical id":
            package = value
            packages.add(value)
        elif name == "core id":
            cores.add((package, value))
    return fields, len(packages), len(cores), logical


def memory(reader: Reader) -> dict[str, Any]:
    """Sizes in bytes as /proc/meminfo has them now, and the swap areas."""
    found: dict[str, Any] = {}
    for line in (reader.text("/proc/meminfo") or "").splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if name in MEMORY_FIELDS and words and words[0].isdigit():
            factor = 1024 if words[-1] == "kB" else 1
            found[name if factor == 1 else f"{name}_bytes"] = int(words[0]) * factor
    swaps = (reader.text("/proc/swaps") or "").splitlines()[1:]
    return found | {"swaps": [" ".join(line.split()) for line in swaps[:16]]}


def disks(reader: Reader, wanted: Iterable[str] = ()) -> dict[str, Any]:
    """Every disk with a size; those in `wanted` first, so that a bound never drops them."""
    found: dict[str, Any] = {}
    first = list(dict.fromkeys(wanted))
    others = [name for name in reader.names("/sys/block") if name not in first]
    for name in first + others:
        folder = f"/sys/block/{name}"
        sectors = reader.number(f"{folder}/size", optional=name not in first)
        if name not in first and (not sectors or name.startswith(("ram", "zram"))):
            continue
        if len(found) >= DISKS_MAX:
            reader.note(folder, f"more than {DISKS_MAX} disks: the rest is left out")
            break
        found[name] = _disk(reader, name, sectors)
    return found


def _disk(reader: Reader, name: str, sectors: int | None) -> dict[str, Any]:
    folder = f"/sys/block/{name}"
    facts: dict[str, Any] = {
        "size_bytes": sectors * 512 if sectors is not None else None,
        "scheduler": selected(reader.text(f"{folder}/queue/scheduler")),
        "schedulers": reader.text(f"{folder}/queue/scheduler", optional=True),
        "device": reader.several(
            f"{folder}/device", ("vendor", "model", "rev", "firmware_rev", "queue_depth")
        ),
        "read_only": reader.text(f"{folder}/ro", optional=True) == "1",
        **reader.several(f"{folder}/queue", QUEUE_FILES),
    }
    if (file := backing_file(name)) is not None:
        facts["backing_file"] = str(file)
        facts["direct_io"] = reader.text(f"{folder}/loop/dio", optional=True) == "1"
    if chunk := reader.text(f"{folder}/md/chunk_size", optional=True):
        facts["md"] = {"chunk_bytes": chunk, "level": reader.text(f"{folder}/md/level")}
    return facts


def network(reader: Reader) -> dict[str, Any]:
    """Interfaces: state, speed, size of packets, driver. No addresses."""
    found: dict[str, Any] = {}
    for name in reader.names("/sys/class/net")[:INTERFACES_MAX]:
        folder = f"/sys/class/net/{name}"
        facts = reader.several(folder, ("operstate", "mtu", "speed", "duplex", "tx_queue_len"))
        driver = reader.root / folder.lstrip("/") / "device" / "driver"
        if driver.exists():
            facts["driver"] = driver.resolve().name
        found[name] = facts
    return found


def firmware(reader: Reader) -> dict[str, Any]:
    """Maker and product of the machine (or of the virtual one)."""
    names = ("sys_vendor", "product_name", "product_version", "board_name", "bios_version")
    found = reader.several("/sys/class/dmi/id", (*names, "bios_date", "chassis_type"))
    if not found:
        model = reader.text("/proc/device-tree/model", optional=True)
        if model is not None:
            return {"model": model.strip("\0")}
        reader.note("/sys/class/dmi/id", "neither DMI nor a device tree is visible")
    return found


def virtualisation(reader: Reader) -> dict[str, Any]:
    """Signs of a virtual machine or a container around us."""
    signs = {
        "container": reader.text("/run/systemd/container", optional=True),
        "docker": (reader.root / ".dockerenv").exists() or None,
        "podman": (reader.root / "run/.containerenv").exists() or None,
        "hypervisor_type": reader.text("/sys/hypervisor/type", optional=True),
        "kubernetes": "KUBERNETES_SERVICE_HOST" in os.environ or None,
        "wsl": "microsoft" in os.uname().release.lower() or None,
    }
    return {name: sign for name, sign in signs.items() if sign is not None}


def written_inventory(reader: Reader) -> dict[str, Any]:
    """The testbed as a person has described it, verbatim; how to add one when there is none."""
    given = os.environ.get("NFSLAB_INVENTORY")
    places = (
        [Path(given)]
        if given
        else [
            Path.home() / ".config" / "nfslab" / "inventory.toml",
            Path("/etc/nfslab/inventory.toml"),
        ]
    )
    for place in places:
        if (text := reader.text(str(place.absolute()), optional=given is None)) is not None:
            return {"file": str(place), "text": text}
    reader.note("inventory", f"no description of the testbed: write one to {places[0]} (any text)")
    return {}
