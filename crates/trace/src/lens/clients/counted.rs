//! What was counted of some of a capture's calls, as plain numbers that travel and add up.
//!
//! Lines and users stand in the order of their first calls, so that those which the bounds of the
//! whole tell apart are the same as if all calls were read in a row. Whatever stands in them is
//! checked when they are added: they may come from anywhere.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Clients, Ends, Line};
use crate::block::{Endpoint, Host, Transport};
use crate::lens::ledger::{self, GROUPS};
use crate::lens::operations::{Failure, Unfit};
use crate::limits::MAX_CONNECTIONS;

/// Program, version, error, and how often.
type Failures = Vec<(u32, u32, Failure, u64)>;
/// A host as a number in hexadecimal, and a port.
type End = (String, u16);

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Counted {
    lines: Vec<CountedLine>,
    users: Vec<CountedUser>,
}

/// A connection.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct CountedLine {
    connection: u32,
    client: End,
    server: End,
    udp: bool,
    row: ledger::Counted,
    /// Kind, bits, part and count.
    latencies: Vec<(u8, u8, usize, u32)>,
    failures: Failures,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct CountedUser {
    user: Option<u32>,
    row: ledger::Counted,
    failures: Failures,
}

fn end(end: Endpoint) -> End {
    (format!("{:x}", end.host.bits()), end.port)
}

fn endpoint((host, port): &End) -> Result<Endpoint, Unfit> {
    let bits = u128::from_str_radix(host, 16).map_err(|_| Unfit::Wrong)?;
    Ok(Endpoint {
        host: Host::from_bits(bits),
        port: *port,
    })
}

impl Clients {
    /// What was counted.
    pub(super) fn counted(self) -> Result<Value, Unfit> {
        let full = self.by_connection.replaced() > 0
            || self.statuses.is_full()
            || self.user_statuses.is_full()
            || self.users.len() > self.bounds.users
            || self.lines.len() > self.told_apart
            || self.lines.iter().any(|line| line.row.unheld() > 0);
        if full {
            return Err(Unfit::Full);
        }
        let mut numbers = vec![None; self.lines.len()];
        for (number, place) in self.by_connection.iter() {
            if let Some(known) = (*place).and_then(|place| numbers.get_mut(place as usize)) {
                *known = Some(number);
            }
        }
        let lines = self.lines.iter().zip(numbers);
        let users = self.users.iter().map(|user| CountedUser {
            user: user.user,
            row: user.row.counted(),
            failures: self.user_statuses.counted(user.place),
        });
        let counted = Counted {
            lines: lines
                .filter_map(|(line, number)| self.counted_line(line, number?))
                .collect(),
            users: users.collect(),
        };
        serde_json::to_value(counted).map_err(|_| Unfit::Wrong)
    }

    fn counted_line(&self, line: &Line, connection: u32) -> Option<CountedLine> {
        let (client, server, transport) = line.ends?;
        Some(CountedLine {
            connection,
            client: end(client),
            server: end(server),
            udp: transport == Transport::Udp,
            row: line.row.counted(),
            latencies: self.pool.counted(&line.row.chain),
            failures: self.statuses.counted(line.place),
        })
    }

    /// Adds what was counted of later calls.
    pub(super) fn add(
        &mut self,
        counted: &Value,
        number: &dyn Fn(u32) -> u32,
    ) -> Result<(), Unfit> {
        let counted = Counted::deserialize(counted).map_err(|_| Unfit::Wrong)?;
        for line in &counted.lines {
            self.add_line(line, number(line.connection))?;
        }
        for from in &counted.users {
            let place = self.find_user(from.user) as usize;
            let user = self.users.get_mut(place).ok_or(Unfit::Wrong)?;
            user.row.add_counted(&from.row)?;
            self.user_statuses.add_counted(user.place, &from.failures)?;
        }
        Ok(())
    }

    fn add_line(&mut self, from: &CountedLine, connection: u32) -> Result<(), Unfit> {
        // Beyond, connections take each other's places.
        if connection as usize >= MAX_CONNECTIONS {
            return Err(Unfit::Full);
        }
        let transport = match from.udp {
            true => Transport::Udp,
            false => Transport::Tcp,
        };
        let ends: Ends = (endpoint(&from.client)?, endpoint(&from.server)?, transport);
        let place = match *self.by_connection.of(connection) {
            Some(place) => place as usize,
            None => self.find_line(connection, ends),
        };
        let new = self.is_new(connection);
        let line = self.lines.get_mut(place).ok_or(Unfit::Wrong)?;
        // Where callbacks come first, they name the ends the other way round.
        let turned = (ends.1, ends.0, ends.2);
        if line
            .ends
            .is_some_and(|known| known != ends && known != turned)
        {
            return Err(Unfit::Wrong);
        }
        line.connections += u64::from(new);
        line.row.add_counted(&from.row)?;
        let (chain, kinds) = (&mut line.row.chain, GROUPS.len());
        self.pool.add_counted(chain, &from.latencies, kinds)?;
        self.statuses.add_counted(line.place, &from.failures)
    }
}
