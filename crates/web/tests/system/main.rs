//! Tests of the web workload as a whole: the file set, the embedded server, the generator.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod file_set;
mod hostile;
mod parts;
mod served;
