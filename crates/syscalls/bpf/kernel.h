/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * What the programs need of Linux and of the BPF machine, and nothing else: no header of the
 * system is read, so that clang alone is enough to build.
 *
 * The structures hold only the fields that are read. `preserve_access_index` makes the compiler
 * note each access by name; the loader puts in the offsets of the running kernel (CO-RE).
 */
#ifndef NFSLAB_KERNEL_H
#define NFSLAB_KERNEL_H

typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef __INT32_TYPE__ s32;
typedef __INT64_TYPE__ s64;
typedef _Bool bool;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
/* A function of its own, which the verifier looks at once and not at each call. */
#define APART __attribute__((noinline))
#define CORE __attribute__((preserve_access_index))
#define NULL ((void *)0)
#define READ_ONCE(x) (*(volatile typeof(x) *)&(x))
/* Keeps the compiler from recomputing a checked value in another register. */
#define SETTLED(x) asm volatile("" : "+r"(x))

/* Map definitions in BTF, as libbpf and aya read them. */
#define UINT(name, value) int (*name)[value]
#define TYPE(name, value) typeof(value) *name

enum map_type {
	MAP_HASH = 1,
	MAP_ARRAY = 2,
	MAP_PERCPU_ARRAY = 6,
	MAP_RINGBUF = 27,
	MAP_TASK_STORAGE = 29,
};

#define F_NO_PREALLOC 1
#define NOEXIST 1
#define STORAGE_CREATE 1
#define RB_NO_WAKEUP 1
#define RB_FORCE_WAKEUP 2
#define RB_AVAIL_DATA 0

struct task_struct;
struct pt_regs;

/* Numbers of helpers: enum bpf_func_id of linux/bpf.h, the same on all machines. */
static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*ktime_get_ns)(void) = (void *)5;
static u64 (*current_pid_tgid)(void) = (void *)14;
static long (*read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*read_user_text)(void *to, u32 size, const void *from) = (void *)114;
static long (*read_kernel_text)(void *to, u32 size, const void *from) = (void *)115;
static long (*ring_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static u64 (*ring_query)(void *ring, u64 flags) = (void *)134;
static void *(*task_storage)(void *map, struct task_struct *task, void *value,
			     u64 flags) = (void *)156;
static struct task_struct *(*current_task)(void) = (void *)158;
static struct pt_regs *(*task_registers)(struct task_struct *task) = (void *)175;

struct qstr {
	u64 hash_len;
	const unsigned char *name;
} CORE;

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
} CORE;

struct super_block {
	u32 s_dev;
	unsigned long s_flags;
} CORE;

struct inode {
	u16 i_mode;
	unsigned int i_flags;
	struct super_block *i_sb;
	unsigned long i_ino;
	s64 i_size;
	u32 i_generation;
} CORE;

struct vfsmount {
	struct dentry *mnt_root;
} CORE;

struct mount {
	struct vfsmount mnt;
	int mnt_id;
} CORE;

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
} CORE;

struct file {
	struct path f_path;
	struct inode *f_inode;
	unsigned int f_flags;
	s64 f_pos;
} CORE;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} CORE;

struct files_struct {
	struct fdtable *fdt;
} CORE;

struct fs_struct {
	struct path pwd;
} CORE;

struct sched_info {
	u64 run_delay;
} CORE;

struct sched_entity {
	u64 sum_exec_runtime;
} CORE;

struct task_struct {
	s32 pid;
	s32 tgid;
	struct task_struct *group_leader;
	struct fs_struct *fs;
	struct files_struct *files;
	struct sched_entity se;
	struct sched_info sched_info;
} CORE;

/* Of x86-64: a call's number and arguments, and the stack, as its thread entered the kernel. */
struct pt_regs {
	unsigned long r10;
	unsigned long dx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long sp;
} CORE;

struct gendisk {
	int major;
	int first_minor;
} CORE;

struct request_queue {
	struct gendisk *disk;
} CORE;

struct request {
	struct request_queue *q;
	unsigned int cmd_flags;
	unsigned int __data_len;
	u64 __sector;
} CORE;

enum req_flag_bits {
	__REQ_FUA,
};

#define CORE_FIELD_OFFSET 0
#define CORE_ENUM_VALUE 1
#define OFFSET_OF(type, field) \
	__builtin_preserve_field_info(((type *)0)->field, CORE_FIELD_OFFSET)
#define ENUM_VALUE(type, value) \
	__builtin_preserve_enum_value(*(enum type *)value, CORE_ENUM_VALUE)

/* Reads a field through a pointer that the verifier does not know the type of. */
#define READ(to, from) read_kernel(&(to), sizeof(to), &(from))

/* <asm-generic/fcntl.h>, <linux/stat.h>, <linux/fs.h>: part of the interface to programs. */
#define O_APPEND 02000
#define O_DSYNC 010000
#define S_IFMT 0170000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFDIR 0040000
#define SB_SYNCHRONOUS (1 << 4)
#define S_SYNC (1 << 0)
#define RWF_DSYNC 2
#define RWF_SYNC 4
#define RWF_APPEND 16
#define MAP_ANONYMOUS 0x20
#define MS_SYNC 4
#define AT_FDCWD (-100)

/* Arguments of a tracepoint syscalls/sys_enter_*, .../sys_exit_*. */
struct enter {
	u64 common;
	u32 number;
	u32 unused;
	u64 args[6];
};

struct leave {
	u64 common;
	u32 number;
	u32 unused;
	s64 result;
};

#endif
