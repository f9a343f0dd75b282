//! Who calls whom: per client host, per server host, per pair of them, per user.
//!
//! Calls are counted once, per pair of hosts; clients and servers are sums of pairs. A callback is
//! a call of the NFS server to its client, and counted so. Connections are told apart by their
//! number; a client with `nconnect` has several. Users are those of AUTH_SYS; `null` stands for
//! calls without it (none, Kerberos, cut).
//!
//! Bounds: pairs and users beyond [`MAX_PAIRS`] and [`MAX_USERS`] are counted together as `null`
//! with `other: true`; the first [`MAX_COUNTED_CONNECTIONS`] connections are told apart.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use hashbrown::HashMap;
use serde_json::{Map, Value, json};

use super::ledger::{Row, group, top};
use super::pool::{Gathered, Pool};
use super::statuses::Statuses;
use super::{Extent, Interest, Lens, LensOptions, Section};
use crate::block::Host;
use crate::call::Call;
use crate::names::Names;

/// Pairs of hosts told apart.
pub const MAX_PAIRS: usize = 2048;
/// Users told apart.
pub const MAX_USERS: usize = 1024;
/// Connections told apart.
pub const MAX_COUNTED_CONNECTIONS: usize = 1 << 22;
/// Rows shown of each list.
pub const TOP_ROWS: usize = 100;
/// Blocks of latencies of all pairs; 11 MB.
pub const MAX_BLOCKS: usize = 40_000;
/// Parts of a power of two: quantiles are within 0.8 %.
const PARTS: usize = 64;
/// Entries of the short ways to rows.
const SLOTS: usize = 64;

/// Makes the lens.
///
/// # Errors
/// None: the type is that of all lenses.
pub fn make(_options: &LensOptions) -> Result<Box<dyn Lens>, crate::TraceError> {
    Ok(Box::new(Clients::default()))
}

type Hosts = (Host, Host);

/// Calls of one client host to one server host.
#[derive(Clone, Debug)]
struct Pair {
    /// Its place, which its errors are kept under.
    place: u32,
    /// `None`: all pairs beyond the bound.
    hosts: Option<Hosts>,
    connections: u64,
    row: Row,
}

/// Calls of one user.
#[derive(Clone, Debug)]
struct User {
    /// Its place, which its errors are kept under.
    place: u32,
    user: Option<u32>,
    /// All users beyond the bound.
    other: bool,
    row: Row,
}

/// The lens.
#[derive(Debug)]
pub struct Clients {
    pairs: Vec<Pair>,
    by_hosts: HashMap<Hosts, u32>,
    recent: [(Hosts, u32); SLOTS],
    users: Vec<User>,
    by_user: HashMap<Option<u32>, u32>,
    recent_users: [(Option<u32>, u32); SLOTS],
    seen: Vec<u64>,
    last_connection: Option<u32>,
    uncounted: bool,
    statuses: Statuses,
    user_statuses: Statuses,
    pool: Pool<PARTS>,
    /// Users have no histogram: a pool without room.
    no_pool: Pool<PARTS>,
}

const UNUSED: u32 = u32::MAX;

impl Default for Clients {
    fn default() -> Self {
        Clients {
            pairs: Vec::new(),
            by_hosts: HashMap::new(),
            recent: [(Hosts::default(), UNUSED); SLOTS],
            users: Vec::new(),
            by_user: HashMap::new(),
            recent_users: [(None, UNUSED); SLOTS],
            seen: Vec::new(),
            last_connection: None,
            uncounted: false,
            statuses: Statuses::default(),
            user_statuses: Statuses::default(),
            pool: Pool::new(MAX_BLOCKS),
            no_pool: Pool::new(0),
        }
    }
}

impl Clients {
    #[inline(always)]
    fn pair(&mut self, call: &Call) -> usize {
        let hosts = (call.client.host, call.server.host);
        let slot = (hosts.0.low_bits() ^ (hosts.1.low_bits() << 3)) as usize % SLOTS;
        let (known, place) = self.recent[slot];
        if place != UNUSED && known == hosts {
            return place as usize;
        }
        let place = self.find_pair(hosts);
        self.recent[slot] = (hosts, place);
        place as usize
    }

    fn find_pair(&mut self, hosts: Hosts) -> u32 {
        if let Some(place) = self.by_hosts.get(&hosts) {
            return *place;
        }
        let place = self.pairs.len() as u32;
        if self.pairs.len() > MAX_PAIRS {
            return place - 1;
        }
        let told_apart = self.pairs.len() < MAX_PAIRS;
        if told_apart {
            self.by_hosts.insert(hosts, place);
        }
        self.pairs.push(Pair {
            place,
            hosts: told_apart.then_some(hosts),
            connections: 0,
            row: Row::default(),
        });
        place
    }

    #[inline(always)]
    fn user(&mut self, user: Option<u32>) -> usize {
        let slot = user.unwrap_or(1) as usize % SLOTS;
        let (known, place) = self.recent_users[slot];
        if place != UNUSED && known == user {
            return place as usize;
        }
        let place = self.find_user(user);
        self.recent_users[slot] = (user, place);
        place as usize
    }

    fn find_user(&mut self, user: Option<u32>) -> u32 {
        if let Some(place) = self.by_user.get(&user) {
            return *place;
        }
        let place = self.users.len() as u32;
        if self.users.len() > MAX_USERS {
            return place - 1;
        }
        let other = self.users.len() == MAX_USERS;
        if !other {
            self.by_user.insert(user, place);
        }
        self.users.push(User {
            place,
            user: user.filter(|_| !other),
            other,
            row: Row::default(),
        });
        place
    }

    /// Whether this connection was not seen before.
    fn is_new(&mut self, connection: u32) -> bool {
        self.last_connection = Some(connection);
        let (word, bit) = (connection as usize / 64, 1u64 << (connection % 64));
        if connection as usize >= MAX_COUNTED_CONNECTIONS {
            self.uncounted = true;
            return false;
        }
        if word >= self.seen.len() {
            self.seen.resize(word + 1, 0);
        }
        let new = self.seen[word] & bit == 0;
        self.seen[word] |= bit;
        new
    }
}

impl Lens for Clients {
    fn interest(&self) -> Interest {
        Interest {
            calls: true,
            ..Interest::default()
        }
    }

    #[inline]
    fn call(&mut self, call: &Call, _names: &Names) {
        let group = group(call);
        let place = self.pair(call);
        let new = self.last_connection != Some(call.connection) && self.is_new(call.connection);
        let pair = &mut self.pairs[place];
        pair.connections += u64::from(new);
        pair.row.count(call, group, &mut self.pool);
        self.statuses.count(pair.place, call);
        let place = self.user(call.user);
        let user = &mut self.users[place];
        user.row.count(call, group, &mut self.no_pool);
        self.user_statuses.count(user.place, call);
    }

    fn finish(&mut self, _names: &Names, _extent: &Extent) -> Section {
        let error = Pool::<PARTS>::RELATIVE_ERROR;
        Section {
            json: json!({
                "clients": self.side_json("client", |hosts| hosts.0),
                "servers": self.side_json("server", |hosts| hosts.1),
                "pairs": self.pairs_json(),
                "users": self.users_json(),
                "connections_complete": !self.uncounted,
                "quantile_relative_error": error,
            }),
            blobs: Vec::new(),
        }
    }
}

impl Clients {
    fn rows_json(&self, pairs: &[&Pair]) -> Map<String, Value> {
        let mut sum = Row::default();
        for pair in pairs {
            sum.add(&pair.row);
        }
        let connections: u64 = pairs.iter().map(|pair| pair.connections).sum();
        let mut out = Map::new();
        out.insert("connections".to_owned(), json!(connections));
        sum.put(&mut out);
        let places = pairs.iter().map(|pair| pair.place);
        let errors = self.statuses.json(places, sum.errors());
        out.insert("errors_by_status".to_owned(), errors);
        sum.put_quantiles(&mut out, |group| {
            let mut gathered = Gathered::default();
            for pair in pairs {
                self.pool.gather(&pair.row.chain, group, &mut gathered);
            }
            gathered
        });
        out
    }

    /// Rows of one side's hosts: those with the most calls, and the others added up.
    fn side_json(&self, name: &str, side: fn(&Hosts) -> Host) -> Value {
        let mut hosts: BTreeMap<Option<Host>, Vec<&Pair>> = BTreeMap::new();
        for pair in &self.pairs {
            hosts
                .entry(pair.hosts.as_ref().map(side))
                .or_default()
                .push(pair);
        }
        let groups: Vec<(Option<Host>, Vec<&Pair>)> = hosts.into_iter().collect();
        let calls = |place: u32| -> u64 {
            let (_, pairs) = &groups[place as usize];
            pairs.iter().map(|pair| pair.row.calls()).sum()
        };
        let known = |place: &u32| groups[*place as usize].0.is_some();
        let all: Vec<u32> = (0..groups.len() as u32).collect();
        let named: Vec<u32> = all.iter().copied().filter(known).collect();
        let shown = top(&named, TOP_ROWS, calls);
        let mut list = Vec::new();
        for place in &shown {
            let (host, pairs) = &groups[*place as usize];
            let mut row = self.rows_json(pairs);
            row.insert(name.to_owned(), json!(host.map(|host| host.to_string())));
            list.push(Value::Object(row));
        }
        let rest = all.iter().filter(|place| !shown.contains(place));
        let rest: Vec<&Pair> = rest
            .flat_map(|place| groups[*place as usize].1.iter().copied())
            .collect();
        if !rest.is_empty() {
            let mut row = self.rows_json(&rest);
            row.insert(name.to_owned(), Value::Null);
            row.insert("other".to_owned(), json!(true));
            list.push(Value::Object(row));
        }
        Value::Array(list)
    }

    fn pairs_json(&self) -> Value {
        let all: Vec<u32> = (0..self.pairs.len() as u32).collect();
        let named = |place: &u32| self.pairs[*place as usize].hosts.is_some();
        let known: Vec<u32> = all.iter().copied().filter(named).collect();
        let shown = top(&known, TOP_ROWS, |place| {
            self.pairs[place as usize].row.calls()
        });
        let mut list = Vec::new();
        for place in &shown {
            let pair = &self.pairs[*place as usize];
            let mut row = self.rows_json(&[pair]);
            let (client, server) = pair.hosts.unwrap_or_default();
            row.insert("client".to_owned(), json!(client.to_string()));
            row.insert("server".to_owned(), json!(server.to_string()));
            list.push(Value::Object(row));
        }
        let rest = all.iter().filter(|place| !shown.contains(place));
        let rest: Vec<&Pair> = rest.map(|place| &self.pairs[*place as usize]).collect();
        if !rest.is_empty() {
            let mut row = self.rows_json(&rest);
            row.insert("client".to_owned(), Value::Null);
            row.insert("server".to_owned(), Value::Null);
            row.insert("other".to_owned(), json!(true));
            list.push(Value::Object(row));
        }
        Value::Array(list)
    }

    fn users_json(&self) -> Value {
        let all: Vec<u32> = (0..self.users.len() as u32).collect();
        let known = |place: &u32| !self.users[*place as usize].other;
        let named: Vec<u32> = all.iter().copied().filter(known).collect();
        let shown = top(&named, TOP_ROWS, |place| {
            self.users[place as usize].row.calls()
        });
        let row_json = |row: &Row, user: Option<u32>, places: &[u32]| {
            let mut out = Map::new();
            out.insert("user".to_owned(), json!(user));
            row.put(&mut out);
            let errors = self
                .user_statuses
                .json(places.iter().copied(), row.errors());
            out.insert("errors_by_status".to_owned(), errors);
            out
        };
        let mut list: Vec<Value> = Vec::new();
        for place in &shown {
            let user = &self.users[*place as usize];
            list.push(Value::Object(row_json(&user.row, user.user, &[*place])));
        }
        let mut rest = Row::default();
        let mut places = all;
        places.retain(|place| !shown.contains(place));
        for place in &places {
            rest.add(&self.users[*place as usize].row);
        }
        if rest.calls() > 0 {
            let mut out = row_json(&rest, None, &places);
            out.insert("other".to_owned(), json!(true));
            list.push(Value::Object(out));
        }
        Value::Array(list)
    }
}
