//! Where formats put the frames they find.

use crate::block::Segment;
use crate::ends::Ends;
use crate::packet::{Anomalies, Anomaly, Frame, Link, Lost, Packets};
use crate::prefetch::prefetch;

/// How far in front of a packet bytes are asked for, at least. A processor foresees by itself that
/// memory is gone through in order, but not beyond a page of 4 KiB.
const AHEAD_BYTES: usize = 4096;
/// The same in packets as long as this one: of large ones only the headers are looked at.
const AHEAD_PACKETS: usize = 4;
/// Lines of the cache asked for with each packet: small ones are asked for whole.
const AHEAD_LINES: usize = 5;

/// Takes frames in the order of the capture, counts them, and keeps their segments.
#[derive(Debug)]
pub(super) struct Sink<'a> {
    pub packets: &'a mut Packets,
    pub segments: &'a mut Vec<Segment>,
    pub tally: Tally,
}

/// Counts of frames; those of a block are the difference of two.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub frames: u64,
    pub wire_bytes: u64,
    pub captured_bytes: u64,
    pub truncated: u64,
    pub times_ns: Ends,
    pub last_ns: Option<i64>,
    /// Bytes of files that were passed over since no packet could be made out in them.
    pub skipped_bytes: u64,
    /// The part that is asked for.
    pub part: Option<Part>,
}

/// What a reader has seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames.
    pub frames: u64,
    /// Their bytes on the wire.
    pub wire_bytes: u64,
    /// Their bytes in the capture.
    pub captured_bytes: u64,
    /// Frames that the capture cut.
    pub truncated_frames: u64,
    /// Earliest and latest time of a frame, nanoseconds since 1970.
    pub times_ns: Option<(i64, i64)>,
    /// The part that was asked for.
    pub part: Option<Part>,
    /// Packets that the kernel dropped, as pcapng files tell; pcap files cannot.
    pub kernel_drops: u64,
    /// Bytes of files in which no packet could be made out.
    pub skipped_bytes: u64,
    /// What is missing of datagrams that were given up since fragments of them never came.
    pub fragments_lost: Lost,
    /// Inputs that were begun.
    pub inputs: u64,
    /// What was odd, by kind.
    pub anomalies: Anomalies,
}

/// A part of the capture, by time, and what lies in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// From the first frame on.
    window_ns: (i64, i64),
    begin_ns: Option<i64>,
    /// Frames in it.
    pub frames: u64,
    /// Their bytes on the wire.
    pub wire_bytes: u64,
    /// Their bytes in the capture.
    pub captured_bytes: u64,
    /// Those of them that the capture cut.
    pub truncated_frames: u64,
}

impl Part {
    pub(super) fn new(window_ns: (i64, i64)) -> Self {
        Part {
            window_ns,
            ..Part::default()
        }
    }

    /// Time of the capture's first frame.
    pub(super) fn begin_ns(&self) -> Option<i64> {
        self.begin_ns
    }

    /// Counts the frame if it lies in the part; whether it does.
    #[cold]
    fn counts(&mut self, time_ns: i64, wire: usize, captured: usize) -> bool {
        let begin_ns = *self.begin_ns.get_or_insert(time_ns);
        let (from_ns, to_ns) = self.window_ns;
        let at_ns = time_ns.saturating_sub(begin_ns);
        let inside = at_ns >= from_ns && at_ns < to_ns;
        if inside {
            self.frames += 1;
            self.wire_bytes += wire as u64;
            self.captured_bytes += captured as u64;
            self.truncated_frames += u64::from(wire > captured);
        }
        inside
    }
}

/// A frame as its file describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Its first byte in the block.
    pub at: usize,
    pub captured: usize,
    /// Length on the wire as stated.
    pub wire: usize,
    pub time_ns: i64,
}

impl Sink<'_> {
    /// Counts the frame and looks for its segment; `None`: of a link type that is not read.
    #[inline(always)]
    pub(super) fn frame(&mut self, bytes: &[u8], record: Record, link: Option<Link>) {
        let ahead = AHEAD_BYTES.max(AHEAD_PACKETS * record.captured);
        prefetch::<AHEAD_LINES>(bytes, record.at + ahead);
        let tally = &mut self.tally;
        let time_ns = record.time_ns;
        // Some writers state the captured length only.
        let wire = record.wire.max(record.captured);
        tally.frames += 1;
        tally.wire_bytes += wire as u64;
        tally.captured_bytes += record.captured as u64;
        tally.truncated += u64::from(wire > record.captured);
        tally.times_ns.take(time_ns);
        // What is odd outside the part that is asked for does not count.
        let outside = match &mut tally.part {
            Some(part) => !part.counts(time_ns, wire, record.captured),
            None => false,
        };
        let before = outside.then_some((self.packets.anomalies, self.packets.fragments_lost));
        if Some(time_ns) < tally.last_ns {
            self.packets.anomalies.count(Anomaly::TimeWentBack);
        }
        tally.last_ns = Some(time_ns);
        let frame = Frame {
            at: record.at,
            captured: record.captured,
            wire,
            time_ns,
            number: tally.frames,
        };
        match link {
            Some(link) => self.packets.frame(bytes, &frame, link, self.segments),
            None => self.packets.anomalies.count(Anomaly::UnknownLinkType),
        }
        if let Some(before) = before {
            (self.packets.anomalies, self.packets.fragments_lost) = before;
        }
    }

    /// Something is odd about the file.
    pub(super) fn odd(&mut self, anomaly: Anomaly) {
        self.packets.anomalies.count(anomaly);
    }

    /// Passed over these bytes.
    pub(super) fn skipped(&mut self, bytes: usize) {
        self.tally.skipped_bytes += bytes as u64;
    }
}
