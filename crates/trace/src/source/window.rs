//! A stretch of a file in memory, that may be cut short by others while it is looked at.
//!
//! The kernel ends a process that touches a page of a mapping behind its file's end (SIGBUS). Here,
//! as compositors of Wayland do with the buffers of their clients, a handler takes such a signal if
//! it is about one of our windows: it notes so and puts zeroes there, and whoever looked goes on.
//! [`Window::is_torn`] tells, and what was made of the window's bytes must then be thrown away.
//! Every other SIGBUS goes to the handler that was there before.
//!
//! The handler is installed once, with the first window, and stays. A window is refused (and the
//! file read instead) if another handler was installed behind ours, which then might not be asked,
//! or if [`SLOTS`] windows exist.
//!
//! Limits: a file that is written over while it is mapped shows its new bytes, as read(2) would a
//! moment later. All readers of captures check what they read where they use it.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Once, OnceLock};

use libc::{c_int, c_void, siginfo_t};

/// Windows at once, of all readers of the process.
pub(super) const SLOTS: usize = 64;

/// What the handler has to know of a window.
struct Slot {
    taken: AtomicBool,
    /// First address; 0: none.
    from: AtomicUsize,
    /// Behind the last address.
    to: AtomicUsize,
    torn: AtomicBool,
}

impl Slot {
    const fn free() -> Self {
        Slot {
            taken: AtomicBool::new(false),
            from: AtomicUsize::new(0),
            to: AtomicUsize::new(0),
            torn: AtomicBool::new(false),
        }
    }
}

static WINDOWS: [Slot; SLOTS] = [const { Slot::free() }; SLOTS];

/// What was done with SIGBUS before.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Bytes of a file, mapped read-only.
#[derive(Debug)]
pub(super) struct Window {
    at: NonNull<u8>,
    length: usize,
    slot: usize,
}

// SAFETY: the mapping is read-only and belongs to the process; its one owner unmaps it.
unsafe impl Send for Window {}
// SAFETY: as above; nothing in it is written but through atomics.
unsafe impl Sync for Window {}

impl Window {
    /// Maps `length` bytes of the file from `offset` on, which lies on a page's bound; `None` if
    /// that is refused. The file should be that long, or the window is torn from the start.
    pub(super) fn map(file: &File, offset: u64, length: usize) -> Option<Self> {
        let offset = libc::off_t::try_from(offset).ok()?;
        if length == 0 || !installed() {
            return None;
        }
        let free = |slot: &Slot| !slot.taken.swap(true, SeqCst);
        let slot = WINDOWS.iter().position(free)?;
        // SAFETY: a new mapping at a place that the kernel chooses, of an open descriptor.
        let at = unsafe {
            libc::mmap(
                null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                offset,
            )
        };
        let mapped = NonNull::new(at.cast::<u8>()).filter(|_| at != libc::MAP_FAILED);
        let Some(at) = mapped else {
            WINDOWS[slot].taken.store(false, SeqCst);
            return None;
        };
        let known = &WINDOWS[slot];
        known.torn.store(false, SeqCst);
        known.to.store(at.as_ptr() as usize + length, SeqCst);
        known.from.store(at.as_ptr() as usize, SeqCst);
        Some(Window { at, length, slot })
    }

    /// Its bytes; zeroes where the file ended.
    #[inline(always)]
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: `length` readable bytes for as long as `self` lives: behind the file's end the
        // handler makes them so. Another program may write to the file meanwhile; what is read
        // here is checked after it was loaded and never relied on for memory safety beyond that,
        // the usual terms of mapped files.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.length) }
    }

    /// Whether a byte was looked at that the file does not have (any more), or could not give.
    pub(super) fn is_torn(&self) -> bool {
        WINDOWS[self.slot].torn.load(SeqCst)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let slot = &WINDOWS[self.slot];
        slot.from.store(0, SeqCst);
        // SAFETY: the mapping of this window, which nobody looks at any more.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.length) };
        slot.taken.store(false, SeqCst);
    }
}

/// Length of a page, bytes.
pub(super) fn page_bytes() -> usize {
    static PAGE: OnceLock<usize> = OnceLock::new();
    *PAGE.get_or_init(|| {
        // SAFETY: a plain call.
        let said = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(said)
            .ok()
            .filter(|it| it.is_power_of_two())
            .unwrap_or(1 << 16)
    })
}

fn handler() -> usize {
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_sigbus;
    handler as usize
}

/// The present action for SIGBUS.
fn present() -> io::Result<libc::sigaction> {
    // SAFETY: plain integers and an optional function pointer, for which zeroes are a value.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; the pointer is to a live action.
    match unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut now) } {
        0 => Ok(now),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether our handler is the one that is asked first; installs it when called first.
fn installed() -> bool {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Ok(before) = present() else { return };
        // Known before the first signal can come to our handler.
        PREVIOUS.get_or_init(|| before);
        page_bytes();
        // SAFETY: zeroes are a value, as above.
        let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
        ours.sa_sigaction = handler();
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: a live action whose handler has the signature that SA_SIGINFO asks for, and does
        // only what a handler may.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, null_mut()) };
    });
    present().is_ok_and(|now| now.sa_sigaction == handler())
}

/// Takes SIGBUS. Calls only what may be called in a handler: atomics, mmap, sigaction, raise.
extern "C" fn on_sigbus(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: errno belongs to this thread, and is put back for the code that was interrupted.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel gives a live siginfo_t to a handler with SA_SIGINFO.
    if !unsafe { mended(&*info) } {
        // SAFETY: the arguments are those of the kernel.
        unsafe { forward(signal, info, context) };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// If the address lies in one of our windows: notes so, puts zeroes there.
///
/// # Safety
/// `info` tells of a signal that this thread just got.
unsafe fn mended(info: &siginfo_t) -> bool {
    if info.si_signo != libc::SIGBUS || info.si_code != libc::BUS_ADRERR {
        return false;
    }
    // SAFETY: BUS_ADRERR comes from the kernel with an address.
    let address = unsafe { info.si_addr() } as usize;
    for slot in &WINDOWS {
        let (from, to) = (slot.from.load(SeqCst), slot.to.load(SeqCst));
        if from == 0 || !(from..to).contains(&address) || slot.from.load(SeqCst) != from {
            continue;
        }
        slot.torn.store(true, SeqCst);
        let page = address & !(page_bytes() - 1);
        // SAFETY: pages of our own mapping, which is alive, since a thread just looked at it. They
        // stay readable all the time; nothing else lies there.
        let zeroes = unsafe {
            libc::mmap(
                page as *mut c_void,
                to - page,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        return zeroes != libc::MAP_FAILED;
    }
    false
}

/// Hands a signal to whoever had it before us.
///
/// # Safety
/// The arguments are those that the kernel gave to a handler.
unsafe fn forward(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let previous = PREVIOUS.get();
    let (action, flags) = previous.map_or((libc::SIG_DFL, 0), |it| (it.sa_sigaction, it.sa_flags));
    // SAFETY: alive, as the caller states.
    let sent = unsafe { (*info).si_code } <= 0;
    match action {
        libc::SIG_IGN if sent => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: plain calls. What the kernel raised comes again with the same instruction;
            // what another process sent is sent again, and comes when this handler returns.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                if sent {
                    libc::raise(signal);
                }
            }
        }
        action if flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: installed with SA_SIGINFO, so it has this signature.
            let action: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(action) };
            action(signal, info, context);
        }
        action => {
            // SAFETY: installed without SA_SIGINFO, so it has this signature.
            let action: extern "C" fn(c_int) = unsafe { std::mem::transmute(action) };
            action(signal);
        }
    }
}
