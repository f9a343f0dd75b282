//! What happened below RPC, as bytes.

use super::Damaged;
use super::bytes::{Cursor, put, put_signed};
use crate::block::{Endpoint, Host, Sack};
use crate::event::{Again, TransportKind};

/// Kinds as numbers of four bits.
mod kind {
    pub const SENT: u8 = 0;
    pub const ACKNOWLEDGED: u8 = 1;
    /// With a round trip.
    pub const MEASURED: u8 = 2;
    pub const RETRANSMITTED: u8 = 3;
    pub const OUT_OF_ORDER: u8 = 4;
    pub const ZERO_WINDOW: u8 = 5;
    pub const WINDOW_OPENED: u8 = 6;
    pub const MISSING: u8 = 7;
    pub const DUPLICATE: u8 = 8;
    pub const LOST: u8 = 9;
    pub const OPENED: u8 = 10;
    pub const CLOSED: u8 = 11;
    pub const HIDDEN: u8 = 12;
    pub const FRONT_CUT: u8 = 13;
    pub const WITHOUT_CALL: u8 = 14;
}

/// The number of its kind.
pub(super) fn number_of(happened: &TransportKind) -> u8 {
    match happened {
        TransportKind::Sent { .. } => kind::SENT,
        TransportKind::Acknowledged { round_trip_ns, .. } => match round_trip_ns {
            None => kind::ACKNOWLEDGED,
            Some(_) => kind::MEASURED,
        },
        TransportKind::Retransmitted { .. } => kind::RETRANSMITTED,
        TransportKind::OutOfOrder => kind::OUT_OF_ORDER,
        TransportKind::ZeroWindow => kind::ZERO_WINDOW,
        TransportKind::WindowOpened => kind::WINDOW_OPENED,
        TransportKind::Selective(Sack::Missing) => kind::MISSING,
        TransportKind::Selective(Sack::Duplicate) => kind::DUPLICATE,
        TransportKind::Lost { .. } => kind::LOST,
        TransportKind::Opened { .. } => kind::OPENED,
        TransportKind::Closed { .. } => kind::CLOSED,
        TransportKind::Hidden { .. } => kind::HIDDEN,
        TransportKind::FrontCut { .. } => kind::FRONT_CUT,
        TransportKind::WithoutCall { .. } => kind::WITHOUT_CALL,
    }
}

/// What there is beside the kind.
pub(super) fn write(out: &mut Vec<u8>, happened: &TransportKind) {
    match *happened {
        TransportKind::Sent {
            bytes,
            in_flight_bytes,
        } => {
            put(out, bytes.into());
            // Mostly the same.
            let others = in_flight_bytes.wrapping_sub(u64::from(bytes));
            put_signed(out, others.cast_signed());
        }
        TransportKind::Acknowledged {
            round_trip_ns,
            window_bytes,
            window_known,
        } => {
            if let Some(round_trip_ns) = round_trip_ns {
                put_signed(out, round_trip_ns);
            }
            put(out, window_bytes << 1 | u64::from(window_known));
        }
        TransportKind::Retransmitted { bytes, of } => {
            put(out, bytes.into());
            out.push(match of {
                Again::Filled => 0,
                Again::Acknowledged => 1,
                Again::Unacknowledged => 2,
            });
        }
        TransportKind::Lost { bytes } => put(out, bytes),
        TransportKind::Opened { ends }
        | TransportKind::Hidden { ends }
        | TransportKind::FrontCut { ends }
        | TransportKind::WithoutCall { ends } => ends.iter().for_each(|end| put_end(out, end)),
        TransportKind::Closed { reset, ends } => {
            out.push(u8::from(reset));
            ends.iter().for_each(|end| put_end(out, end));
        }
        TransportKind::OutOfOrder
        | TransportKind::ZeroWindow
        | TransportKind::WindowOpened
        | TransportKind::Selective(_) => {}
    }
}

/// What [`write`] wrote of a kind of this number.
pub(super) fn read(cursor: &mut Cursor<'_>, number: u8) -> Result<TransportKind, Damaged> {
    let ends = |cursor: &mut Cursor<'_>| Ok([end(cursor)?, end(cursor)?]);
    Ok(match number {
        kind::SENT => {
            let bytes = cursor.small()?;
            let others = cursor.signed()?;
            TransportKind::Sent {
                bytes,
                in_flight_bytes: u64::from(bytes).wrapping_add_signed(others),
            }
        }
        kind::ACKNOWLEDGED => acknowledged(cursor, None)?,
        kind::MEASURED => {
            let round_trip_ns = cursor.signed()?;
            acknowledged(cursor, Some(round_trip_ns))?
        }
        kind::RETRANSMITTED => {
            let bytes = cursor.small()?;
            let of = match cursor.byte()? {
                0 => Again::Filled,
                1 => Again::Acknowledged,
                2 => Again::Unacknowledged,
                _ => return Err(Damaged),
            };
            TransportKind::Retransmitted { bytes, of }
        }
        kind::OUT_OF_ORDER => TransportKind::OutOfOrder,
        kind::ZERO_WINDOW => TransportKind::ZeroWindow,
        kind::WINDOW_OPENED => TransportKind::WindowOpened,
        kind::MISSING => TransportKind::Selective(Sack::Missing),
        kind::DUPLICATE => TransportKind::Selective(Sack::Duplicate),
        kind::LOST => TransportKind::Lost {
            bytes: cursor.number()?,
        },
        kind::OPENED => TransportKind::Opened {
            ends: ends(cursor)?,
        },
        kind::CLOSED => {
            let reset = cursor.byte()? != 0;
            let ends = ends(cursor)?;
            TransportKind::Closed { reset, ends }
        }
        kind::HIDDEN => TransportKind::Hidden {
            ends: ends(cursor)?,
        },
        kind::FRONT_CUT => TransportKind::FrontCut {
            ends: ends(cursor)?,
        },
        kind::WITHOUT_CALL => TransportKind::WithoutCall {
            ends: ends(cursor)?,
        },
        _ => return Err(Damaged),
    })
}

fn acknowledged(
    cursor: &mut Cursor<'_>,
    round_trip_ns: Option<i64>,
) -> Result<TransportKind, Damaged> {
    let both = cursor.number()?;
    Ok(TransportKind::Acknowledged {
        round_trip_ns,
        window_bytes: both >> 1,
        window_known: both & 1 != 0,
    })
}

/// An endpoint.
pub(super) fn put_end(out: &mut Vec<u8>, end: &Endpoint) {
    out.extend(end.host.bits().to_be_bytes());
    put(out, end.port.into());
}

/// What [`put_end`] wrote.
pub(super) fn end(cursor: &mut Cursor<'_>) -> Result<Endpoint, Damaged> {
    let mut bits: u128 = 0;
    for _ in 0..16 {
        bits = bits << 8 | u128::from(cursor.byte()?);
    }
    Ok(Endpoint {
        host: Host::from_bits(bits),
        port: cursor.small()?,
    })
}
