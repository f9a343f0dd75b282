//! One sample: all sources read, parsed, scaled and put into columns.

use std::path::Path;

use crate::catalog::{
    CGROUP_CPU, CGROUP_MEMORY, CGROUP_SINGLE, CPU, DISK, Field, Kind, MEMINFO, NET, PRESSURE, STAT,
    Scale, VMSTAT,
};
use crate::columns::{Columns, MISSING, Place};
use crate::devices::DeviceSource;
use crate::parse;
use crate::source::{Buffer, Source};
use crate::units::{Troubles, Units};

/// Number of online CPUs, which /proc/stat tells by its lines.
const ONLINE: Field = Field {
    key: "",
    name: "cpu.online_count",
    kind: Kind::Gauge,
    scale: Scale::One,
};

/// A source that is not there, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absence {
    /// Its path.
    pub source: String,
    /// The reason, in words.
    pub why: String,
}

/// How a file's bytes become a row.
#[derive(Debug, Clone, Copy)]
enum Format {
    Stat,
    Keyed,
    Pressure,
    Single,
}

/// A file with a fixed set of fields.
#[derive(Debug)]
struct FixedSource {
    source: Source,
    format: Format,
    fields: Vec<Field>,
    prefix: &'static str,
    row: Vec<Option<u64>>,
    places: Vec<Option<Place>>,
}

/// All sources of a recording.
#[derive(Debug)]
pub struct Sources {
    fixed: Vec<FixedSource>,
    devices: Vec<DeviceSource>,
    units: Units,
    buffer: Buffer,
    /// What is not there.
    pub absent: Vec<Absence>,
    /// What went wrong.
    pub troubles: Troubles,
}

impl Sources {
    /// Opens all that is there under `proc`, and of the control group `cgroup`.
    pub fn open(proc: &Path, cgroup: Option<&Path>, units: Units) -> Self {
        let (fixed, devices) = (Vec::new(), Vec::new());
        let (absent, troubles) = (Vec::new(), Troubles::default());
        let mut sources = Self {
            fixed,
            devices,
            units,
            buffer: Buffer::new(),
            absent,
            troubles,
        };
        let stat: Vec<Field> = CPU.iter().chain(&STAT).chain([&ONLINE]).copied().collect();
        sources.fixed(&proc.join("stat"), Format::Stat, &stat, "");
        sources.fixed(&proc.join("meminfo"), Format::Keyed, &MEMINFO, "");
        sources.fixed(&proc.join("vmstat"), Format::Keyed, &VMSTAT, "");
        // "full" of the CPU means nothing for a whole system and is a constant zero (psi.rst).
        let pressures: [(&str, &str, &[Field]); 3] = [
            ("cpu", "pressure.cpu.", &PRESSURE[..1]),
            ("io", "pressure.io.", &PRESSURE),
            ("memory", "pressure.memory.", &PRESSURE),
        ];
        for (file, prefix, fields) in pressures {
            let path = proc.join("pressure").join(file);
            sources.fixed(&path, Format::Pressure, fields, prefix);
        }
        sources.device(&proc.join("diskstats"), true, &DISK);
        sources.device(&proc.join("net/dev"), false, &NET);
        if let Some(cgroup) = cgroup {
            sources.cgroup(cgroup);
        }
        sources
    }

    /// Whether there is nothing to read at all.
    pub const fn is_empty(&self) -> bool {
        self.fixed.is_empty() && self.devices.is_empty()
    }

    fn open_source(&mut self, path: &Path) -> Option<Source> {
        // PSI that is switched off opens, but does not read.
        let opened = Source::open(path).and_then(|source| {
            source.read(&mut self.buffer)?;
            Ok(source)
        });
        opened
            .map_err(|error| {
                let source = path.display().to_string();
                self.absent.push(Absence {
                    source,
                    why: error.to_string(),
                });
            })
            .ok()
    }

    fn fixed(&mut self, path: &Path, format: Format, fields: &[Field], prefix: &'static str) {
        let Some(source) = self.open_source(path) else {
            return;
        };
        let fields = fields.to_vec();
        let (row, places) = (vec![None; fields.len()], vec![None; fields.len()]);
        self.fixed.push(FixedSource {
            source,
            format,
            fields,
            prefix,
            row,
            places,
        });
    }

    fn device(&mut self, path: &Path, disks: bool, fields: &'static [Field]) {
        let Some(source) = self.open_source(path) else {
            return;
        };
        self.devices.push(DeviceSource::new(source, disks, fields));
    }

    /// A control group has the files of its version and controllers; one at least is expected.
    fn cgroup(&mut self, directory: &Path) {
        let (sources, absent) = (self.fixed.len(), self.absent.len());
        let why = "no memory or cpu file that can be read".to_owned();
        for (file, field) in &CGROUP_SINGLE {
            self.fixed(
                &directory.join(file),
                Format::Single,
                std::slice::from_ref(field),
                "",
            );
        }
        self.fixed(
            &directory.join("memory.stat"),
            Format::Keyed,
            &CGROUP_MEMORY,
            "",
        );
        self.fixed(&directory.join("cpu.stat"), Format::Keyed, &CGROUP_CPU, "");
        self.absent.truncate(absent);
        if self.fixed.len() == sources {
            self.absent.push(Absence {
                source: directory.display().to_string(),
                why,
            });
        }
    }

    /// Reads everything once, into `columns`.
    pub fn sample(&mut self, columns: &mut Columns) {
        let (units, troubles) = (self.units, &mut self.troubles);
        for fixed in &mut self.fixed {
            match fixed.source.read(&mut self.buffer) {
                Ok(bytes) => fixed.take(bytes, units, columns, troubles),
                Err(_) => troubles.read_errors += 1,
            }
        }
        for device in &mut self.devices {
            match device.source.read(&mut self.buffer) {
                Ok(bytes) => device.take(bytes, units, columns, troubles),
                Err(_) => troubles.read_errors += 1,
            }
        }
    }

    /// Devices and interfaces that had no traffic since boot.
    pub fn idle(&self) -> Vec<String> {
        self.devices.iter().flat_map(DeviceSource::idle).collect()
    }
}

impl FixedSource {
    fn take(&mut self, bytes: &[u8], units: Units, columns: &mut Columns, troubles: &mut Troubles) {
        self.row.fill(None);
        troubles.unreadable_values += match self.format {
            Format::Stat => parse::stat(bytes, &mut self.row),
            Format::Keyed => parse::keyed(bytes, &self.fields, &mut self.row),
            Format::Pressure => parse::pressure(bytes, &self.fields, &mut self.row),
            Format::Single => parse::single(bytes, &mut self.row),
        };
        for index in 0..self.row.len() {
            let Some(value) = self.row[index] else {
                continue;
            };
            let field = self.fields[index];
            let place = *self.places[index]
                .get_or_insert_with(|| columns.add(self.prefix, &field, MISSING));
            match units.scale(field.scale, value) {
                Some(value) => columns.set(place, value),
                None => troubles.unreadable_values += 1,
            }
        }
    }
}
