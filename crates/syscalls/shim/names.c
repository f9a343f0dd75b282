/* Calls that name a file. Paths are read after the call: what the kernel could not read, is not
 * read here. */
#define _GNU_SOURCE
#include "next.h"

/* Sends what a call did to a name (and `to` a second one). */
static int changed(uint8_t call, uint8_t flags, uint64_t start_ns, int result, int folder,
		   const char *path, int folder_to, const char *to)
{
	uint64_t latency_ns = now_ns() - start_ns;
	int saved = errno;
	struct call_record record = {
		.start_ns = start_ns, .latency_ns = latency_ns, .call = call, .flags = flags,
		.result = result < 0 ? -(int64_t)saved : result, .file = NO_FILE,
	};

	if (result >= 0 || (saved != EFAULT && saved != ENAMETOOLONG)) {
		record.offset = send_path(folder, path);
		record.size = to ? send_path(folder_to, to) : 0;
	}
	send_call(&record);
	errno = saved;
	return result;
}

#define NAMED(call, flags, folder, path, folder_to, to, doing)                                  \
	uint64_t start_ns;                                                                      \
	if (!watches(LEVEL_COUNTS))                                                             \
		return doing;                                                                   \
	start_ns = now_ns();                                                                    \
	return changed(call, flags, start_ns, doing, folder, path, folder_to, to);

SEEN int unlink(const char *path)
{
	NAMED(UNLINK, 0, AT_FDCWD, path, 0, NULL,
	      NEXT(unlink, (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0), path))
}

SEEN int unlinkat(int folder, const char *path, int flags)
{
	NAMED(UNLINK, 0, folder, path, 0, NULL,
	      NEXT(unlinkat, (int)syscall(SYS_unlinkat, folder, path, flags), folder, path, flags))
}

SEEN int rmdir(const char *path)
{
	NAMED(UNLINK, 0, AT_FDCWD, path, 0, NULL,
	      NEXT(rmdir, (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR), path))
}

static int raw_rename(int folder, const char *path, int folder_to, const char *to,
		      unsigned int flags)
{
	return (int)syscall(SYS_renameat2, folder, path, folder_to, to, flags);
}

SEEN int rename(const char *path, const char *to)
{
	NAMED(RENAME, 0, AT_FDCWD, path, AT_FDCWD, to,
	      NEXT(rename, raw_rename(AT_FDCWD, path, AT_FDCWD, to, 0), path, to))
}

SEEN int renameat(int folder, const char *path, int folder_to, const char *to)
{
	NAMED(RENAME, 0, folder, path, folder_to, to,
	      NEXT(renameat, raw_rename(folder, path, folder_to, to, 0), folder, path, folder_to,
		   to))
}

SEEN int renameat2(int folder, const char *path, int folder_to, const char *to,
		   unsigned int flags)
{
	NAMED(RENAME, flags & RENAME_EXCHANGE ? EXCHANGE : 0, folder, path, folder_to, to,
	      NEXT(renameat2, raw_rename(folder, path, folder_to, to, flags), folder, path,
		   folder_to, to, flags))
}

SEEN int truncate64(const char *path, off_t size)
{
	uint64_t start_ns;
	int result;

	if (!watches(LEVEL_COUNTS))
		return NEXT(truncate64, (int)syscall(SYS_truncate, path, size), path, size);
	start_ns = now_ns();
	result = NEXT(truncate64, (int)syscall(SYS_truncate, path, size), path, size);
	{
		int saved = errno;
		uint32_t file = result ? NO_FILE : file_at(path);

		errno = saved;
		ended(TRUNCATE, 0, file, start_ns, result, 0, 0);
	}
	return result;
}

ALSO(int, truncate, "truncate64", (const char *path, off_t size))
