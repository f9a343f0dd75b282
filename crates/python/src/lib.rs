//! Python module `nfslab._core`: the bindings of the Rust core, nothing more.
//!
//! Each file converts for one crate: arguments to Rust types, results to Python objects, errors to
//! `CoreError`. Whatever takes longer than some microseconds runs with the GIL released. The
//! contract with Python is `python/nfslab/_core.pyi`; `tests/core` checks one against the other.

mod build;
mod columns;
mod errors;
mod histogram;
mod kernel_calls;
mod load;
mod mount;
mod parts;
mod rpc_records;
mod run_files;
mod sampler;
mod serve;
mod serve_options;
mod signals;
mod syscall_shim;
mod syscall_tables;
mod syscall_watch;
mod tcp_connections;
mod toml;
mod trace;
mod wait_sampler;
mod wait_watch;
mod web;

use pyo3::prelude::*;

/// The nfslab core: timed loops and byte reading.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::build::build_info;
    #[pymodule_export]
    use super::columns::Columns;
    #[pymodule_export]
    use super::errors::CoreError;
    #[pymodule_export]
    use super::histogram::Histogram;
    #[pymodule_export]
    use super::kernel_calls::{KernelCalls, KernelFiles};
    #[pymodule_export]
    use super::load::Load;
    #[pymodule_export]
    use super::mount::{Mount, check_mount_options, unmount};
    #[pymodule_export]
    use super::parts::{capture_order, join_parts, part_findings, read_part};
    #[pymodule_export]
    use super::rpc_records::RpcRecorder;
    #[pymodule_export]
    use super::run_files::run_files;
    #[pymodule_export]
    use super::sampler::SystemSampler;
    #[pymodule_export]
    use super::serve::{Server, check_service_model};
    #[pymodule_export]
    use super::syscall_shim::{ShimRecords, classify_paths, shim_path};
    #[pymodule_export]
    use super::syscall_watch::{SyscallWatch, syscalls_grants};
    #[pymodule_export]
    use super::tcp_connections::tcp_connections;
    #[pymodule_export]
    use super::toml::toml_lines;
    #[pymodule_export]
    use super::trace::{CallRows, Trace};
    #[pymodule_export]
    use super::wait_sampler::WaitSampler;
    #[pymodule_export]
    use super::wait_watch::{WaitWatch, program_image};
    #[pymodule_export]
    use super::web::{
        WebServer, check_web_files, check_web_posts, merge_web_parts, run_web_load, run_web_part,
        web_directories, web_tables, write_web_files,
    };

    /// Version of the plan and of the report of `Load`.
    #[pymodule_export]
    const LOAD_SCHEMA: u32 = ::load::SCHEMA;

    /// Version of configurations and reports of the web workload.
    #[pymodule_export]
    const WEB_SCHEMA: u32 = ::web::SCHEMA;

    /// Version of the configuration and of the result of `run_files`.
    #[pymodule_export]
    const FILES_SCHEMA: u32 = files::SCHEMA;
}
