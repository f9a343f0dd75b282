//! Locks: std's; in the tests of this library those of loom, which tries every order of threads.

#[cfg(test)]
pub(super) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(test))]
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
