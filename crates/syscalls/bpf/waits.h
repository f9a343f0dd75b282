/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Where the time of processes goes: on a processor, waiting for one, or blocked, by what the
 * process itself says that it waits for. A PostgreSQL server keeps a number for that (a wait event)
 * in memory, and a pointer to it at `wait_word`, the same address in all its processes. Of a server
 * that keeps none (`switched_in_call`) it is the call that the thread is in, and on what.
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

/* State of a thread by the call that it is in: the number of the call, and below it the descriptor
 * of calls that `calls` names; of a futex how it is waited for. */
#define CALL_SHIFT 22
#define DETAIL_MASK ((1u << CALL_SHIFT) - 1)
#define NO_CALL 511
#define FUTEX 202
#define FUTEX_OP_MASK 0x1ff
#define OWN_STACK (1 << 20)

enum futex_detail { TIMED = 1 << 9, OWN = 1 << 10, OF_PROGRAM = 1 << 11, VALUE_SHIFT = 12 };

/* Put in by the loader: where the program and its static objects lie in memory. */
const volatile u64 program_from = 0;
const volatile u64 program_until = 0;

INLINE u32 futex_detail(struct pt_regs *registers)
{
	u64 at = registers->di;
	u32 value = registers->dx > 3 ? 3 : registers->dx;
	u32 detail = (registers->si & FUTEX_OP_MASK) | value << VALUE_SHIFT;

	if (registers->r10)
		detail |= TIMED;
	/* What a thread has for itself (TLS) lies above its stack, in the same piece of memory. */
	if (at - registers->sp < OWN_STACK)
		detail |= OWN;
	if (at >= program_from && at < program_until)
		detail |= OF_PROGRAM;
	return detail;
}

/* Which call the current thread is in. */
INLINE u32 call_now(struct task_struct *task)
{
	struct pt_regs *registers = task_registers(task);
	u64 call = registers->orig_ax;

	/* Negative: it came by a fault or an interrupt. */
	if (call >= NO_CALL)
		return (u32)NO_CALL << CALL_SHIFT;
	if (call == FUTEX)
		return (u32)FUTEX << CALL_SHIFT | futex_detail(registers);
	return (u32)call << CALL_SHIFT | (calls[call & 511] ? registers->di & DETAIL_MASK : 0);
}

/* A task leaves its processor: counts the pause before, and the time on the processor since.
 *
 * When it came back is noted by `switched`; where that is missing (on Linux 6.18 about one in a
 * hundred is, on busy machines), its time on the processor is the scheduler's own account, which
 * lacks interrupts. */
INLINE void left(struct waiter *waiter, struct task_struct *task, u64 now, bool in_call)
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
	waiter->state = in_call ? call_now(task) : state_now();
}

INLINE void at_switch(u64 *arguments, bool in_call)
{
	struct task_struct *from = (struct task_struct *)arguments[1];
	struct task_struct *to = (struct task_struct *)arguments[2];
	u64 now = ktime_get_ns();
	struct waiter *waiter = task_storage(&waiters, from, NULL, 0);

	if (waiter)
		left(waiter, from, now, in_call);
	waiter = task_storage(&waiters, to, NULL, 0);
	if (waiter)
		waiter->in_ns = now;
}

SEC("tp_btf/sched_switch") int switched(u64 *arguments)
{
	at_switch(arguments, 0);
	return 0;
}

/* A program of its own: Linux 5.15 was the first to tell a task's registers. */
SEC("tp_btf/sched_switch") int switched_in_call(u64 *arguments)
{
	at_switch(arguments, 1);
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
