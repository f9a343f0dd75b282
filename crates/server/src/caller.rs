//! Who calls: address and Unix ids, as the credential states them and the export maps them.

use std::net::SocketAddr;

use wire::limits::MAX_AUTH_SYS_GIDS;
use wire::rpc::AuthSys;

/// Ids of nobody: what callers without (believed) ids act as.
pub const ANONYMOUS_ID: u32 = 65534;
/// No id: "as it is" to chown(2), and refused by setfsuid(2) and setgroups(2).
const NO_ID: u32 = u32::MAX;

const GIDS: usize = MAX_AUTH_SYS_GIDS as usize;

/// A caller, for permission checks and for acting in its name. Small and `Copy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Where the call came from.
    pub address: SocketAddr,
    /// Effective user id.
    pub uid: u32,
    /// Effective group id.
    pub gid: u32,
    gids: [u32; GIDS],
    gid_count: usize,
}

impl Caller {
    /// Nobody, from `address`.
    #[must_use]
    pub const fn anonymous(address: SocketAddr) -> Self {
        Self::with_ids(address, ANONYMOUS_ID, ANONYMOUS_ID)
    }

    /// A user without further groups.
    #[must_use]
    pub const fn with_ids(address: SocketAddr, uid: u32, gid: u32) -> Self {
        Caller {
            address,
            uid,
            gid,
            gids: [0; GIDS],
            gid_count: 0,
        }
    }

    /// The caller that an AUTH_SYS credential names. Ids that no user can have are nobody's, as
    /// for Linux' server (`nfsd_setuser`); groups of that number are left out.
    #[must_use]
    #[inline]
    pub fn from_auth_sys(address: SocketAddr, sys: &AuthSys<'_>) -> Self {
        let believed = |id| if id == NO_ID { ANONYMOUS_ID } else { id };
        let mut caller = Self::with_ids(address, believed(sys.uid), believed(sys.gid));
        let gids = sys.gids().filter(|gid| *gid != NO_ID);
        for (slot, gid) in caller.gids.iter_mut().zip(gids) {
            *slot = gid;
            caller.gid_count += 1;
        }
        caller
    }

    /// Adds supplementary groups (16 at most; more are not taken).
    #[must_use]
    pub fn with_groups(mut self, gids: &[u32]) -> Self {
        self.gid_count = gids.len().min(GIDS);
        for (slot, gid) in self.gids.iter_mut().zip(gids) {
            *slot = *gid;
        }
        self
    }

    /// The supplementary groups.
    #[must_use]
    pub fn groups(&self) -> &[u32] {
        self.gids.get(..self.gid_count).unwrap_or_default()
    }

    /// True if the caller is in group `gid`.
    #[must_use]
    pub fn is_in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups().contains(&gid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    #[test]
    fn groups_are_the_given_ones() {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
        let caller = Caller::with_ids(address, 5, 6).with_groups(&[7, 8]);
        assert!(caller.is_in_group(6) && caller.is_in_group(8) && !caller.is_in_group(0));
    }
}
