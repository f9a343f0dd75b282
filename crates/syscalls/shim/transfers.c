/* Reads and writes. */
#define _GNU_SOURCE
#include "next.h"

static bool is_write(uint8_t call)
{
	return call == WRITE || call == PWRITE || call == WRITEV || call == PWRITEV ||
	       call == SENDFILE_TO || call == COPY_FILE_RANGE_TO || call == SPLICE_TO;
}

/* Is this transfer to be recorded? At level sync only that of a descriptor with O_DSYNC, or of a
 * write that says so itself. */
static bool transfers(uint8_t call, int fd, bool durable)
{
	bool writes = is_write(call);

	if (watches(LEVEL_COUNTS))
		return !is_other(fd);
	return writes && watches(LEVEL_SYNC) && (durable || what_is(fd) & IS_SYNC);
}

#define HERE (-1)

/* `result` bytes were transferred at `offset`, or where the descriptor stood (HERE). */
static void transferred(uint8_t call, int fd, uint64_t start_ns, ssize_t result, size_t size,
			off_t offset, bool durable)
{
	uint64_t latency_ns = now_ns() - start_ns;
	int saved = errno;
	uint32_t what = what_is(fd);
	bool writes = is_write(call);
	struct call_record record = {
		.start_ns = start_ns, .latency_ns = latency_ns, .size = size, .call = call,
		.result = result < 0 ? -(int64_t)saved : result, .flags = HAS_SIZE,
	};

	if (!(what & IS_FILE) || what & IS_FOLDER)
		return;
	if (writes && (durable || what & IS_SYNC))
		record.flags |= SYNCHRONOUS;
	if (offset == HERE && result >= 0) {
		offset = syscall(SYS_lseek, fd, 0, SEEK_CUR);
		offset = offset >= result ? offset - result : HERE;
	}
	if (offset >= 0) {
		record.offset = (uint64_t)offset;
		record.flags |= HAS_OFFSET;
	}
	record.file = file_of(what);
	send_call(&record);
	errno = saved;
}

#define TRANSFER(type, call, fd, size, offset, durable, doing)                                  \
	uint64_t start_ns;                                                                      \
	type result;                                                                            \
	enum delayed kind = is_write(call) ? DELAYED_WRITE : DELAYED_READ;                      \
	if (!transfers(call, fd, durable)) {                                                    \
		delay_if_asked(kind, fd);                                                       \
		return doing;                                                                   \
	}                                                                                       \
	start_ns = now_ns();                                                                    \
	delay_if_asked(kind, fd);                                                               \
	result = doing;                                                                         \
	transferred(call, fd, start_ns, result, size, offset, durable);                         \
	return result;

SEEN ssize_t read(int fd, void *to, size_t n)
{
	TRANSFER(ssize_t, READ, fd, n, HERE, false, NEXT(read, syscall(SYS_read, fd, to, n), fd, to, n))
}

SEEN ssize_t __read_chk(int fd, void *to, size_t n, size_t room)
{
	if (n > room && next___read_chk)
		return next___read_chk(fd, to, n, room);
	return read(fd, to, n);
}

SEEN ssize_t write(int fd, const void *from, size_t n)
{
	TRANSFER(ssize_t, WRITE, fd, n, HERE, false,
		 NEXT(write, syscall(SYS_write, fd, from, n), fd, from, n))
}

SEEN ssize_t pread64(int fd, void *to, size_t n, off_t at)
{
	TRANSFER(ssize_t, PREAD, fd, n, at, false,
		 NEXT(pread64, syscall(SYS_pread64, fd, to, n, at), fd, to, n, at))
}

SEEN ssize_t __pread64_chk(int fd, void *to, size_t n, off_t at, size_t room)
{
	if (n > room && next___pread64_chk)
		return next___pread64_chk(fd, to, n, at, room);
	return pread64(fd, to, n, at);
}

SEEN ssize_t pwrite64(int fd, const void *from, size_t n, off_t at)
{
	TRANSFER(ssize_t, PWRITE, fd, n, at, false,
		 NEXT(pwrite64, syscall(SYS_pwrite64, fd, from, n, at), fd, from, n, at))
}

/* The size of a failed call is not looked for: its parts may not be readable. */
static size_t size_of(const struct iovec *parts, int n, ssize_t result)
{
	size_t size = 0;

	for (int i = 0; result >= 0 && i < n; i++)
		size += parts[i].iov_len;
	return size;
}

SEEN ssize_t readv(int fd, const struct iovec *to, int n)
{
	TRANSFER(ssize_t, READV, fd, size_of(to, n, result), HERE, false,
		 NEXT(readv, syscall(SYS_readv, fd, to, n), fd, to, n))
}

SEEN ssize_t writev(int fd, const struct iovec *from, int n)
{
	TRANSFER(ssize_t, WRITEV, fd, size_of(from, n, result), HERE, false,
		 NEXT(writev, syscall(SYS_writev, fd, from, n), fd, from, n))
}

SEEN ssize_t preadv64(int fd, const struct iovec *to, int n, off_t at)
{
	TRANSFER(ssize_t, PREADV, fd, size_of(to, n, result), at, false,
		 NEXT(preadv64, syscall(SYS_preadv, fd, to, n, at, 0), fd, to, n, at))
}

SEEN ssize_t pwritev64(int fd, const struct iovec *from, int n, off_t at)
{
	TRANSFER(ssize_t, PWRITEV, fd, size_of(from, n, result), at, false,
		 NEXT(pwritev64, syscall(SYS_pwritev, fd, from, n, at, 0), fd, from, n, at))
}

SEEN ssize_t preadv64v2(int fd, const struct iovec *to, int n, off_t at, int flags)
{
	TRANSFER(ssize_t, PREADV, fd, size_of(to, n, result), at, false,
		 NEXT(preadv64v2, syscall(SYS_preadv2, fd, to, n, at, 0, flags), fd, to, n, at, flags))
}

SEEN ssize_t pwritev64v2(int fd, const struct iovec *from, int n, off_t at, int flags)
{
	bool durable = flags & (RWF_DSYNC | RWF_SYNC);

	TRANSFER(ssize_t, PWRITEV, fd, size_of(from, n, result), at, durable,
		 NEXT(pwritev64v2, syscall(SYS_pwritev2, fd, from, n, at, 0, flags), fd, from, n, at,
		      flags))
}

/* Of a copy within the kernel: of the file that is read `call`, of the one that is written the call
 * behind it. A place that the caller keeps is behind the bytes by now. */
static void copied(uint8_t call, int in, const off_t *in_place, int out, const off_t *out_place,
		   uint64_t start_ns, ssize_t result, size_t size)
{
	bool done = result >= 0; /* else the places may not even be memory (EFAULT) */
	off_t from = done && in_place ? *in_place - result : HERE;
	off_t to = done && out_place ? *out_place - result : HERE;

	if (watches(LEVEL_COUNTS))
		transferred(call, in, start_ns, result, size, from, false);
	transferred(call + 1, out, start_ns, result, size, to, false);
}

static bool copies(int in, int out)
{
	if (watches(LEVEL_COUNTS))
		return !is_other(in) || !is_other(out);
	return watches(LEVEL_SYNC) && what_is(out) & IS_SYNC;
}

#define COPY(call, in, in_place, out, out_place, size, doing)                                   \
	uint64_t start_ns;                                                                      \
	ssize_t result;                                                                         \
	if (!copies(in, out))                                                                   \
		return doing;                                                                   \
	start_ns = now_ns();                                                                    \
	result = doing;                                                                         \
	copied(call, in, in_place, out, out_place, start_ns, result, size);                     \
	return result;

SEEN ssize_t sendfile64(int out, int in, off_t *place, size_t n)
{
	COPY(SENDFILE, in, place, out, NULL, n,
	     NEXT(sendfile64, syscall(SYS_sendfile, out, in, place, n), out, in, place, n))
}

SEEN ssize_t copy_file_range(int in, off_t *in_place, int out, off_t *out_place, size_t n,
			     unsigned int flags)
{
	COPY(COPY_FILE_RANGE, in, in_place, out, out_place, n,
	     NEXT(copy_file_range,
		  syscall(SYS_copy_file_range, in, in_place, out, out_place, n, flags), in, in_place,
		  out, out_place, n, flags))
}

SEEN ssize_t splice(int in, off_t *in_place, int out, off_t *out_place, size_t n,
		    unsigned int flags)
{
	COPY(SPLICE, in, in_place, out, out_place, n,
	     NEXT(splice, syscall(SYS_splice, in, in_place, out, out_place, n, flags), in, in_place,
		  out, out_place, n, flags))
}

ALSO(ssize_t, sendfile, "sendfile64", (int out, int in, off_t *place, size_t n))
ALSO(ssize_t, __read, "read", (int fd, void *to, size_t n))
ALSO(ssize_t, __write, "write", (int fd, const void *from, size_t n))
ALSO(ssize_t, pread, "pread64", (int fd, void *to, size_t n, off_t at))
ALSO(ssize_t, __pread64, "pread64", (int fd, void *to, size_t n, off_t at))
ALSO(ssize_t, __pread_chk, "__pread64_chk", (int fd, void *to, size_t n, off_t at, size_t room))
ALSO(ssize_t, pwrite, "pwrite64", (int fd, const void *from, size_t n, off_t at))
ALSO(ssize_t, __pwrite64, "pwrite64", (int fd, const void *from, size_t n, off_t at))
ALSO(ssize_t, preadv, "preadv64", (int fd, const struct iovec *to, int n, off_t at))
ALSO(ssize_t, pwritev, "pwritev64", (int fd, const struct iovec *from, int n, off_t at))
ALSO(ssize_t, preadv2, "preadv64v2", (int fd, const struct iovec *to, int n, off_t at, int flags))
ALSO(ssize_t, pwritev2, "pwritev64v2",
     (int fd, const struct iovec *from, int n, off_t at, int flags))
