//! An NFSv3 client without the kernel, instrumented by design: what nfs(5) options mean, an engine
//! that pipelines calls over TCP and UDP, and a record of every call.

pub mod engine;
pub mod error;
pub mod handle;
pub mod nfs3;
pub mod options;
pub mod record;

pub use engine::{Caller, Completion, Engine, Reply, Request, SharedBytes};
pub use error::{CallError, ConnectError};
pub use handle::Client;
pub use options::{MountOptions, OptionError};
