//! The walk over COMPOUND and CB_COMPOUND (RFC 7531, RFC 8881 section 2.7.3), calls and replies.
//!
//! One pass: each operation is decoded either into the summary (if it names the COMPOUND so far)
//! or into a scratch value, shown to the visitor, and the next one begins where it ended. The
//! current and the saved file handle are followed as far as the call itself says them (PUTFH,
//! SAVEFH, RESTOREFH); behind LOOKUP, OPEN or CREATE the handle is the server's to say.

use super::naming::{callback_significance, significance};
use super::opcode::{
    CB_SEQUENCE, CLONE, COPY, CREATE, ILLEGAL, LINK, LOOKUP, LOOKUPP, OPEN, OPENATTR,
    OperationList, PUTFH, PUTPUBFH, PUTROOTFH, RENAME, RESTOREFH, SAVEFH, SECINFO, SECINFO_NO_NAME,
    SEQUENCE,
};
use super::{
    PROCEDURE_COMPOUND, Side, call_4_0, call_4_1, call_4_2, callback, reply_4_0, reply_4_1,
    reply_4_2,
};
use crate::error::Result;
use crate::limits::{MAX_OPERATIONS, NFS4_OPAQUE_LIMIT};
use crate::summary::{
    Arguments, CallOperation, CallSummary, CompoundCall, CompoundReply, ReplyOperation,
    ReplySummary, Results, Sequence, Visitor,
};
use crate::xdr::Reader;

#[inline(always)]
fn rank_of(side: Side, opcode: u32) -> u8 {
    match side {
        Side::Fore => significance(opcode),
        Side::Back => callback_significance(opcode),
    }
}

/// Decodes a call; `None` if the procedure does not exist.
#[inline]
pub(crate) fn call<'a>(
    procedure: u32,
    side: Side,
    reader: &mut Reader<'a>,
    summary: &mut CallSummary<'a>,
    visitor: &mut impl Visitor<'a>,
) -> Option<Result<()>> {
    match procedure {
        PROCEDURE_COMPOUND => Some(compound_call(side, reader, summary, visitor)),
        0 => Some(Ok(())),
        _ => None,
    }
}

fn compound_call<'a>(
    side: Side,
    reader: &mut Reader<'a>,
    summary: &mut CallSummary<'a>,
    visitor: &mut impl Visitor<'a>,
) -> Result<()> {
    let tag = reader.opaque(NFS4_OPAQUE_LIMIT, "COMPOUND4args.tag")?;
    let minor_version = reader.u32("COMPOUND4args.minorversion")?;
    let compound = summary.compound.insert(CompoundCall {
        tag,
        minor_version,
        stated: 0,
        operations: OperationList::new(),
        named_by: None,
        sequence: None,
        data_bytes: 0,
    });
    if side == Side::Back {
        reader.skip(4, "CB_COMPOUND4args.callback_ident")?;
    }
    compound.stated = reader.length(MAX_OPERATIONS, "COMPOUND4args.argarray")?;
    let mut handles = Handles::default();
    let mut best = 0;
    for index in 0..compound.stated {
        let opcode = reader
            .u32("nfs_argop4.argop")
            .map_err(|error| error.in_operation(index as usize))?;
        let mut scratch = Arguments::default();
        let rank = rank_of(side, opcode);
        let arguments = if rank > best {
            best = rank;
            compound.named_by = Some(opcode);
            summary.arguments = Arguments::default();
            &mut summary.arguments
        } else {
            &mut scratch
        };
        if side == Side::Fore {
            handles.before(opcode, arguments);
        }
        compound.operations.push(opcode);
        let decoded = call_operation(side, opcode, reader, arguments, &mut compound.sequence);
        compound.data_bytes += u64::from(arguments.data_bytes.unwrap_or(0));
        let arguments = *arguments;
        let whole = decoded.is_ok();
        visitor.call_operation(&CallOperation {
            index,
            opcode,
            arguments,
            whole,
        });
        decoded.map_err(|error| error.in_operation(index as usize))?;
        if side == Side::Fore {
            handles.after(opcode, &arguments);
        }
    }
    Ok(())
}

#[inline(always)]
fn call_operation<'a>(
    side: Side,
    opcode: u32,
    reader: &mut Reader<'a>,
    arguments: &mut Arguments<'a>,
    sequence: &mut Option<Sequence<'a>>,
) -> Result<()> {
    match (side, opcode) {
        (Side::Fore, SEQUENCE) => {
            *sequence = Some(sequence_call(reader, "SEQUENCE4args")?);
            Ok(())
        }
        (Side::Fore, 3..=39) => call_4_0::arguments(opcode, reader, arguments),
        (Side::Fore, 40..=58) => call_4_1::arguments(opcode, reader, arguments),
        (Side::Fore, 59..=75) => call_4_2::arguments(opcode, reader, arguments),
        (Side::Fore, ILLEGAL) => Ok(()),
        (Side::Fore, opcode) => Err(reader.bad_value(opcode, "nfs_argop4.argop")),
        (Side::Back, opcode) => {
            if opcode == CB_SEQUENCE {
                *sequence = Some(sequence_call(reader, "CB_SEQUENCE4args")?);
            }
            callback::arguments(opcode, reader, arguments)
        }
    }
}

/// Session id and five words.
#[inline(always)]
fn sequence_call<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<Sequence<'a>> {
    Ok(Sequence {
        session: reader.array(field)?,
        sequence: reader.u32(field)?,
        slot: reader.u32(field)?,
        highest_slot: reader.u32(field)?,
        target_highest_slot: None,
        flagged: reader.bool(field)?,
    })
}

/// File handles as far as a call states them.
#[derive(Default)]
struct Handles<'a> {
    current: Option<&'a [u8]>,
    saved: Option<&'a [u8]>,
}

impl<'a> Handles<'a> {
    /// Gives an operation the handles that it works on.
    #[inline(always)]
    fn before(&self, opcode: u32, arguments: &mut Arguments<'a>) {
        match opcode {
            // The source is the saved handle, the target the current one.
            RENAME | LINK | COPY | CLONE => {
                arguments.file_handle = self.saved;
                arguments.target_handle = self.current;
            }
            // Its own argument says the handle; cut, it must not show the one before.
            PUTFH => arguments.file_handle = None,
            _ => arguments.file_handle = self.current,
        }
    }

    #[inline(always)]
    fn after(&mut self, opcode: u32, arguments: &Arguments<'a>) {
        match opcode {
            PUTFH => self.current = arguments.file_handle,
            SAVEFH => self.saved = self.current,
            RESTOREFH => self.current = self.saved,
            LOOKUP | LOOKUPP | OPEN | CREATE | OPENATTR | PUTROOTFH | PUTPUBFH | SECINFO
            | SECINFO_NO_NAME => self.current = None,
            _ => {}
        }
    }
}

/// Decodes a reply; `None` if the procedure does not exist.
#[inline]
pub(crate) fn reply<'a>(
    procedure: u32,
    side: Side,
    reader: &mut Reader<'a>,
    summary: &mut ReplySummary<'a>,
    visitor: &mut impl Visitor<'a>,
) -> Option<Result<()>> {
    match procedure {
        PROCEDURE_COMPOUND => {
            let mut last = Last::default();
            let decoded = compound_reply(side, reader, summary, &mut last, visitor);
            let results = &mut summary.results;
            results.status = summary.compound.as_ref().map(|compound| compound.status);
            results.file_handle = last.file_handle;
            results.attributes = last.attributes;
            Some(decoded)
        }
        0 => Some(Ok(())),
        _ => None,
    }
}

/// The last handle and attributes that a reply gave.
#[derive(Default)]
struct Last<'a> {
    file_handle: Option<&'a [u8]>,
    attributes: Option<crate::summary::Attributes>,
}

fn compound_reply<'a>(
    side: Side,
    reader: &mut Reader<'a>,
    summary: &mut ReplySummary<'a>,
    last: &mut Last<'a>,
    visitor: &mut impl Visitor<'a>,
) -> Result<()> {
    let status = reader.u32("COMPOUND4res.status")?;
    let compound = summary.compound.insert(CompoundReply {
        status,
        tag: &[],
        stated: 0,
        operations: OperationList::new(),
        named_by: None,
        sequence: None,
        data_bytes: 0,
    });
    compound.tag = reader.opaque(NFS4_OPAQUE_LIMIT, "COMPOUND4res.tag")?;
    compound.stated = reader.length(MAX_OPERATIONS, "COMPOUND4res.resarray")?;
    let mut best = 0;
    for index in 0..compound.stated {
        let opcode = reader
            .u32("nfs_resop4.resop")
            .map_err(|error| error.in_operation(index as usize))?;
        let mut scratch = Results::default();
        let rank = rank_of(side, opcode);
        let results = if rank > best {
            best = rank;
            compound.named_by = Some(opcode);
            summary.results = Results::default();
            &mut summary.results
        } else {
            &mut scratch
        };
        compound.operations.push(opcode);
        let decoded = reply_operation(
            side,
            opcode,
            reader,
            results,
            &mut compound.sequence,
            visitor,
        );
        compound.data_bytes += u64::from(results.data_bytes.unwrap_or(0));
        if results.file_handle.is_some() {
            last.file_handle = results.file_handle;
        }
        if results.attributes.is_some() {
            last.attributes = results.attributes;
        }
        let whole = decoded.is_ok();
        visitor.reply_operation(&ReplyOperation {
            index,
            opcode,
            results: *results,
            whole,
        });
        decoded.map_err(|error| error.in_operation(index as usize))?;
    }
    Ok(())
}

#[inline(always)]
fn reply_operation<'a>(
    side: Side,
    opcode: u32,
    reader: &mut Reader<'a>,
    results: &mut Results<'a>,
    sequence: &mut Option<Sequence<'a>>,
    visitor: &mut impl Visitor<'a>,
) -> Result<()> {
    results.status = None;
    let status = reader.u32("status")?;
    results.status = Some(status);
    match (side, opcode) {
        (Side::Fore, SEQUENCE) => {
            if status == 0 {
                *sequence = Some(sequence_reply(reader, "SEQUENCE4resok")?);
                if let Some(sequence) = sequence {
                    sequence.flagged = reader.u32("SEQUENCE4resok.sr_status_flags")? != 0;
                }
            }
            Ok(())
        }
        (Side::Fore, 3..=39) => reply_4_0::results(opcode, status, reader, results, visitor),
        (Side::Fore, 40..=58) => reply_4_1::results(opcode, status, reader, results),
        (Side::Fore, 59..=75) => reply_4_2::results(opcode, status, reader, results),
        (Side::Fore, ILLEGAL) => Ok(()),
        (Side::Fore, opcode) => Err(reader.bad_value(opcode, "nfs_resop4.resop")),
        (Side::Back, opcode) => {
            if opcode == CB_SEQUENCE && status == 0 {
                *sequence = Some(sequence_reply(reader, "CB_SEQUENCE4resok")?);
            }
            callback::results(opcode, status, reader, results)
        }
    }
}

/// The part that SEQUENCE and CB_SEQUENCE share.
#[inline(always)]
fn sequence_reply<'a>(reader: &mut Reader<'a>, field: &'static str) -> Result<Sequence<'a>> {
    Ok(Sequence {
        session: reader.array(field)?,
        sequence: reader.u32(field)?,
        slot: reader.u32(field)?,
        highest_slot: reader.u32(field)?,
        target_highest_slot: Some(reader.u32(field)?),
        flagged: false,
    })
}
