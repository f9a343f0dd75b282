"""What a kill, a loss of power or a failing disk does at each operation of code under test.

`Operations` sees every operation of this process that changes a file or a name below one folder, or
makes it durable. `Recorder` lets the code run once and keeps what a crash would leave before each
operation, in the middle of each write, and at the end; each different state once:

killed          all that was done is there: the kernel keeps it
power lost      all content that was not synced is gone (an empty file, or what was synced before)
names lost      below one folder at the top, or below all of them (they may be on different disks),
                names that are not synced are gone too: what was made is not there, what was renamed
                or removed is there again
removals lost   of one folder at the top: what was made had time to get to the disk, and only what
                was removed and is not synced is there again

The recorded code goes on, so that a state is exactly what was on disk: nothing ran after the crash.
`lay_down` makes the folder be in such a state again, and the code under test starts on it.
A file system may keep any part of what was not synced; these states are the extremes.
What changes the folder without being seen (a library in C, a child) ends the recording.

`Failing` lets one operation fail instead, as on a full disk.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

Tree = dict[str, bytes | str | None]
"""Path below the folder -> content of a file, target of a symbolic link, None of a folder."""
State = tuple[tuple[str, bytes | str | None], ...]
"""The items of a `Tree`, sorted."""

WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
ON_A_PATH: Final = ("mkdir", "unlink", "remove", "rmdir", "truncate")
ON_TWO_PATHS: Final = ("rename", "replace", "link", "symlink")


class Operations:
    """Sees the operations below `base`; subclasses say what happens then."""

    def __init__(self, base: Path) -> None:
        self.base = str(base.resolve())
        self.seen: list[str] = []
        """Every operation so far, in words."""

    def about_to(self, what: str, *paths: str) -> None:
        """An operation begins: one that raises does not happen."""
        self.seen.append(what)

    def halfway(self, what: str, path: str) -> None:
        """Half of a write's bytes are in the file: OSError ends it, short."""

    def has_done(self, *paths: str) -> None:
        """The operation is over, whether it raised or not."""

    def removed(self, path: str, inode: int) -> None:
        """What was there is there no more; its inode is free, if not 0."""

    def synced(self, path: str) -> None:
        """A file's content, or a folder's names, are on stable storage."""

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Sees the operations of this process within the block; nothing waits for the disk."""
        patched: dict[str, Any] = {"open": self._os_open(os.open)}
        patched |= {name: self._on_a_path(name, getattr(os, name)) for name in ON_A_PATH}
        patched |= {name: self._on_two_paths(name, getattr(os, name)) for name in ON_TWO_PATHS}
        patched |= {"write": self._write(os.write), "pwrite": self._pwrite(os.pwrite)}
        patched |= {"ftruncate": self._ftruncate(os.ftruncate)}
        patched |= {name: self._fsync(name) for name in ("fsync", "fdatasync")}
        opened = self._open(io.open)
        with (
            mock.patch.multiple(os, **patched),
            mock.patch.object(io, "open", opened),
            mock.patch.object(builtins, "open", opened),
            mock.patch.object(pq, "write_table", _written_by_python(pq.write_table)),
        ):
            yield

    def _is_ours(self, path: Any, dir_fd: int | None = None) -> str:
        """The whole path when it is below the folder (or that itself); empty otherwise."""
        if isinstance(path, int):
            where = _path_of(path)
        else:
            text = os.fsdecode(path)
            if dir_fd is not None:
                text = os.path.join(_path_of(dir_fd), text)
            above, name = os.path.split(os.path.abspath(text))
            where = os.path.join(os.path.realpath(above), name)
        return where if f"{where}/".startswith(f"{self.base}/") else ""

    def _named(self, operation: str, path: str) -> str:
        return f"{operation} {os.path.relpath(path, self.base)}"

    def _on_a_path(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        removes = name in ("unlink", "remove", "rmdir")

        def operation(path: Any, *args: Any, **options: Any) -> Any:
            where = self._is_ours(path, options.get("dir_fd"))
            if not where:
                return real(path, *args, **options)
            self.about_to(self._named(name, where), where)
            inode = _last_name_of(where) if removes else 0
            try:
                done = real(path, *args, **options)
                if removes:
                    self.removed(where, inode)
            finally:
                self.has_done(where)
            return done

        return operation

    def _on_two_paths(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(one: Any, other: Any, **options: Any) -> Any:
            where = self._is_ours(other)
            if not where:
                return real(one, other, **options)
            what = f"{self._named(name, os.fsdecode(one))} to {os.path.basename(where)}"
            self.about_to(what, where)
            inode = _last_name_of(where)
            try:
                done = real(one, other, **options)
                self.removed(where, inode)
            finally:
                self.has_done(where)
            return done

        return operation

    def _os_open(self, real: Callable[..., int]) -> Callable[..., int]:
        def operation(path: Any, flags: int, *args: Any, **options: Any) -> int:
            where = self._is_ours(path, options.get("dir_fd")) if flags & WRITING else ""
            if not where:
                return real(path, flags, *args, **options)
            self.about_to(self._named("open", where), where)
            try:
                return real(path, flags, *args, **options)
            finally:
                self.has_done(where)

        return operation

    def _written(self, where: str, data: Any, write: Callable[[Any, int], int]) -> int:
        """A write in two halves, the second one behind so many bytes."""
        view, what = memoryview(data).cast("B"), self._named("write", where)
        self.about_to(what, where)
        half = len(view) // 2
        try:
            done = write(view[:half], 0)
            if done < half:
                return done
            try:
                self.halfway(what, where)
            except OSError:
                return done
            return done + write(view[half:], half)
        finally:
            self.has_done(where)

    def _write(self, real: Callable[..., int]) -> Callable[..., int]:
        def operation(descriptor: int, data: Any) -> int:
            if not (where := self._is_ours(descriptor)):
                return real(descriptor, data)
            return self._written(where, data, lambda piece, _: real(descriptor, piece))

        return operation

    def _pwrite(self, real: Callable[..., int]) -> Callable[..., int]:
        def operation(descriptor: int, data: Any, offset: int) -> int:
            if not (where := self._is_ours(descriptor)):
                return real(descriptor, data, offset)
            return self._written(
                where, data, lambda piece, behind: real(descriptor, piece, offset + behind)
            )

        return operation

    def _ftruncate(self, real: Callable[..., None]) -> Callable[..., None]:
        def operation(descriptor: int, size: int) -> None:
            if not (where := self._is_ours(descriptor)):
                real(descriptor, size)
                return
            self.about_to(self._named("truncate", where), where)
            real(descriptor, size)
            self.has_done(where)

        return operation

    def _fsync(self, name: str) -> Callable[[int], None]:
        def operation(descriptor: int) -> None:
            if where := self._is_ours(descriptor):
                self.about_to(self._named(name, where), where)
                self.synced(where)

        return operation

    def _open(self, real: Callable[..., Any]) -> Callable[..., Any]:
        watch = self

        class Raw(io.FileIO):
            def write(self, data: Any) -> int:
                write = super().write
                where = watch._is_ours(self.fileno())
                return watch._written(where, data, lambda piece, _: write(piece))

        def operation(
            file: Any,
            mode: str = "r",
            buffering: int = -1,
            encoding: str | None = None,
            errors: str | None = None,
            newline: str | None = None,
            *more: Any,
            **others: Any,
        ) -> Any:
            writes = not isinstance(file, int) and set(mode) & set("wax+")
            where = self._is_ours(file) if writes else ""
            if not where:
                return real(file, mode, buffering, encoding, errors, newline, *more, **others)
            self.about_to(self._named("open", where), where)
            try:
                raw = Raw(where, mode.replace("b", "").replace("t", ""))
            finally:
                self.has_done(where)
            if buffering == 0:
                return raw
            file = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return file if "b" in mode else io.TextIOWrapper(file, encoding, errors, newline)

        return operation


class Recorder(Operations):
    """Keeps what a crash would leave; what is in the folder now is on stable storage."""

    def __init__(self, base: Path, look_at: Callable[[str, Tree, Tree], None]) -> None:
        super().__init__(base)
        self.states: dict[State, str] = {}
        """Each different state, and the first crash that leaves it."""
        self._look_at = look_at
        """Called for each crash with its name, what it leaves, and what is there without it."""
        self._contents: dict[tuple[int, int, int, int], bytes] = {}
        self._numbers: dict[int, int] = {}
        """Inode -> a number that no later file has (inodes are used again)."""
        self._next = 0
        self._synced: dict[int, bytes] = {}
        self._synced_names: dict[int, list[tuple[str, int, bytes | str | None]]] = {}
        """Folder -> its durable names, the number of each, and what kind of thing it is."""
        self._removed: Tree = {}
        """What was removed, and its parent not synced since."""
        for folder, _, files in os.walk(self.base):
            self.synced(folder)
            for name in files:
                self.synced(os.path.join(folder, name))
        self._now = self._look()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        with super().watched():
            yield
            self.about_to("end")

    def about_to(self, what: str, *paths: str) -> None:
        super().about_to(what)
        live = self._look()
        changed = sorted(n for n in live | self._now if live.get(n, 0) != self._now.get(n, 0))
        assert not changed, f"before {what!r}, {changed} changed unseen"
        self._keep(f"before {len(self.seen)}: {what}", live)

    def halfway(self, what: str, path: str) -> None:
        self._forget(path)
        self._keep(f"within {len(self.seen)}: {what}", self._look())

    def has_done(self, *paths: str) -> None:
        for path in paths:
            self._forget(path)
        self._now = self._look()

    def removed(self, path: str, inode: int) -> None:
        self._numbers.pop(inode, None)
        name = os.path.relpath(path, self.base)
        if name in self._now and not os.path.lexists(path):
            self._removed[name] = self._now[name]

    def synced(self, path: str) -> None:
        number = self._number(os.stat(path).st_ino)
        if not os.path.isdir(path):
            self._synced[number] = self._content(path)
            return
        name = os.path.relpath(path, self.base)
        gone = {n for n in self._removed if os.path.dirname(n) == ("" if name == "." else name)}
        for one in [n for n in self._removed if n in gone or any(_below(n, g) for g in gone)]:
            del self._removed[one]
        with os.scandir(path) as entries:
            self._synced_names[number] = [
                (entry.name, self._number(entry.inode()), _kind_of(entry)) for entry in entries
            ]

    def _keep(self, when: str, live: Tree) -> None:
        durable = self._durable()
        self._add(f"killed {when}", live, live)
        self._add(f"power lost {when}", self._without_content(live), live)
        self._add(f"power and all names lost {when}", durable, live)
        for top in sorted({name.partition("/")[0] for name in live | durable}):
            left = {n: c for n, c in live.items() if n.partition("/")[0] != top}
            left |= {n: c for n, c in durable.items() if n.partition("/")[0] == top}
            self._add(f"power and names of {top} lost {when}", left, live)
        for top in sorted({name.partition("/")[0] for name in self._removed}):
            again = {n: c for n, c in self._removed.items() if n.partition("/")[0] == top}
            self._add(f"power and removals of {top} lost {when}", again | live, live)

    def _add(self, crash: str, left: Tree, live: Tree) -> None:
        self._look_at(crash, left, live)
        self.states.setdefault(tuple(sorted(left.items())), crash)

    def _look(self) -> Tree:
        return tree_of(self.base, self._content)

    def _content(self, path: str) -> bytes:
        """Read again only when it is another: `_forget` says so, or the file's facts do."""
        facts = os.stat(path)
        key = (facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
        if key not in self._contents:
            self._contents[key] = content_of(path)
        return self._contents[key]

    def _forget(self, path: str) -> None:
        """Another content may have the same size, at the same tick of the kernel's clock."""
        with contextlib.suppress(OSError):
            inode = os.stat(path, follow_symlinks=False).st_ino
            for key in [key for key in self._contents if key[0] == inode]:
                del self._contents[key]

    def _number(self, inode: int) -> int:
        if inode not in self._numbers:
            self._next += 1
            self._numbers[inode] = self._next
        return self._numbers[inode]

    def _durable(self) -> Tree:
        """Synced names and contents, and no others."""
        tree: Tree = {}

        def below(number: int, prefix: str) -> None:
            for name, one, kind in self._synced_names.get(number, ()):
                tree[prefix + name] = self._synced.get(one, kind) if kind == b"" else kind
                if kind is None:
                    below(one, f"{prefix}{name}/")

        below(self._number(os.stat(self.base).st_ino), "")
        return tree

    def _without_content(self, live: Tree) -> Tree:
        """All names, and of the contents what is synced."""
        left: Tree = {}
        for name, content in live.items():
            if isinstance(content, bytes) and content:
                inode = os.stat(f"{self.base}/{name}").st_ino
                content = self._synced.get(self._number(inode), b"")
            left[name] = content
        return left


class Failing(Operations):
    """Lets one operation fail; as on a full disk, if `for_good`: a write comes to its half, and all
    that needs room fails from then on."""

    NEED_ROOM: Final = ("open", "mkdir", "write", "pwrite", "fsync", "fdatasync")

    def __init__(self, base: Path, number: int, *, for_good: bool) -> None:
        super().__init__(base)
        self.number = number
        self.for_good = for_good

    def about_to(self, what: str, *paths: str) -> None:
        super().about_to(what)
        name = what.partition(" ")[0]
        here = len(self.seen) == self.number and not (self.for_good and name == "write")
        late = len(self.seen) > self.number and self.for_good and name in self.NEED_ROOM
        if here or late:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), *paths)

    def halfway(self, what: str, path: str) -> None:
        if self.for_good and len(self.seen) >= self.number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


def tree_of(folder: str, content: Callable[[str], bytes] | None = None) -> Tree:
    """All that is below a folder."""
    tree: Tree = {}

    def look(path: str, prefix: str) -> None:
        with os.scandir(path) as entries:
            for entry in entries:
                name, kind = prefix + entry.name, _kind_of(entry)
                tree[name] = (content or content_of)(entry.path) if kind == b"" else kind
                if kind is None:
                    look(entry.path, f"{name}/")

    look(folder, "")
    return tree


def content_of(path: str) -> bytes:
    """A file's bytes."""
    with io.FileIO(path) as file:
        return file.readall()


def lay_down(folder: Path, state: State) -> None:
    """Makes a folder hold exactly this."""
    there, wanted = tree_of(str(folder)), dict(state)
    for name in sorted(there, reverse=True):
        if name not in wanted or wanted[name] != there[name]:
            (os.rmdir if there[name] is None else os.unlink)(f"{folder}/{name}")
            del there[name]
    for name, content in state:
        path = f"{folder}/{name}"
        if name in there:
            continue
        if content is None:
            os.mkdir(path)
        elif isinstance(content, str):
            os.symlink(content, path)
        else:
            with io.FileIO(path, "w") as file:
                file.write(content)


def _below(name: str, folder: str) -> bool:
    return name.startswith(f"{folder}/")


def _kind_of(entry: os.DirEntry[str]) -> bytes | str | None:
    """As in a `Tree`, a file without its content."""
    if entry.is_symlink():
        return os.readlink(entry.path)
    return None if entry.is_dir() else b""


def _path_of(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}").removesuffix(" (deleted)")


def _last_name_of(path: str) -> int:
    """The inode that is free for another file once this name is gone; 0: none."""
    with contextlib.suppress(OSError):
        facts = os.stat(path, follow_symlinks=False)
        if facts.st_nlink == 1 or os.path.isdir(path):
            return facts.st_ino
    return 0


def _written_by_python(real: Callable[..., None]) -> Callable[..., None]:
    """Arrow opens files by itself: it gets a buffer, which is written as any other file."""

    def write_table(table: pa.Table, where: Any, **options: Any) -> None:
        buffer = io.BytesIO()
        real(table, buffer, **options)
        with open(where, "wb") as file:
            file.write(buffer.getvalue())

    return write_table
