//! The limit of open files: raised if it can be.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::error::WebError;

/// What a process has open besides connections and epoll instances: an interpreter, logs,
/// libraries.
const OTHERS: u64 = 256;

/// The limit as it was and as it is; `None`: without limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct OpenFiles {
    pub needed: u64,
    pub soft_before: Option<u64>,
    pub soft: Option<u64>,
    pub hard: Option<u64>,
}

impl OpenFiles {
    /// Raises the soft limit for so many connections, if it is lower; and the hard limit, if that
    /// is lower, too, which needs the right to. The process keeps it.
    ///
    /// # Errors
    /// [`WebError::OpenFiles`].
    pub fn raise(connections: u64, threads: u64) -> Result<Self, WebError> {
        let needed = connections + threads + OTHERS;
        let before = getrlimit(Resource::Nofile);
        let mut now = before;
        let too_low = |limit: Option<u64>| limit.is_some_and(|limit| limit < needed);
        if too_low(before.current) {
            let hard = match too_low(before.maximum) {
                true => Some(needed),
                false => before.maximum,
            };
            now = Rlimit {
                current: Some(needed),
                maximum: hard,
            };
            setrlimit(Resource::Nofile, now).map_err(|_| WebError::OpenFiles {
                needed,
                soft: before.current.unwrap_or(u64::MAX),
                hard: before.maximum.unwrap_or(u64::MAX),
            })?;
        }
        Ok(OpenFiles {
            needed,
            soft_before: before.current,
            soft: now.current,
            hard: now.maximum,
        })
    }
}
