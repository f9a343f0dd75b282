/* Writing records: what every interposed call uses. Nothing here allocates, locks or changes
 * errno; all of it may run within a signal handler, and in a child of vfork. */
#ifndef NFSLAB_SHIM_RECORD_H
#define NFSLAB_SHIM_RECORD_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "layout.h"

/* Descriptors whose file is remembered; of greater ones it is asked each time. */
#define DESCRIPTORS_MAX 65536
#define PATH_BYTES 4096
/* Entries of the table of files that are tried. */
#define PROBES_MAX 64

/* What a descriptor is: 0 not known; else KNOWN, flags, and the number of a file above them. */
enum { KNOWN = 1, IS_FILE = 2, IS_FOLDER = 4, IS_SYNC = 8, SHIFT = 4 };
#define FILE_NONE ((UINT32_MAX >> SHIFT))

extern struct header *shared;
extern int level;
extern uint32_t own_pid;
extern uint32_t descriptors[DESCRIPTORS_MAX];

static inline bool watches(int least)
{
	return shared && level >= least && !__atomic_load_n(&shared->closed, __ATOMIC_RELAXED);
}

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Forgets what a descriptor was: before it is closed and when a call returns it. */
static inline void forget(int fd)
{
	if (fd >= 0 && fd < DESCRIPTORS_MAX)
		__atomic_store_n(&descriptors[fd], 0, __ATOMIC_RELAXED);
}

void forget_range(unsigned int first, unsigned int last);

/* Asks what a descriptor is, and remembers it. */
uint32_t look(int fd);

/* Asks what it is, but for its flags, and remembers nothing. */
uint32_t glance(int fd);

static inline uint32_t what_is(int fd)
{
	uint32_t known;

	if (fd < 0 || fd >= DESCRIPTORS_MAX)
		return look(fd);
	known = __atomic_load_n(&descriptors[fd], __ATOMIC_RELAXED);
	return known ? known : look(fd);
}

/* Is it known to be no file (a socket, a pipe)? */
static inline bool is_other(int fd)
{
	return fd >= 0 && fd < DESCRIPTORS_MAX &&
	       __atomic_load_n(&descriptors[fd], __ATOMIC_RELAXED) == KNOWN;
}

static inline uint32_t file_of(uint32_t what)
{
	uint32_t file = what >> SHIFT;

	return file == FILE_NONE ? NO_FILE : file;
}

/* The file of a path, and its name. */
uint32_t file_at(const char *path);

/* The path of a descriptor, into `to` (PATH_BYTES); 0 when it cannot be had. */
size_t path_of(int fd, char *to);

/* Calls that may be made to wait (delays.c): kinds of which some are, and the wait. */
enum delayed { DELAYED_SYNC, DELAYED_READ, DELAYED_WRITE };
extern unsigned int delayed_kinds;
void delay_call(enum delayed kind, int fd);
void read_delays(const char *text);

static inline void delay_if_asked(enum delayed kind, int fd)
{
	if (__builtin_expect(delayed_kinds & 1u << kind, 0))
		delay_call(kind, fd);
}

/* Sends a record whose pid, tid and latency are filled in here. */
void send_call(struct call_record *record);

/* Sends the absolute form of a path; 0 when it found no room. */
uint32_t send_path(int folder, const char *path);

#endif
