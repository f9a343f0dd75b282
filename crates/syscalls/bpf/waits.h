/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Where the time of processes goes: on a processor, waiting for one, or blocked, by what the
 * process itself says that it waits for. A PostgreSQL server keeps a number for that (a wait event)
 * in memory, and a pointer to it at `wait_word`, the same address in all its processes.
 *
 * A process that leaves the processor is still the current one: its memory can be read. How long it
 * was runnable before it came back is the scheduler's own account (sched_info.run_delay), which is
 * of the whole pause once the process leaves the next time: each pause is counted then.
 */
#ifndef NFSLAB_WAITS_H
#define NFSLAB_WAITS_H

#include "state.h"

/* Instead of a number of the process. */
enum wait_state {
	STATE_RUNNING = 0xffffffff,
	STATE_QUEUED = 0xfffffffe,
	STATE_UNREAD = 0xfffffffd,
};

struct waiter {
	u64 in_ns;
	u64 out_ns;
	u64 queued_ns;
	u64 ran_ns;
	u32 state;
	u32 unused;
};

struct wait_key {
	u32 tid;
	u32 state;
};

struct wait_total {
	u64 ns;
	u64 times;
};

_Static_assert(sizeof(struct waiter) == 40, "WAITER_BYTES");

/* Put in by the loader. */
const volatile u64 wait_word = 0;

struct {
	UINT(type, MAP_TASK_STORAGE);
	UINT(map_flags, F_NO_PREALLOC);
	TYPE(key, int);
	TYPE(value, struct waiter);
} waiters SEC(".maps");

/* Its room is made before: where a process leaves the processor, none may be had. */
struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 65536);
	TYPE(key, struct wait_key);
	TYPE(value, struct wait_total);
} wait_totals SEC(".maps");

/* Nobody else adds to the rows of a thread: it leaves one processor at a time. */
INLINE void add_time(u32 tid, u32 state, u64 ns)
{
	struct wait_key key = {.tid = tid, .state = state};
	struct wait_total fresh = {.ns = ns, .times = 1};
	struct wait_total *total = map_lookup(&wait_totals, &key);

	if (total) {
		total->ns += ns;
		total->times++;
	} else if (map_update(&wait_totals, &key, &fresh, NOEXIST)) {
		figure(UNCOUNTED);
	}
}

/* What the current process says that it waits for. */
INLINE u32 state_now(void)
{
	void *word = NULL;
	u32 state;

	if (read_user(&word, sizeof(word), (const void *)wait_word) ||
	    read_user(&state, sizeof(state), word))
		return STATE_UNREAD;
	return state;
}

/* A task leaves its processor: counts the pause before, and the time on the processor since.
 *
 * When it came back is noted by `switched`; where that is missing (on Linux 6.18 about one in a
 * hundred is, on busy machines), its time on the processor is the scheduler's own account, which
 * lacks interrupts. */
INLINE void left(struct waiter *waiter, struct task_struct *task, u64 now)
{
	u64 queued_ns = task->sched_info.run_delay;
	u64 ran_ns = task->se.sum_exec_runtime;
	u64 ran = waiter->in_ns ? now - waiter->in_ns : ran_ns - waiter->ran_ns;

	if (waiter->out_ns) {
		u64 whole = now - waiter->out_ns;
		u64 queued = queued_ns - waiter->queued_ns;

		/* Of several clocks: one may be ahead by some nanoseconds. */
		if (ran > whole)
			ran = whole;
		if (queued > whole - ran)
			queued = whole - ran;
		if (queued)
			add_time(task->pid, STATE_QUEUED, queued);
		if (whole - ran > queued)
			add_time(task->pid, waiter->state, whole - ran - queued);
	}
	if (waiter->out_ns || waiter->in_ns)
		add_time(task->pid, STATE_RUNNING, ran);
	waiter->in_ns = 0;
	waiter->out_ns = now;
	waiter->queued_ns = queued_ns;
	waiter->ran_ns = ran_ns;
	waiter->state = state_now();
}

SEC("tp_btf/sched_switch") int switched(u64 *arguments)
{
	struct task_struct *from = (struct task_struct *)arguments[1];
	struct task_struct *to = (struct task_struct *)arguments[2];
	u64 now = ktime_get_ns();
	struct waiter *waiter = task_storage(&waiters, from, NULL, 0);

	if (waiter)
		left(waiter, from, now);
	waiter = task_storage(&waiters, to, NULL, 0);
	if (waiter)
		waiter->in_ns = now;
	return 0;
}

SEC("tp_btf/sched_process_fork") int waiter_forked(u64 *arguments)
{
	struct task_struct *parent = (struct task_struct *)arguments[0];
	struct task_struct *child = (struct task_struct *)arguments[1];

	if (task_storage(&waiters, parent, NULL, 0))
		task_storage(&waiters, child, NULL, STORAGE_CREATE);
	return 0;
}

#endif
