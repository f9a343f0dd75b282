//! Which values are kept, under which name, in which unit: one table for each file of /proc.
//!
//! Sources: Documentation/filesystems/proc.rst, Documentation/admin-guide/iostats.rst,
//! Documentation/accounting/psi.rst, Documentation/admin-guide/cgroup-v2.rst, mm/vmstat.c. Keys
//! that a kernel does not have stay without a column; the order is that of the files, which lets
//! the parser find most keys at the first try.

/// Whether a value only grows since boot, or goes up and down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Grows since boot (or since the group was made): differences have meaning.
    Counter,
    /// A state at one instant.
    Gauge,
}

/// Factor from the kernel's unit to ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// As it is.
    One,
    /// KiB to bytes.
    Kib,
    /// Pages to bytes.
    Page,
    /// 512-byte sectors to bytes (their size here whatever the disk's is).
    Sector,
    /// Clock ticks (`USER_HZ`) to nanoseconds.
    Tick,
    /// Milliseconds to nanoseconds, from a counter that the kernel prints with 32 bits.
    Millisecond32,
    /// Microseconds to nanoseconds.
    Microsecond,
}

/// One value that is kept.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name in the kernel's file (for positional files: documentation only).
    pub key: &'static str,
    /// Its name in our columns, behind the source's prefix; ends in its unit.
    pub name: &'static str,
    /// Counter or gauge.
    pub kind: Kind,
    /// From the kernel's unit to ours.
    pub scale: Scale,
}

impl Field {
    /// The unit at the end of the name.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        self.name.rsplit('_').next().unwrap_or("count")
    }
}

const fn counter(key: &'static str, name: &'static str, scale: Scale) -> Field {
    Field {
        key,
        name,
        kind: Kind::Counter,
        scale,
    }
}

const fn gauge(key: &'static str, name: &'static str, scale: Scale) -> Field {
    Field {
        key,
        name,
        kind: Kind::Gauge,
        scale,
    }
}

use Scale::{Kib, Microsecond, Millisecond32, One, Page, Sector, Tick};

/// The first line of /proc/stat, by position. guest is part of user, `guest_nice` of nice.
pub const CPU: [Field; 10] = [
    counter("user", "cpu.user_ns", Tick),
    counter("nice", "cpu.nice_ns", Tick),
    counter("system", "cpu.system_ns", Tick),
    counter("idle", "cpu.idle_ns", Tick),
    counter("iowait", "cpu.iowait_ns", Tick),
    counter("irq", "cpu.irq_ns", Tick),
    counter("softirq", "cpu.softirq_ns", Tick),
    counter("steal", "cpu.steal_ns", Tick),
    counter("guest", "cpu.guest_ns", Tick),
    counter("guest_nice", "cpu.guest_nice_ns", Tick),
];

/// Other lines of /proc/stat: the first number behind the key.
pub const STAT: [Field; 6] = [
    counter("intr", "cpu.interrupts_count", One),
    counter("ctxt", "cpu.context_switches_count", One),
    counter("processes", "cpu.forks_count", One),
    gauge("procs_running", "cpu.running_count", One),
    gauge("procs_blocked", "cpu.blocked_count", One),
    counter("softirq", "cpu.softirqs_count", One),
];

/// /proc/meminfo.
pub const MEMINFO: [Field; 13] = [
    gauge("MemTotal", "memory.total_bytes", Kib),
    gauge("MemFree", "memory.free_bytes", Kib),
    gauge("MemAvailable", "memory.available_bytes", Kib),
    gauge("Buffers", "memory.buffers_bytes", Kib),
    gauge("Cached", "memory.cached_bytes", Kib),
    gauge("SwapTotal", "memory.swap_total_bytes", Kib),
    gauge("SwapFree", "memory.swap_free_bytes", Kib),
    gauge("Dirty", "memory.dirty_bytes", Kib),
    gauge("Writeback", "memory.writeback_bytes", Kib),
    gauge("AnonPages", "memory.anonymous_bytes", Kib),
    gauge("Shmem", "memory.shared_bytes", Kib),
    gauge("Slab", "memory.slab_bytes", Kib),
    gauge("NFS_Unstable", "memory.nfs_unstable_bytes", Kib),
];

/// /proc/vmstat. pgpgin and pgpgout are in KiB there (mm/vmstat.c halves sectors).
pub const VMSTAT: [Field; 22] = [
    counter("workingset_refault_file", "vm.refault_file_count", One),
    counter("nr_dirtied", "vm.dirtied_bytes", Page),
    counter("nr_written", "vm.written_back_bytes", Page),
    gauge("nr_dirty_threshold", "vm.dirty_threshold_bytes", Page),
    gauge(
        "nr_dirty_background_threshold",
        "vm.dirty_background_threshold_bytes",
        Page,
    ),
    counter("pgpgin", "vm.paged_in_bytes", Kib),
    counter("pgpgout", "vm.paged_out_bytes", Kib),
    counter("pswpin", "vm.swapped_in_bytes", Page),
    counter("pswpout", "vm.swapped_out_bytes", Page),
    counter("allocstall_dma", "vm.allocation_stall_dma_count", One),
    counter("allocstall_dma32", "vm.allocation_stall_dma32_count", One),
    counter("allocstall_normal", "vm.allocation_stall_normal_count", One),
    counter(
        "allocstall_movable",
        "vm.allocation_stall_movable_count",
        One,
    ),
    counter("pgfault", "vm.fault_count", One),
    counter("pgmajfault", "vm.major_fault_count", One),
    counter("pgsteal_kswapd", "vm.reclaimed_kswapd_count", One),
    counter("pgsteal_direct", "vm.reclaimed_direct_count", One),
    counter("pgscan_kswapd", "vm.scanned_kswapd_count", One),
    counter("pgscan_direct", "vm.scanned_direct_count", One),
    counter("drop_pagecache", "vm.cache_drops_count", One),
    counter("oom_kill", "vm.oom_kill_count", One),
    counter("compact_stall", "vm.compaction_stall_count", One),
];

/// A line of /proc/diskstats behind major, minor and name. 11 fields at first, 15 since 4.18
/// (discards), 17 since 5.5 (flushes): 14, 18 and 20 with the first three.
pub const DISK: [Field; 17] = [
    counter("reads completed", "read_count", One),
    counter("reads merged", "read_merged_count", One),
    counter("sectors read", "read_bytes", Sector),
    counter("time reading", "read_time_ns", Millisecond32),
    counter("writes completed", "write_count", One),
    counter("writes merged", "write_merged_count", One),
    counter("sectors written", "write_bytes", Sector),
    counter("time writing", "write_time_ns", Millisecond32),
    gauge("in flight", "in_flight_count", One),
    counter("time doing I/Os", "busy_ns", Millisecond32),
    counter("weighted time", "queue_time_ns", Millisecond32),
    counter("discards completed", "discard_count", One),
    counter("discards merged", "discard_merged_count", One),
    counter("sectors discarded", "discard_bytes", Sector),
    counter("time discarding", "discard_time_ns", Millisecond32),
    counter("flushes completed", "flush_count", One),
    counter("time flushing", "flush_time_ns", Millisecond32),
];

/// Fields of a diskstats line before 4.18, name and numbers of the device not counted.
pub const DISK_LEAST: usize = 11;

/// A line of /proc/net/dev behind the interface's name (net/core/net-procfs.c).
pub const NET: [Field; 16] = [
    counter("bytes", "receive_bytes", One),
    counter("packets", "receive_packets_count", One),
    counter("errs", "receive_errors_count", One),
    counter("drop", "receive_drops_count", One),
    counter("fifo", "receive_fifo_errors_count", One),
    counter("frame", "receive_frame_errors_count", One),
    counter("compressed", "receive_compressed_count", One),
    counter("multicast", "receive_multicast_count", One),
    counter("bytes", "transmit_bytes", One),
    counter("packets", "transmit_packets_count", One),
    counter("errs", "transmit_errors_count", One),
    counter("drop", "transmit_drops_count", One),
    counter("fifo", "transmit_fifo_errors_count", One),
    counter("colls", "transmit_collisions_count", One),
    counter("carrier", "transmit_carrier_errors_count", One),
    counter("compressed", "transmit_compressed_count", One),
];

/// A file of /proc/pressure: total stall time. The averages follow from it.
pub const PRESSURE: [Field; 2] = [
    counter("some", "some_ns", Microsecond),
    counter("full", "full_ns", Microsecond),
];

/// memory.stat of a control group v2; `total_`-prefixed and others of v1 follow.
pub const CGROUP_MEMORY: [Field; 10] = [
    gauge("anon", "cgroup.anonymous_bytes", One),
    gauge("file", "cgroup.file_bytes", One),
    gauge("file_dirty", "cgroup.dirty_bytes", One),
    gauge("file_writeback", "cgroup.writeback_bytes", One),
    counter("pgfault", "cgroup.fault_count", One),
    counter("pgmajfault", "cgroup.major_fault_count", One),
    gauge("total_rss", "cgroup.anonymous_v1_bytes", One),
    gauge("total_cache", "cgroup.file_v1_bytes", One),
    gauge("total_dirty", "cgroup.dirty_v1_bytes", One),
    gauge("total_writeback", "cgroup.writeback_v1_bytes", One),
];

/// cpu.stat of a control group v2.
pub const CGROUP_CPU: [Field; 5] = [
    counter("usage_usec", "cgroup.cpu_ns", Microsecond),
    counter("user_usec", "cgroup.cpu_user_ns", Microsecond),
    counter("system_usec", "cgroup.cpu_system_ns", Microsecond),
    counter("nr_throttled", "cgroup.throttled_count", One),
    counter("throttled_usec", "cgroup.throttled_ns", Microsecond),
];

/// Files of a control group that hold one number: v2 first, then v1.
pub const CGROUP_SINGLE: [(&str, Field); 3] = [
    ("memory.current", gauge("", "cgroup.memory_bytes", One)),
    (
        "memory.usage_in_bytes",
        gauge("", "cgroup.memory_bytes", One),
    ),
    ("cpuacct.usage", counter("", "cgroup.cpu_ns", One)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_within_their_file_and_end_in_a_unit() {
        let tables: [&[Field]; 10] = [
            &CPU,
            &STAT,
            &MEMINFO,
            &VMSTAT,
            &DISK,
            &NET,
            &PRESSURE,
            &CGROUP_MEMORY,
            &CGROUP_CPU,
            &[],
        ];
        for table in tables {
            for (index, field) in table.iter().enumerate() {
                assert!(
                    ["ns", "bytes", "count"].contains(&field.unit()),
                    "{}",
                    field.name
                );
                assert!(table[..index].iter().all(|other| other.name != field.name));
            }
        }
    }
}
