/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Watches the system calls on files of some processes and of all that they fork.
 *
 *   enter.h   begin of a call  -> what and when, kept with the thread
 *   leave.h   end of a call    -> counted per file and call; a record into the ring
 *   files.h   descriptor -> inode, place of an access, counts
 *   names.h   names of files
 *   blocks.h  requests of block devices
 *   waits.h   where the time of processes goes (of its own: nothing of the others runs with it)
 *   state.h   maps and records
 *   kernel.h  what is needed of Linux
 *
 * The loader (src/ebpf) attaches a program to each tracepoint that a level needs and to no other:
 * one that is attached costs every process some tens of nanoseconds in each call.
 *
 * The licence that the kernel is told decides which helpers it grants; these files alone are under
 * it, and they are a program of their own.
 */
#include "blocks.h"
#include "leave.h"
#include "waits.h"

/* Whom a watched process forks is watched, from its first call on. */
SEC("tp_btf/sched_process_fork") int forked(u64 *arguments)
{
	struct task_struct *parent = (struct task_struct *)arguments[0];
	struct task_struct *child = (struct task_struct *)arguments[1];
	struct thread *thread;

	if (!watched(parent))
		return 0;
	thread = task_storage(&threads, child, NULL, STORAGE_CREATE);
	if (thread && child->pid == child->tgid && !thread->counted) {
		thread->counted = 1;
		figure(FORKED);
	}
	return 0;
}

SEC("tp_btf/sched_process_exit") int exited(u64 *arguments)
{
	struct task_struct *task = (struct task_struct *)arguments[0];
	struct thread *thread = task_storage(&threads, task, NULL, 0);

	if (thread && thread->counted) {
		thread->counted = 0;
		figure(EXITED);
	}
	return 0;
}

char licence[] SEC("license") = "Dual MIT/GPL";
