"""Results folders with planted truths, written through the store like real ones.

For the tests of everything that reads results, for the report's tests and the benches.
Every figure comes from the recipe's seed: effects are planted (a placement's factor on
tps), so a test knows the answer; what may go wrong in a real experiment can be planted
too (failed runs, retries, flagged runs, unequal durability, a machine that changed, runs
that are missing). Little's law holds: latency x tps = clients, but for the noise.

    folder = write_pgbench(tmp_path, Recipe(placements={"together": 1.0, "apart": 1.25}))
    folder = write_files(tmp_path)           # a files experiment with a [reference]
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from nfslab.results.records import (
    AxisRecord,
    CheckRecord,
    DurabilityRecord,
    EvidenceRecord,
    ExperimentRecord,
    Metric,
    PhaseRecord,
    PlaceRecord,
    PointRecord,
    RunRecord,
)
from nfslab.results.store import ExperimentFolder, PartialRun

EPOCH_NS = 1_790_000_000_000_000_000
BLOCK_POINT = tuple[int, int]


@dataclass(frozen=True)
class Recipe:
    """What to plant. A run is named by (block, point index)."""

    name: str = "placement-2001"
    title: str = "Where data and log live"
    placements: dict[str, float] = field(
        default_factory=lambda: {"together": 1.0, "log apart": 1.25}
    )
    """Level of the first axis -> factor on tps."""
    clients: tuple[int, ...] = (1, 5, 10, 20, 30)
    repetitions: int = 10
    seed: int = 2001
    base_tps: float = 120.0
    spread: float = 0.03
    """Standard deviation of the logarithm of tps from run to run."""
    block_spread: float = 0.05
    """The same from block to block (shared by all points of a block)."""
    measured_s: float = 3.0
    samples: bool = True
    evidence: bool = True
    failed: tuple[BLOCK_POINT, ...] = ()
    """Failed, never tried again."""
    retried: tuple[BLOCK_POINT, ...] = ()
    """First attempt failed, second one ok."""
    flagged: dict[BLOCK_POINT, CheckRecord] = field(default_factory=dict)
    missing: tuple[BLOCK_POINT, ...] = ()
    odd: dict[BLOCK_POINT, float] = field(default_factory=dict)
    """Runs that stand out, and by which factor."""
    volatile: tuple[str, ...] = ()
    """Placements whose log target does not survive a loss of power."""
    machine_changes_at_block: int | None = None
    """From this block on another kernel runs."""
    mount_changes_at_block: int | None = None
    excluded: int = 0
    restored_copy: bool = False


def write_pgbench(results_dir: Path, recipe: Recipe | None = None) -> ExperimentFolder:
    """A pgbench experiment: placement x clients. Each recipe is carried out once, and copied."""
    shared = shared_pgbench(recipe)
    made = Path(results_dir) / shared.name
    shutil.copytree(shared, made)
    return ExperimentFolder.open(made)


def shared_pgbench(recipe: Recipe | None = None) -> Path:
    """The same for tests that change nothing in it."""
    recipe = recipe or Recipe()
    text = repr(recipe)
    if text not in _written:
        _written[text] = _carried_out(Path(_kept().name) / f"{len(_written)}", recipe).path
    return _written[text]


_written: dict[str, Path] = {}


@functools.cache
def _kept() -> tempfile.TemporaryDirectory[str]:
    """Where recipes lie that were carried out, until this process ends."""
    return tempfile.TemporaryDirectory(prefix="nfslab-recipes-")


def _carried_out(results_dir: Path, recipe: Recipe) -> ExperimentFolder:
    record = pgbench_experiment(recipe)
    with without_fsync():
        folder = ExperimentFolder.create(results_dir, record, FILE_TEXT.encode())
        random = np.random.default_rng(recipe.seed)
        position = 0
        for block in range(recipe.repetitions):
            block_effect = float(np.exp(random.normal(0.0, recipe.block_spread)))
            for index in random.permutation(len(record.points)):
                key = (block, int(index))
                if key not in recipe.missing:
                    point = record.points[int(index)]
                    for attempt in (1, 2) if key in recipe.retried else (1,):
                        fails = key in recipe.failed or (key in recipe.retried and attempt == 1)
                        run = _Run(recipe, record, point, block, position, attempt, fails)
                        run.write(folder, random, block_effect)
                position += 1
    return folder


@contextlib.contextmanager
def without_fsync() -> Iterator[None]:
    """Make fsync do nothing: for thousands of runs that nobody needs after the test."""
    with mock.patch.object(os, "fsync", return_value=None):
        yield


def pgbench_experiment(recipe: Recipe) -> ExperimentRecord:
    """The record of the experiment that the recipe describes."""
    placements = list(recipe.placements)
    roles = [["disk", "disk"] if i == 0 else ["disk", f"log{i}"] for i in range(len(placements))]
    axes = [
        AxisRecord(
            name="placement",
            parameters=["workload.data", "workload.wal"],
            levels=placements,
            values=roles,
            numeric=False,
        ),
        AxisRecord(
            name="clients",
            parameters=["workload.clients"],
            levels=list(recipe.clients),
            values=[[value] for value in recipe.clients],
            numeric=True,
        ),
    ]
    points = []
    for place, (data, wal) in zip(placements, roles, strict=True):
        for clients in recipe.clients:
            settings = {
                "workload.data": data,
                "workload.wal": wal,
                "workload.clients": clients,
            }
            points.append(
                PointRecord(
                    point_id=_short(settings),
                    index=len(points),
                    factors={"placement": place, "clients": clients},
                    settings=settings,
                )
            )
    resolved = _resolved(recipe, [wal for _, wal in roles])
    return ExperimentRecord(
        name=recipe.name,
        title=recipe.title,
        description="Synthetic: made for tests, no measurement.",
        identity=_identity(resolved, axes, recipe),
        seed=recipe.seed,
        order="blocks",
        repetitions=recipe.repetitions,
        axes=axes,
        points=points,
        excluded=recipe.excluded,
        resolved=resolved,
        created_unix_ns=EPOCH_NS,
        command=["nfslab", "run", f"{recipe.name}.toml"],
        nfslab_version="0.1.0",
        nfslab_commit="0123456789ab",
        machine={"kernel": "6.1.0-18-amd64", "cpu_model": "Example CPU", "memory_bytes": 4 << 30},
    )


def _resolved(recipe: Recipe, logs: list[str]) -> dict[str, Any]:
    targets = {name: {"kind": "local", "path": f"/srv/{name}"} for name in ["disk", *logs]}
    return {
        "experiment": {"name": recipe.name, "collectors": ["system", "postgres"], "primary": None},
        "targets": targets,
        "workload": {
            "kind": "pgbench",
            "data": {"axis": "placement"},
            "wal": {"axis": "placement"},
            "scale": 10,
            "clients": {"axis": "clients"},
            "duration_s": recipe.measured_s,
            "settings": {"shared_buffers": "128MB"},
        },
        "limits": {"run_s": 600, "drop_page_cache": True, "settle_s": 0},
        "collectors": {"system": {"interval_s": 0.1}, "postgres": {"interval_s": 0.1}},
        "client": {"host": "local"},
    }


@dataclass(frozen=True)
class _Run:
    recipe: Recipe
    experiment: ExperimentRecord
    point: PointRecord
    block: int
    position: int
    attempt: int
    fails: bool

    def write(
        self, folder: ExperimentFolder, random: np.random.Generator, block_effect: float
    ) -> None:
        run_id = f"b{self.block:03}-{self.point.point_id}-a{self.attempt}"
        run = folder.begin_run(run_id)
        clients = int(self.point.factors["clients"])
        factor = self.recipe.placements[self.point.factors["placement"]]
        saturating = clients**0.6 / (1.0 + clients / 60.0)
        noise = float(np.exp(random.normal(0.0, self.recipe.spread)))
        odd = self.recipe.odd.get((self.block, self.experiment.points.index(self.point)), 1.0)
        tps = self.recipe.base_tps * factor * saturating * block_effect * noise * odd
        if self.fails:
            (run.logs / "server.log").write_text(FAILED_LOG)
        tables: list[str] = []
        if not self.fails and self.recipe.samples:
            run.write_table("samples", "transactions", transactions(random, tps, clients, self))
        if not self.fails and self.recipe.evidence:
            tables = write_evidence(run, random, self.recipe.measured_s, clients)
        run.seal(self.record(run_id, tps, clients, tables), self.provenance())

    def record(self, run_id: str, tps: float, clients: int, tables: list[str]) -> RunRecord:
        started = EPOCH_NS + self.position * 20_000_000_000 + self.attempt * 1_000_000_000
        measured_ns = int(self.recipe.measured_s * 1e9)
        resolved = json.loads(json.dumps(self.experiment.resolved))
        del resolved["experiment"]
        for path, value in self.point.settings.items():
            resolved[path.split(".")[0]][path.split(".")[1]] = value
        places = self.places()
        weakest = "volatile" if self.volatile else "stable"
        flagged = self.recipe.flagged.get((self.block, self.point.index))
        return RunRecord(
            run_id=run_id,
            operations="transactions",
            experiment=self.experiment.name,
            identity=self.experiment.identity,
            point_id=self.point.point_id,
            point_index=self.point.index,
            block=self.block,
            position=self.position,
            attempt=self.attempt,
            factors=self.point.factors,
            settings=self.point.settings,
            parameters=resolved,
            status="failed" if self.fails else "ok",
            reason="the server did not start\n  why: no space left on device" * self.fails,
            failure_phase="load" if self.fails else "",
            started_unix_ns=started,
            duration_ns=measured_ns + 2_000_000_000,
            phases=[
                PhaseRecord(name="load", start_unix_ns=started, duration_ns=2_000_000_000),
                PhaseRecord(
                    name="measure",
                    start_unix_ns=started + 2_000_000_000,
                    duration_ns=measured_ns,
                ),
            ][: 1 if self.fails else 2],
            metrics={} if self.fails else pgbench_metrics(tps, clients, self.recipe.measured_s),
            checks=[CheckRecord(name="littles_law", verdict="ok", message="as expected")]
            + ([flagged] if flagged else []),
            places=places,
            durability=DurabilityRecord(level=weakest, reasons=places["wal"].durability.reasons),
            page_cache={"dropped": "all", "reason": ""},
            evidence=self.evidence_records(tps, tables),
            notes=["the data directory was restored from a copy loaded once for this point"]
            * self.recipe.restored_copy,
            commands=[["pgbench", "-n", "-c", str(clients), "-T", str(self.recipe.measured_s)]],
        )

    @property
    def volatile(self) -> bool:
        return self.point.factors["placement"] in self.recipe.volatile

    def places(self) -> dict[str, PlaceRecord]:
        change = self.recipe.mount_changes_at_block
        options = "rw,relatime" if change is None or self.block < change else "rw,noatime"

        def place(target: str, level: str) -> PlaceRecord:
            tmpfs = level == "volatile"
            return PlaceRecord(
                target=target,
                kind="local",
                path=f"/srv/{target}/run-{self.position}",
                filesystem="tmpfs" if tmpfs else "ext4",
                source="tmpfs" if tmpfs else "/dev/vda1",
                mount_point=f"/srv/{target}",
                mount_options="rw,size=1g" if tmpfs else options,
                devices=[] if tmpfs else ["vda"],
                durability=DurabilityRecord(
                    level=level, reasons=["tmpfs lives in memory"] if tmpfs else []
                ),
                facts={"free_bytes": (8 << 30) - self.position},
            )

        wal = "volatile" if self.volatile else "stable"
        data = place("disk", "stable")
        settings = {"shared_buffers": "128MB", "fsync": "on"}
        data.facts["postgresql"] = {"version": "16.2", "source": "system", "settings": settings}
        return {
            "data": data,
            "wal": place(self.point.settings["workload.wal"], wal),
        }

    def evidence_records(self, tps: float, tables: list[str]) -> list[EvidenceRecord]:
        if not tables:
            return []
        transactions_done = int(tps * self.recipe.measured_s)
        wal = {
            "wal_records": transactions_done * 6,
            "wal_bytes": transactions_done * 560,
            "wal_sync": transactions_done,
            "wal_sync_time": transactions_done * 0.97,
        }
        summary = {"version": "16.2", "deltas": {"pg_stat_wal": wal}, "complete": True}
        return [
            EvidenceRecord(
                collector=name,
                tables=[table for table in tables if f"/{name}_" in table],
                summary=summary if name == "postgres" else {},
                cpu_s=0.01 * self.recipe.measured_s,
                wall_s=self.recipe.measured_s,
            )
            for name in ("system", "postgres")
        ]

    def provenance(self) -> dict[str, Any]:
        change = self.recipe.machine_changes_at_block
        kernel = "6.1.0-18-amd64"
        if change is not None and self.block >= change:
            kernel = "6.1.0-21-amd64"
        return {
            "schema_version": 1,
            "taken_unix_ns": EPOCH_NS + self.position,
            "kernel": {
                "release": kernel,
                "command_line": "root=/dev/vda1 ro",
                "distribution": "Debian GNU/Linux 12 (bookworm)",
                "uptime_s": 1000.0 + self.position,
            },
            "cpu": {"model": "Example CPU", "logical": 2, "governors": []},
            "memory": {"MemTotal_bytes": 4 << 30, "MemFree_bytes": (2 << 30) - self.position},
            "disks": {"vda": {"scheduler": "mq-deadline", "write_cache": "write back"}},
            "clock": {"source": "tsc"},
            "software": {"programs": {}, "python": "CPython 3.11.7"},
            "nfslab": {
                "version": "0.1.0",
                "commit": "0123456789ab",
                "core": {"profile": "release"},
            },
            "load_before": {"load_average": [0.1 + 0.01 * (self.position % 7)]},
            "took_ns": 60_000_000 + self.position,
        }


def pgbench_metrics(tps: float, clients: int, measured_s: float) -> dict[str, Metric]:
    """The metrics of the pgbench workload; the mean latency obeys Little's law."""
    mean_ms = clients / tps * 1e3
    lower = {
        "latency_mean_ms": mean_ms,
        "latency_p50_ms": mean_ms * 0.9,
        "latency_p90_ms": mean_ms * 1.5,
        "latency_p99_ms": mean_ms * 2.6,
        "latency_max_ms": mean_ms * 7.0,
        "initial_connect_ms": 2.0 + clients,
    }
    metrics = {"tps": Metric(value=tps, unit="1/s", better="higher", primary=True)}
    metrics |= {name: Metric(value=v, unit="ms", better="lower") for name, v in lower.items()}
    metrics["transactions"] = Metric(value=float(int(tps * measured_s)), unit="1")
    metrics["failed"] = Metric(value=0.0, unit="1", better="lower")
    metrics["measured_s"] = Metric(value=measured_s, unit="s")
    return metrics


def transactions(random: np.random.Generator, tps: float, clients: int, run: _Run) -> pa.Table:
    """Raw samples of one run: log-normal latencies, `clients` in a closed loop."""
    count = max(1, int(tps * run.recipe.measured_s))
    mean_ns = clients / tps * 1e9
    latency = np.exp(random.normal(np.log(mean_ns) - 0.125, 0.5, count)).astype(np.int64)
    client = np.arange(count, dtype=np.int32) % clients
    t_ns = np.empty(count, dtype=np.int64)
    for number in range(clients):
        mine = client == number
        t_ns[mine] = np.cumsum(latency[mine])
    order = np.argsort(t_ns, kind="stable")
    zeros = np.zeros(count, dtype=np.int32)
    return pa.table(
        {
            "t_ns": t_ns[order],
            "client": client[order],
            "latency_ns": latency[order],
            "script": zeros.astype(np.int16),
            "status": zeros.astype(np.int8),
            "lag_ns": pa.nulls(count, pa.int64()),
            "retries": zeros,
        }
    )


def write_evidence(
    run: PartialRun, random: np.random.Generator, measured_s: float, clients: int
) -> list[str]:
    """The tables of the system and postgres collectors at 10 Hz; their relative paths."""
    t_ns = np.arange(0, int(measured_s * 1e9), 100_000_000, dtype=np.int64)
    count = len(t_ns)

    def wobble(mean: float) -> np.ndarray[Any, Any]:
        return np.abs(random.normal(mean, 0.1 * mean + 1e-9, count))

    user, system, waiting = wobble(0.3), wobble(0.15), wobble(0.2)
    tables = {
        "system_cpu": {
            "t_ns": t_ns,
            "user": user,
            "nice": np.zeros(count),
            "system": system,
            "idle": 1.0 - user - system - waiting,
            "iowait": waiting,
            "irq": np.zeros(count),
            "softirq": np.zeros(count),
            "steal": np.zeros(count),
            "context_switches_per_s": wobble(9000.0),
            "running": random.integers(1, 4, count),
            "blocked": random.integers(0, 2, count),
        },
        "system_memory": {
            "t_ns": t_ns,
            "free_bytes": wobble(2e9).astype(np.int64),
            "cached_bytes": wobble(1e9).astype(np.int64),
            "dirty_bytes": wobble(1e7).astype(np.int64),
        },
        "system_devices": {
            "t_ns": t_ns,
            "device": ["vda"] * count,
            "reads_per_s": wobble(20.0),
            "writes_per_s": wobble(800.0),
            "flushes_per_s": wobble(400.0),
            "read_bytes_per_s": wobble(2e5),
            "write_bytes_per_s": wobble(8e6),
            "queue_depth": wobble(1.2),
            "read_await_ms": wobble(0.5),
            "write_await_ms": wobble(1.1),
            "utilisation": wobble(0.7).clip(0, 1),
        },
        "system_network": {
            "t_ns": t_ns,
            "interface": ["lo"] * count,
            "rx_bytes_per_s": wobble(1e4),
            "tx_bytes_per_s": wobble(1e4),
            "rx_packets_per_s": wobble(100.0),
            "tx_packets_per_s": wobble(100.0),
        },
        "system_pressure": {
            "t_ns": t_ns,
            "resource": ["io"] * count,
            "some_share": wobble(0.3).clip(0, 1),
            "full_share": wobble(0.2).clip(0, 1),
        },
        "postgres_waits": {
            "t_ns": np.repeat(t_ns, 2),
            "backend_type": ["client backend"] * (2 * count),
            "wait_event_type": ["IO", "LWLock"] * count,
            "wait_event": ["WALSync", "WALWrite"] * count,
            "state": ["active"] * (2 * count),
            "backends": random.integers(0, clients + 1, 2 * count).astype(np.int32),
        },
        "postgres_counters": {
            "t_ns": t_ns,
            "name": ["pg_stat_wal.wal_bytes"] * count,
            "value": np.cumsum(wobble(5e4)),
        },
    }
    return [run.write_table("evidence", name, pa.table(data)) for name, data in tables.items()]


def write_files(
    results_dir: Path,
    *,
    name: str = "bonnie-2001",
    sizes_mb: tuple[int, ...] = (100, 200, 500, 1000),
    repetitions: int = 3,
    seed: int = 7,
    reference: dict[str, Any] | None = None,
) -> ExperimentFolder:
    """A files experiment over storage and file size, laid beside the 2001 Bonnie table."""
    random = np.random.default_rng(seed)
    storages = {"local": 1.0, "stripe": 1.8}
    axes = [
        AxisRecord(
            name="storage",
            parameters=["workload.data"],
            levels=list(storages),
            values=[[s] for s in storages],
            numeric=False,
        ),
        AxisRecord(
            name="file_size",
            parameters=["workload.file_size"],
            levels=[f"{size}M" for size in sizes_mb],
            values=[[size << 20] for size in sizes_mb],
            numeric=True,
            unit="bytes",
        ),
    ]
    points = [
        PointRecord(
            point_id=_short([storage, size]),
            index=index,
            factors={"storage": storage, "file_size": f"{size}M"},
            settings={"workload.data": storage, "workload.file_size": size << 20},
        )
        for index, (storage, size) in enumerate((s, z) for s in storages for z in sizes_mb)
    ]
    resolved = {
        "targets": {s: {"kind": "local", "path": f"/srv/{s}"} for s in storages},
        "workload": {
            "kind": "files",
            "data": {"axis": "storage"},
            "file_size": {"axis": "file_size"},
            "block_size": 8192,
        },
        "limits": {"run_s": 600},
        "collectors": {},
    }
    record = ExperimentRecord(
        name=name,
        title="Bonnie over storage and file size",
        identity=hashlib.sha256(json.dumps([resolved, seed]).encode()).hexdigest(),
        seed=seed,
        order="blocks",
        repetitions=repetitions,
        axes=axes,
        points=points,
        resolved=resolved,
        reference=reference or {},
        created_unix_ns=EPOCH_NS,
        command=["nfslab", "run", f"{name}.toml"],
        nfslab_version="0.1.0",
        machine={"kernel": "6.1.0-18-amd64"},
    )
    folder = ExperimentFolder.create(results_dir, record, b"# synthetic\n")
    position = 0
    for block in range(repetitions):
        for index in random.permutation(len(points)):
            _write_files_run(folder, record, points[int(index)], block, position, random)
            position += 1
    return folder


def _write_files_run(
    folder: ExperimentFolder,
    record: ExperimentRecord,
    point: PointRecord,
    block: int,
    position: int,
    random: np.random.Generator,
) -> None:
    run = folder.begin_run(f"b{block:03}-{point.point_id}-a1")
    factor = 1.8 if point.factors["storage"] == "stripe" else 1.0
    base = {"output_block": 2e8, "rewrite": 9e7, "input_block": 4e8}
    metrics = {}
    for phase, rate in base.items():
        value = rate * factor * float(np.exp(random.normal(0.0, 0.04)))
        primary = phase == "output_block"
        metrics[f"{phase}_bytes_per_s"] = Metric(
            value=value, unit="bytes/s", better="higher", primary=primary
        )
        metrics[f"{phase}_cpu_pct"] = Metric(value=40.0, unit="%", better="lower")
    metrics["random_seeks_per_s"] = Metric(
        value=400.0 * factor * float(np.exp(random.normal(0.0, 0.05))), unit="1/s", better="higher"
    )
    t_ns = np.arange(0, 10**9, 10**8, dtype=np.int64)
    series = {"t_ns": t_ns, "phase": ["output_block"] * 10, "bytes": t_ns + 1, "operations": t_ns}
    run.write_table("samples", "series", pa.table(series))
    low = np.array([1000, 2000, 4000, 8000], dtype=np.int64)
    histogram = {"phase": ["output_block"] * 4, "low_ns": low, "high_ns": low * 2 - 1}
    run.write_table("samples", "histograms", pa.table({**histogram, "count": [5, 50, 20, 1]}))
    storage = str(point.factors["storage"])
    place = PlaceRecord(
        target=storage,
        kind="local",
        path=f"/srv/{storage}/run-{position}",
        filesystem="ext4",
        source="/dev/vda1",
        mount_point=f"/srv/{storage}",
        mount_options="rw,relatime",
        devices=["vda"],
        durability=DurabilityRecord(level="stable"),
    )
    parameters = json.loads(json.dumps(record.resolved))
    parameters["workload"] |= {
        "data": storage,
        "file_size": point.settings["workload.file_size"],
    }
    started = EPOCH_NS + position * 10**10
    run.seal(
        RunRecord(
            run_id=run.run_id,
            experiment=record.name,
            identity=record.identity,
            point_id=point.point_id,
            point_index=point.index,
            block=block,
            position=position,
            factors=point.factors,
            settings=point.settings,
            parameters=parameters,
            status="ok",
            started_unix_ns=started,
            duration_ns=10**9,
            phases=[PhaseRecord(name="output_block", start_unix_ns=started, duration_ns=10**9)],
            metrics=metrics,
            places={"data": place},
            durability=DurabilityRecord(level="stable"),
        ),
        {"kernel": {"release": "6.1.0-18-amd64"}, "nfslab": {"version": "0.1.0"}},
    )


def _short(content: Any) -> str:
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:8]


def _identity(resolved: dict[str, Any], axes: list[AxisRecord], recipe: Recipe) -> str:
    content = [resolved, [axis.model_dump() for axis in axes], recipe.seed, sorted(recipe.volatile)]
    content.append(sorted(recipe.placements.items()))
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


FAILED_LOG = """\
LOG:  starting PostgreSQL 16.2
FATAL:  could not write lock file "postmaster.pid": No space left on device
LOG:  database system is shut down
"""

FILE_TEXT = """\
# Synthetic: made for tests, no measurement.
[experiment]
name = "placement-2001"
repetitions = 10
"""
