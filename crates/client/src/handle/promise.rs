//! Waiting for what another thread will give.

use std::sync::{Arc, PoisonError};

use super::sync::{Condvar, Mutex};
use crate::error::CallError;

/// A value that another thread will give, exactly once; giving up gives [`CallError::Closed`].
pub(super) struct Promise<T>(Option<Arc<Awaited<T>>>);

pub(super) struct Awaited<T> {
    value: Mutex<Option<Result<T, CallError>>>,
    given: Condvar,
}

impl<T> Promise<T> {
    pub(super) fn pair() -> (Self, Arc<Awaited<T>>) {
        let awaited = Arc::new(Awaited {
            value: Mutex::new(None),
            given: Condvar::new(),
        });
        (Promise(Some(Arc::clone(&awaited))), awaited)
    }

    pub(super) fn give(mut self, value: Result<T, CallError>) {
        self.put(value);
    }

    fn put(&mut self, value: Result<T, CallError>) {
        if let Some(awaited) = self.0.take() {
            *awaited.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            awaited.given.notify_one();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.put(Err(CallError::Closed));
    }
}

impl<T> Awaited<T> {
    pub(super) fn wait(&self) -> Result<T, CallError> {
        let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(value) = value.take() {
                return value;
            }
            value = self
                .given
                .wait(value)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}
