/* The file that all programs of a launch write to, and one reader reads: src/shim/layout.rs has
 * the same numbers, and a test compares them.
 *
 *   header (HEADER_BYTES) | files (1 << files_log2) | ring of slots (1 << slots_log2)
 *
 * A slot's `turn` says whose it is: position p is free to be claimed when turn == p, and holds a
 * record when turn == p + 1; the reader sets it to p + slots when it has taken it. DEAD: its
 * writer was killed between claiming and writing, or stood still for long; never used again. */
#ifndef NFSLAB_SHIM_LAYOUT_H
#define NFSLAB_SHIM_LAYOUT_H

#include <stdint.h>

#define MAGIC 0x4853424c5346554eULL
#define VERSION 1
#define HEADER_BYTES 4096
#define DEAD UINT64_MAX
#define NO_FILE UINT32_MAX

/* Call numbers: src/record.rs. */
enum call {
	OPEN, CLOSE, READ, WRITE, PREAD, PWRITE, READV, WRITEV, PREADV, PWRITEV, LSEEK, FSYNC,
	FDATASYNC, SYNC_FILE_RANGE, TRUNCATE, FALLOCATE, UNLINK, RENAME, MMAP, SYNC,
	SENDFILE, SENDFILE_TO, COPY_FILE_RANGE, COPY_FILE_RANGE_TO, SPLICE, SPLICE_TO, MSYNC,
	/* A part of a file's name, or of a name that a call changes. */
	TEXT_OF_FILE = 0x40, TEXT_OF_CALL = 0x41,
};

enum { LEVEL_SYNC, LEVEL_COUNTS, LEVEL_EVENTS };

enum { HAS_OFFSET = 1, HAS_SIZE = 2, SYNCHRONOUS = 4, EXCHANGE = 8 };

struct header {
	uint64_t magic;
	uint32_t version, level, lseek, slots_log2, files_log2, closed;
	uint64_t loads, forks, lost_syncs, lost_events, lost_calls, lost_names, lost_files;
	uint32_t next_token, unused;
	uint8_t apart[128 - 32 - 7 * 8 - 8];
	uint64_t head;
};

enum { FILE_FREE, FILE_CLAIMED, FILE_KNOWN, FILE_NAMED };

struct file {
	uint32_t state, major, minor, unused;
	uint64_t inode, generation;
};

struct call_record {
	uint64_t start_ns, latency_ns;
	int64_t result;
	uint64_t offset, size;
	uint32_t pid, tid, file;
	uint8_t call, flags, unused[2];
};

#define TEXT_BYTES 40

struct text_record {
	uint8_t bytes[TEXT_BYTES];
	uint32_t token, file;
	uint16_t length, part;
	uint8_t call, unused[3];
};

/* For a call on a name: call_record.offset and .size are the tokens of both texts. */
struct slot {
	uint64_t turn;
	union {
		struct call_record call;
		struct text_record text;
	} record;
};

_Static_assert(sizeof(struct slot) == 64, "a slot is a line of the cache");
_Static_assert(sizeof(struct file) == 32, "as the reader has it");
_Static_assert(__builtin_offsetof(struct header, head) == 128, "as the reader has it");
_Static_assert(__builtin_offsetof(struct text_record, call) ==
	       __builtin_offsetof(struct call_record, call), "told apart by one byte");

#endif
