//! The operation that names a COMPOUND: under which its latency is counted.
//!
//! A client's request for one thing travels as several operations: SEQUENCE, PUTFH, READ, GETATTR
//! is a READ. The most significant operation names the COMPOUND; of equals, the first. The order,
//! from the most significant:
//!
//! 1. data: READ, READ_PLUS; WRITE, WRITE_SAME; COMMIT; COPY, CLONE; ALLOCATE, DEALLOCATE; SEEK
//! 2. names: OPEN; CREATE; REMOVE; RENAME; LINK
//! 3. state: CLOSE; OPEN_DOWNGRADE, OPEN_CONFIRM; LOCK, LOCKT, LOCKU; DELEGRETURN; layouts
//! 4. attributes and directories: SETATTR; READDIR; READLINK; LOOKUP, LOOKUPP; extended
//!    attributes; OPENATTR; ACCESS; SECINFO
//! 5. sessions and clients: EXCHANGE_ID, CREATE_SESSION, ...
//! 6. GETATTR; VERIFY, NVERIFY; GETFH
//! 7. plumbing: SEQUENCE; PUTFH, PUTROOTFH, PUTPUBFH; SAVEFH, RESTOREFH; ILLEGAL and unknown
//!
//! OPEN stands above CLOSE and LAYOUTGET (both may ride along with it), CLOSE above LAYOUTRETURN
//! and DELEGRETURN above SETATTR and GETATTR (what Linux sends with them).

use super::opcode::{
    ACCESS, ALLOCATE, BACKCHANNEL_CTL, BIND_CONN_TO_SESSION, CLONE, CLOSE, COMMIT, COPY,
    COPY_NOTIFY, CREATE, CREATE_SESSION, DEALLOCATE, DELEGPURGE, DELEGRETURN, DESTROY_CLIENTID,
    DESTROY_SESSION, EXCHANGE_ID, FREE_STATEID, GET_DIR_DELEGATION, GETATTR, GETDEVICEINFO,
    GETDEVICELIST, GETFH, GETXATTR, IO_ADVISE, LAYOUTCOMMIT, LAYOUTERROR, LAYOUTGET, LAYOUTRETURN,
    LAYOUTSTATS, LINK, LISTXATTRS, LOCK, LOCKT, LOCKU, LOOKUP, LOOKUPP, NVERIFY, OFFLOAD_CANCEL,
    OFFLOAD_STATUS, OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, OPENATTR, PUTFH, PUTPUBFH, PUTROOTFH, READ,
    READ_PLUS, READDIR, READLINK, RECLAIM_COMPLETE, RELEASE_LOCKOWNER, REMOVE, REMOVEXATTR, RENAME,
    RENEW, RESTOREFH, SAVEFH, SECINFO, SECINFO_NO_NAME, SEEK, SEQUENCE, SET_SSV, SETATTR,
    SETCLIENTID, SETCLIENTID_CONFIRM, SETXATTR, TEST_STATEID, VERIFY, WANT_DELEGATION, WRITE,
    WRITE_SAME,
};

/// The order, from the least significant: operations of one row are equals.
const ROWS: &[&[u32]] = &[
    &[SAVEFH, RESTOREFH],
    &[PUTFH, PUTROOTFH, PUTPUBFH],
    &[SEQUENCE],
    &[GETFH],
    &[VERIFY, NVERIFY],
    &[GETATTR],
    &[
        RENEW,
        RECLAIM_COMPLETE,
        TEST_STATEID,
        FREE_STATEID,
        DELEGPURGE,
        RELEASE_LOCKOWNER,
    ],
    &[
        EXCHANGE_ID,
        CREATE_SESSION,
        DESTROY_SESSION,
        DESTROY_CLIENTID,
        BIND_CONN_TO_SESSION,
        BACKCHANNEL_CTL,
        SET_SSV,
        SETCLIENTID,
        SETCLIENTID_CONFIRM,
    ],
    &[SECINFO, SECINFO_NO_NAME],
    &[ACCESS],
    &[OPENATTR],
    &[GETXATTR, SETXATTR, LISTXATTRS, REMOVEXATTR],
    &[LOOKUP, LOOKUPP],
    &[READLINK],
    &[READDIR],
    &[SETATTR],
    &[IO_ADVISE, OFFLOAD_STATUS, OFFLOAD_CANCEL, COPY_NOTIFY],
    &[
        LAYOUTGET,
        LAYOUTCOMMIT,
        LAYOUTRETURN,
        LAYOUTERROR,
        LAYOUTSTATS,
        GETDEVICEINFO,
        GETDEVICELIST,
    ],
    &[DELEGRETURN, WANT_DELEGATION, GET_DIR_DELEGATION],
    &[LOCK, LOCKT, LOCKU],
    &[OPEN_DOWNGRADE, OPEN_CONFIRM],
    &[CLOSE],
    &[LINK],
    &[RENAME],
    &[REMOVE],
    &[CREATE],
    &[OPEN],
    &[SEEK],
    &[ALLOCATE, DEALLOCATE],
    &[COPY, CLONE],
    &[COMMIT],
    &[WRITE, WRITE_SAME],
    &[READ, READ_PLUS],
];

/// One above the highest known opcode (`OP_REMOVEXATTR`).
const OPCODES: usize = 76;

const fn build_ranks() -> [u8; OPCODES] {
    let mut ranks = [0; OPCODES];
    let mut row = 0;
    while row < ROWS.len() {
        let mut place = 0;
        while place < ROWS[row].len() {
            ranks[ROWS[row][place] as usize] = row as u8 + 2;
            place += 1;
        }
        row += 1;
    }
    ranks
}

static RANKS: [u8; OPCODES] = build_ranks();

/// Significance of an operation: the highest names the COMPOUND. Unknown ones (and `OP_ILLEGAL`)
/// have 1.
#[inline(always)]
pub fn significance(opcode: u32) -> u8 {
    RANKS.get(opcode as usize).copied().unwrap_or(0).max(1)
}

/// Significance of a callback operation: CB_SEQUENCE (11) only names what carries nothing else.
#[inline(always)]
pub fn callback_significance(opcode: u32) -> u8 {
    if opcode == 11 { 1 } else { 2 }
}

/// The operation that names a COMPOUND of these operations; `None` if there are none.
pub fn names_compound(operations: impl IntoIterator<Item = u32>) -> Option<u32> {
    let mut named: Option<(u8, u32)> = None;
    for opcode in operations {
        let rank = significance(opcode);
        if named.is_none_or(|(best, _)| rank > best) {
            named = Some((rank, opcode));
        }
    }
    named.map(|(_, opcode)| opcode)
}
