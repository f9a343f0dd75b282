//! What readers of parts learned, replayed, against one reader of all: real learning, by calls and
//! replies of servers whose files are known here, and of such that lie.

mod world;

use std::collections::HashMap;

use wire::summary::{Arguments, CallOperation, ReplyOperation, Results, Visitor};

use self::world::{Event, Exchange, Kind, World};
use crate::block::Host;
use crate::call::FileId;
use crate::calls::learning::{Walk, learn};
use crate::calls::steps::{Collector, MOUNT_ROOT, Step, Steps};
use crate::journal::bytes::Cursor;
use crate::limits::MAX_FILES;
use crate::names::Names;
use crate::names::replay::{Replay, ReplayError};

/// A call that waits for its reply.
struct Waiting {
    file: Option<FileId>,
    steps: Vec<u8>,
}

/// What [`crate::calls::Calls`] does about names.
#[derive(Default)]
struct Reader {
    names: Names,
    waiting: HashMap<usize, Waiting>,
}

impl Reader {
    fn call(&mut self, number: usize, exchange: &Exchange) {
        let (names, server) = (&mut self.names, exchange.server);
        let mut waiting = Waiting {
            file: None,
            steps: vec![],
        };
        match &exchange.kind {
            Kind::Compound(operations) => {
                let mut collector = Collector {
                    names,
                    server,
                    steps: &mut waiting.steps,
                    teaches: false,
                };
                for (index, operation) in operations.iter().enumerate() {
                    collector.call_operation(&CallOperation {
                        index: index as u32,
                        opcode: operation.opcode,
                        arguments: Arguments {
                            file_handle: operation.handle.as_deref(),
                            name: Some(&operation.name),
                            target_name: Some(&operation.target_name),
                            ..Arguments::default()
                        },
                        whole: true,
                    });
                }
            }
            Kind::Mount(path) => Step {
                opcode: MOUNT_ROOT,
                name: path,
                ..Step::default()
            }
            .write(&mut waiting.steps),
            Kind::Attributes(handle) | Kind::Listing(handle) => {
                waiting.file = names.file_id(server, handle);
            }
            Kind::Procedure(operation) => {
                waiting.file = names.file_id(server, operation.handle.as_deref().unwrap());
                let target = operation.target.as_deref();
                Step {
                    opcode: operation.opcode as u8,
                    file: waiting.file,
                    target: target.and_then(|handle| names.file_id(server, handle)),
                    name: &operation.name,
                    target_name: &operation.target_name,
                    ..Step::default()
                }
                .write(&mut waiting.steps);
            }
        }
        self.waiting.insert(number, waiting);
    }

    /// The call's file once its reply has come; `None` if the call did not come.
    fn reply(&mut self, number: usize, exchange: &Exchange) -> Option<Option<FileId>> {
        let mut waiting = self.waiting.remove(&number)?;
        let (names, server) = (&mut self.names, exchange.server);
        match &exchange.kind {
            Kind::Compound(operations) => {
                let named_by = wire::nfs4::names_compound(operations.iter().map(|it| it.opcode));
                let mut walk = Walk::of_compound(names, server, &waiting.steps, named_by.unwrap());
                for (index, result) in exchange.results.iter().enumerate() {
                    for entry in &result.entries {
                        walk.entry(&entry.seen());
                    }
                    walk.reply_operation(&ReplyOperation {
                        index: index as u32,
                        opcode: operations[index].opcode,
                        results: result.seen(),
                        whole: true,
                    });
                }
                waiting.file = walk.about();
            }
            Kind::Listing(_) => {
                let mut walk = Walk::of_directory(names, server, waiting.file);
                for entry in &exchange.results[0].entries {
                    walk.entry(&entry.seen());
                }
            }
            Kind::Attributes(_) => {
                let results: Results<'_> = exchange.results[0].seen();
                if let (Some(file), Some(attributes)) = (waiting.file, &results.attributes) {
                    names.set_attributes(file, attributes);
                }
            }
            Kind::Mount(_) | Kind::Procedure(_) => {
                for step in Steps(&waiting.steps) {
                    learn(names, server, &step, &exchange.results[0].seen());
                }
            }
        }
        Some(waiting.file)
    }

    fn event(&mut self, event: Event, world: &World) -> Option<Option<FileId>> {
        match event {
            Event::Call(number) => {
                self.call(number, &world.exchanges[number]);
                None
            }
            Event::Reply(number) => self.reply(number, &world.exchanges[number]),
        }
    }
}

/// Names of all parts, and what is played to them.
#[derive(Default)]
struct Whole {
    names: Names,
    replay: Replay,
}

/// Why parts cannot be put together.
#[derive(Debug, PartialEq)]
enum Refused {
    Reader,
    Replay(ReplayError),
}

impl Whole {
    fn play(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        let mut cursor = Cursor::new(bytes);
        let done = self.replay.apply(&mut self.names, &mut cursor);
        done.map_err(Refused::Replay)
    }

    fn take(&mut self, reader: &mut Reader) -> Result<(), Refused> {
        if reader.names.take_reached_back() {
            return Err(Refused::Reader);
        }
        self.play(reader.names.log())?;
        reader.names.clear_log();
        Ok(())
    }

    /// What the reader's number is here.
    fn number(&mut self, names: &Names, id: FileId) -> Result<Option<FileId>, Refused> {
        let mut definition = vec![];
        if !names.write_definition(id, &mut definition) {
            return Err(Refused::Reader);
        }
        self.play(&definition)?;
        let number = self.replay.number(id.0).map_err(Refused::Replay)?;
        let here = number.and_then(|number| self.names.file(number)).unwrap();
        let there = names.file(id).unwrap();
        assert!(there.handle.is_empty() || there.handle == here.handle);
        assert_eq!(there.server, here.server);
        Ok(number)
    }
}

/// Checks one script of events, before which so many files were met.
fn check(random: &mut fastrand::Rng, world: &World, early: usize) -> Result<(), Refused> {
    let mut all = Reader::default();
    let mut whole = Whole::default();
    for number in 0..early {
        for names in [&mut all.names, &mut whole.names] {
            names.file_id(Host::default(), &number.to_le_bytes());
        }
    }
    let mut from = 0;
    let events = &world.events;
    while from < events.len() {
        // A reader who began so early that it saw all calls that wait at its checkpoint.
        let first_waiting = |number: &usize| {
            let call = |event: &Event| *event == Event::Call(*number);
            events.iter().position(call).unwrap()
        };
        let begun = all.waiting.keys().map(first_waiting).min();
        let begun = begun.unwrap_or(from).min(from);
        let begun = begun.saturating_sub(random.usize(..40));
        let mut reader = Reader::default();
        let from_the_beginning = random.bool();
        if from_the_beginning {
            reader.names.keep_log();
        }
        for event in &events[begun..from] {
            reader.event(*event, world);
        }
        match from_the_beginning {
            true => reader.names.log_anew(),
            false => reader.names.keep_log(),
        }
        reader.names.take_reached_back();
        whole.replay.begin_anew();
        let to = (from + random.usize(1..90)).min(events.len());
        for event in &events[from..to] {
            let right = all.event(*event, world);
            let found = reader.event(*event, world);
            assert_eq!(right.is_some(), found.is_some());
            if random.bool() {
                whole.take(&mut reader)?;
                if let (Some(right), Some(found)) = (right, found) {
                    let here = found.map(|id| whole.number(&reader.names, id));
                    assert_eq!(right, here.transpose()?.flatten(), "{event:?}");
                }
            }
        }
        whole.take(&mut reader)?;
        all.names.assert_same(&whole.names);
        from = to;
    }
    Ok(())
}

/// Kinds of scripts: how many, and of a hundred how many answers lie, how many calls are COMPOUNDs
/// and how many scripts may be refused.
struct Scripts {
    count: usize,
    lies: u32,
    compounds: u32,
    refused_at_most: usize,
}

fn agree(seed: u64, early: usize, scripts: &Scripts) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut refused = 0;
    for _ in 0..scripts.count {
        let world = World::new(&mut random, scripts.lies, scripts.compounds);
        match check(&mut random, &world, early) {
            Ok(()) => {}
            Err(Refused::Reader | Refused::Replay(ReplayError::ReachedBack)) => refused += 1,
            Err(Refused::Replay(ReplayError::Full)) if early > 0 => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    let most = scripts.refused_at_most * scripts.count / 100;
    assert!(refused <= most, "{refused} of {}", scripts.count);
}

#[test]
fn procedures_of_true_servers() {
    let scripts = Scripts {
        count: 3000,
        lies: 0,
        compounds: 0,
        refused_at_most: 0,
    };
    agree(1, 0, &scripts);
}

#[test]
fn procedures_of_servers_that_lie() {
    let scripts = Scripts {
        count: 3000,
        lies: 20,
        compounds: 0,
        refused_at_most: 0,
    };
    agree(2, 0, &scripts);
}

#[test]
fn compounds_of_true_servers() {
    let scripts = Scripts {
        count: 3000,
        lies: 0,
        compounds: 100,
        refused_at_most: 40,
    };
    agree(3, 0, &scripts);
}

#[test]
fn compounds_of_servers_that_lie() {
    let scripts = Scripts {
        count: 1500,
        lies: 20,
        compounds: 100,
        refused_at_most: 40,
    };
    agree(4, 0, &scripts);
}

#[test]
fn all_together() {
    let scripts = Scripts {
        count: 3000,
        lies: 5,
        compounds: 30,
        refused_at_most: 20,
    };
    agree(5, 0, &scripts);
}

/// Entries of directories are refused while a script runs, or from its beginning.
#[test]
fn all_together_where_the_whole_table_is_half_full() {
    let scripts = Scripts {
        count: 10,
        lies: 5,
        compounds: 10,
        refused_at_most: 30,
    };
    for (seed, room) in [0, 6].into_iter().enumerate() {
        agree(10 + seed as u64, MAX_FILES / 2 - room, &scripts);
    }
}

/// Logs of whole scripts, changed here and there.
#[test]
fn damaged_logs_are_refused_or_played() {
    let mut random = fastrand::Rng::with_seed(6);
    let (mut refused, rounds) = (0, 20_000);
    let mut log = vec![];
    for round in 0..rounds {
        if round % 20 == 0 {
            let world = World::new(&mut random, 10, 50);
            let mut reader = Reader::default();
            reader.names.keep_log();
            for event in &world.events {
                reader.event(*event, &world);
            }
            log = reader.names.log().to_vec();
        }
        let mut bytes = log.clone();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..bytes.len().max(1));
            match random.u8(..5) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes.insert(at, random.u8(..24)),
                2 => drop(bytes.drain(at..(at + random.usize(..9)).min(bytes.len()))),
                3 => bytes.extend_from_within(at..(at + 30).min(bytes.len())),
                _ => bytes[at] = random.u8(..),
            }
            bytes.resize(bytes.len().max(1), 0);
        }
        let mut whole = Whole::default();
        refused += usize::from(whole.play(&bytes).is_err());
        // Going on after an error is wrong, and ends well.
        let _ = whole.play(&bytes);
        for local in (0..300).chain([u32::MAX - 1, u32::MAX]) {
            let number = whole.replay.number(local);
            let file = number
                .ok()
                .flatten()
                .map(|id| whole.names.file(id).is_some());
            assert_ne!(file, Some(false));
        }
    }
    assert!(refused * 2 > rounds, "{refused}");
}

#[test]
fn noise_is_refused() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..50_000 {
        let length = random.usize(1..60);
        let most = if random.bool() { 20 } else { u8::MAX };
        let bytes: Vec<u8> = (0..length).map(|_| random.u8(..most)).collect();
        let mut whole = Whole::default();
        let _ = whole.play(&bytes);
        assert!(whole.names.files() <= bytes.len());
    }
}
