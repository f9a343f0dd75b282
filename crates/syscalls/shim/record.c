#define _GNU_SOURCE
#include "record.h"

#include <linux/stat.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>

struct header *shared;
int level;
uint32_t own_pid;
uint32_t descriptors[DESCRIPTORS_MAX];

static struct file *files;
static struct slot *slots;
static uint64_t files_mask, slots_mask;
static __thread uint32_t own_tid __attribute__((tls_model("initial-exec")));
static __thread char folder_name[PATH_BYTES] __attribute__((tls_model("initial-exec")));
static __thread volatile bool folder_in_use __attribute__((tls_model("initial-exec")));

static void count(uint64_t *figure)
{
	__atomic_fetch_add(figure, 1, __ATOMIC_RELAXED);
}

static uint64_t *loss_of(const struct slot *slot)
{
	switch (slot->record.call.call) {
	case TEXT_OF_FILE:
	case TEXT_OF_CALL:
		return &shared->lost_names;
	case FSYNC:
	case FDATASYNC:
	case SYNC_FILE_RANGE:
	case SYNC:
		return &shared->lost_syncs;
	default:
		break;
	}
	if (slot->record.call.flags & SYNCHRONOUS)
		return &shared->lost_syncs;
	return slot->record.call.call >= READ && slot->record.call.call <= PWRITEV ?
	       &shared->lost_events : &shared->lost_calls;
}

/* Puts a record into the ring; false, and counted, when there is no room. */
static bool put(const struct slot *filled)
{
	uint64_t position = __atomic_load_n(&shared->head, __ATOMIC_RELAXED), turn;
	struct slot *slot;

	for (;;) {
		slot = &slots[position & slots_mask];
		turn = __atomic_load_n(&slot->turn, __ATOMIC_ACQUIRE);
		if (turn == position || turn == DEAD) {
			if (!__atomic_compare_exchange_n(&shared->head, &position, position + 1, true,
							 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
				continue;
			if (turn == position)
				break;
			position++;
		} else if (turn < position) {
			count(loss_of(filled));
			return false;
		} else {
			position = __atomic_load_n(&shared->head, __ATOMIC_RELAXED);
		}
	}
	memcpy(&slot->record, &filled->record, sizeof(slot->record));
	turn = position;
	/* The reader may have given it up as dead meanwhile; it has counted that. */
	return __atomic_compare_exchange_n(&slot->turn, &turn, position + 1, false,
					   __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

void send_call(struct call_record *record)
{
	struct slot slot;

	if (!own_tid)
		own_tid = (uint32_t)syscall(SYS_gettid);
	record->pid = own_pid;
	record->tid = own_tid;
	slot.record.call = *record;
	put(&slot);
}

/* Sends when, and the text `first` and then `second`; 0 when it found no room. */
static uint32_t send_text(uint8_t kind, uint32_t file, const char *first, size_t first_bytes,
			  const char *second, size_t second_bytes)
{
	uint64_t seen_ns = now_ns();
	size_t length = sizeof(seen_ns) + first_bytes + second_bytes, at = 0, n;
	struct slot slot;
	struct text_record *text = &slot.record.text;
	uint8_t byte;

	memset(&slot, 0, sizeof(slot));
	text->call = kind;
	text->file = file;
	text->length = (uint16_t)length;
	do {
		text->token = __atomic_add_fetch(&shared->next_token, 1, __ATOMIC_RELAXED);
	} while (!text->token);
	while (at < length) {
		for (n = 0; n < TEXT_BYTES && at < length; n++, at++) {
			if (at < sizeof(seen_ns))
				byte = ((uint8_t *)&seen_ns)[at];
			else if (at - sizeof(seen_ns) < first_bytes)
				byte = (uint8_t)first[at - sizeof(seen_ns)];
			else
				byte = (uint8_t)second[at - sizeof(seen_ns) - first_bytes];
			text->bytes[n] = byte;
		}
		if (!put(&slot))
			return 0;
		text->part++;
	}
	return text->token;
}

size_t path_of(int fd, char *to)
{
	char link[32] = "/proc/self/fd/", digits[12];
	size_t at = strlen(link), n = 0;
	long length;

	do {
		digits[n++] = (char)('0' + fd % 10);
		fd /= 10;
	} while (fd);
	while (n)
		link[at++] = digits[--n];
	link[at] = 0;
	length = syscall(SYS_readlinkat, AT_FDCWD, link, to, PATH_BYTES);
	return length > 0 && to[0] == '/' ? (size_t)length : 0;
}

uint32_t send_path(int folder, const char *path)
{
	size_t bytes = strnlen(path, PATH_BYTES), before = 0;
	uint32_t token = 0;
	bool relative = path[0] != '/';
	long length;

	if (folder_in_use)
		goto lost;
	folder_in_use = true;
	if (relative && folder == AT_FDCWD) {
		length = syscall(SYS_getcwd, folder_name, sizeof(folder_name));
		before = length > 1 && folder_name[0] == '/' ? (size_t)length - 1 : 0;
	} else if (relative) {
		before = path_of(folder, folder_name);
	}
	if (before && before < sizeof(folder_name) && folder_name[before - 1] != '/')
		folder_name[before++] = '/';
	if (before && bytes > 1 && path[0] == '.' && path[1] == '/') {
		path += 2;
		bytes -= 2;
	}
	token = send_text(TEXT_OF_CALL, NO_FILE, folder_name, before, path, bytes);
	folder_in_use = false;
	return token;
lost:
	count(&shared->lost_names);
	return 0;
}

/* A handle that tells files apart and opens none: overlays have no other (Linux 6.5). */
#ifndef AT_HANDLE_FID
#define AT_HANDLE_FID 0x200
#endif

/* What tells a file from a later one that got its inode number: its birth, and its handle, because
 * two files may be born within one tick of the clock that stamps them. Where there is no birth time
 * (NFS, FUSE) nothing does: a FUSE file's handle may change while the file stays. */
static uint64_t generation_of(const struct statx *stat, int fd, const char *path)
{
	struct {
		struct file_handle head;
		unsigned char bytes[MAX_HANDLE_SZ];
	} handle = {.head = {.handle_bytes = sizeof(handle.bytes)}};
	int mount, flags = path[0] ? AT_SYMLINK_FOLLOW : AT_EMPTY_PATH;
	uint64_t generation;

	if (!(stat->stx_mask & STATX_BTIME))
		return 0;
	generation = (uint64_t)stat->stx_btime.tv_sec * 1000000000u + stat->stx_btime.tv_nsec;
	if (syscall(SYS_name_to_handle_at, fd, path, &handle, &mount, flags) &&
	    (errno != EOPNOTSUPP ||
	     syscall(SYS_name_to_handle_at, fd, path, &handle, &mount, flags | AT_HANDLE_FID)))
		return generation; /* an older kernel's overlay, or a filter refuses the call */
	for (unsigned int i = 0; i < handle.head.handle_bytes && i < sizeof(handle.bytes); i++)
		generation = (generation ^ handle.bytes[i]) * 0x100000001b3u;
	return generation;
}

/* The entry of a file in the table that all programs share; NO_FILE when it is full. */
static uint32_t entry_of(const struct statx *stat, uint64_t generation)
{
	uint64_t hash;
	uint32_t state;
	struct file *entry;

	hash = (stat->stx_ino ^ generation) * 0x9e3779b97f4a7c15ULL;
	hash ^= (uint64_t)stat->stx_dev_major << 20 ^ stat->stx_dev_minor;
	hash = hash * 0xbf58476d1ce4e5b9ULL >> 20;
	for (int probe = 0; probe < PROBES_MAX; probe++, hash++) {
		entry = &files[hash & files_mask];
		state = __atomic_load_n(&entry->state, __ATOMIC_ACQUIRE);
		if (state == FILE_FREE &&
		    __atomic_compare_exchange_n(&entry->state, &state, FILE_CLAIMED, false,
						__ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
			entry->major = stat->stx_dev_major;
			entry->minor = stat->stx_dev_minor;
			entry->inode = stat->stx_ino;
			entry->generation = generation;
			__atomic_store_n(&entry->state, FILE_KNOWN, __ATOMIC_RELEASE);
			return (uint32_t)(hash & files_mask);
		}
		/* One that is claimed is stepped over: a file twice in the table is one to the
		 * reader, and whoever claimed it may have been killed. */
		if (state >= FILE_KNOWN && entry->inode == stat->stx_ino &&
		    entry->generation == generation && entry->major == stat->stx_dev_major &&
		    entry->minor == stat->stx_dev_minor)
			return (uint32_t)(hash & files_mask);
	}
	count(&shared->lost_files);
	return NO_FILE;
}

/* The number of a file in the table, its name sent if that was not done so far. */
static uint32_t number_of(const struct statx *stat, int fd, const char *path)
{
	static const char DELETED[] = " (deleted)";
	uint32_t number = entry_of(stat, generation_of(stat, fd, path ? path : ""));
	size_t bytes;

	if (number == NO_FILE ||
	    __atomic_load_n(&files[number].state, __ATOMIC_ACQUIRE) == FILE_NAMED || folder_in_use)
		return number;
	folder_in_use = true;
	if (path) {
		bytes = path[0] == '/' ? strnlen(path, PATH_BYTES) : 0;
		memcpy(folder_name, path, bytes);
	} else {
		bytes = path_of(fd, folder_name);
	}
	if (!stat->stx_nlink && bytes > sizeof(DELETED) &&
	    !memcmp(folder_name + bytes - (sizeof(DELETED) - 1), DELETED, sizeof(DELETED) - 1))
		bytes -= sizeof(DELETED) - 1;
	if (bytes && send_text(TEXT_OF_FILE, number, folder_name, bytes, "", 0))
		__atomic_store_n(&files[number].state, FILE_NAMED, __ATOMIC_RELEASE);
	folder_in_use = false;
	return number;
}

/* DONT_SYNC: a server must not be asked because somebody watches. */
static bool stat_of(int fd, const char *path, struct statx *stat)
{
	int flags = AT_STATX_DONT_SYNC | (path[0] ? 0 : AT_EMPTY_PATH);

	return !syscall(SYS_statx, fd, path, flags,
			STATX_TYPE | STATX_INO | STATX_NLINK | STATX_BTIME, stat);
}

/* What a descriptor is but for its flags; 0 when it is none. */
static uint32_t kind_of(int fd)
{
	uint32_t number;
	struct statx stat;
	int type;

	if (!stat_of(fd, "", &stat))
		return 0;
	type = stat.stx_mode & S_IFMT;
	if (type != S_IFREG && type != S_IFBLK && type != S_IFDIR)
		return KNOWN;
	number = number_of(&stat, fd, NULL);
	return KNOWN | IS_FILE | (type == S_IFDIR ? IS_FOLDER : 0) |
	       (number == NO_FILE ? FILE_NONE : number) << SHIFT;
}

uint32_t glance(int fd)
{
	int saved = errno;
	uint32_t what = kind_of(fd);

	errno = saved;
	return what ? what : KNOWN;
}

uint32_t look(int fd)
{
	int saved = errno;
	uint32_t what = kind_of(fd);
	long flags;

	if (!what) {
		errno = saved;
		return KNOWN;
	}
	if (what & IS_FILE) {
		flags = syscall(SYS_fcntl, fd, F_GETFL);
		if (flags >= 0 && flags & O_DSYNC)
			what |= IS_SYNC;
	}
	/* In a child of vfork the table is the parent's, and the descriptors are not. */
	if (fd >= 0 && fd < DESCRIPTORS_MAX && (uint32_t)syscall(SYS_getpid) == own_pid)
		__atomic_store_n(&descriptors[fd], what, __ATOMIC_RELAXED);
	errno = saved;
	return what;
}

uint32_t file_at(const char *path)
{
	int saved = errno;
	uint32_t number = NO_FILE;
	struct statx stat;

	if (stat_of(AT_FDCWD, path, &stat))
		number = number_of(&stat, AT_FDCWD, path);
	errno = saved;
	return number;
}

void forget_range(unsigned int first, unsigned int last)
{
	for (unsigned int fd = first; fd <= last && fd < DESCRIPTORS_MAX; fd++)
		if (__atomic_load_n(&descriptors[fd], __ATOMIC_RELAXED))
			__atomic_store_n(&descriptors[fd], 0, __ATOMIC_RELAXED);
}

static void after_fork(void)
{
	int saved = errno;

	own_pid = (uint32_t)syscall(SYS_getpid);
	own_tid = 0;
	folder_in_use = false;
	if (shared)
		count(&shared->forks);
	errno = saved;
}

static void attach(const char *path)
{
	struct header *header;
	struct stat stat;
	long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
	uint64_t expected;

	if (fd < 0)
		return;
	if (fstat((int)fd, &stat) || stat.st_size < HEADER_BYTES)
		goto out;
	header = mmap(NULL, (size_t)stat.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
	if (header == MAP_FAILED)
		goto out;
	expected = HEADER_BYTES;
	if (header->magic == MAGIC && header->version == VERSION && header->files_log2 < 28 &&
	    header->slots_log2 < 28)
		expected += (sizeof(struct file) << header->files_log2) +
			    (sizeof(struct slot) << header->slots_log2);
	if (expected == HEADER_BYTES || (uint64_t)stat.st_size < expected) {
		munmap(header, (size_t)stat.st_size);
		goto out;
	}
	files = (struct file *)((char *)header + HEADER_BYTES);
	files_mask = (1u << header->files_log2) - 1;
	slots = (struct slot *)(files + files_mask + 1);
	slots_mask = (1u << header->slots_log2) - 1;
	level = (int)header->level;
	own_pid = (uint32_t)syscall(SYS_getpid);
	pthread_atfork(NULL, NULL, after_fork);
	count(&header->loads);
	__atomic_store_n(&shared, header, __ATOMIC_RELEASE);
out:
	syscall(SYS_close, fd);
}

void find_next_functions(void);

__attribute__((constructor(101))) static void begin(void)
{
	int saved = errno;
	const char *path = getenv("NFSLAB_SHIM_FILE"), *asked = getenv("NFSLAB_SHIM_DELAY");

	find_next_functions();
	if (asked)
		read_delays(asked);
	if (path)
		attach(path);
	errno = saved;
}
