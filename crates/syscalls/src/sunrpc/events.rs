//! The tracepoints that are watched, and what their records say.

use super::calls::{Ended, OnData, What};
use super::format::{Field, Format};

/// A tracepoint of sunrpc, or of nfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// `rpc_stats_latency` (Linux 4.16).
    Ended,
    /// `xprt_retransmit` (Linux 5.3).
    SentAgain,
    /// `nfs_readpage_done` (nfs).
    Got,
    /// `nfs_writeback_done` (nfs).
    Put,
    /// `nfs_commit_done` (nfs).
    Committed,
    /// `svc_xprt_dequeue`.
    Taken,
    /// `svc_xdr_recvfrom` (Linux 5.8).
    Read,
    /// `svc_process`.
    Begun,
    /// `svc_xdr_sendto` (Linux 5.8).
    Written,
    /// `svc_stats_latency`.
    Done,
    /// `svc_send`.
    Answered,
}

impl Point {
    /// Of the client.
    pub const CLIENT: [Point; 2] = [Point::Ended, Point::SentAgain];
    /// Of the client: which files its calls are about.
    pub const FILES: [Point; 3] = [Point::Got, Point::Put, Point::Committed];
    /// Of the server.
    pub const SERVER: [Point; 6] = [
        Point::Taken,
        Point::Read,
        Point::Begun,
        Point::Written,
        Point::Done,
        Point::Answered,
    ];

    /// As tracefs has it.
    pub fn name(self) -> &'static str {
        match self {
            Point::Ended => "rpc_stats_latency",
            Point::SentAgain => "xprt_retransmit",
            Point::Got => "nfs_readpage_done",
            Point::Put => "nfs_writeback_done",
            Point::Committed => "nfs_commit_done",
            Point::Taken => "svc_xprt_dequeue",
            Point::Read => "svc_xdr_recvfrom",
            Point::Begun => "svc_process",
            Point::Written => "svc_xdr_sendto",
            Point::Done => "svc_stats_latency",
            Point::Answered => "svc_send",
        }
    }

    /// The group that it is in.
    pub fn category(self) -> &'static str {
        match Self::FILES.contains(&self) {
            true => "nfs",
            false => "sunrpc",
        }
    }

    /// Whether calls can be told without it.
    pub fn is_extra(self) -> bool {
        self == Point::SentAgain || Self::FILES.contains(&self)
    }

    /// Its fields, all of which a record has to have.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Point::Ended => &[
                "client_id",
                "task_id",
                "xid",
                "version",
                "progname",
                "procname",
                "backlog",
                "rtt",
                "execute",
            ],
            Point::SentAgain => &["client_id", "task_id"],
            Point::Got | Point::Put => &["fileid", "offset", "error", "arg_count"],
            Point::Committed => &["fileid", "offset", "error"],
            Point::Taken => &["wakeup"],
            Point::Read | Point::Written => &["xid", "msg_len"],
            Point::Begun => &["xid", "vers", "proc", "service"],
            Point::Done => &["xid", "execute"],
            Point::Answered => &["xid"],
        }
    }
}

/// A tracepoint and where its fields lie on this kernel.
#[derive(Clone, Debug)]
pub struct Decoder {
    point: Point,
    fields: Vec<Field>,
}

impl Decoder {
    /// The name of the field that this kernel lacks.
    pub fn new(point: Point, format: &Format) -> Result<Self, &'static str> {
        let found = point
            .fields()
            .iter()
            .map(|name| format.field(name).ok_or(*name));
        let fields = found.collect::<Result<_, _>>()?;
        Ok(Decoder { point, fields })
    }

    /// What a record says; None when it is too short for its fields.
    pub fn decode(&self, record: &[u8]) -> Option<What> {
        let number = |place: usize| self.fields.get(place)?.number(record);
        let short = |place: usize| u32::try_from(number(place)? & 0xffff_ffff).ok();
        let text = |place: usize| Some(self.fields.get(place)?.text(record)?.to_owned());
        Some(match self.point {
            Point::Ended => What::Ended(Ended {
                task: (short(0)?, short(1)?),
                xid: short(2)?,
                version: short(3)?,
                program: text(4)?,
                operation: text(5)?,
                queued_us: number(6)?,
                round_trip_us: number(7)?,
                whole_us: number(8)?,
            }),
            Point::SentAgain => What::SentAgain {
                task: (short(0)?, short(1)?),
            },
            Point::Got | Point::Put | Point::Committed => What::OnData(OnData {
                file_id: number(0)?,
                offset: number(1)?,
                // Of a READ or WRITE without an error it is the number of bytes.
                is_ok: short(2)?.cast_signed() >= 0,
                count: match self.point {
                    Point::Committed => 0,
                    _ => short(3)?,
                },
            }),
            Point::Taken => What::Taken {
                waited_us: number(0)?,
            },
            Point::Read => What::Read {
                xid: short(0)?,
                bytes: short(1)?,
            },
            Point::Written => What::Written {
                xid: short(0)?,
                bytes: short(1)?,
            },
            Point::Begun => What::Begun {
                xid: short(0)?,
                version: short(1)?,
                procedure: short(2)?,
                program: text(3)?,
            },
            Point::Done => What::Done {
                xid: short(0)?,
                took_us: number(1)?,
            },
            Point::Answered => What::Answered { xid: short(0)? },
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Fields one after the other, in an order and with sizes of their own.
    fn planted(point: Point, reversed: bool) -> Format {
        let mut names = point.fields().to_vec();
        if reversed {
            names.reverse();
        }
        let lines = names.iter().enumerate().map(|(i, name)| {
            format!(
                "\tfield:unsigned long {name};\toffset:{};\tsize:8;\tsigned:0;\n",
                8 + 8 * i
            )
        });
        Format::parse(&format!("ID: 5\n{}", lines.collect::<String>())).unwrap()
    }

    #[test]
    fn fields_are_read_where_the_kernel_has_them() {
        for reversed in [false, true] {
            let decoder = Decoder::new(Point::Done, &planted(Point::Done, reversed)).unwrap();
            let mut values = [70_u64, 103];
            if reversed {
                values.reverse();
            }
            let record: Vec<u8> =
                [[0; 8], values[0].to_ne_bytes(), values[1].to_ne_bytes()].concat();
            let said = What::Done {
                xid: 70,
                took_us: 103,
            };
            assert_eq!(decoder.decode(&record), Some(said));
            assert_eq!(decoder.decode(&record[..23]), None);
        }
    }

    #[test]
    fn a_kernel_without_a_field_is_told_by_its_name() {
        let format = planted(Point::Taken, false);
        assert_eq!(Decoder::new(Point::Done, &format).err(), Some("xid"));
    }

    proptest! {
        #[test]
        fn no_record_breaks_it(record in proptest::collection::vec(any::<u8>(), 0..120)) {
            for point in Point::CLIENT.into_iter().chain(Point::SERVER) {
                let _ = Decoder::new(point, &planted(point, false)).unwrap().decode(&record);
            }
        }
    }
}
