/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The ends of calls: how long it took, where it went; counted, and sent where it is to be.
 */
#ifndef NFSLAB_LEAVE_H
#define NFSLAB_LEAVE_H

#include "enter.h"

/* UIO_MAXIOV: Linux takes no longer vector. */
#define PARTS_MAX 1024

struct part {
	u64 base;
	u64 size;
};

/* The entry of this thread when it comes back from a call that is to be recorded. */
INLINE struct thread *finished(void)
{
	struct thread *thread = task_storage(&threads, current_task(), NULL, 0);

	if (!thread || thread->call == PASSED)
		return NULL;
	if (thread->call == NONE) {
		figure(UNMATCHED);
		return NULL;
	}
	return thread;
}

INLINE void send_call(struct thread *thread, u32 file_id, u8 flags, u64 latency_ns, s64 result)
{
	u64 id = current_pid_tgid();
	struct call_record record = {
		.kind = KIND_CALL,
		.call = thread->call - 1,
		.flags = flags,
		.file_id = file_id,
		.start_ns = thread->start_ns,
		.latency_ns = latency_ns,
		.pid = id >> 32,
		.tid = id,
		.offset = thread->offset,
		.size = thread->size,
		.result = result,
	};

	if (ring_output(&ring, &record, sizeof(record), wake())) {
		if (flags & IS_SYNC)
			figure(LOST_SYNCS);
		if (flags & IS_ACCESS)
			figure(LOST_EVENTS);
	}
}

/* fsync and its kind, close, lseek, ftruncate, fallocate, mmap, truncate. */
SEC("tracepoint/leave_plain") int leave_plain(struct leave *leave)
{
	struct thread *thread = finished();
	u32 file_id = NO_FILE;
	u64 latency_ns;
	bool syncs;

	if (!thread)
		return 0;
	latency_ns = ktime_get_ns() - thread->start_ns;
	syncs = is_sync(thread);
	if (thread->flags & RESOLVED) {
		file_id = thread->file_id;
	} else if (thread->flags & KNOWN) {
		struct file_state *state = state_of(thread, syncs);

		file_id = state ? state->id : NO_FILE;
	}
	if ((thread->flags & KNOWN) && file_id == NO_FILE)
		figure(UNCOUNTED);
	else
		count(file_id, thread->call - 1, latency_ns, leave->result);
	if (syncs)
		send_call(thread, file_id, thread->flags | IS_SYNC, latency_ns, leave->result);
	thread->call = NONE;
	return 0;
}

SEC("tracepoint/leave_open") int leave_open(struct leave *leave)
{
	struct thread *thread = finished();
	struct file_state *state;
	struct head head;
	struct file *file;
	u64 latency_ns;

	if (!thread)
		return 0;
	latency_ns = ktime_get_ns() - thread->start_ns;
	if (leave->result < 0) {
		count(NO_FILE, thread->call - 1, latency_ns, leave->result);
	} else {
		file = file_of(current_task(), leave->result);
		if (file)
			read_inode(&head, file);
		if (file && identify(thread, file, &head, 0)) {
			state = state_of(thread, 1);
			if (state)
				count(state->id, thread->call - 1, latency_ns, 0);
			else
				figure(UNCOUNTED);
		}
	}
	thread->call = NONE;
	return 0;
}

APART u64 size_of_parts(u64 vector, u64 parts)
{
	u64 size = 0;

	for (u32 i = 0; i < PARTS_MAX && i < parts; i++) {
		struct part part = {};

		if (read_user(&part, sizeof(part), (void *)(vector + i * sizeof(part))))
			break;
		size += part.size;
	}
	return size;
}

/* A read or write of a file that is known: counted, and sent where it is to be. */
APART int accessed(struct thread *thread, u64 latency_ns, s64 result)
{
	u32 file_id = NO_FILE, bucket, place;
	struct file_state *state;
	struct counts *row = NULL;
	u8 flags;

	if (!thread)
		return 0;
	state = state_of(thread, 0);
	if (state) {
		file_id = state->id;
		row = count(file_id, thread->call - 1, latency_ns, result);
	} else {
		figure(UNCOUNTED);
	}
	if (row) {
		bucket = size_bucket(thread->size);
		if (bucket < SIZE_BUCKETS)
			__sync_fetch_and_add(&row->sizes[bucket], 1);
	}
	if (row && result >= 0) { /* a read at the file's end has a place, too */
		__sync_fetch_and_add(&row->bytes, result);
		if (thread->flags & HAS_OFFSET) {
			place = place_of(state, is_write(thread), thread->offset,
					 thread->offset + result);
			if (place < PLACES)
				__sync_fetch_and_add(&row->places[place], 1);
			else
				figure(UNPLACED);
		}
	}
	flags = thread->flags;
	if (flags & SYNCHRONOUS)
		flags |= IS_SYNC;
	if (level == LEVEL_EVENTS)
		flags |= IS_ACCESS;
	if (flags & (IS_SYNC | IS_ACCESS))
		send_call(thread, file_id, flags, latency_ns, result);
	return 0;
}

SEC("tracepoint/leave_access") int leave_access(struct leave *leave)
{
	struct thread *thread = finished();
	u64 latency_ns;

	if (!thread)
		return 0;
	latency_ns = ktime_get_ns() - thread->start_ns;
	if (is(thread, READV) || is(thread, WRITEV) || is(thread, PREADV) || is(thread, PWRITEV))
		thread->size = size_of_parts(thread->args[0], thread->size);
	accessed(thread, latency_ns, leave->result);
	thread->call = NONE;
	return 0;
}

/* One side of a copy, if it is a file: `place` is where the caller has its place, which is behind
 * the bytes by now; 0: where the descriptor stands. */
INLINE void copied(struct thread *thread, u32 descriptor, u64 place, u64 latency_ns, s64 result)
{
	struct file *file = file_of(current_task(), descriptor);
	struct head head;
	u32 file_flags = 0;
	s64 end = -1;

	if (!file)
		return;
	read_inode(&head, file);
	thread->flags = 0;
	if (is_write(thread)) {
		READ(file_flags, file->f_flags);
		if (writes_durably(&head, file_flags))
			thread->flags |= SYNCHRONOUS;
		else if (level == LEVEL_SYNC)
			return;
	}
	if (!identify(thread, file, &head, 0))
		return;
	if (place)
		read_user(&end, sizeof(end), (void *)place);
	else
		READ(end, file->f_pos);
	if (result >= 0 && end >= result) {
		thread->offset = end - result;
		thread->flags |= HAS_OFFSET;
	}
	accessed(thread, latency_ns, result);
}

SEC("tracepoint/leave_copy") int leave_copy(struct leave *leave)
{
	struct thread *thread = finished();
	u64 latency_ns;

	if (!thread)
		return 0;
	latency_ns = ktime_get_ns() - thread->start_ns;
	if (level != LEVEL_SYNC)
		copied(thread, thread->args[0], thread->args[1], latency_ns, leave->result);
	thread->call++; /* the one that writes */
	copied(thread, thread->args[2], thread->args[3], latency_ns, leave->result);
	thread->call = NONE;
	return 0;
}

/* Puts the folder that a path is relative to, and the path. */
APART u32 put_path(struct scratch *scratch, u32 at, u64 folder, u64 path, u32 which)
{
	struct task_struct *task = current_task();
	struct vfsmount *mount = NULL;
	struct dentry *dentry = NULL;
	u32 begun = at;
	char first = 0;

	if (!scratch)
		return 0;
	which &= 1;
	read_user(&first, 1, (void *)path);
	if (first != '/') {
		if ((s32)folder == AT_FDCWD) {
			struct fs_struct *fs = task->fs;

			if (fs) {
				READ(dentry, fs->pwd.dentry);
				READ(mount, fs->pwd.mnt);
			}
		} else {
			struct file *file = file_of(task, folder);

			if (file) {
				READ(dentry, file->f_path.dentry);
				READ(mount, file->f_path.mnt);
			}
		}
		if (dentry)
			at = put_walk(scratch, at, (u64)dentry);
		scratch->record.mounts[which] = mount_of(mount);
	}
	scratch->record.lengths[which * 2] = at - begun;
	begun = at;
	at = put_string(scratch, at, path);
	scratch->record.lengths[which * 2 + 1] = at - begun;
	return at;
}

/* unlink, rename: counted by user space, which knows of which file. */
SEC("tracepoint/leave_name") int leave_name(struct leave *leave)
{
	struct thread *thread = finished();
	u64 id = current_pid_tgid();
	u32 zero = 0, length;
	struct scratch *scratch;
	u64 latency_ns;

	if (!thread)
		return 0;
	latency_ns = ktime_get_ns() - thread->start_ns;
	scratch = map_lookup(&scratches, &zero);
	if (!scratch) /* it is always there, but the verifier does not know */
		return 0;
	__builtin_memset(&scratch->record, 0, sizeof(scratch->record));
	scratch->record.kind = KIND_NAME;
	scratch->record.call = thread->call - 1;
	scratch->record.file_id = NO_FILE;
	scratch->record.start_ns = thread->start_ns;
	scratch->record.latency_ns = latency_ns;
	scratch->record.pid = id >> 32;
	scratch->record.tid = id;
	scratch->record.result = leave->result;
	length = put_path(scratch, 0, thread->args[0], thread->args[1], 0);
	if (is(thread, RENAME))
		length = put_path(scratch, length, thread->args[2], thread->args[3], 1);
	thread->call = NONE;
	send_name(scratch, length, LOST_NAMES);
	return 0;
}

#endif
