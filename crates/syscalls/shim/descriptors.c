/* Calls that make, change and end descriptors. Only reads and writes remember what a descriptor
 * is; these forget it, which is right in any process and at any moment. */
#define _GNU_SOURCE
#include "next.h"

#include <stdarg.h>

/* What a descriptor is, remembered or not: the call that asks needs no flags. */
static uint32_t known_or_glance(int fd)
{
	uint32_t known = 0;

	if (fd >= 0 && fd < DESCRIPTORS_MAX)
		known = __atomic_load_n(&descriptors[fd], __ATOMIC_RELAXED);
	return known ? known : glance(fd);
}

/* A call on a descriptor that is no transfer and no sync; `what` was told while it was open. */
static void ended_on(uint8_t call, uint32_t what, uint64_t start_ns, int64_t result)
{
	if (what & IS_FILE && !(what & IS_FOLDER))
		ended(call, 0, file_of(what), start_ns, result, 0, 0);
}

static int opened(int fd, uint64_t start_ns)
{
	int saved = errno;

	forget(fd);
	if (watches(LEVEL_COUNTS)) {
		uint32_t what = fd < 0 ? KNOWN | IS_FILE | FILE_NONE << SHIFT : glance(fd);

		errno = saved;
		ended_on(OPEN, what, start_ns, fd);
	}
	errno = saved;
	return fd;
}

/* The mode, which is there only when a file may be made. */
#define MODE(flags, mode)                                                                       \
	mode_t mode = 0;                                                                        \
	if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) {                          \
		va_list rest;                                                                   \
		va_start(rest, flags);                                                          \
		mode = va_arg(rest, mode_t);                                                    \
		va_end(rest);                                                                   \
	}

static int raw_open(int folder, const char *path, int flags, mode_t mode)
{
	return (int)syscall(SYS_openat, folder, path, flags, mode);
}

SEEN int open64(const char *path, int flags, ...)
{
	uint64_t start_ns = now_ns();
	MODE(flags, mode)

	return opened(NEXT(open64, raw_open(AT_FDCWD, path, flags, mode), path, flags, mode),
		      start_ns);
}

SEEN int openat64(int folder, const char *path, int flags, ...)
{
	uint64_t start_ns = now_ns();
	MODE(flags, mode)

	return opened(NEXT(openat64, raw_open(folder, path, flags, mode), folder, path, flags, mode),
		      start_ns);
}

SEEN int creat64(const char *path, mode_t mode)
{
	uint64_t start_ns = now_ns();
	int flags = O_CREAT | O_WRONLY | O_TRUNC;

	return opened(NEXT(creat64, raw_open(AT_FDCWD, path, flags, mode), path, mode), start_ns);
}

SEEN int __open64_2(const char *path, int flags)
{
	uint64_t start_ns = now_ns();

	return opened(NEXT(__open64_2, raw_open(AT_FDCWD, path, flags, 0), path, flags), start_ns);
}

SEEN int __openat64_2(int folder, const char *path, int flags)
{
	uint64_t start_ns = now_ns();

	return opened(NEXT(__openat64_2, raw_open(folder, path, flags, 0), folder, path, flags),
		      start_ns);
}

ALSO(int, open, "open64", (const char *path, int flags, ...))
ALSO(int, __open, "open64", (const char *path, int flags, ...))
ALSO(int, __open64, "open64", (const char *path, int flags, ...))
ALSO(int, openat, "openat64", (int folder, const char *path, int flags, ...))
ALSO(int, creat, "creat64", (const char *path, mode_t mode))
ALSO(int, __open_2, "__open64_2", (const char *path, int flags))
ALSO(int, __openat_2, "__openat64_2", (int folder, const char *path, int flags))

SEEN int close(int fd)
{
	bool recorded = watches(LEVEL_COUNTS);
	uint32_t what = recorded ? known_or_glance(fd) : 0;
	uint64_t start_ns = recorded ? now_ns() : 0;
	int result;

	forget(fd);
	result = NEXT(close, (int)syscall(SYS_close, fd), fd);
	if (recorded)
		ended_on(CLOSE, what, start_ns, result);
	return result;
}

ALSO(int, __close, "close", (int fd))

/* A call on an open descriptor, at level counts. */
#define ON(call, fd, doing)                                                                     \
	uint64_t start_ns;                                                                      \
	int result;                                                                             \
	if (!watches(LEVEL_COUNTS))                                                             \
		return doing;                                                                   \
	start_ns = now_ns();                                                                    \
	result = doing;                                                                         \
	ended_on(call, known_or_glance(fd), start_ns, result);                                          \
	return result;

SEEN int ftruncate64(int fd, off_t size)
{
	ON(TRUNCATE, fd, NEXT(ftruncate64, (int)syscall(SYS_ftruncate, fd, size), fd, size))
}

SEEN int fallocate64(int fd, int mode, off_t offset, off_t size)
{
	ON(FALLOCATE, fd, NEXT(fallocate64, (int)syscall(SYS_fallocate, fd, mode, offset, size),
			       fd, mode, offset, size))
}

static int raw_posix_fallocate(int fd, off_t offset, off_t size)
{
	int saved = errno, failed = syscall(SYS_fallocate, fd, 0, offset, size) ? errno : 0;

	errno = saved;
	return failed;
}

/* Returns the error itself. */
SEEN int posix_fallocate64(int fd, off_t offset, off_t size)
{
	uint64_t start_ns = now_ns();
	int result = NEXT(posix_fallocate64, raw_posix_fallocate(fd, offset, size), fd, offset,
			  size);
	int saved = errno;

	if (watches(LEVEL_COUNTS)) {
		errno = result;
		ended_on(FALLOCATE, known_or_glance(fd), start_ns, result ? -1 : 0);
	}
	errno = saved;
	return result;
}

SEEN off_t lseek64(int fd, off_t offset, int whence)
{
	uint64_t start_ns;
	off_t result;

	if (!watches(LEVEL_COUNTS) || !shared->lseek)
		return NEXT(lseek64, syscall(SYS_lseek, fd, offset, whence), fd, offset, whence);
	start_ns = now_ns();
	result = NEXT(lseek64, syscall(SYS_lseek, fd, offset, whence), fd, offset, whence);
	ended_on(LSEEK, known_or_glance(fd), start_ns, result);
	return result;
}

SEEN void *mmap64(void *to, size_t size, int protection, int flags, int fd, off_t offset)
{
	uint64_t start_ns;
	void *result;

	if (fd < 0 || flags & MAP_ANONYMOUS || !watches(LEVEL_COUNTS))
		return NEXT(mmap64, (void *)syscall(SYS_mmap, to, size, protection, flags, fd, offset),
			    to, size, protection, flags, fd, offset);
	start_ns = now_ns();
	result = NEXT(mmap64, (void *)syscall(SYS_mmap, to, size, protection, flags, fd, offset),
		      to, size, protection, flags, fd, offset);
	ended_on(MMAP, known_or_glance(fd), start_ns, result == MAP_FAILED ? -1 : 0);
	return result;
}

ALSO(int, ftruncate, "ftruncate64", (int fd, off_t size))
ALSO(int, fallocate, "fallocate64", (int fd, int mode, off_t offset, off_t size))
ALSO(int, posix_fallocate, "posix_fallocate64", (int fd, off_t offset, off_t size))
ALSO(off_t, lseek, "lseek64", (int fd, off_t offset, int whence))
ALSO(off_t, __lseek, "lseek64", (int fd, off_t offset, int whence))
ALSO(void *, mmap, "mmap64",
     (void *to, size_t size, int protection, int flags, int fd, off_t offset))

static int forgotten(int fd)
{
	forget(fd);
	return fd;
}

SEEN int dup(int fd)
{
	return forgotten(NEXT(dup, (int)syscall(SYS_dup, fd), fd));
}

#ifdef SYS_dup2
#define RAW_DUP2(fd, to) ((int)syscall(SYS_dup2, fd, to))
#else
#define RAW_DUP2(fd, to) ((int)syscall(SYS_dup3, fd, to, 0))
#endif

SEEN int dup2(int fd, int to)
{
	forget(to);
	return forgotten(NEXT(dup2, RAW_DUP2(fd, to), fd, to));
}

SEEN int dup3(int fd, int to, int flags)
{
	forget(to);
	return forgotten(NEXT(dup3, (int)syscall(SYS_dup3, fd, to, flags), fd, to, flags));
}

SEEN int fcntl64(int fd, int command, ...)
{
	va_list rest;
	void *argument;
	int result;

	/* Whatever it is, it is passed on as it came: a word. */
	va_start(rest, command);
	argument = va_arg(rest, void *);
	va_end(rest);
	result = NEXT(fcntl64, (int)syscall(SYS_fcntl, fd, command, argument), fd, command,
		      argument);
	if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
		forget(result);
	return result;
}

ALSO(int, fcntl, "fcntl64", (int fd, int command, ...))

SEEN int close_range(unsigned int first, unsigned int last, int flags)
{
	forget_range(first, last);
	return NEXT(close_range, (int)syscall(SYS_close_range, first, last, flags), first, last,
		    flags);
}

SEEN void closefrom(int first)
{
	forget_range(first < 0 ? 0 : (unsigned int)first, UINT32_MAX);
	if (next_closefrom)
		next_closefrom(first);
	else
		syscall(SYS_close_range, first, UINT32_MAX, 0);
}

/* These close a descriptor within the C library. */
static void forget_stream(FILE *file)
{
	int saved = errno;

	forget(fileno(file));
	errno = saved;
}

SEEN int fclose(FILE *file)
{
	forget_stream(file);
	return next_fclose ? next_fclose(file) : EOF;
}

SEEN int closedir(DIR *folder)
{
	if (folder)
		forget(dirfd(folder));
	return next_closedir ? next_closedir(folder) : -1;
}

SEEN FILE *freopen64(const char *path, const char *mode, FILE *file)
{
	forget_stream(file);
	return next_freopen64 ? next_freopen64(path, mode, file) : NULL;
}

ALSO(FILE *, freopen, "freopen64", (const char *path, const char *mode, FILE *file))
