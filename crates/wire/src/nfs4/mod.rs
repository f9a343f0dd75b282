//! NFS version 4: 4.0 (RFC 7530/7531), 4.1 (RFC 8881/5662), 4.2 (RFC 7862/7863), extended
//! attributes (RFC 8276), and the callback program.
//!
//! A COMPOUND is a list of operations, each a union arm that has to be decoded to find the next
//! one: this module knows the exact layout of every argument and result. What a capture analysis
//! wants is reported ([`crate::summary`]); all else is passed over, with its lengths checked.
//! Minor versions share one table, since no operation changed its layout between them.
//!
//! `call_4_0`, `call_4_1`, `call_4_2` and their `reply` twins hold the operations that each minor
//! version added, `callback` those of the callback program, `fields` and `attributes` what they
//! share, `compound` the walk and `naming` the rule that names a COMPOUND.

pub mod attributes;
pub(crate) mod call_4_0;
pub(crate) mod call_4_1;
pub(crate) mod call_4_2;
pub(crate) mod callback;
pub(crate) mod compound;
pub(crate) mod fields;
pub mod naming;
pub mod opcode;
pub(crate) mod reply_4_0;
pub(crate) mod reply_4_1;
pub(crate) mod reply_4_2;
pub mod status;

pub use naming::names_compound;
pub use opcode::{OperationList, callback_operation_name, operation_name};

/// `NFSPROC4_COMPOUND` and `CB_COMPOUND`.
pub const PROCEDURE_COMPOUND: u32 = 1;

/// Which of the two programs a COMPOUND belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// NFS: from client to server.
    Fore,
    /// NFS4_CALLBACK: from server to client.
    Back,
}
