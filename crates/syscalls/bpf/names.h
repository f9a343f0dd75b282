/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Names of files: the dentries from the leaf up to the root of their file system, and the number
 * of the mount. User space turns them round and puts the mount's place before them
 * (src/ebpf/paths.rs); bpf_d_path() is not granted to tracepoints.
 */
#ifndef NFSLAB_NAMES_H
#define NFSLAB_NAMES_H

#include "state.h"

#define DEPTH_MAX 48
#define NAME_BYTES 256
#define STRING_BYTES 1024
#define TEXT_BYTES 4096

struct scratch {
	struct name_record record;
	char text[TEXT_BYTES + STRING_BYTES];
};

struct {
	UINT(type, MAP_PERCPU_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct scratch);
} scratches SEC(".maps");

INLINE s32 mount_of(struct vfsmount *mount)
{
	s32 number = 0;

	if (mount) {
		void *outer = (void *)mount - OFFSET_OF(struct mount, mnt);

		READ(number, ((struct mount *)outer)->mnt_id);
	}
	return number;
}

/* Puts the names from here to the root at `at`; where the next may be put. What lies in no folder
 * (memfd_create) is its own root and has a name, a file system's root is called "/". */
APART u32 put_walk(struct scratch *scratch, u32 at, u64 from)
{
	struct dentry *dentry = (struct dentry *)from;

	if (!scratch)
		return 0;
	for (int depth = 0; depth < DEPTH_MAX; depth++) {
		struct dentry *parent = NULL;
		const unsigned char *name = NULL;
		long length;

		READ(parent, dentry->d_parent);
		if (!parent || (depth && parent == dentry))
			return at;
		READ(name, dentry->d_name.name);
		if (at > TEXT_BYTES - NAME_BYTES)
			break;
		length = read_kernel_text(scratch->text + at, NAME_BYTES, name);
		if (length <= 0)
			break;
		at += length;
		SETTLED(at);
		if (parent == dentry)
			return at;
		dentry = parent;
	}
	scratch->record.truncated = 1;
	return at;
}

/* Puts a string of the program at `at`; where the next may be put. */
APART u32 put_string(struct scratch *scratch, u32 at, u64 string)
{
	long length;

	if (!scratch)
		return 0;
	if (at > TEXT_BYTES) {
		scratch->record.truncated = 1;
		return at;
	}
	length = read_user_text(scratch->text + at, STRING_BYTES, (const void *)string);
	if (length <= 0 || length >= STRING_BYTES)
		scratch->record.truncated = 1;
	if (length > 0)
		at += length;
	return at;
}

/* Sends the record with this much text: false when there is no room. */
INLINE bool send_name(struct scratch *scratch, u32 length, u32 lost)
{
	SETTLED(length);
	if (length > TEXT_BYTES + STRING_BYTES)
		return 0;
	if (!ring_output(&ring, scratch, sizeof(struct name_record) + length, wake()))
		return 1;
	figure(lost);
	return 0;
}

/* What tells that a dentry has another name: the hashes that Linux keeps of it and its folder. */
INLINE u64 name_hash(struct file *file)
{
	struct dentry *dentry = NULL, *parent = NULL;
	u64 leaf = 0, folder = 0;

	READ(dentry, file->f_path.dentry);
	READ(leaf, dentry->d_name.hash_len);
	READ(parent, dentry->d_parent);
	READ(folder, parent->d_name.hash_len);
	return leaf ^ (folder << 17 | folder >> 47);
}

/* Tells user space what this file is called: false when it could not. `file` may be gone by now:
 * then without a name. */
APART int send_file(u64 of_file, const struct file_key *key, u32 id)
{
	struct file *file = (struct file *)of_file;
	u32 zero = 0, length = 0;
	u64 thread = current_pid_tgid(), inode_number = 0;
	struct scratch *scratch = map_lookup(&scratches, &zero);
	struct inode *inode = NULL;
	struct dentry *dentry = NULL;
	struct vfsmount *mount = NULL;

	if (!scratch || !key)
		return 0;
	__builtin_memset(&scratch->record, 0, sizeof(scratch->record));
	scratch->record.kind = KIND_FILE;
	scratch->record.file_id = id;
	scratch->record.start_ns = ktime_get_ns();
	scratch->record.pid = thread >> 32;
	scratch->record.tid = thread;
	scratch->record.inode = key->inode;
	scratch->record.device = key->device;
	READ(inode, file->f_inode);
	READ(inode_number, inode->i_ino);
	if (inode_number == key->inode) {
		READ(dentry, file->f_path.dentry);
		READ(mount, file->f_path.mnt);
		scratch->record.mounts[0] = mount_of(mount);
		length = put_walk(scratch, 0, (u64)dentry);
		scratch->record.lengths[0] = length;
	}
	return send_name(scratch, length, LOST_FILES);
}

#endif
