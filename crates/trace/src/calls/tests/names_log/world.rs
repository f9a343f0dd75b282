//! Servers with files, and what clients ask them.

use std::collections::BTreeMap;

use wire::nfs4::opcode::{
    CREATE, GETATTR, GETFH, LINK, LOOKUP, LOOKUPP, OPEN, OPENATTR, PUTFH, PUTROOTFH, READDIR,
    REMOVE, RENAME, RESTOREFH, SAVEFH,
};
use wire::summary::{Attributes, DirectoryEntry, Results};

use crate::block::Host;
use crate::calls::learning::NOENT;

const NAMES: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b".."];

/// A call's operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Operation {
    pub(super) opcode: u32,
    pub(super) handle: Option<Vec<u8>>,
    pub(super) target: Option<Vec<u8>>,
    pub(super) name: Vec<u8>,
    pub(super) target_name: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Mount(Vec<u8>),
    Attributes(Vec<u8>),
    Listing(Vec<u8>),
    Procedure(Operation),
    Compound(Vec<Operation>),
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    name: Vec<u8>,
    handle: Option<Vec<u8>>,
    attributes: Option<Attributes>,
}

impl Entry {
    pub(super) fn seen(&self) -> DirectoryEntry<'_> {
        DirectoryEntry {
            file_id: None,
            name: &self.name,
            cookie: 0,
            file_handle: self.handle.as_deref(),
            attributes: self.attributes,
        }
    }
}

/// What was answered to an operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    status: u32,
    handle: Option<Vec<u8>>,
    attributes: Option<Attributes>,
    pub(super) entries: Vec<Entry>,
}

impl Answer {
    pub(super) fn seen(&self) -> Results<'_> {
        Results {
            status: Some(self.status),
            file_handle: self.handle.as_deref(),
            attributes: self.attributes,
            ..Results::default()
        }
    }
}

/// A call and its reply.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    pub(super) server: Host,
    pub(super) kind: Kind,
    pub(super) results: Vec<Answer>,
}

/// By the exchange's number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event {
    Call(usize),
    Reply(usize),
}

#[derive(Debug)]
struct Node {
    is_directory: bool,
    parent: usize,
    entries: BTreeMap<Vec<u8>, usize>,
}

/// A server's files; the first one is the root.
#[derive(Debug)]
struct Server(Vec<Node>);

/// What happened.
#[derive(Debug)]
pub(super) struct World {
    servers: Vec<Server>,
    pub(super) exchanges: Vec<Exchange>,
    pub(super) events: Vec<Event>,
}

/// Who answers: how often (of a hundred) it lies.
struct Mouth<'r> {
    random: &'r mut fastrand::Rng,
    lies: u32,
}

fn handle_of(node: usize) -> Vec<u8> {
    format!("handle of {node}").into_bytes()
}

fn host(server: usize) -> Host {
    Host::from_v4([10, 0, 0, server as u8])
}

impl Mouth<'_> {
    fn lies(&mut self) -> bool {
        self.random.u32(..100) < self.lies
    }

    fn handle(&mut self, node: usize, server: &Server) -> Option<Vec<u8>> {
        let said = match self.lies() {
            true => self.random.usize(..server.0.len()),
            false => node,
        };
        Some(handle_of(said))
    }

    fn attributes(&mut self, node: usize, server: &Server) -> Option<Attributes> {
        let said = match self.lies() {
            true => self.random.usize(..server.0.len()),
            false => node,
        };
        let file_type = if server.0[said].is_directory { 2 } else { 1 };
        let numbers = self.random.u8(..4) > 0;
        (self.random.u8(..4) > 0).then(|| Attributes {
            file_type: (self.random.u8(..8) > 0).then_some(file_type),
            fsid: numbers.then_some(7),
            file_id: numbers.then_some(said as u64),
            ..Attributes::default()
        })
    }

    fn found(&mut self, node: usize, server: &Server) -> Answer {
        Answer {
            handle: self.handle(node, server),
            attributes: self.attributes(node, server),
            ..Answer::default()
        }
    }

    fn listing(&mut self, at: usize, server: &Server) -> Answer {
        let dots = [(b".".to_vec(), at), (b"..".to_vec(), server.0[at].parent)];
        let entries = server.0[at].entries.clone();
        let entries = dots.into_iter().chain(entries);
        let entries = entries.map(|(name, node)| Entry {
            name,
            handle: self
                .handle(node, server)
                .filter(|_| self.random.u8(..8) > 0),
            attributes: self.attributes(node, server),
        });
        Answer {
            entries: entries.collect(),
            ..Answer::default()
        }
    }

    fn failed(&mut self) -> Answer {
        Answer {
            status: if self.random.u8(..5) > 0 { NOENT } else { 13 },
            ..Answer::default()
        }
    }
}

impl Server {
    fn child(&self, at: usize, name: &[u8]) -> Option<usize> {
        self.0[at].entries.get(name).copied()
    }

    /// A new file in a directory, or the one that is there.
    fn made(&mut self, at: usize, name: &[u8], is_directory: bool) -> usize {
        let new = self.0.len();
        let node = *self.0[at].entries.entry(name.to_vec()).or_insert(new);
        if node == new {
            self.0.push(Node {
                is_directory,
                parent: at,
                entries: BTreeMap::new(),
            });
        }
        node
    }

    fn renamed(&mut self, from: usize, name: &[u8], to: usize, new_name: &[u8]) -> bool {
        let Some(node) = self.0[from].entries.remove(name) else {
            return false;
        };
        self.0[node].parent = to;
        self.0[to].entries.insert(new_name.to_vec(), node);
        true
    }
}

impl World {
    /// Scripts where so many of a hundred calls are COMPOUNDs, and answers lies.
    pub(super) fn new(random: &mut fastrand::Rng, lies: u32, compounds: u32) -> World {
        let root = || Node {
            is_directory: true,
            parent: 0,
            entries: BTreeMap::new(),
        };
        let mut world = World {
            servers: (0..2).map(|_| Server(vec![root()])).collect(),
            exchanges: vec![],
            events: vec![],
        };
        for server in &mut world.servers {
            for _ in 0..random.usize(2..12) {
                let at = random.usize(..server.0.len());
                if server.0[at].is_directory {
                    server.made(at, NAMES[random.usize(..5)], random.u8(..3) > 0);
                }
            }
        }
        let mut waiting: Vec<usize> = vec![];
        for _ in 0..random.usize(20..300) {
            if waiting.is_empty() || (waiting.len() < 4 && random.u8(..3) == 0) {
                let compound = random.u32(..100) < compounds;
                let at = usize::from(random.u8(..5) == 0);
                let number = world.exchanges.len();
                world.exchanges.push(Exchange {
                    server: host(at),
                    kind: asked(random, &world.servers[at], compound),
                    results: vec![],
                });
                world.events.push(Event::Call(number));
                waiting.push(number);
            } else {
                let number = waiting.swap_remove(random.usize(..waiting.len()));
                let exchange = &mut world.exchanges[number];
                let at = usize::from(exchange.server == host(1));
                let mut mouth = Mouth { random, lies };
                exchange.results = answered(&mut mouth, &mut world.servers[at], &exchange.kind);
                world.events.push(Event::Reply(number));
            }
        }
        world
    }
}

fn some_name(random: &mut fastrand::Rng, server: &Server, at: usize) -> Vec<u8> {
    let known: Vec<_> = server.0[at].entries.keys().collect();
    match known.is_empty() || random.u8(..4) == 0 {
        // Seldom what no server should take.
        true if random.u8(..20) == 0 => NAMES[5].to_vec(),
        true => NAMES[random.usize(..5)].to_vec(),
        false => known[random.usize(..known.len())].clone(),
    }
}

fn asked(random: &mut fastrand::Rng, server: &Server, compound: bool) -> Kind {
    let some = |random: &mut fastrand::Rng| random.usize(..server.0.len());
    let at = some(random);
    if compound {
        return Kind::Compound(asked_at_once(random, server));
    }
    match random.u8(..16) {
        0 => Kind::Mount([b"/export".as_slice(), b"/other"][random.usize(..2)].to_vec()),
        1..3 => Kind::Attributes(handle_of(at)),
        3..5 => Kind::Listing(handle_of(at)),
        kind => {
            let target = some(random);
            Kind::Procedure(Operation {
                opcode: match kind {
                    5..10 => LOOKUP,
                    10..12 => CREATE,
                    12 => REMOVE,
                    13 => LINK,
                    _ => RENAME,
                },
                handle: Some(handle_of(at)),
                target: Some(handle_of(target)),
                name: some_name(random, server, at),
                target_name: some_name(random, server, target),
            })
        }
    }
}

/// Names are those of the directory where the server is expected to be.
fn asked_at_once(random: &mut fastrand::Rng, server: &Server) -> Vec<Operation> {
    let mut at = 0;
    let mut operations = vec![Operation {
        opcode: PUTROOTFH,
        ..Operation::default()
    }];
    for place in 0..random.usize(2..10) {
        let name = some_name(random, server, at);
        let opcode = match random.u8(..24) {
            _ if place == 0 && random.u8(..3) > 0 => PUTFH,
            0..7 => LOOKUP,
            7..12 => GETFH,
            12..14 => GETATTR,
            14 => SAVEFH,
            15 => RESTOREFH,
            16..18 => OPEN,
            18 => CREATE,
            19 => REMOVE,
            20 => RENAME,
            21 => [LINK, READDIR, PUTROOTFH][random.usize(..3)],
            22 => PUTFH,
            _ => [LOOKUPP, OPENATTR, SAVEFH, READDIR][random.usize(..4)],
        };
        let mut operation = Operation {
            opcode,
            name,
            target_name: some_name(random, server, at),
            ..Operation::default()
        };
        match opcode {
            PUTFH => {
                at = random.usize(..server.0.len());
                operation.handle = Some(handle_of(at));
            }
            LOOKUP | OPEN => at = server.child(at, &operation.name).unwrap_or(at),
            LOOKUPP => at = server.0[at].parent,
            PUTROOTFH => at = 0,
            _ => {}
        }
        operations.push(operation);
    }
    operations
}

fn node_of(handle: &[u8]) -> usize {
    let digits = &handle[b"handle of ".len()..];
    std::str::from_utf8(digits).unwrap().parse().unwrap()
}

fn answered(mouth: &mut Mouth<'_>, server: &mut Server, kind: &Kind) -> Vec<Answer> {
    match kind {
        Kind::Mount(_) => vec![mouth.found(0, server)],
        Kind::Attributes(handle) => vec![Answer {
            handle: None,
            ..mouth.found(node_of(handle), server)
        }],
        Kind::Listing(handle) => vec![mouth.listing(node_of(handle), server)],
        Kind::Procedure(operation) => {
            let at = |handle: &Option<Vec<u8>>| node_of(handle.as_deref().unwrap());
            let (from, to) = (at(&operation.handle), at(&operation.target));
            let (saved, here) = match operation.opcode {
                RENAME | LINK => (from, to),
                _ => (to, from),
            };
            let mut cursor = Current { here, saved };
            let mut answer = cursor.done(mouth, server, operation);
            if answer.status == 0 && matches!(operation.opcode, LOOKUP | CREATE) {
                answer = mouth.found(cursor.here, server);
            }
            vec![answer]
        }
        Kind::Compound(operations) => {
            let mut cursor = Current { here: 0, saved: 0 };
            let mut answers = vec![];
            for operation in operations {
                answers.push(cursor.done(mouth, server, operation));
                if answers.last().unwrap().status != 0 {
                    break;
                }
            }
            answers
        }
    }
}

/// Current and saved file handle.
struct Current {
    here: usize,
    saved: usize,
}

impl Current {
    fn done(&mut self, mouth: &mut Mouth<'_>, server: &mut Server, asked: &Operation) -> Answer {
        let well = Answer::default();
        let name = asked.name.as_slice();
        match asked.opcode {
            PUTROOTFH => self.here = 0,
            PUTFH => self.here = node_of(asked.handle.as_deref().unwrap()),
            SAVEFH => self.saved = self.here,
            RESTOREFH => self.here = self.saved,
            LOOKUPP => self.here = server.0[self.here].parent,
            LOOKUP => match server.child(self.here, name) {
                Some(child) => self.here = child,
                None => return mouth.failed(),
            },
            OPEN => self.here = server.made(self.here, name, false),
            CREATE => self.here = server.made(self.here, name, mouth.random.bool()),
            GETFH => {
                return Answer {
                    handle: mouth.handle(self.here, server),
                    ..well
                };
            }
            GETATTR => {
                return Answer {
                    attributes: mouth.attributes(self.here, server),
                    ..well
                };
            }
            READDIR => return mouth.listing(self.here, server),
            REMOVE if server.0[self.here].entries.remove(name).is_none() => {
                return mouth.failed();
            }
            RENAME if !server.renamed(self.saved, name, self.here, &asked.target_name) => {
                return mouth.failed();
            }
            LINK => {
                let entries = &mut server.0[self.here].entries;
                entries.insert(asked.target_name.clone(), self.saved);
            }
            _ => {}
        }
        well
    }
}
