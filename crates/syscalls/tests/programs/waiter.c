/* A program that says what it waits for, as PostgreSQL does: through a pointer that it exports, into memory that its
 * processes share. It says when it is ready; on a line of its input it forks a process, and prints what that
 * measured: "PID KIND NANOSECONDS". The line "cycles": it computes and sleeps in turn, two in five of the time on a
 * processor; another line: it sleeps, waits for another process, and computes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLEEP = 0x0a000047, PIPE = 0x01000008, COMPUTING = 0x0a000049 };

static volatile unsigned own, *shared;
volatile unsigned *what_it_waits_for = &own;

static long long now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void tell(const char *kind, long long ns)
{
	printf("%d %s %lld\n", getpid(), kind, ns);
	fflush(stdout);
}

static void pause_ms(long ms)
{
	struct timespec time = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&time, &time))
		;
}

static void cycles(void)
{
	long long at = now(CLOCK_MONOTONIC), then, computed = 0, slept = 0;

	for (int i = 0; i < 1500; i++) {
		struct timespec time = {0, 600000};
		long long cpu = now(CLOCK_PROCESS_CPUTIME_ID);

		*what_it_waits_for = COMPUTING;
		while (now(CLOCK_PROCESS_CPUTIME_ID) - cpu < 400000)
			;
		then = now(CLOCK_MONOTONIC);
		*what_it_waits_for = SLEEP;
		computed += then - at;
		nanosleep(&time, NULL);
		at = now(CLOCK_MONOTONIC);
		slept += at - then;
	}
	*what_it_waits_for = 0;
	tell("computing", computed);
	tell("sleep", slept);
	pause_ms(50);
}

static void work(void)
{
	long long begun = now(CLOCK_MONOTONIC), from = begun, cpu;
	int ends[2];
	char byte;

	*what_it_waits_for = SLEEP;
	for (int i = 0; i < 30; i++)
		pause_ms(10);
	*what_it_waits_for = 0;
	tell("sleep", now(CLOCK_MONOTONIC) - from);

	if (pipe(ends))
		exit(2);
	if (fork() == 0) {
		pause_ms(200);
		exit(write(ends[1], "x", 1) != 1);
	}
	from = now(CLOCK_MONOTONIC);
	*what_it_waits_for = PIPE;
	if (read(ends[0], &byte, 1) != 1)
		exit(2);
	*what_it_waits_for = 0;
	tell("pipe", now(CLOCK_MONOTONIC) - from);
	wait(NULL);

	from = now(CLOCK_MONOTONIC);
	*what_it_waits_for = COMPUTING; /* it says so, and is never blocked */
	cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	while (now(CLOCK_PROCESS_CPUTIME_ID) - cpu < 300000000)
		;
	*what_it_waits_for = 0;
	tell("computing", now(CLOCK_MONOTONIC) - from);
	tell("cpu", now(CLOCK_PROCESS_CPUTIME_ID));
	tell("whole", now(CLOCK_MONOTONIC) - begun);
	pause_ms(1); /* leaves the processor: what was before is counted */
}

int main(void)
{
	char line[16];

	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 2;
	tell("ready", 0);
	while (fgets(line, sizeof(line), stdin)) {
		if (fork() == 0) {
			what_it_waits_for = &shared[7];
			strcmp(line, "cycles\n") ? work() : cycles();
			return 0;
		}
		wait(NULL);
		tell("done", 0);
	}
	return 0;
}
