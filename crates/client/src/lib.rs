//! An NFSv3 client without the kernel, instrumented by design: what nfs(5) options mean, an engine
//! that pipelines calls over TCP and UDP, and a record of every call.

pub mod options;

pub use options::{MountOptions, OptionError};
