/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What the programs keep and what they send: mirrored in src/ebpf/layout.rs, whose test holds the
 * numbers here against those of src/record.rs.
 *
 * A thread that is watched has an entry in `threads` (storage that hangs on the task and goes
 * with it: a number used again by another process never finds it); a call that nobody watches
 * costs one look at a null pointer. Nothing here waits: the maps have room for so much, the ring
 * for so much, and what finds none is counted in `figures`.
 */
#ifndef NFSLAB_STATE_H
#define NFSLAB_STATE_H

#include "kernel.h"

enum call {
	OPEN, CLOSE, READ_, WRITE, PREAD, PWRITE, READV, WRITEV, PREADV, PWRITEV, LSEEK, FSYNC,
	FDATASYNC, SYNC_FILE_RANGE, TRUNCATE, FALLOCATE, UNLINK, RENAME, MMAP, SYNC,
	SENDFILE, SENDFILE_TO, COPY_FILE_RANGE, COPY_FILE_RANGE_TO, SPLICE, SPLICE_TO, MSYNC,
	/* Entered, but not to be recorded; and: in no call. */
	PASSED = 254, NONE = 0,
};

enum place { FIRST, SEQUENTIAL, REWRITE, FORWARD, BACKWARD, PLACES };

enum level { LEVEL_SYNC, LEVEL_COUNTS, LEVEL_EVENTS };

enum flag {
	HAS_OFFSET = 1,
	SYNCHRONOUS = 2,
	IS_SYNC = 4,
	IS_ACCESS = 8,
	KNOWN = 16,
	RESOLVED = 32,
};

enum kind { KIND_CALL, KIND_NAME, KIND_FILE, KIND_BLOCK };

enum figure {
	LOST_SYNCS, LOST_EVENTS, LOST_NAMES, LOST_BLOCKS, UNCOUNTED, UNMATCHED, FORKED, EXITED,
	UNPLACED, LOST_FILES, FILES, FIGURES,
};

#define LATENCY_BUCKETS 160
#define SIZE_BUCKETS 32
#define NO_FILE 0xffffffffu

struct file_key {
	u64 inode;
	u32 device;
	u32 generation;
};

struct extent {
	u64 start;
	u64 end;
};

struct file_state {
	u32 id;
	u32 busy;
	u64 name;
	struct extent last[2];
	u32 seen[2];
};

struct count_key {
	u32 file_id;
	u32 call;
};

struct counts {
	u64 errors;
	u64 bytes;
	u64 latency_sum_ns;
	u64 latency_max_ns;
	u64 latencies[LATENCY_BUCKETS];
	u64 sizes[SIZE_BUCKETS];
	u64 places[PLACES];
};

/* `call` is one more than the number of the call: 0 is none. */
struct thread {
	u64 start_ns;
	u64 offset;
	u64 size;
	struct file *file;
	struct file_key key;
	u64 args[4];
	u32 file_id;
	u8 call;
	u8 flags;
	u8 counted;
	u8 unused;
};

struct call_record {
	u8 kind;
	u8 call;
	u8 flags;
	u8 unused;
	u32 file_id;
	u64 start_ns;
	u64 latency_ns;
	u32 pid;
	u32 tid;
	u64 offset;
	u64 size;
	s64 result;
};

/* `text`: what lies below the first mount, leaf first, each name ended by a zero; the string of
 * the program; the same two of the new name. `lengths` says how long each part is. */
struct name_record {
	u8 kind;
	u8 call;
	u8 truncated;
	u8 unused;
	u32 file_id;
	u64 start_ns;
	u64 latency_ns;
	u32 pid;
	u32 tid;
	s64 result;
	u64 inode;
	u32 device;
	s32 mounts[2];
	u32 lengths[4];
	u32 unused_too;
};

struct block_record {
	u8 kind;
	u8 operation;
	u8 fua;
	u8 unused;
	u32 device;
	u64 issue_ns;
	u64 latency_ns;
	u64 sector;
	u32 size;
	u32 pid;
};

/* What src/ebpf/layout.rs counts on. */
_Static_assert(sizeof(struct thread) == 88, "THREAD_BYTES");
_Static_assert(__builtin_offsetof(struct thread, counted) == 86, "THREAD_COUNTED");
_Static_assert(sizeof(struct call_record) == 56, "call()");
_Static_assert(sizeof(struct name_record) == 80, "NAME_HEADER_BYTES");
_Static_assert(__builtin_offsetof(struct name_record, lengths) == 60, "name()");
_Static_assert(sizeof(struct block_record) == 40, "block()");

/* Put in by the loader. */
const volatile u32 level = LEVEL_SYNC;
const volatile u64 ring_half = 1 << 20;
const volatile u8 calls[512] = {0};

struct {
	UINT(type, MAP_TASK_STORAGE);
	UINT(map_flags, F_NO_PREALLOC);
	TYPE(key, int);
	TYPE(value, struct thread);
} threads SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(map_flags, F_NO_PREALLOC);
	UINT(max_entries, 16384);
	TYPE(key, struct file_key);
	TYPE(value, struct file_state);
} files SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(map_flags, F_NO_PREALLOC);
	UINT(max_entries, 131072);
	TYPE(key, struct count_key);
	TYPE(value, struct counts);
} counts SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct counts);
} blank SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, FIGURES);
	TYPE(key, u32);
	TYPE(value, u64);
} figures SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 16 << 20);
} ring SEC(".maps");

INLINE void figure(u32 number)
{
	u64 *value = map_lookup(&figures, &number);

	if (value)
		__sync_fetch_and_add(value, 1);
}

/* The reader looks every 50 ms: it is woken only when half the ring is full. */
INLINE u64 wake(void)
{
	return ring_query(&ring, RB_AVAIL_DATA) > ring_half ? RB_FORCE_WAKEUP : RB_NO_WAKEUP;
}

#endif
