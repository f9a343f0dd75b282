/* Makes a file of one name COUNT times: writes a byte, takes the name away, closes. Says the inode
 * number of each when all is done. usage: again FILE COUNT [wait]
 *
 * With "wait" it begins when its standard input ends. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	long files = count > 2 ? atol(arguments[2]) : 0;
	unsigned long long *inodes = calloc((size_t)files + 1, sizeof(*inodes));
	struct statx stat;
	char byte;

	while (count > 3 && read(STDIN_FILENO, &byte, 1) > 0)
		;
	for (long file = 0; file < files; file++) {
		int fd = open(arguments[1], O_WRONLY | O_CREAT | O_EXCL, 0644);

		/* Not fstat(2): who asks for the time of change, is given finer times from then on. */
		if (fd < 0 || write(fd, "x", 1) != 1 ||
		    statx(fd, "", AT_EMPTY_PATH, STATX_INO, &stat) || unlink(arguments[1]) || close(fd))
			return 2;
		inodes[file] = stat.stx_ino;
	}
	for (long file = 0; file < files; file++)
		printf("%llu\n", inodes[file]);
	return 0;
}
