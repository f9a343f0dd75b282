/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * Requests of block devices, of all devices and whoever caused them: from the moment one is handed
 * to the driver until the device has done it. Devices without a request queue (RAM disks, parts of
 * md and dm) have none.
 */
#ifndef NFSLAB_BLOCKS_H
#define NFSLAB_BLOCKS_H

#include "state.h"

#define OPERATION 0xff

struct block {
	u64 issue_ns;
	u64 sector;
	u32 device;
	u32 size;
	u32 flags;
	u32 pid;
};

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 16384);
	TYPE(key, u64);
	TYPE(value, struct block);
} blocks SEC(".maps");

SEC("tp_btf/block_rq_issue") int block_issued(u64 *arguments)
{
	struct request *request = (struct request *)arguments[0];
	struct gendisk *disk = request->q->disk;
	u64 key = (u64)request;
	struct block block = {
		.issue_ns = ktime_get_ns(),
		.sector = request->__sector,
		.size = request->__data_len,
		.flags = request->cmd_flags,
		.pid = current_pid_tgid() >> 32,
	};

	if (disk)
		block.device = (u32)disk->major << 20 | (u32)disk->first_minor;
	if (map_update(&blocks, &key, &block, 0))
		figure(LOST_BLOCKS);
	return 0;
}

SEC("tp_btf/block_rq_complete") int block_completed(u64 *arguments)
{
	u64 now = ktime_get_ns();
	struct request *request = (struct request *)arguments[0];
	u64 key = (u64)request;
	struct block *block;
	u32 fua = 1u << ENUM_VALUE(req_flag_bits, __REQ_FUA);

	if ((u32)arguments[2] < request->__data_len)
		return 0; /* a part of it */
	block = map_lookup(&blocks, &key);
	if (!block)
		return 0;
	struct block_record record = {
		.kind = KIND_BLOCK,
		.operation = block->flags & OPERATION,
		.fua = (block->flags & fua) != 0,
		.device = block->device,
		.issue_ns = block->issue_ns,
		.latency_ns = now - block->issue_ns,
		.sector = block->sector,
		.size = block->size,
		.pid = block->pid,
	};
	map_delete(&blocks, &key);
	if (ring_output(&ring, &record, sizeof(record), wake()))
		figure(LOST_BLOCKS);
	return 0;
}

#endif
