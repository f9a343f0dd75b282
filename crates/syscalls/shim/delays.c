/* Planted latency: NFSLAB_SHIM_DELAY="sync:2000000:/folder/of/the/log/;read:50000:/data/base/".
 *
 * A call of that kind on a file whose path begins so waits so many nanoseconds before it is made.
 * The wait is within what is recorded of the call. Copies within the kernel, sync() and msync do
 * not wait. */
#define _GNU_SOURCE
#include "record.h"

#include <stdlib.h>

#define DELAYS_MAX 16
/* A sleeper wakes late by the timer's slack (50 us) and more: the rest is spent looking at the
 * clock. */
#define AWAKE_NS 80000u

struct delay {
	uint64_t ns;
	const char *prefix;
	size_t prefix_bytes;
	enum delayed kind;
};

unsigned int delayed_kinds;
static struct delay delays[DELAYS_MAX];
/* A copy: programs write over their environment (PostgreSQL shows its title there). */
static char asked[2 * PATH_BYTES];
static int delays_used;

static void wait_until(uint64_t until_ns)
{
	uint64_t now = now_ns(), sleep_ns;
	struct timespec left;

	while (now + AWAKE_NS < until_ns) {
		sleep_ns = until_ns - now - AWAKE_NS;
		left.tv_sec = (time_t)(sleep_ns / 1000000000u);
		left.tv_nsec = (long)(sleep_ns % 1000000000u);
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &left, NULL);
		now = now_ns();
	}
	while (now_ns() < until_ns)
		;
}

void delay_call(enum delayed kind, int fd)
{
	char path[PATH_BYTES];
	int saved = errno;
	uint64_t begin_ns = now_ns();
	size_t bytes = path_of(fd, path);

	for (int i = 0; i < delays_used; i++) {
		if (delays[i].kind == kind && bytes >= delays[i].prefix_bytes &&
		    !memcmp(path, delays[i].prefix, delays[i].prefix_bytes)) {
			wait_until(begin_ns + delays[i].ns);
			break;
		}
	}
	errno = saved;
}

/* Reads the text; what is not understood plants nothing (nfslab makes the text). */
void read_delays(const char *text)
{
	static const char *const KINDS[] = {"sync:", "read:", "write:"};
	char *end;

	if (strlen(text) >= sizeof(asked))
		return;
	strcpy(asked, text);
	text = asked;
	while (delays_used < DELAYS_MAX) {
		struct delay *delay = &delays[delays_used];
		int kind = 0;

		while (kind < 3 && strncmp(text, KINDS[kind], strlen(KINDS[kind])))
			kind++;
		if (kind == 3)
			return;
		delay->kind = (enum delayed)kind;
		delay->ns = strtoull(text + strlen(KINDS[kind]), &end, 10);
		if (*end != ':')
			return;
		delay->prefix = end + 1;
		delay->prefix_bytes = strcspn(end + 1, ";");
		delayed_kinds |= 1u << kind;
		delays_used++;
		text = delay->prefix + delay->prefix_bytes;
		if (*text++ != ';')
			return;
	}
}
