//! Tests of the web workload as a whole: the file set, the embedded server, the generator.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "all/file_set.rs"]
mod file_set;
#[path = "all/hostile.rs"]
mod hostile;
#[path = "all/parts.rs"]
mod parts;
#[path = "all/served.rs"]
mod served;
