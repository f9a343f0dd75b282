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
    /// Bytes of the logs.
    bytes: usize,
}

/// Why parts cannot be put together.
#[derive(Debug, PartialEq)]
enum Refused {
    Reader,
    Replay(ReplayError),
}

impl Whole {
    fn play(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.bytes += bytes.len();
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

/// Checks one script of events; gives the logs' bytes.
fn check(random: &mut fastrand::Rng, world: &World) -> Result<usize, Refused> {
    let mut all = Reader::default();
    let mut whole = Whole::default();
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
    Ok(whole.bytes)
}

/// Scripts of a kind, of which so many at most (of a hundred) may be refused.
fn agree(seed: u64, lies: u32, compounds: u32, refused_at_most: usize) {
    let scripts = 3000;
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut refused, mut reached) = (0, 0);
    for _ in 0..scripts {
        let world = World::new(&mut random, lies, compounds);
        match check(&mut random, &world) {
            Ok(_) => {}
            Err(Refused::Reader) => reached += 1,
            Err(Refused::Replay(ReplayError::ReachedBack)) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    println!("of {scripts}: {reached} refused by readers, {refused} by the replay");
    assert!((reached + refused) * 100 <= refused_at_most * scripts);
}

#[test]
fn procedures_of_true_servers() {
    agree(1, 0, 0, 0);
}

#[test]
fn procedures_of_servers_that_lie() {
    agree(2, 20, 0, 0);
}

#[test]
fn compounds_of_true_servers() {
    agree(3, 0, 100, 50);
}

#[test]
fn compounds_of_servers_that_lie() {
    agree(4, 20, 100, 50);
}

#[test]
fn all_together() {
    agree(5, 5, 30, 50);
}
