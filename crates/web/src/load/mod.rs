//! The load: requests drawn, sent, and their replies read, checked and counted.

mod config;
mod connection;
mod draw;
mod ending;
mod fault;
mod guard;
mod meter;
mod open_files;
mod post_log;
mod receive;
mod report;
mod run;
mod sums;
mod timers;
mod worker;

pub use config::{LoadConfig, LoadMode, Mix};
pub use fault::Fault;
pub use generator::Reason;
pub use open_files::OpenFiles;
pub use post_log::{PostLog, check_post_log};
pub use report::{Report, WriterReport};
pub use run::{run, run_part};
pub use sums::{Sums, merge};
