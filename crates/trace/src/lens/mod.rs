//! The analyses: one file and one line of [`LENSES`] each.
//!
//! A lens sees events in the order of the capture ([`Lens::event`]) and settled calls in the order
//! of the calls ([`Lens::call`]): settled means that no further reply is expected. It keeps bounded
//! state and gives one [`Section`] at the end. Lenses do not know of each other.

pub mod access;
pub mod blocks;
pub mod clients;
pub mod connection_slots;
pub mod files;
pub mod kinds;
pub mod latencies;
pub mod ledger;
pub mod log_histogram;
pub mod network;
pub mod operations;
pub mod points;
pub mod pool;
pub mod rpcstat;
pub mod stalls;
pub mod statuses;
#[cfg(test)]
mod tests;
pub mod time_bins;

use serde_json::Value;

use crate::call::Call;
use crate::event::Event;
use crate::names::Names;
use operations::Unfit;

/// What a lens wants to see; the rest is not even offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// [`Lens::call`]. If no lens wants calls or messages, and there are no columns, calls are kept
    /// as their briefs alone, and much work is spared.
    pub calls: bool,
    /// [`Event::Sent`] and [`Event::Replied`].
    pub messages: bool,
    /// [`Event::Transport`].
    pub transport: bool,
    /// [`Call::file`] and names of files: learned only if a lens wants them, or the columns.
    pub files: bool,
    /// [`Lens::call_named`] in place of [`Lens::call`]. Such a lens stays on the thread that learns
    /// names; others may have one of their own.
    pub names: bool,
}

impl Interest {
    /// Whether such an event is wanted.
    #[inline(always)]
    pub fn wants(self, event: &Event<'_>) -> bool {
        match event {
            Event::Sent { .. } | Event::Replied { .. } => self.messages,
            Event::Transport(_) => self.transport,
        }
    }

    /// What either wants to see.
    pub fn with(self, other: Self) -> Self {
        Interest {
            calls: self.calls | other.calls,
            messages: self.messages | other.messages,
            transport: self.transport | other.transport,
            files: self.files | other.files,
            names: self.names | other.names,
        }
    }
}

/// Numbers that are too many for JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Blob {
    /// Name within the section.
    pub name: String,
    /// numpy's name of the element type: `<i8`, `<f8`, `<u4`, `|u1`, ...
    pub dtype: &'static str,
    /// Elements, little-endian.
    pub bytes: Vec<u8>,
}

/// What a lens found.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// As JSON: times in integer nanoseconds, sizes in bytes, quantiles 0 to 1.
    pub json: Value,
    /// Long columns, if there are any.
    pub blobs: Vec<Blob>,
}

impl From<Value> for Section {
    fn from(json: Value) -> Self {
        let blobs = Vec::new();
        Section { json, blobs }
    }
}

/// What the whole capture was, for [`Lens::finish`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Time of the first frame, or where the part begins that is looked at: nanoseconds since 1970.
    pub first_ns: i64,
    /// Time of the last frame, or where that part ends.
    pub last_ns: i64,
    /// Time of the first frame, whatever part is looked at.
    pub capture_first_ns: i64,
    /// Frames.
    pub packets: u64,
    /// Calls.
    pub calls: u64,
}

/// One analysis.
pub trait Lens: Send {
    /// What it wants to see: calls, if it says nothing else.
    fn interest(&self) -> Interest {
        Interest {
            calls: true,
            ..Interest::default()
        }
    }
    /// Something happened. Times may step back a little where TCP segments were reordered.
    fn event(&mut self, _event: &Event<'_>) {}
    /// A call is settled.
    fn call(&mut self, _call: &Call) {}
    /// The same for a lens that wants names: with what is known of them by then.
    fn call_named(&mut self, _call: &Call, _names: &Names) {}
    /// What it counted since this was asked last, as plain numbers that travel: for lenses of which
    /// what was found in some of a capture's calls can be put together with the rest.
    ///
    /// # Errors
    /// A bound was hit, so that what is counted depends on all calls so far; or it is no such lens.
    fn take_counted(&mut self) -> Result<Value, Unfit> {
        Err(Unfit::Wrong)
    }
    /// Adds what was counted of the calls behind all others so far; `number` tells what their
    /// connections are here.
    ///
    /// # Errors
    /// They do not add up; some may be in already.
    fn add_counted(&mut self, _: &Value, _number: &dyn Fn(u32) -> u32) -> Result<(), Unfit> {
        Err(Unfit::Wrong)
    }
    /// The capture ended; all calls were seen.
    fn finish(&mut self, names: &Names, extent: &Extent) -> Section;
}

/// What lenses can be told.
#[derive(Clone, Debug, Default)]
pub struct LensOptions {
    /// Classes of files: name and glob pattern of the path, first match wins.
    pub file_classes: Vec<(String, String)>,
    /// Only a part of the capture is read: bounds are wider, as those of the whole can be kept once
    /// parts are put together.
    pub of_a_part: bool,
}

/// An empty lens of this name, if there is one.
///
/// # Errors
/// It does not like its options.
pub fn make(name: &str, options: &LensOptions) -> Result<Option<Box<dyn Lens>>, crate::TraceError> {
    let mut all = LENSES.iter();
    let found = all.find(|(known, ..)| *known == name);
    found.map(|(_, make, _)| make(options)).transpose()
}

/// A lens's name, how to make one, and roughly what it takes beside the reading: milliseconds of
/// CPU for a GB of small packets. Who shares lenses out among threads goes by it.
pub type Registered = (
    &'static str,
    fn(&LensOptions) -> Result<Box<dyn Lens>, crate::TraceError>,
    u32,
);

fn plain<L: Lens + Default + 'static>(_: &LensOptions) -> Result<Box<dyn Lens>, crate::TraceError> {
    Ok(Box::new(L::default()))
}

/// All lenses, in the order of the report. The first one always runs, and is the only one that
/// sees calls as their briefs: [`operations::Operations::brief`].
pub const LENSES: &[Registered] = &[
    ("operations", plain::<operations::Operations>, 0),
    ("clients", clients::make, 70),
    ("files", files::make, 90),
    ("points", points::make, 60),
    ("rpcstat", plain::<rpcstat::RpcStat>, 160),
    ("stalls", plain::<stalls::Stalls>, 240),
    ("access", plain::<access::Access>, 130),
    ("network", plain::<network::Network>, 90),
    ("blocks", plain::<blocks::Blocks>, 60),
];
