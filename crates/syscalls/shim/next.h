/* What all interposed calls share: the functions that come next, and how they are called.
 *
 * What is not seen: calls that the C library makes within itself (stdio's reads and writes, among
 * others), system calls without it (Go, io_uring), and programs that are linked statically or
 * change user when started. */
#ifndef NFSLAB_SHIM_NEXT_H
#define NFSLAB_SHIM_NEXT_H

#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include "record.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#ifndef __LP64__
#error "only for 64 bits"
#endif

#define SEEN __attribute__((visibility("default")))
/* Another name of the same function: off_t has 64 bits, and the C library has aliases itself. */
#define ALSO(type, name, of, parameters) SEEN type name parameters __attribute__((alias(of)));

/* Every function that is interposed: returned type, name, parameters. */
#define FUNCTIONS(F)                                                                            \
	F(int, open, (const char *, int, ...)) F(int, open64, (const char *, int, ...))          \
	F(int, openat, (int, const char *, int, ...))                                           \
	F(int, openat64, (int, const char *, int, ...))                                         \
	F(int, creat, (const char *, mode_t)) F(int, creat64, (const char *, mode_t))            \
	F(int, __open_2, (const char *, int)) F(int, __open64_2, (const char *, int))            \
	F(int, __openat_2, (int, const char *, int))                                            \
	F(int, __openat64_2, (int, const char *, int)) F(int, close, (int))                      \
	F(ssize_t, read, (int, void *, size_t)) F(ssize_t, write, (int, const void *, size_t))   \
	F(ssize_t, __read_chk, (int, void *, size_t, size_t))                                   \
	F(ssize_t, pread, (int, void *, size_t, off_t))                                         \
	F(ssize_t, pread64, (int, void *, size_t, off_t))                                       \
	F(ssize_t, __pread_chk, (int, void *, size_t, off_t, size_t))                           \
	F(ssize_t, __pread64_chk, (int, void *, size_t, off_t, size_t))                         \
	F(ssize_t, pwrite, (int, const void *, size_t, off_t))                                  \
	F(ssize_t, pwrite64, (int, const void *, size_t, off_t))                                \
	F(ssize_t, readv, (int, const struct iovec *, int))                                     \
	F(ssize_t, writev, (int, const struct iovec *, int))                                    \
	F(ssize_t, preadv, (int, const struct iovec *, int, off_t))                             \
	F(ssize_t, preadv64, (int, const struct iovec *, int, off_t))                           \
	F(ssize_t, pwritev, (int, const struct iovec *, int, off_t))                            \
	F(ssize_t, pwritev64, (int, const struct iovec *, int, off_t))                          \
	F(ssize_t, preadv2, (int, const struct iovec *, int, off_t, int))                       \
	F(ssize_t, preadv64v2, (int, const struct iovec *, int, off_t, int))                    \
	F(ssize_t, pwritev2, (int, const struct iovec *, int, off_t, int))                      \
	F(ssize_t, pwritev64v2, (int, const struct iovec *, int, off_t, int))                   \
	F(off_t, lseek, (int, off_t, int)) F(off_t, lseek64, (int, off_t, int))                  \
	F(int, fsync, (int)) F(int, fdatasync, (int)) F(int, syncfs, (int)) F(void, sync, (void)) \
	F(int, sync_file_range, (int, off_t, off_t, unsigned int))                              \
	F(int, msync, (void *, size_t, int)) F(ssize_t, sendfile64, (int, int, off_t *, size_t)) \
	F(ssize_t, copy_file_range, (int, off_t *, int, off_t *, size_t, unsigned int))         \
	F(ssize_t, splice, (int, off_t *, int, off_t *, size_t, unsigned int))                  \
	F(int, ftruncate, (int, off_t)) F(int, ftruncate64, (int, off_t))                        \
	F(int, truncate, (const char *, off_t)) F(int, truncate64, (const char *, off_t))        \
	F(int, fallocate, (int, int, off_t, off_t)) F(int, fallocate64, (int, int, off_t, off_t)) \
	F(int, posix_fallocate, (int, off_t, off_t))                                            \
	F(int, posix_fallocate64, (int, off_t, off_t)) F(int, unlink, (const char *))            \
	F(int, unlinkat, (int, const char *, int)) F(int, rmdir, (const char *))                 \
	F(int, rename, (const char *, const char *))                                            \
	F(int, renameat, (int, const char *, int, const char *))                                \
	F(int, renameat2, (int, const char *, int, const char *, unsigned int))                 \
	F(void *, mmap, (void *, size_t, int, int, int, off_t))                                 \
	F(void *, mmap64, (void *, size_t, int, int, int, off_t)) F(int, dup, (int))             \
	F(int, dup2, (int, int)) F(int, dup3, (int, int, int)) F(int, fcntl, (int, int, ...))    \
	F(int, fcntl64, (int, int, ...)) F(int, fclose, (FILE *)) F(int, closedir, (DIR *))      \
	F(int, close_range, (unsigned int, unsigned int, int)) F(void, closefrom, (int))         \
	F(FILE *, freopen, (const char *, const char *, FILE *))                                \
	F(FILE *, freopen64, (const char *, const char *, FILE *))

#define DECLARE(type, name, parameters) extern type(*next_##name) parameters;
FUNCTIONS(DECLARE)

/* Before they are looked up, and where the C library has none, the system call itself. */
#define NEXT(name, raw, ...) (next_##name ? next_##name(__VA_ARGS__) : (raw))

/* Records a call that took from `start_ns` until now; `result` is what it returned. errno is
 * kept. */
void ended(uint8_t call, uint8_t flags, uint32_t file, uint64_t start_ns, int64_t result,
	   uint64_t offset, uint64_t size);

#endif
