//! Files with one line for each device: /proc/diskstats and /proc/net/dev.
//!
//! Devices come and go; one is followed from the first traffic on. A device that was there without
//! traffic when the recording began had zeroes until then; one that came later was not known.

use crate::catalog::{DISK_LEAST, Field, Scale};
use crate::columns::{Columns, MISSING, Place};
use crate::parse;
use crate::source::Source;
use crate::units::{Troubles, Units};

/// Most disks, and most interfaces, that are followed; further ones are counted.
pub const MAX_DEVICES: usize = 512;

/// One device's columns.
#[derive(Debug)]
struct Device {
    name: Vec<u8>,
    places: Vec<Option<Place>>,
    /// Last value and number of wraps of each 32-bit counter.
    wraps: Vec<(u64, u64)>,
    idle: bool,
}

/// A file with one line for each device.
#[derive(Debug)]
pub struct DeviceSource {
    /// The open file.
    pub source: Source,
    disks: bool,
    fields: &'static [Field],
    row: Vec<Option<u64>>,
    devices: Vec<Device>,
}

impl DeviceSource {
    /// Nothing known of any device yet.
    pub fn new(source: Source, disks: bool, fields: &'static [Field]) -> Self {
        Self {
            source,
            disks,
            fields,
            row: vec![None; fields.len()],
            devices: Vec::new(),
        }
    }

    /// Names of the devices without traffic, with the prefix of their columns.
    pub fn idle(&self) -> impl Iterator<Item = String> {
        let idle = self.devices.iter().filter(|device| device.idle);
        idle.map(|device| format!("{}{}", self.prefix(), String::from_utf8_lossy(&device.name)))
    }

    const fn prefix(&self) -> &'static str {
        if self.disks { "disk." } else { "net." }
    }

    /// Puts one reading into the columns.
    pub fn take(
        &mut self,
        bytes: &[u8],
        units: Units,
        columns: &mut Columns,
        troubles: &mut Troubles,
    ) {
        if self.disks {
            for (number, line) in parse::disk_lines(bytes).enumerate() {
                self.line(number, line, units, columns, troubles);
            }
        } else {
            for (number, line) in parse::net_lines(bytes).enumerate() {
                self.line(number, line, units, columns, troubles);
            }
        }
    }

    fn line(
        &mut self,
        number: usize,
        (name, fields): parse::DeviceLine<'_>,
        units: Units,
        columns: &mut Columns,
        troubles: &mut Troubles,
    ) {
        self.row.fill(None);
        let (count, unreadable) = parse::positional(fields, &mut self.row);
        let least = if self.disks {
            DISK_LEAST
        } else {
            self.fields.len()
        };
        if count < least || unreadable == count as u64 {
            return; // a header, or a partition's short line of kernels before 2.6.25
        }
        troubles.unreadable_values += unreadable;
        let Some(index) = self.find(number, name, columns.samples() == 0) else {
            troubles.devices_left_out += 1;
            return;
        };
        let prefix = self.prefix();
        let device = &mut self.devices[index];
        if device.idle && self.row.iter().all(|value| value.unwrap_or(0) == 0) {
            return;
        }
        // A device that was there without traffic had zeroes; one that is new was not known.
        let before = if device.idle { 0 } else { MISSING };
        device.idle = false;
        for (position, field) in self.fields.iter().enumerate() {
            let Some(mut value) = self.row[position] else {
                continue;
            };
            if field.scale == Scale::Millisecond32 {
                value = unwrap(&mut device.wraps[position], value);
            }
            let place = *device.places[position].get_or_insert_with(|| {
                let prefix = format!("{prefix}{}.", String::from_utf8_lossy(name));
                columns.add(&prefix, field, before)
            });
            match units.scale(field.scale, value) {
                Some(value) => columns.set(place, value),
                None => troubles.unreadable_values += 1,
            }
        }
    }

    /// Position of the device, which is that of its line unless devices came or went.
    fn find(&mut self, number: usize, name: &[u8], first_sample: bool) -> Option<usize> {
        if self
            .devices
            .get(number)
            .is_some_and(|device| device.name == name)
        {
            return Some(number);
        }
        if let Some(index) = self.devices.iter().position(|device| device.name == name) {
            return Some(index);
        }
        if self.devices.len() >= MAX_DEVICES {
            return None;
        }
        let fields = self.fields.len();
        self.devices.push(Device {
            name: name.to_vec(),
            places: vec![None; fields],
            wraps: vec![(0, 0); fields],
            idle: first_sample,
        });
        Some(self.devices.len() - 1)
    }
}

/// Undoes the wrapping of a counter that is printed with 32 bits (49 days of milliseconds).
fn unwrap((last, wraps): &mut (u64, u64), value: u64) -> u64 {
    // Anything else that goes down (a device taken out and put in again) is shown as it is.
    if value < *last && *last <= u64::from(u32::MAX) && *last - value > 1 << 31 {
        *wraps += 1;
    }
    *last = value;
    value + (*wraps << 32)
}
