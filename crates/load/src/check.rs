//! A plan's fields, one by one: refused with what would be right, or repaired and said.

use std::collections::BTreeMap;

use client::MountOptions;
use client::options::Recovery;

use crate::checked::Checked;
use crate::error::LoadError;
use crate::layout::{Layout, LayoutPlan};
use crate::operation::Operation;
use crate::plan::{
    LoadPlan, MAX_FILE_BYTES, MAX_OUTSTANDING, MAX_PHASE_S, MAX_RATE_OPS_PER_S, MAX_SERVERS,
    MAX_THREADS, MAX_TRANSFER_BYTES, Part, Plan,
};
use measure::weights::{WeightError, Weights};

impl Plan {
    /// Refuses what cannot be done, normalises what can.
    ///
    /// # Errors
    /// [`LoadError::Plan`] for the first field that is wrong.
    pub fn check(mut self) -> Result<Checked, LoadError> {
        let mut notes = Vec::new();
        let options = self.check_servers(&mut notes)?;
        let mix = self.check_mix(&mut notes)?;
        let has = |wanted| mix.shares().any(|(operation, _)| operation == wanted);
        let reads = sizes(
            &self.read_sizes_bytes,
            "read_sizes_bytes",
            has(Operation::Read),
        )?;
        let writes = sizes(
            &self.write_sizes_bytes,
            "write_sizes_bytes",
            has(Operation::Write),
        )?;
        self.check_shares()?;
        self.check_times()?;
        self.check_load()?;
        let layout = self.check_files()?;
        let checked = Checked {
            plan: self,
            notes,
            options,
            mix,
            reads,
            writes,
            layout,
        };
        let workers = u64::from(checked.workers_of_server());
        if checked.layout.files < workers {
            return Err(LoadError::plan(
                "threads",
                checked.plan.threads,
                format!(
                    "{} files are fewer than {workers} threads",
                    checked.layout.files
                ),
                "Take a larger file set or fewer threads: each thread owns files.",
            ));
        }
        Ok(checked)
    }

    fn check_servers(&self, notes: &mut Vec<String>) -> Result<Vec<MountOptions>, LoadError> {
        let count = self.servers.len();
        if count == 0 || count > MAX_SERVERS {
            let why = format!("1 to {MAX_SERVERS} servers are possible");
            return Err(LoadError::plan(
                "servers",
                count,
                why,
                "List the mounts to be loaded.",
            ));
        }
        let threads = self.threads as usize;
        if threads == 0 || self.threads > MAX_THREADS || !threads.is_multiple_of(count) {
            return Err(LoadError::plan(
                "threads",
                threads,
                format!("each of the {count} servers needs the same number of threads"),
                format!("Give a multiple of {count}, at most {MAX_THREADS}."),
            ));
        }
        let mut all = Vec::new();
        for server in &self.servers {
            let mut options = MountOptions::parse(&server.options).map_err(|error| {
                let fix = "Use the names of nfs(5), comma-separated.";
                LoadError::plan("servers.options", &server.options, error.to_string(), fix)
            })?;
            notes.extend(options.adjustments().iter().cloned());
            options.recovery = Recovery::SoftErr;
            all.push(options);
        }
        Ok(all)
    }

    fn check_mix(&mut self, notes: &mut Vec<String>) -> Result<Weights<Operation>, LoadError> {
        let mut pairs = Vec::new();
        for (name, weight) in &self.mix {
            let Some(operation) = Operation::parse(name) else {
                let fix = format!("Use the names of RFC 1813: {}.", Operation::names());
                return Err(LoadError::plan("mix", name, "no operation of a mix", fix));
            };
            pairs.push((operation, *weight));
        }
        let sum: f64 = pairs.iter().map(|(_, weight)| weight).sum();
        let weights = Weights::new(pairs).map_err(|error| bad_weights("mix", error))?;
        if (sum - 100.0).abs() > 1e-6 {
            notes.push(format!(
                "the mix sums to {sum}, not to 100: every weight was multiplied by {}",
                100.0 / sum
            ));
        }
        self.mix = weights
            .shares()
            .map(|(operation, share)| (operation.name().to_owned(), share * 100.0))
            .collect();
        Ok(weights)
    }

    fn check_shares(&self) -> Result<(), LoadError> {
        let shares = [
            ("append_share", self.append_share),
            ("lookup_missing_share", self.lookup_missing_share),
            ("verify_share", self.verify_share),
            ("file_set.symlinks_share", self.file_set.symlinks_share),
            ("file_set.accessed_share", self.file_set.accessed_share),
            ("file_set.growth_share", self.file_set.growth_share),
        ];
        for (field, value) in shares {
            if !(0.0..=1.0).contains(&value) {
                let why = "a share lies between 0 and 1";
                return Err(LoadError::plan(field, value, why, "0.1 is 10 %."));
            }
        }
        if self.file_set.calibration {
            for (field, value) in [shares[0], shares[1], shares[2]] {
                if value > 0.0 {
                    let why = "a server where every name is a file keeps nothing";
                    return Err(LoadError::plan(field, value, why, "Set it to 0."));
                }
            }
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), LoadError> {
        let times = [
            ("warm_up_s", self.warm_up_s, 0.0),
            ("measure_s", self.measure_s, 0.001),
            ("cool_down_s", self.cool_down_s, 0.0),
            ("series_interval_s", self.series_interval_s, 0.001),
            ("silence_limit_s", self.silence_limit_s, 0.01),
        ];
        for (field, value, least) in times {
            if !(least..=MAX_PHASE_S).contains(&value) {
                let why = format!("must be {least} to {MAX_PHASE_S} seconds");
                return Err(LoadError::plan(field, value, why, "Give seconds."));
            }
        }
        let Part { index, of } = self.part;
        if index >= of || of > MAX_THREADS {
            let why = format!("part {index} of {of} does not exist");
            return Err(LoadError::plan("part", index, why, "Count parts from 0."));
        }
        Ok(())
    }

    fn check_load(&self) -> Result<(), LoadError> {
        let rate = self.load.rate_ops_per_s();
        if !(rate > 0.0 && rate <= MAX_RATE_OPS_PER_S) {
            return Err(LoadError::plan(
                "load.rate_ops_per_s",
                rate,
                format!("the offered load must be above 0 and at most {MAX_RATE_OPS_PER_S:e}"),
                "Give operations per second.",
            ));
        }
        let threads = self.threads;
        let (field, count) = match &self.load {
            LoadPlan::Open {
                outstanding_max, ..
            } => ("load.outstanding_max", *outstanding_max / self.part.of),
            LoadPlan::Closed {
                clients, processes, ..
            } => (
                "load.processes",
                clients.saturating_mul(*processes) / self.part.of,
            ),
        };
        if count < threads || count > MAX_OUTSTANDING {
            let why = match self.part.of {
                1 => format!("every thread needs one at least, {MAX_OUTSTANDING} are the most"),
                parts => format!(
                    "every thread of {parts} processes needs one at least, {MAX_OUTSTANDING} are \
                     the most of a process"
                ),
            };
            return Err(LoadError::plan(
                field,
                count,
                why,
                "Change it, or the threads.",
            ));
        }
        Ok(())
    }

    fn check_files(&self) -> Result<Layout, LoadError> {
        let set = &self.file_set;
        let name = set.directory.as_bytes();
        if name.is_empty() || name.len() > 200 || name.starts_with(b".") || name.contains(&b'/') {
            let why = "is no name of a directory in the export's root";
            return Err(LoadError::plan(
                "file_set.directory",
                &set.directory,
                why,
                "Take another.",
            ));
        }
        let servers = self.servers.len() as f64;
        let wanted = match (set.files, set.bytes_per_op_per_s) {
            (Some(files), None) => LayoutPlan::Files(files.div_ceil(self.servers.len() as u64)),
            (None, Some(bytes)) if bytes > 0.0 => {
                LayoutPlan::Bytes((bytes * self.load.rate_ops_per_s() / servers).ceil() as u64)
            }
            _ => {
                let why = "its size is not clear";
                let fix = "Give one of --files and --bytes-per-op (files, bytes_per_op in a file).";
                return Err(LoadError::plan("file_set", &set.directory, why, fix));
            }
        };
        let sizes = set
            .file_sizes_bytes
            .iter()
            .map(|(size, weight)| (*size, *weight));
        let field = "file_set.file_sizes_bytes";
        let sizes = Weights::new(sizes).map_err(|error| bad_weights(field, error))?;
        if let Some(size) = set
            .file_sizes_bytes
            .keys()
            .find(|size| **size > MAX_FILE_BYTES)
        {
            let why = format!("at most {MAX_FILE_BYTES} bytes");
            return Err(LoadError::plan(
                field,
                size,
                why,
                "Take smaller files, more of them.",
            ));
        }
        Layout::new(self, sizes, wanted)
    }
}

fn bad_weights(field: &'static str, error: WeightError) -> LoadError {
    LoadError::plan(
        field,
        "weights",
        error.to_string(),
        "Give weights of 0 and above.",
    )
}

fn sizes(
    given: &BTreeMap<u32, f64>,
    field: &'static str,
    needed: bool,
) -> Result<Option<Weights<u32>>, LoadError> {
    if !needed {
        return Ok(None);
    }
    let bad = |size: &&u32| !(1..=MAX_TRANSFER_BYTES).contains(*size);
    if let Some(size) = given.keys().find(bad) {
        let why = format!("1 to {MAX_TRANSFER_BYTES} bytes are possible");
        return Err(LoadError::plan(
            field,
            size,
            why,
            "Split it into several transfers.",
        ));
    }
    let pairs = given.iter().map(|(size, weight)| (*size, *weight));
    Weights::new(pairs)
        .map(Some)
        .map_err(|error| bad_weights(field, error))
}
