/* A program that says what it waits for, as PostgreSQL does: through a pointer that it exports. It says when it
 * is ready; on a line of its input it forks a process that sleeps, waits for another process, and computes, each for
 * a time that it prints as it measured it: "PID KIND NANOSECONDS". */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLEEP = 0x0a000047, PIPE = 0x01000008, COMPUTING = 0x0a000049 };

static volatile unsigned own;
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

	*what_it_waits_for = COMPUTING; /* it says so, and is never blocked */
	cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	while (now(CLOCK_PROCESS_CPUTIME_ID) - cpu < 300000000)
		;
	*what_it_waits_for = 0;
	tell("cpu", now(CLOCK_PROCESS_CPUTIME_ID));
	tell("whole", now(CLOCK_MONOTONIC) - begun);
	pause_ms(1); /* leaves the processor: what was before is counted */
}

int main(void)
{
	char line[16];

	tell("ready", 0);
	while (fgets(line, sizeof(line), stdin)) {
		if (fork() == 0) {
			work();
			return 0;
		}
		wait(NULL);
		tell("done", 0);
	}
	return 0;
}
