/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * The beginnings of calls: note what a call is about, and when.
 */
#ifndef NFSLAB_ENTER_H
#define NFSLAB_ENTER_H

#include "files.h"

/* The entry of this thread, if it is watched. One that was there before its process was first
 * watched has none yet: its leader has. */
INLINE struct thread *watched(struct task_struct *task)
{
	struct thread *thread = task_storage(&threads, task, NULL, 0);
	struct task_struct *leader;

	if (thread || task->pid == task->tgid)
		return thread;
	leader = task->group_leader;
	if (!leader || !task_storage(&threads, leader, NULL, 0))
		return NULL;
	return task_storage(&threads, task, NULL, STORAGE_CREATE);
}

INLINE u8 call_of(u32 number)
{
	return number < sizeof(calls) ? calls[number] : NONE;
}

INLINE bool is(struct thread *thread, enum call call)
{
	return thread->call == call + 1;
}

INLINE bool is_write(struct thread *thread)
{
	return is(thread, WRITE) || is(thread, PWRITE) || is(thread, WRITEV) || is(thread, PWRITEV) ||
	       is(thread, SENDFILE_TO) || is(thread, COPY_FILE_RANGE_TO) || is(thread, SPLICE_TO);
}

INLINE bool is_sync(struct thread *thread)
{
	return is(thread, FSYNC) || is(thread, FDATASYNC) || is(thread, SYNC_FILE_RANGE) ||
	       is(thread, SYNC) || is(thread, MSYNC);
}

INLINE void begin(struct thread *thread, u8 call)
{
	thread->call = call;
	thread->flags = 0;
}

/* As late as can be: what was done here is no part of the call. */
INLINE void start(struct thread *thread)
{
	thread->start_ns = ktime_get_ns();
}

INLINE void pass(struct thread *thread)
{
	thread->call = PASSED;
}

/* sync, open: nothing is known before they are done. */
INLINE void enter_plain(struct enter *enter)
{
	struct thread *thread = watched(current_task());

	if (!thread)
		return;
	begin(thread, call_of(enter->number));
	start(thread);
}

/* fsync, fdatasync, syncfs, close, ftruncate, fallocate, lseek, sync_file_range, mmap. */
INLINE void enter_descriptor(struct enter *enter, u32 descriptor, bool ranged)
{
	struct task_struct *task = current_task();
	struct thread *thread = watched(task);
	struct head head;
	struct file *file;
	bool syncs;

	if (!thread)
		return;
	begin(thread, call_of(enter->number));
	syncs = is_sync(thread);
	file = file_of(task, descriptor);
	if (file)
		read_inode(&head, file);
	if (!file || !identify(thread, file, &head, syncs)) {
		if (!syncs)
			pass(thread);
		start(thread);
		return;
	}
	if (ranged) {
		thread->offset = enter->args[1];
		thread->size = enter->args[2];
		thread->flags |= HAS_OFFSET;
	}
	if (is(thread, CLOSE)) { /* it is gone when close returns */
		struct file_state *state = state_of(thread, 0);

		thread->file_id = state ? state->id : NO_FILE;
		thread->flags |= RESOLVED;
	}
	start(thread);
}

/* Reads and writes. `vector`: the second argument is a vector of so many parts as the third says.
 * `position`: as the call says it; -1 for the file's own. */
INLINE void enter_access(struct enter *enter, s64 position, u32 call_flags)
{
	struct task_struct *task = current_task();
	struct thread *thread = watched(task);
	struct head head;
	struct file *file;
	u32 file_flags = 0;
	bool writes;
	u8 call;

	if (!thread)
		return;
	call = call_of(enter->number);
	begin(thread, call);
	writes = is_write(thread);
	file = file_of(task, enter->args[0]);
	if (!file) {
		pass(thread);
		return;
	}
	read_inode(&head, file);
	if (writes) {
		READ(file_flags, file->f_flags);
		if (call_flags & RWF_APPEND)
			file_flags |= O_APPEND;
		if ((call_flags & (RWF_DSYNC | RWF_SYNC)) || writes_durably(&head, file_flags)) {
			thread->flags |= SYNCHRONOUS;
		} else if (level == LEVEL_SYNC) {
			pass(thread);
			return;
		}
	}
	if (!identify(thread, file, &head, 0)) {
		pass(thread);
		return;
	}
	if (file_flags & O_APPEND) { /* the place that is asked for is passed over */
		position = IN_HEAD(&head, struct inode, i_size);
	} else if (position == -1) {
		READ(position, file->f_pos);
	}
	thread->offset = position;
	thread->args[0] = enter->args[1];
	thread->size = enter->args[2];
	if (position >= 0)
		thread->flags |= HAS_OFFSET;
	start(thread);
}

/* Copies within the kernel: what each side is, is looked at when they are done. */
INLINE void enter_copy(struct enter *enter, u64 in, u64 in_place, u64 out, u64 out_place, u64 size)
{
	struct thread *thread = watched(current_task());

	if (!thread)
		return;
	begin(thread, call_of(enter->number));
	thread->args[0] = in;
	thread->args[1] = in_place;
	thread->args[2] = out;
	thread->args[3] = out_place;
	thread->size = size;
	start(thread);
}

/* sendfile: it writes where the descriptor stands. */
SEC("tracepoint/enter_send") int enter_send(struct enter *enter)
{
	enter_copy(enter, enter->args[1], enter->args[2], enter->args[0], 0, enter->args[3]);
	return 0;
}

/* copy_file_range, splice. */
SEC("tracepoint/enter_splice") int enter_splice(struct enter *enter)
{
	enter_copy(enter, enter->args[0], enter->args[1], enter->args[2], enter->args[3],
		   enter->args[4]);
	return 0;
}

/* MS_ASYNC does nothing. */
SEC("tracepoint/enter_msync") int enter_msync(struct enter *enter)
{
	if (enter->args[2] & MS_SYNC) {
		enter_plain(enter);
	} else {
		struct thread *thread = watched(current_task());

		if (thread)
			pass(thread);
	}
	return 0;
}

SEC("tracepoint/enter_none") int enter_none(struct enter *enter)
{
	enter_plain(enter);
	return 0;
}

SEC("tracepoint/enter_fd") int enter_fd(struct enter *enter)
{
	enter_descriptor(enter, enter->args[0], 0);
	return 0;
}

SEC("tracepoint/enter_range") int enter_range(struct enter *enter)
{
	enter_descriptor(enter, enter->args[0], 1);
	return 0;
}

SEC("tracepoint/enter_map") int enter_map(struct enter *enter)
{
	if (!(enter->args[3] & MAP_ANONYMOUS))
		enter_descriptor(enter, enter->args[4], 0);
	return 0;
}

SEC("tracepoint/enter_rw") int enter_rw(struct enter *enter)
{
	enter_access(enter, -1, 0);
	return 0;
}

/* pread64, preadv and the writes: a place of -1 is refused by Linux. */
SEC("tracepoint/enter_prw") int enter_prw(struct enter *enter)
{
	s64 position = enter->args[3];

	enter_access(enter, position < 0 ? -2 : position, 0);
	return 0;
}

SEC("tracepoint/enter_prw2") int enter_prw2(struct enter *enter)
{
	enter_access(enter, enter->args[3], enter->args[5]);
	return 0;
}

/* unlink, rmdir, truncate: (path); rename: (path, path); unlinkat: (folder, path);
 * renameat: (folder, path, folder, path). Read when they are done: then the strings are there. */
INLINE void enter_names(struct enter *enter, u64 folder, u64 path, u64 new_folder, u64 new_path)
{
	struct thread *thread = watched(current_task());

	if (!thread)
		return;
	begin(thread, call_of(enter->number));
	thread->args[0] = folder;
	thread->args[1] = path;
	thread->args[2] = new_folder;
	thread->args[3] = new_path;
	start(thread);
}

SEC("tracepoint/enter_path") int enter_path(struct enter *enter)
{
	enter_names(enter, AT_FDCWD, enter->args[0], 0, 0);
	return 0;
}

SEC("tracepoint/enter_paths") int enter_paths(struct enter *enter)
{
	enter_names(enter, AT_FDCWD, enter->args[0], AT_FDCWD, enter->args[1]);
	return 0;
}

SEC("tracepoint/enter_path_at") int enter_path_at(struct enter *enter)
{
	enter_names(enter, enter->args[0], enter->args[1], 0, 0);
	return 0;
}

SEC("tracepoint/enter_paths_at") int enter_paths_at(struct enter *enter)
{
	enter_names(enter, enter->args[0], enter->args[1], enter->args[2], enter->args[3]);
	return 0;
}

#endif
