//! Who calls whom: per client host, per server host, per pair of them, per connection, per user.
//!
//! Calls are counted once, per connection; clients, servers and pairs are sums of them. A callback
//! is a call of the NFS server to its client, and counted so. Connections are told apart by their
//! number; a client with `nconnect` has several. Users are those of AUTH_SYS; `null` stands for
//! calls without it (none, Kerberos, cut).
//!
//! Bounds: the first [`MAX_LINES`] connections have a line of their own, those behind them one for
//! each pair. Pairs and users beyond [`MAX_PAIRS`] and [`MAX_USERS`] are counted together as `null`
//! with `other: true`; the first [`MAX_COUNTED_CONNECTIONS`] connections are counted. Rows with
//! equally many calls stand in the order of their first calls, hosts in that of their addresses.

mod counted;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use hashbrown::HashMap;
use serde_json::{Map, Value, json};

use super::connection_slots::ConnectionSlots;
use super::ledger::{Row, group, top};
use super::operations::Unfit;
use super::pool::Pool;
use super::statuses::Statuses;
use super::{Extent, Lens, LensOptions, Section};
use crate::block::{Endpoint, Host, Transport};
use crate::call::Call;
use crate::names::Names;

/// Connections with a line of their own: as many as [`MAX_BLOCKS`] surely has room for.
pub const MAX_LINES: usize = 256;
/// Pairs of hosts told apart.
pub const MAX_PAIRS: usize = 2048;
/// Users told apart.
pub const MAX_USERS: usize = 1024;
/// Connections counted.
pub const MAX_COUNTED_CONNECTIONS: usize = 1 << 22;
/// Rows shown of each list.
pub const TOP_ROWS: usize = 100;
/// Blocks of latencies of all lines; 11 MB.
pub const MAX_BLOCKS: usize = 40_000;
/// Parts of a power of two: quantiles are within 0.8 %.
const PARTS: usize = 64;
/// Entries of the short ways to rows.
const SLOTS: usize = 64;

/// What is told apart at most.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    lines: usize,
    users: usize,
    blocks: usize,
}

const BOUNDS: Bounds = Bounds {
    lines: MAX_LINES,
    users: MAX_USERS,
    blocks: MAX_BLOCKS,
};
/// The same where a part of a capture is read: which ones are the first of all is known only once
/// parts are put together. The blocks take 44 MB.
const BOUNDS_OF_A_PART: Bounds = Bounds {
    lines: 2048,
    users: 8192,
    blocks: 160_000,
};

type Hosts = (Host, Host);

/// A connection as its ends name it: who calls, who is called.
type Ends = (Endpoint, Endpoint, Transport);

/// Calls of one connection, or of all others between two hosts.
#[derive(Clone, Debug)]
struct Line {
    /// Its place, which its errors are kept under.
    place: u32,
    /// `None`: all pairs beyond the bound.
    hosts: Option<Hosts>,
    ends: Option<Ends>,
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
    bounds: Bounds,
    lines: Vec<Line>,
    by_connection: ConnectionSlots<Option<u32>>,
    told_apart: usize,
    /// Lines of the connections behind [`MAX_LINES`], and the one of all pairs beyond the bound.
    by_hosts: HashMap<Hosts, u32>,
    others: u32,
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

/// Makes the lens.
///
/// # Errors
/// None.
pub fn make(options: &LensOptions) -> Result<Box<dyn Lens>, crate::TraceError> {
    let bounds = match options.of_a_part {
        true => BOUNDS_OF_A_PART,
        false => BOUNDS,
    };
    Ok(Box::new(Clients::within(bounds)))
}

impl Clients {
    fn within(bounds: Bounds) -> Self {
        Clients {
            bounds,
            lines: Vec::new(),
            by_connection: ConnectionSlots::default(),
            told_apart: 0,
            by_hosts: HashMap::new(),
            others: 0,
            users: Vec::new(),
            by_user: HashMap::new(),
            recent_users: [(None, UNUSED); SLOTS],
            seen: Vec::new(),
            last_connection: None,
            uncounted: false,
            statuses: Statuses::default(),
            user_statuses: Statuses::default(),
            pool: Pool::new(bounds.blocks),
            no_pool: Pool::new(0),
        }
    }

    #[inline(always)]
    fn line(&mut self, call: &Call) -> usize {
        match *self.by_connection.of(call.connection) {
            Some(place) => place as usize,
            None => self.find_line(call.connection, (call.client, call.server, call.transport)),
        }
    }

    #[cold]
    fn find_line(&mut self, connection: u32, ends: Ends) -> usize {
        let hosts = (ends.0.host, ends.1.host);
        let place = if self.told_apart < self.bounds.lines {
            self.told_apart += 1;
            self.new_line(Some(hosts), Some(ends))
        } else {
            self.rest_of_pair(hosts)
        };
        *self.by_connection.of(connection) = Some(place);
        place as usize
    }

    fn rest_of_pair(&mut self, hosts: Hosts) -> u32 {
        if let Some(place) = self.by_hosts.get(&hosts) {
            return *place;
        }
        if self.by_hosts.len() > MAX_PAIRS {
            return self.others;
        }
        let told_apart = self.by_hosts.len() < MAX_PAIRS;
        let place = self.new_line(told_apart.then_some(hosts), None);
        self.by_hosts.insert(hosts, place);
        self.others = place;
        place
    }

    fn new_line(&mut self, hosts: Option<Hosts>, ends: Option<Ends>) -> u32 {
        let place = self.lines.len() as u32;
        self.lines.push(Line {
            place,
            hosts,
            ends,
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
        if self.users.len() > self.bounds.users {
            return place - 1;
        }
        let other = self.users.len() == self.bounds.users;
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
    #[inline]
    fn call(&mut self, call: &Call) {
        let group = group(call);
        let place = self.line(call);
        let new = self.last_connection != Some(call.connection) && self.is_new(call.connection);
        let line = &mut self.lines[place];
        line.connections += u64::from(new);
        line.row.count(call, group, &mut self.pool);
        self.statuses.count(line.place, call);
        let place = self.user(call.user);
        let user = &mut self.users[place];
        user.row.count(call, group, &mut self.no_pool);
        self.user_statuses.count(user.place, call);
    }

    fn take_counted(&mut self) -> Result<Value, Unfit> {
        let fresh = Clients::within(self.bounds);
        std::mem::replace(self, fresh).counted()
    }

    fn add_counted(&mut self, counted: &Value, number: &dyn Fn(u32) -> u32) -> Result<(), Unfit> {
        self.add(counted, number)
    }

    fn finish(&mut self, _names: &Names, _extent: &Extent) -> Section {
        let error = Pool::<PARTS>::RELATIVE_ERROR;
        Section::from(json!({
            "clients": self.lines_json(|line| line.hosts.map(|hosts| hosts.0), |host| {
                [("client", text(host))]
            }),
            "servers": self.lines_json(|line| line.hosts.map(|hosts| hosts.1), |host| {
                [("server", text(host))]
            }),
            "pairs": self.lines_json(|line| line.hosts, |hosts| {
                [
                    ("client", text(hosts.map(|hosts| hosts.0))),
                    ("server", text(hosts.map(|hosts| hosts.1))),
                ]
            }),
            "by_connection": self.lines_json(|line| Some((line.place, line.ends?)), |line| {
                let ends = line.map(|(_, ends)| ends);
                [
                    ("client", text(ends.map(|(client, ..)| client))),
                    ("server", text(ends.map(|(_, server, _)| server))),
                    ("transport", text(ends.map(|(.., transport)| match transport {
                        Transport::Tcp => "tcp",
                        Transport::Udp => "udp",
                    }))),
                ]
            }),
            "users": self.users_json(),
            "connections_complete": !self.uncounted,
            "quantile_relative_error": error,
        }))
    }
}

/// Null where nothing is known.
fn text(what: Option<impl ToString>) -> Value {
    json!(what.map(|what| what.to_string()))
}

impl Clients {
    fn rows_json(&self, lines: &[&Line]) -> Map<String, Value> {
        let connections: u64 = lines.iter().map(|line| line.connections).sum();
        let mut out = Map::new();
        out.insert("connections".to_owned(), json!(connections));
        let rows = lines.iter().map(|line| (line.place, &line.row));
        let sum = Row::put_all(&mut out, rows, &self.statuses);
        sum.put_quantiles(&mut out, |group| {
            let chains = lines.iter().map(|line| &line.row.chain);
            self.pool.gathered(chains, group)
        });
        out
    }

    /// Lines added up by a key of theirs: those with the most calls, and the others in one row.
    fn lines_json<K: Ord + Copy, const N: usize>(
        &self,
        key: impl Fn(&Line) -> Option<K>,
        names: impl Fn(Option<K>) -> [(&'static str, Value); N],
    ) -> Value {
        let mut grouped: BTreeMap<Option<K>, Vec<&Line>> = BTreeMap::new();
        for line in &self.lines {
            grouped.entry(key(line)).or_default().push(line);
        }
        let groups: Vec<(Option<K>, Vec<&Line>)> = grouped.into_iter().collect();
        let calls = |group: &(Option<K>, Vec<&Line>)| -> u64 {
            group.1.iter().map(|line| line.row.calls()).sum()
        };
        let row = |one: Option<&(Option<K>, Vec<&Line>)>, some: &[&(Option<K>, Vec<&Line>)]| {
            let lines = some.iter().flat_map(|group| group.1.iter().copied());
            let mut row = self.rows_json(&lines.collect::<Vec<&Line>>());
            for (name, value) in names(one.and_then(|group| group.0)) {
                row.insert(name.to_owned(), value);
            }
            row
        };
        top_rows(&groups, calls, |group| group.0.is_some(), row)
    }

    fn users_json(&self) -> Value {
        let row = |one: Option<&User>, some: &[&User]| {
            let mut out = Map::new();
            out.insert("user".to_owned(), json!(one.and_then(|user| user.user)));
            let rows = some.iter().map(|user| (user.place, &user.row));
            Row::put_all(&mut out, rows, &self.user_statuses);
            out
        };
        top_rows(
            &self.users,
            |user| user.row.calls(),
            |user| !user.other,
            row,
        )
    }
}

/// A row of each of those with the most calls, and one of all others together; `row` is told which
/// one it is of, and all that it is of.
fn top_rows<T>(
    all: &[T],
    calls: impl Fn(&T) -> u64,
    named: impl Fn(&T) -> bool,
    row: impl Fn(Option<&T>, &[&T]) -> Map<String, Value>,
) -> Value {
    let at = |place: u32| &all[place as usize];
    let places = 0..all.len() as u32;
    let known: Vec<u32> = places.clone().filter(|place| named(at(*place))).collect();
    let shown = top(&known, TOP_ROWS, |place| calls(at(place)));
    let of_one = |place: &u32| Value::Object(row(Some(at(*place)), &[at(*place)]));
    let mut list: Vec<Value> = shown.iter().map(of_one).collect();
    let rest: Vec<&T> = places
        .filter(|place| !shown.contains(place))
        .map(at)
        .collect();
    if !rest.is_empty() {
        let mut row = row(None, &rest);
        row.insert("other".to_owned(), json!(true));
        list.push(Value::Object(row));
    }
    Value::Array(list)
}
