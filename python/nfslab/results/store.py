"""The one way into a results folder: create, begin a run, seal it by rename.

A run is written below `runs/.partial-<id>`. Sealing makes every file durable (fsync of
each, then of each directory), renames the folder to `runs/<id>` and fsyncs the parent:
after the rename the run is there for good, before it the run does not exist. Then its
line is appended to the catalogue, which is only a cache: if that fails, the run stays
sealed and the next reader finds it.

Nothing that is sealed is ever written again, so a full disk, a kill or a loss of power
while a run is being sealed cannot harm the earlier ones; the run that could not be
written raises `RunFailed` with the system's reason.

One runner at a time: `lock` holds a flock on `<folder>/.lock`. The kernel drops it with
the process, so that a killed runner leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from nfslab.errors import ResultsError, RunFailed, UsageError, system_errors
from nfslab.results import catalogue as catalogue_file
from nfslab.results.catalogue import CATALOGUE, PARTIAL_PREFIX, RUNS, catalogue_line, line_json
from nfslab.results.checksums import CHANGED, Depth, crc32_of, with_crc32, write_checksums
from nfslab.results.durable import (
    TEMPORARY_PREFIX,
    fsync_path,
    fsync_tree,
    make_folders,
    to_json,
    write_durably,
)
from nfslab.results.records import CatalogueLine, ExperimentRecord, HostRecord, RunRecord
from nfslab.results.upgrade import FROM_A_COPY, load_valid, stamp_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

RECORD = "experiment.json"
FILE = "experiment.toml"
LOCK = ".lock"
TableKind = Literal["samples", "evidence"]

MAX_NAME_LENGTH = 120
"""Of run ids and table names; file systems allow 255 bytes, prefixes need some."""

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def folder_name(record: ExperimentRecord) -> str:
    """Name of the experiment's folder: its name and the beginning of its identity."""
    return f"{record.name}-{record.identity[:8]}"


class ExperimentFolder:
    """One experiment's folder: its record, its sealed runs, and the way to add one."""

    def __init__(self, path: Path, record: ExperimentRecord) -> None:
        self.path = path
        self._record = record
        self._lock_held = False

    @property
    def record(self) -> ExperimentRecord:
        """The plan, as it stands in experiment.json."""
        return self._record

    @property
    def runs_path(self) -> Path:
        """Where the sealed runs are."""
        return self.path / RUNS

    @classmethod
    def create(
        cls, results_dir: Path, record: ExperimentRecord, file_bytes: bytes
    ) -> ExperimentFolder:
        """Make the folder of a new experiment below `results_dir`.

        `file_bytes` is the experiment file as given. Raises `ResultsError` when the
        experiment is there already (open it instead) or cannot be written. The record is
        written last: a folder without it is no experiment, and is taken up again.
        """
        if not _NAME.fullmatch(record.name) or len(record.name) > MAX_NAME_LENGTH:
            raise ResultsError(
                f"{record.name!r} cannot name a folder",
                why=f"letters, digits, '_', '.', '-', at most {MAX_NAME_LENGTH}",
                fix="correct the name in [experiment]",
            )
        path = Path(results_dir) / folder_name(record)
        if (path / RECORD).exists():
            raise ResultsError(
                f"{path} holds an experiment already",
                fix="open it to add runs, or give another results folder",
            )
        with system_errors(
            f"cannot create the results folder {path}",
            "give a folder that you can write to with --results",
        ):
            make_folders(path / RUNS)
            write_durably(path / FILE, file_bytes)
            record = record.model_copy(update={"file_crc32": crc32_of(path / FILE)})
            write_durably(path / RECORD, _record_json(record))
            fsync_path(path.parent)
        return cls(path, record)

    @classmethod
    def open(cls, path: Path) -> ExperimentFolder:
        """The experiment in `path`; `ResultsError` when it is damaged, `UsageError` for none."""
        path = Path(path)
        if not (path / RECORD).is_file():
            raise UsageError(
                f"{path} is not the folder of an experiment",
                why=f"there is no {RECORD} in it" if path.is_dir() else "no such folder",
                fix="`nfslab list RESULTS` shows the experiments in a results folder",
            )
        record = load_valid(path / RECORD, "experiment", ExperimentRecord)
        with system_errors(f"cannot read {path / FILE}", FROM_A_COPY):
            if record.file_crc32 not in ("", crc32_of(path / FILE)):
                raise ResultsError(f"{path / FILE} is damaged", why=CHANGED, fix=FROM_A_COPY)
        return cls(path, record)

    def catalogue(self, depth: Depth = "sizes") -> catalogue_file.Catalogue:
        """Sealed runs, damaged ones with reasons, half-written ones by name."""
        return catalogue_file.read_catalogue(self.path, depth)

    def sealed_runs(self) -> list[CatalogueLine]:
        """Every sealed run that can be read (all attempts), in order of their start."""
        return self.catalogue().lines

    def run_record(self, run_id: str) -> RunRecord:
        """The whole record of one sealed run."""
        return catalogue_file.read_run(self.runs_path / checked_name(run_id, "run id"))

    def update_record(self, record: ExperimentRecord) -> None:
        """Replace experiment.json (more repetitions of the same experiment)."""
        if record.identity != self._record.identity:
            raise ResultsError(
                f"{self.path} is another experiment",
                why=f"identity {self._record.identity[:12]}, not {record.identity[:12]}",
                fix="give another results folder with --results",
            )
        with system_errors(
            f"cannot write {self.path / RECORD}",
            "make room there and let this user write; what is finished is kept",
        ):
            write_durably(self.path / RECORD, _record_json(record))
        self._record = record

    def begin_run(self, run_id: str) -> PartialRun:
        """Make the folder in which one run is written; `ResultsError` if it is there."""
        checked_name(run_id, "run id")
        sealed = self.runs_path / run_id
        partial = self.runs_path / f"{PARTIAL_PREFIX}{run_id}"
        if sealed.exists():
            raise ResultsError(
                f"run {run_id} is sealed already", why=f"{sealed} exists", fix="take a new attempt"
            )
        try:
            partial.mkdir()
            for name in ("samples", "evidence", "logs"):
                (partial / name).mkdir()
        except FileExistsError as error:
            raise ResultsError(
                f"run {run_id} was begun already",
                why=f"{partial} exists",
                fix="remove what a dead runner left with clean_partials()",
            ) from error
        except OSError as error:
            raise RunFailed(
                f"cannot begin run {run_id}",
                why=f"{self.runs_path}: {error.strerror or error}",
                fix="make room there and let this user write; what is finished is kept",
            ) from error
        return PartialRun(self, run_id, partial)

    def adopt_run(self, sealed: Path) -> PartialRun:
        """A run that was sealed in another folder of this file system, to be sealed here."""
        run_id = checked_name(sealed.name, "run id")
        partial = self.runs_path / f"{PARTIAL_PREFIX}{run_id}"
        sealed.rename(partial)
        return PartialRun(self, run_id, partial)

    def clean_partials(self) -> list[str]:
        """Remove what dead runners left half written; the run ids of it.

        Takes the lock (unless it is held already): a living runner's run is left alone.
        """
        if not self._lock_held:
            with self.lock():
                return self.clean_partials()
        _, partial = catalogue_file.scan_runs(self.runs_path)
        with system_errors(
            f"cannot remove what is half written in {self.path}",
            "let this user write there; what is finished is kept",
        ):
            for temporary in self.path.glob(f"{TEMPORARY_PREFIX}*"):
                temporary.unlink(missing_ok=True)
            for run_id in partial:
                shutil.rmtree(self.runs_path / f"{PARTIAL_PREFIX}{run_id}")
        return partial

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the experiment for this runner; a second one gets a clear `ResultsError`.

        Mends the catalogue when it lacks runs or holds useless lines.
        """
        descriptor = _lock_file(self.path / LOCK)
        self._lock_held = True
        try:
            self._mend_catalogue()
            yield
        finally:
            self._lock_held = False
            os.close(descriptor)

    def _mend_catalogue(self) -> None:
        """Write the catalogue again when it is behind the runs; a cache may fail to be."""
        content = self.catalogue()
        if content.missing_lines or content.useless_lines:
            whole = b"".join(line_json(line) + b"\n" for line in content.lines)
            with contextlib.suppress(OSError):
                write_durably(self.path / CATALOGUE, whole)

    def append_line(self, line: CatalogueLine) -> None:
        """Append one line to the catalogue, durably, or leave it as it was.

        Never fails a run: the run is sealed, the catalogue is rebuilt when behind.
        """
        path = self.path / CATALOGUE
        with contextlib.suppress(OSError):
            new = not path.exists()
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                size = os.fstat(descriptor).st_size
                torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                content = (b"\n" if torn else b"") + line_json(line) + b"\n"
                try:
                    if os.write(descriptor, content) != len(content):
                        raise OSError("short write")
                    os.fsync(descriptor)
                except OSError:
                    os.ftruncate(descriptor, size)
                    raise
            finally:
                os.close(descriptor)
            if new:
                fsync_path(self.path)


class PartialRun:
    """A run that is being written: tables, then `seal`, or `discard`."""

    def __init__(self, experiment: ExperimentFolder, run_id: str, path: Path) -> None:
        self.experiment = experiment
        self.run_id = run_id
        self.path = path
        self.samples = path / "samples"
        self.evidence = path / "evidence"
        self.logs = path / "logs"

    def write_table(
        self, kind: TableKind, name: str, table: pa.Table, host: HostRecord | None = None
    ) -> str:
        """Write a table as zstd Parquet; its path relative to the run's folder.

        `host` is where its rows were seen; None: this machine.

        Raises `RunFailed` with the system's reason (a full disk).
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        relative = f"{kind}/{checked_name(name, 'table name')}.parquet"
        try:
            pq.write_table(stamp_table(table, host), self.path / relative, compression="zstd")
        except (OSError, pa.ArrowException) as error:
            raise self._failed(f"cannot write the table {relative}", error) from error
        return relative

    def seal(self, record: RunRecord, provenance: dict[str, Any]) -> CatalogueLine:
        """Make the run durable and visible; its line of the catalogue.

        Raises `RunFailed` when it cannot be written: the run then does not exist, all
        earlier ones are untouched, and `discard` removes what there is.
        """
        if record.run_id != self.run_id:
            raise ResultsError(f"record of run {record.run_id!r} given to run {self.run_id!r}")
        line = catalogue_line(record, provenance)
        sealed = self.experiment.runs_path / self.run_id
        try:
            write_durably(self.path / "run.json", to_json(record.model_dump(), indent=1))
            write_durably(self.path / "provenance.json", to_json(provenance, indent=1))
            for evidence in record.evidence:
                name = checked_name(evidence.collector, "collector")
                content = to_json(evidence.model_dump(), indent=1)
                write_durably(self.evidence / f"{name}.json", content)
            write_checksums(self.path)
            fsync_tree(self.path)
            self._publish(sealed)
        except OSError as error:
            raise self._failed(f"cannot seal run {self.run_id}", error) from error
        self.path = sealed
        self.samples, self.evidence, self.logs = (
            sealed / "samples",
            sealed / "evidence",
            sealed / "logs",
        )
        self.experiment.append_line(line)
        return line

    def _publish(self, sealed: Path) -> None:
        """Rename to the final name, durably; taken back when that cannot be assured."""
        self.path.rename(sealed)
        try:
            fsync_path(sealed.parent)
        except OSError:
            sealed.rename(self.path)
            raise

    def discard(self) -> None:
        """Remove the run as if it had never begun; a sealed run is left alone."""
        if self.path.name.startswith(PARTIAL_PREFIX):
            shutil.rmtree(self.path, ignore_errors=True)

    def _failed(self, what: str, error: Exception) -> RunFailed:
        """The reason in the system's words; for a full disk also what to do."""
        reason = str(getattr(error, "strerror", None) or error)
        full = isinstance(error, OSError) and error.errno in _FULL
        return RunFailed(
            what,
            why=f"{reason} ({self.experiment.path})",
            fix="make room there and run the same command again: finished runs are kept"
            if full
            else "",
        )


def checked_name(name: str, what: str) -> str:
    """`name` if it can safely be a file's name (no separators, not hidden)."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
        raise ResultsError(
            f"{name!r} is not a valid {what}",
            why=f"letters, digits, '_', '.', '-', at most {MAX_NAME_LENGTH}",
            fix="choose another name",
        )
    return name


def _record_json(record: ExperimentRecord) -> bytes:
    return with_crc32(to_json(record.model_dump(), indent=1))


def _lock_file(path: Path) -> int:
    """Open and lock the file; its descriptor, to be closed to let go."""
    with system_errors(
        f"cannot lock {path.parent}", "adding runs needs a results folder that you can write to"
    ):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)  # what others can open they can lock
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise ResultsError(
            f"{path.parent} is in use by another runner",
            why=f"process {holder} holds its lock",
            fix="wait until it has ended, or stop it; it keeps what it has finished",
        ) from error
    except OSError as error:
        os.close(descriptor)
        raise ResultsError(
            f"cannot lock {path.parent}",
            why=str(error.strerror or error),
            fix="use a results folder on a file system that knows locks (flock)",
        ) from error
    return descriptor
