/* Issues calls that are known in number, size and place: tests/system/shim_table.rs has the table.
 *
 * usage: known FOLDER. Exit code: 0, or the line where a call did not do what it must, or where
 * errno was not what it had been before a call that succeeded. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char bytes[65536];

/* A call succeeds, and leaves errno as it was. */
#define MUST(expression, expected)                                                              \
	do {                                                                                    \
		errno = 12345;                                                                  \
		if ((expression) != (expected) || errno != 12345)                               \
			_exit(__LINE__ % 251 + 1);                                              \
	} while (0)
/* A call fails with this error. */
#define FAILS(expression, error)                                                                \
	do {                                                                                    \
		errno = 0;                                                                      \
		if ((long)(expression) != -1 || errno != (error))                               \
			_exit(__LINE__ % 251 + 1);                                              \
	} while (0)

static int opened(const char *path, int flags)
{
	int fd;

	errno = 12345;
	fd = open(path, flags, 0644);
	if (fd < 0 || errno != 12345)
		_exit(250);
	return fd;
}

static void *of_thread(void *unused)
{
	int fd = opened("thread", O_WRONLY | O_CREAT);

	for (int i = 0; i < 3; i++)
		MUST(write(fd, bytes, 1000), 1000);
	MUST(fsync(fd), 0);
	MUST(close(fd), 0);
	return unused;
}

static void transfers(void)
{
	int fd = opened("data", O_RDWR | O_CREAT | O_TRUNC), copy;
	struct iovec parts[2] = {{bytes, 100}, {bytes, 28}};

	for (int i = 0; i < 4; i++)
		MUST(write(fd, bytes, 8192), 8192);
	MUST(pwrite(fd, bytes, 8192, 24576), 8192); /* rewrite */
	MUST(pwrite(fd, bytes, 1000, 100000), 1000); /* forward */
	MUST(pwrite(fd, bytes, 10, 0), 10);          /* backward */
	MUST(pwrite(fd, bytes, 10, 10), 10);         /* sequential */
	MUST(fsync(fd), 0);
	MUST(fdatasync(fd), 0);
	MUST(sync_file_range(fd, 4096, 8192, SYNC_FILE_RANGE_WRITE), 0);
	MUST(lseek(fd, 0, SEEK_SET), 0);
	MUST(read(fd, bytes, 8192), 8192);  /* first */
	MUST(read(fd, bytes, 8192), 8192);  /* sequential */
	MUST(pread(fd, bytes, 100, 0), 100); /* backward */
	MUST(readv(fd, parts, 2), 128);     /* forward, at 16384 */
	MUST(preadv(fd, parts, 2, 16384), 128); /* rewrite */
	MUST(preadv2(fd, parts, 2, -1, 0), 128); /* sequential, at 16512 */
	copy = fcntl(fd, F_DUPFD, 20);
	MUST(dup2(copy, 21), 21);
	MUST(close(21), 0);
	MUST(writev(copy, parts, 2), 128); /* forward, at 16640 */
	MUST(pwritev2(fd, parts, 2, 200, RWF_DSYNC), 128); /* backward, synchronous */
	MUST(lseek(copy, 0, SEEK_CUR), 16768);
	MUST(close(fd), 0);
	MUST(write(copy, bytes, 5), 5); /* forward, at 16768 */
	MUST(rename("data", "renamed"), 0);
	MUST(write(copy, bytes, 5), 5); /* sequential */
	MUST(unlink("renamed"), 0);
	MUST(pread(copy, bytes, 7, 16640), 7); /* sequential to the reads before */
	MUST(fsync(copy), 0);
	MUST(close(copy), 0);
	/* Another file with the first one's name. */
	fd = opened("data", O_WRONLY | O_CREAT);
	MUST(write(fd, bytes, 77), 77);
	MUST(close(fd), 0);
}

static void others(void)
{
	int fd, pair[2], ends[2];

	fd = opened("durable", O_WRONLY | O_CREAT | O_DSYNC);
	MUST(write(fd, bytes, 100), 100);
	MUST(pwrite(fd, bytes, 200, 100), 200);
	MUST(close(fd), 0);
	fd = opened("append", O_WRONLY | O_CREAT | O_APPEND);
	MUST(write(fd, bytes, 11), 11);
	MUST(write(fd, bytes, 11), 11);
	MUST(dup2(fd, 40), 40);
	MUST(write(40, bytes, 11), 11);
	MUST(close(fd), 0);
	MUST(close(40), 0);
	fd = opened("space", O_RDWR | O_CREAT);
	MUST(ftruncate(fd, 5000), 0);
	MUST(posix_fallocate(fd, 0, 8192), 0);
	MUST(truncate("space", 6000), 0);
	MUST(munmap(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0), 4096), 0);
	MUST(syncfs(fd), 0);
	MUST(close(fd), 0);
	fd = opened("space", O_RDONLY);
	FAILS(write(fd, bytes, 10), EBADF);
	FAILS(pread(fd, bytes, 10, -5), EINVAL);
	MUST(read(fd, bytes, 10000), 6000);
	MUST(read(fd, bytes, 10000), 0);
	MUST(close(fd), 0);
	FAILS(open("missing", O_RDONLY), ENOENT);
	FAILS(unlink("missing"), ENOENT);
	FAILS(rename("missing", "there"), ENOENT);
	FAILS(close(77), EBADF);
	FAILS(fsync(77), EBADF);
	/* No files. */
	MUST(pipe(ends), 0);
	MUST(write(ends[1], bytes, 10), 10);
	MUST(read(ends[0], bytes, 10), 10);
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	MUST(write(pair[1], bytes, 10), 10);
	MUST(read(pair[0], bytes, 10), 10);
	fd = opened("/dev/null", O_WRONLY);
	MUST(write(fd, bytes, 10), 10);
	MUST(close(fd), 0);
	fd = opened(".", O_RDONLY | O_DIRECTORY);
	MUST(fsync(fd), 0);
	MUST(close(fd), 0);
}

static void copies(void)
{
	int from = opened("from", O_RDWR | O_CREAT), to = opened("to", O_WRONLY | O_CREAT);
	int synced = opened("synced", O_WRONLY | O_CREAT | O_DSYNC), pair[2], ends[2];
	off_t place = 100, other = 50;
	void *page;

	MUST(pipe(ends), 0);
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	MUST(pwrite(from, bytes, 4096, 0), 4096);
	MUST(sendfile(pair[0], from, NULL, 300), 300);   /* first, at 0 */
	MUST(sendfile(pair[0], from, &place, 200), 200); /* rewrite, at 100 */
	MUST(sendfile(to, from, NULL, 10), 10);          /* sequential, at 300; first, at 0 */
	MUST(copy_file_range(from, NULL, to, &other, 40, 0), 40); /* sequential, 310; forward, 50 */
	MUST(splice(from, &place, ends[1], NULL, 20, 0), 20);     /* backward, at 300 */
	MUST(splice(ends[0], NULL, to, NULL, 20, 0), 20);         /* backward, at 10 */
	MUST(sendfile(synced, from, &place, 30), 30); /* sequential, at 320; first, synchronous */
	FAILS(sendfile(pair[0], from, (off_t *)8, 30), EFAULT); /* a place that is no memory */
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, from, 0);
	MUST(msync(page, 4096, MS_SYNC), 0);
	MUST(msync(page, 4096, MS_ASYNC), 0);
	MUST(munmap(page, 4096), 0);
	MUST(close(from), 0);
	MUST(close(to), 0);
	MUST(close(synced), 0);
}

static void children(const char *self)
{
	int fd = opened("shared", O_RDWR | O_CREAT), status;
	pthread_t thread;

	MUST(write(fd, bytes, 10), 10);
	if (!fork()) {
		int own = opened("child", O_WRONLY | O_CREAT);

		MUST(write(fd, bytes, 20), 20); /* sequential: it shares the position */
		MUST(write(own, bytes, 30), 30);
		MUST(fdatasync(own), 0);
		_exit(0);
	}
	if (wait(&status) < 0 || status)
		_exit(249);
	MUST(write(fd, bytes, 30), 30); /* sequential again */
	MUST(close(fd), 0);
	if (!fork()) {
		execl(self, self, "started", (char *)NULL);
		_exit(248);
	}
	if (wait(&status) < 0 || status)
		_exit(247);
	if (pthread_create(&thread, NULL, of_thread, NULL) || pthread_join(thread, NULL))
		_exit(246);
}

int main(int count, char **arguments)
{
	char *self = count == 2 ? realpath(arguments[0], NULL) : NULL;

	if (!self)
		return 245;
	if (!strcmp(arguments[1], "started")) {
		int fd = opened("started", O_WRONLY | O_CREAT);

		MUST(write(fd, bytes, 40), 40);
		MUST(fsync(fd), 0);
		return 0;
	}
	if (chdir(arguments[1]))
		return 244;
	transfers();
	others();
	copies();
	children(self);
	sync();
	return 0;
}
