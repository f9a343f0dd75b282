//! Operation numbers of NFSv4 (RFC 7531, 5662, 7863, 8276) and the list that a summary keeps.

use crate::limits::MAX_LISTED_OPERATIONS;
use crate::numbers::numbered;

numbered! {
    /// The operation's name without `OP_`; `None` if it is unknown.
    operation_name:
    ACCESS = 3, CLOSE = 4, COMMIT = 5, CREATE = 6, DELEGPURGE = 7, DELEGRETURN = 8, GETATTR = 9,
    GETFH = 10, LINK = 11, LOCK = 12, LOCKT = 13, LOCKU = 14, LOOKUP = 15, LOOKUPP = 16,
    NVERIFY = 17, OPEN = 18, OPENATTR = 19, OPEN_CONFIRM = 20, OPEN_DOWNGRADE = 21, PUTFH = 22,
    PUTPUBFH = 23, PUTROOTFH = 24, READ = 25, READDIR = 26, READLINK = 27, REMOVE = 28, RENAME = 29,
    RENEW = 30, RESTOREFH = 31, SAVEFH = 32, SECINFO = 33, SETATTR = 34, SETCLIENTID = 35,
    SETCLIENTID_CONFIRM = 36, VERIFY = 37, WRITE = 38, RELEASE_LOCKOWNER = 39, BACKCHANNEL_CTL = 40,
    BIND_CONN_TO_SESSION = 41, EXCHANGE_ID = 42, CREATE_SESSION = 43, DESTROY_SESSION = 44,
    FREE_STATEID = 45, GET_DIR_DELEGATION = 46, GETDEVICEINFO = 47, GETDEVICELIST = 48,
    LAYOUTCOMMIT = 49, LAYOUTGET = 50, LAYOUTRETURN = 51, SECINFO_NO_NAME = 52, SEQUENCE = 53,
    SET_SSV = 54, TEST_STATEID = 55, WANT_DELEGATION = 56, DESTROY_CLIENTID = 57,
    RECLAIM_COMPLETE = 58, ALLOCATE = 59, COPY = 60, COPY_NOTIFY = 61, DEALLOCATE = 62,
    IO_ADVISE = 63, LAYOUTERROR = 64, LAYOUTSTATS = 65, OFFLOAD_CANCEL = 66, OFFLOAD_STATUS = 67,
    READ_PLUS = 68, SEEK = 69, WRITE_SAME = 70, CLONE = 71, GETXATTR = 72, SETXATTR = 73,
    LISTXATTRS = 74, REMOVEXATTR = 75, ILLEGAL = 10044,
}

numbered! {
    /// The callback operation's name without `OP_`; `None` if it is unknown.
    callback_operation_name:
    CB_GETATTR = 3, CB_RECALL = 4, CB_LAYOUTRECALL = 5, CB_NOTIFY = 6, CB_PUSH_DELEG = 7,
    CB_RECALL_ANY = 8, CB_RECALLABLE_OBJ_AVAIL = 9, CB_RECALL_SLOT = 10, CB_SEQUENCE = 11,
    CB_WANTS_CANCELLED = 12, CB_NOTIFY_LOCK = 13, CB_NOTIFY_DEVICEID = 14, CB_OFFLOAD = 15,
    CB_ILLEGAL = 10044,
}

/// Stands for an opcode that does not fit a byte: `OP_ILLEGAL` (10044) and unknown ones.
const OTHER: u8 = u8::MAX;

/// The operations of a COMPOUND in order, up to [`MAX_LISTED_OPERATIONS`]; all are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationList {
    codes: [u8; MAX_LISTED_OPERATIONS],
    decoded: u32,
}

impl OperationList {
    /// An empty list.
    #[inline(always)]
    pub const fn new() -> Self {
        OperationList {
            codes: [0; MAX_LISTED_OPERATIONS],
            decoded: 0,
        }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, opcode: u32) {
        if let Some(place) = self.codes.get_mut(self.decoded as usize) {
            *place = u8::try_from(opcode).unwrap_or(OTHER);
        }
        self.decoded = self.decoded.saturating_add(1);
    }

    /// Number of operations decoded, listed or not.
    #[inline(always)]
    pub const fn count(&self) -> u32 {
        self.decoded
    }

    /// The opcodes listed; those above 254 (`OP_ILLEGAL`) are given as [`ILLEGAL`].
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.codes().iter().map(|code| match *code {
            OTHER => ILLEGAL,
            code => u32::from(code),
        })
    }

    /// The listed opcodes, one byte each (255: above 254). Equal lists have equal bytes, so this
    /// serves as a key.
    pub fn codes(&self) -> &[u8] {
        self.codes
            .get(..self.decoded as usize)
            .unwrap_or(&self.codes)
    }
}

impl Default for OperationList {
    fn default() -> Self {
        Self::new()
    }
}
