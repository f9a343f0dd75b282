//! An NFSv3 client without the kernel, instrumented by design: what nfs(5) options mean, an engine
//! that pipelines calls over TCP and UDP, and a record of every call.
//!
//! Flow, from below: [`engine`] moves calls and keeps the [`record`]; [`nfs3`] gives them types and
//! mounts; [`handle`] runs an engine in a thread for many; [`file`] and [`attributes`] are what a
//! file system needs on top. [`options`] says how all of them behave, [`error`] what goes wrong.
//!
//! Limits: NFS version 3 with AUTH_SYS; no locking (NLM), no ACLs (NFSACL).

pub mod attributes;
pub mod engine;
pub mod error;
pub mod file;
pub mod handle;
pub mod nfs3;
pub mod options;
pub mod record;

pub use engine::{Caller, Completion, Engine, Reply, Request, SharedBytes};
pub use error::{CallError, ConnectError};
pub use file::File;
pub use handle::Client;
pub use options::{MountOptions, OptionError};
