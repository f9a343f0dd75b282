/* What makes bytes durable. Such a call is rare and slow: what the descriptor is, is asked anew
 * each time. */
#define _GNU_SOURCE
#include "next.h"

static void ended_sync(uint8_t call, int fd, uint8_t flags, uint64_t start_ns, int result,
		       uint64_t offset, uint64_t size)
{
	uint64_t latency_ns = now_ns() - start_ns;
	int saved = errno;
	uint32_t what = glance(fd);
	struct call_record record = {
		.start_ns = start_ns, .latency_ns = latency_ns, .offset = offset, .size = size,
		.result = result < 0 ? -(int64_t)saved : result, .call = call, .flags = flags,
		.file = file_of(what),
	};

	if (what & IS_FILE)
		send_call(&record);
	errno = saved;
}

#define SYNC_OF(call, fd, flags, offset, size, doing)                                           \
	uint64_t start_ns;                                                                      \
	int result;                                                                             \
	if (!watches(LEVEL_SYNC)) {                                                             \
		delay_if_asked(DELAYED_SYNC, fd);                                               \
		return doing;                                                                   \
	}                                                                                       \
	start_ns = now_ns();                                                                    \
	delay_if_asked(DELAYED_SYNC, fd);                                                       \
	result = doing;                                                                         \
	ended_sync(call, fd, flags, start_ns, result, offset, size);                            \
	return result;

SEEN int fsync(int fd)
{
	SYNC_OF(FSYNC, fd, 0, 0, 0, NEXT(fsync, (int)syscall(SYS_fsync, fd), fd))
}

SEEN int fdatasync(int fd)
{
	SYNC_OF(FDATASYNC, fd, 0, 0, 0, NEXT(fdatasync, (int)syscall(SYS_fdatasync, fd), fd))
}

SEEN int syncfs(int fd)
{
	SYNC_OF(SYNC, fd, 0, 0, 0, NEXT(syncfs, (int)syscall(SYS_syncfs, fd), fd))
}

SEEN int sync_file_range(int fd, off_t offset, off_t size, unsigned int flags)
{
	SYNC_OF(SYNC_FILE_RANGE, fd, HAS_OFFSET | HAS_SIZE, (uint64_t)offset, (uint64_t)size,
		NEXT(sync_file_range, (int)syscall(SYS_sync_file_range, fd, offset, size, flags),
		     fd, offset, size, flags))
}

/* Of which file is not asked. MS_ASYNC does nothing. */
SEEN int msync(void *from, size_t size, int flags)
{
	uint64_t start_ns = now_ns();
	int result = NEXT(msync, (int)syscall(SYS_msync, from, size, flags), from, size, flags);

	if (flags & MS_SYNC && watches(LEVEL_SYNC))
		ended(MSYNC, 0, NO_FILE, start_ns, result, 0, 0);
	return result;
}

SEEN void sync(void)
{
	uint64_t start_ns = now_ns();

	if (next_sync)
		next_sync();
	else
		syscall(SYS_sync);
	if (watches(LEVEL_SYNC))
		ended(SYNC, 0, NO_FILE, start_ns, 0, 0, 0);
}
