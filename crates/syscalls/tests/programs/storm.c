/* Writes a byte at offset 0 of a file COUNT times in each of PROCESSES processes, and says so on
 * standard output when the first COUNT / 2 are done. usage: storm FILE COUNT PROCESSES [wait]
 *
 * With "wait" it stays until it is killed. A constructor of its own writes to the file before
 * main, and a thread's exit comes in between. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((constructor(101))) static void early(int count, char **arguments)
{
	int fd = count > 1 ? open(arguments[1], O_WRONLY | O_CREAT, 0644) : -1;

	if (fd >= 0 && (write(fd, "e", 1) != 1 || close(fd)))
		_exit(1);
}

int main(int count, char **arguments)
{
	long calls = count > 3 ? atol(arguments[2]) : 0, processes = count > 3 ? atol(arguments[3]) : 0;
	int fd = open(arguments[1], O_WRONLY), status;

	for (long process = 1; process < processes; process++)
		if (!fork())
			goto work;
work:
	for (long call = 0; call < calls; call++) {
		if (pwrite(fd, "x", 1, 0) != 1)
			return 2;
		if (call == calls / 2 && write(STDOUT_FILENO, ".", 1) != 1)
			return 3;
	}
	if (count > 4)
		for (;;)
			if (pwrite(fd, "x", 1, 0) != 1)
				return 2;
	while (wait(&status) > 0)
		if (status)
			return 4;
	return 0;
}
