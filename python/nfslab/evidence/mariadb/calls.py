"""What a thread of MariaDB waits for, of the system call that it is in (x86-64).

The server keeps no number for that; the kernel knows the call. A *state* is the call's number with
22 bits of what it is on, as the core's `WaitWatch` has it: a descriptor, or how a futex is waited
for. What each futex is was seen in stacks of MariaDB 10.11's client threads, and is in its source:

    a condition with a limit of time     lock_wait(): a row that another transaction has locked
    the same, of the program itself      a thread without a client, which is kept for the next one
    a word of the thread's own, 0        group_commit_lock: another one writes and syncs the log
    a condition without a limit          the answer to a COMMIT waits for that log (net_real_write)
    any other                            a latch of a page or an index, or a mutex
"""

from __future__ import annotations

from typing import Final, NamedTuple

CALL_SHIFT: Final = 22
DETAIL: Final = (1 << CALL_SHIFT) - 1
NO_CALL: Final = 511
FUTEX: Final = 202
OP_MASK: Final = 0x1FF
CONDITION: Final = 9
"""FUTEX_WAIT_BITSET, by which the C library waits for a condition; latches and mutexes do not."""
COMMAND: Final = 0x7F
TIMED, OWN, OF_PROGRAM, VALUE_SHIFT = 1 << 9, 1 << 10, 1 << 11, 12
VALUE_MOST: Final = 3
OWN_STACK: Final = 1 << 20
"""What lies so far above the stack's end is in the thread's own memory, in bytes."""

READS: Final = {0: "read", 17: "pread64", 19: "readv", 295: "preadv", 327: "preadv2"}
WRITES: Final = {1: "write", 18: "pwrite64", 20: "writev", 296: "pwritev", 328: "pwritev2"}
SYNCS: Final = {74: "fsync", 75: "fdatasync", 277: "sync_file_range", 306: "syncfs"}
ON_FILES: Final = {
    3: "close", 5: "fstat", 8: "lseek", 72: "fcntl", 73: "flock", 77: "ftruncate",
    217: "getdents64", 221: "fadvise64", 285: "fallocate",
}  # fmt: skip
ON_NAMES: Final = {
    2: "open", 4: "stat", 6: "lstat", 21: "access", 82: "rename", 83: "mkdir", 87: "unlink",
    257: "openat", 262: "newfstatat", 263: "unlinkat", 264: "renameat", 316: "renameat2",
    332: "statx",
}  # fmt: skip
OF_CLIENT: Final = {
    7: "poll", 23: "select", 44: "sendto", 45: "recvfrom", 46: "sendmsg", 47: "recvmsg",
    271: "ppoll",
}  # fmt: skip
WITH_DESCRIPTOR: Final = frozenset({*READS, *WRITES, *SYNCS, *ON_FILES, 44, 45, 46, 47})

ROW_LOCK, IDLE, FLUSH, LATCH = "row lock", "no client", "group commit", "latch"
CLIENT, FAULT, CALL = "client", "page fault", "call"
SOCKET: Final = "socket"
"""The class of a descriptor that is no file."""


class Wait(NamedTuple):
    """What a blocked thread waits for."""

    what: str
    """One of the words above, the name of a call on files, or "call NUMBER"."""
    file_class: str
    """Of the file, where it is one."""


def wait_of(state: int, class_of: dict[int, str]) -> Wait:
    """Of a blocked thread. `class_of`: descriptor -> class of its file, or `SOCKET`."""
    call, detail = state >> CALL_SHIFT, state & DETAIL
    if call == FUTEX:
        return Wait(_futex(detail), "")
    if call == NO_CALL:
        return Wait(FAULT, "")
    if call in OF_CLIENT:
        return Wait(CLIENT, "")
    if call in ON_NAMES:
        return Wait(ON_NAMES[call], "")
    for names in (READS, WRITES, SYNCS, ON_FILES):
        if call in names:
            found = class_of.get(detail, "")
            return Wait(CLIENT, "") if found == SOCKET else Wait(names[call], found)
    return Wait(f"{CALL} {call}", "")


def _futex(detail: int) -> str:
    if detail & COMMAND == CONDITION:
        if not detail & TIMED:
            return FLUSH if not detail & OF_PROGRAM else LATCH
        return IDLE if detail & OF_PROGRAM else ROW_LOCK
    own = detail & OWN and not detail & TIMED
    return FLUSH if own and not detail >> VALUE_SHIFT else LATCH


def state_of(line: str, program: range) -> int | None:
    """Of a thread, by its file `syscall` in /proc (proc_pid_syscall(5)); None: it is running, or
    may at once. `program`: where the server's program lies in memory."""
    words = line.split()
    if not words or words[0] == "running":
        return None
    call = int(words[0])
    if not 0 <= call < NO_CALL or len(words) < len(("call", *"abcdef", "stack", "program")):
        return NO_CALL << CALL_SHIFT
    at, operation, value, limit = (int(word, 16) for word in words[1:5])
    if call != FUTEX:
        return call << CALL_SHIFT | (at & DETAIL if call in WITH_DESCRIPTOR else 0)
    detail = operation & OP_MASK | min(value & 0xFFFF_FFFF, VALUE_MOST) << VALUE_SHIFT
    detail |= TIMED if limit else 0
    detail |= OWN if 0 <= at - int(words[7], 16) < OWN_STACK else 0
    return FUTEX << CALL_SHIFT | detail | (OF_PROGRAM if at in program else 0)
