/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Files: from a descriptor to the inode, what is known of it, and the counts of calls on it.
 */
#ifndef NFSLAB_FILES_H
#define NFSLAB_FILES_H

#include "names.h"

/* So often a lock or the longest duration is tried for, when another processor has it. */
#define TRIES 32

/* The file behind a descriptor: as the table of this process says, however it came there. */
INLINE struct file *file_of(struct task_struct *task, u32 descriptor)
{
	struct files_struct *table = task->files;
	struct fdtable *slots;
	struct file *file = NULL;

	if (!table)
		return NULL;
	slots = table->fdt;
	if (descriptor >= slots->max_fds)
		return NULL;
	read_kernel(&file, sizeof(file), slots->fd + descriptor);
	return file;
}

/* The begin of a structure, read at once; its fields are where this kernel has them. */
#define HEAD_BYTES 128

struct head {
	char bytes[HEAD_BYTES];
};

#define IN_HEAD(head, type, field) \
	(*(typeof(((type *)0)->field) *)((head)->bytes + OFFSET_OF(type, field)))

INLINE void read_inode(struct head *head, struct file *file)
{
	struct inode *inode = NULL;

	READ(inode, file->f_inode);
	if (read_kernel(head, sizeof(*head), inode))
		__builtin_memset(head, 0, sizeof(*head));
}

/* Notes which inode a call is about. False when it is none of a regular file or a block device
 * (or a folder, when those may be, too). */
INLINE bool identify(struct thread *thread, struct file *file, struct head *head, bool folders)
{
	u16 mode = IN_HEAD(head, struct inode, i_mode) & S_IFMT;
	struct inode *inode = NULL;

	if (mode != S_IFREG && mode != S_IFBLK && !(folders && mode == S_IFDIR))
		return 0;
	READ(inode, file->f_inode);
	READ(thread->key.generation, inode->i_generation);
	READ(thread->key.device, IN_HEAD(head, struct inode, i_sb)->s_dev);
	thread->key.inode = IN_HEAD(head, struct inode, i_ino);
	thread->file = file;
	thread->flags |= KNOWN;
	return 1;
}

/* Does a write through it return when its bytes are durable? (IS_SYNC() of linux/fs.h) */
INLINE bool writes_durably(struct head *head, u32 file_flags)
{
	unsigned long of_super = 0;

	if ((file_flags & O_DSYNC) || (IN_HEAD(head, struct inode, i_flags) & S_SYNC))
		return 1;
	READ(of_super, IN_HEAD(head, struct inode, i_sb)->s_flags);
	return of_super & SB_SYNCHRONOUS;
}

/* Tells its name, or has it told next time. */
INLINE void name(struct thread *thread, struct file_state *state)
{
	struct file_key key = thread->key;

	state->name = name_hash(thread->file);
	if (!send_file((u64)thread->file, &key, state->id))
		state->name = 0;
}

INLINE struct file_state *new_file(struct thread *thread)
{
	struct file_state state = {};
	struct file_state *found;
	u32 number = FILES;
	u64 *next = map_lookup(&figures, &number);

	if (!next)
		return NULL;
	state.id = __sync_fetch_and_add(next, 1);
	if (map_update(&files, &thread->key, &state, NOEXIST) == 0) {
		found = map_lookup(&files, &thread->key);
		if (found)
			name(thread, found);
		return found;
	}
	return map_lookup(&files, &thread->key);
}

/* What is known of the file of this call; NULL when the map is full. */
INLINE struct file_state *state_of(struct thread *thread, bool look_at_name)
{
	struct file_state *state = map_lookup(&files, &thread->key);

	if (!state)
		return new_file(thread);
	if (look_at_name && name_hash(thread->file) != state->name)
		name(thread, state);
	return state;
}

/* enum place of an access that begins at `start`, and the next is judged against it. PLACES when
 * another processor kept the lock. Tracepoints run with preemption off: it is never kept long. */
APART u32 place_of(struct file_state *state, u32 writes, u64 start, u64 end)
{
	u32 place = PLACES, *seen;
	struct extent *last;

	if (!state)
		return PLACES;
	last = writes ? &state->last[1] : &state->last[0];
	seen = writes ? &state->seen[1] : &state->seen[0];
	for (int i = 0; i < TRIES; i++) {
		if (__sync_val_compare_and_swap(&state->busy, 0, 1) != 0)
			continue;
		if (!*seen)
			place = FIRST;
		else if (start == last->end)
			place = SEQUENTIAL;
		else if (start > last->end)
			place = FORWARD;
		else
			place = start >= last->start ? REWRITE : BACKWARD;
		*seen = 1;
		last->start = start;
		last->end = end;
		__sync_lock_test_and_set(&state->busy, 0);
		break;
	}
	return place;
}

INLINE u32 binary_logarithm(u64 value)
{
	u32 result = 0;

	if (value >> 32) { value >>= 32; result += 32; }
	if (value >> 16) { value >>= 16; result += 16; }
	if (value >> 8) { value >>= 8; result += 8; }
	if (value >> 4) { value >>= 4; result += 4; }
	if (value >> 2) { value >>= 2; result += 2; }
	return result + (value >> 1);
}

/* record::bucket() */
INLINE u32 latency_bucket(u64 latency_ns)
{
	u32 octave, number;

	if (latency_ns < 4)
		return latency_ns;
	octave = binary_logarithm(latency_ns);
	number = octave * 4 + ((latency_ns >> (octave - 2)) & 3) - 4;
	return number < LATENCY_BUCKETS ? number : LATENCY_BUCKETS - 1;
}

/* record::octave() */
INLINE u32 size_bucket(u64 size)
{
	u32 number = size ? binary_logarithm(size) + 1 : 0;

	return number < SIZE_BUCKETS ? number : SIZE_BUCKETS - 1;
}

INLINE struct counts *counts_of(u32 file_id, u32 call)
{
	struct count_key key = {.file_id = file_id, .call = call};
	struct counts *found = map_lookup(&counts, &key);
	u32 zero = 0;
	void *empty;

	if (found)
		return found;
	empty = map_lookup(&blank, &zero);
	if (!empty)
		return NULL;
	map_update(&counts, &key, empty, NOEXIST);
	return map_lookup(&counts, &key);
}

APART int raise(u64 *longest, u64 latency_ns)
{
	if (!longest)
		return 0;
	for (int i = 0; i < TRIES; i++) {
		u64 known = READ_ONCE(*longest);

		if (latency_ns <= known || __sync_val_compare_and_swap(longest, known, latency_ns) == known)
			break;
	}
	return 0;
}

/* Counts one call. How many there were is the sum of `latencies`. */
INLINE struct counts *count(u32 file_id, u32 call, u64 latency_ns, s64 result)
{
	struct counts *row = counts_of(file_id, call);
	u32 bucket = latency_bucket(latency_ns);

	if (!row) {
		figure(UNCOUNTED);
		return NULL;
	}
	if (bucket < LATENCY_BUCKETS)
		__sync_fetch_and_add(&row->latencies[bucket], 1);
	__sync_fetch_and_add(&row->latency_sum_ns, latency_ns);
	if (latency_ns > READ_ONCE(row->latency_max_ns))
		raise(&row->latency_max_ns, latency_ns);
	if (result < 0 && result >= -4095)
		__sync_fetch_and_add(&row->errors, 1);
	return row;
}

#endif
