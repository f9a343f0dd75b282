//! Calls of Linux that no library has as they are needed here: bpf(2) on storage of tasks,
//! perf_event_open(2) on a tracepoint by its number.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_NOEXIST: u64 = 1;
const BPF_PROG_TYPE_TRACEPOINT: u32 = 5;
const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
const PERF_EVENT_IOC_ENABLE: u64 = 0x2400;
const PERF_EVENT_IOC_SET_BPF: u64 = 0x4004_2408;

/// bpf(2).
///
/// # Safety
/// `attribute` is as union bpf_attr has it for this command, up to its size; what it points to
/// lives.
unsafe fn bpf<T>(command: libc::c_int, attribute: &T) -> libc::c_long {
    // SAFETY: as the caller promises; the size is given.
    unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            &raw const *attribute,
            size_of::<T>(),
        )
    }
}

/// Puts `value` into a map of storage of tasks, for the process behind `process`. False when it
/// has one already.
pub fn store(map: BorrowedFd<'_>, process: BorrowedFd<'_>, value: &[u8]) -> io::Result<bool> {
    #[repr(C)]
    struct Update {
        map: u32,
        unused: u32,
        key: u64,
        value: u64,
        flags: u64,
    }
    let key = process.as_raw_fd();
    let update = Update {
        map: map.as_raw_fd() as u32,
        unused: 0,
        key: (&raw const key) as u64,
        value: value.as_ptr() as u64,
        flags: BPF_NOEXIST,
    };
    // SAFETY: it is as union bpf_attr has it for this command; key and value live until the call
    // returns, and the map's value has this size.
    let result = unsafe { bpf(BPF_MAP_UPDATE_ELEM, &update) };
    match result {
        0 => Ok(true),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EEXIST) => Ok(false),
            error => Err(error),
        },
    }
}

/// Loads a program that does nothing: may programs for tracepoints be loaded?
pub fn load_nothing() -> io::Result<OwnedFd> {
    #[repr(C)]
    #[derive(Default)]
    struct Load {
        kind: u32,
        instructions: u32,
        code: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        version: u32,
        flags: u32,
    }
    // r0 = 0; exit
    let code: [u64; 2] = [0xb7, 0x95];
    let load = Load {
        kind: BPF_PROG_TYPE_TRACEPOINT,
        instructions: code.len() as u32,
        code: code.as_ptr() as u64,
        license: c"Dual MIT/GPL".as_ptr() as u64,
        ..Load::default()
    };
    // SAFETY: it is as union bpf_attr has it for this command; code and license live until the call
    // returns.
    let result = unsafe { bpf(BPF_PROG_LOAD, &load) };
    owned(result)
}

/// Attaches a program to a tracepoint, until what is returned is closed.
pub fn attach(tracepoint: u64, program: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let event = open_tracepoint(tracepoint)?;
    control(&event, PERF_EVENT_IOC_SET_BPF, program.as_raw_fd())?;
    control(&event, PERF_EVENT_IOC_ENABLE, 0)?;
    Ok(event)
}

/// Opens a tracepoint, to which a program can be attached.
pub fn open_tracepoint(tracepoint: u64) -> io::Result<OwnedFd> {
    /// struct perf_event_attr up to PERF_ATTR_SIZE_VER0.
    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        kind: u32,
        size: u32,
        config: u64,
        period: u64,
        sample_type: u64,
        read_format: u64,
        disabled: u64,
        wakeup: u32,
        breakpoint: u32,
        address: u64,
    }
    let attributes = Attributes {
        kind: PERF_TYPE_TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: tracepoint,
        disabled: 1,
        ..Attributes::default()
    };
    let (every_process, first_processor, no_group) = (-1, 0, -1);
    // SAFETY: the attributes are those of linux/perf_event.h, their size is in them. The processor
    // is where samples would be taken: there are none, and the program runs on all.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            every_process,
            first_processor,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    owned(result)
}

fn control(event: &OwnedFd, request: u64, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: both requests take a number and touch no memory of ours.
    match unsafe { libc::ioctl(event.as_raw_fd(), request as libc::Ioctl, argument) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    match libc::c_int::try_from(result) {
        // SAFETY: Linux has just given this descriptor to us and to nobody else.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}
