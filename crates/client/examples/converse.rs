//! A conversation with a server, and what the client recorded of it, as CSV on standard output.
//!
//!     converse HOST PORT OPTIONS ROUNDS
//!
//! Mounts `/export`; then several threads at a time make, write, commit, read, look up, list and
//! remove files, look for what is not there, and ask for attributes. One row for each call behind
//! the mount, all instants CLOCK_MONOTONIC; `status` is empty for a call without an answer.

use std::error::Error;
use std::io::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;

use client::nfs3::{
    Commit, Create, Export, FileHandle, GetAttr, Lookup, Procedure, Read, ReadDirPlus, Remove,
};
use client::record::Outcome;
use client::{Client, File, MountOptions};
use wire::nfs3::{
    COMMIT3args, CREATE3args, GETATTR3args, LOOKUP3args, READ3args, READDIRPLUS3args, REMOVE3args,
    Res, createhow3, diropargs3, filename3, sattr3,
};

const THREADS: u64 = 4;
const DATA_BYTES: usize = 20_000;
type Ended<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn status<P: Procedure>(client: &Client, arguments: &P::Arguments<'_>) -> Ended<()> {
    client.call::<P>(None, arguments)?.decode()?;
    Ok(())
}

/// One file's life.
fn round(mounted: &Export, name: &[u8]) -> Ended<()> {
    let (client, root) = (&mounted.client, &mounted.root);
    let named = |name| diropargs3 {
        dir: root.as_fh(),
        name: filename3(name),
    };
    let made = CREATE3args {
        where_: named(name),
        how: createhow3::UNCHECKED(sattr3::UNCHANGED),
    };
    let handle: FileHandle = match client.call::<Create>(None, &made)?.decode()? {
        Res::Ok(made) => made.obj.ok_or("no handle")?.try_into()?,
        Res::Fail(status, _) => return Err(format!("CREATE: {status:?}").into()),
    };
    let file = File::new(Arc::clone(client), handle, None, &mounted.options, None);
    file.write_behind(0, &[7; DATA_BYTES], u64::MAX)?;
    file.push();
    let (told, synced) = channel();
    file.sync_then(move |result| told.send(result).unwrap_or(()));
    synced.recv()??;
    let commit = COMMIT3args {
        file: handle.as_fh(),
        offset: 0,
        count: 0,
    };
    status::<Commit>(client, &commit)?;
    status::<GetAttr>(
        client,
        &GETATTR3args {
            object: handle.as_fh(),
        },
    )?;
    let read = READ3args {
        file: handle.as_fh(),
        offset: 100,
        count: 8192,
    };
    status::<Read>(client, &read)?;
    status::<Lookup>(client, &LOOKUP3args { what: named(name) })?;
    let missing = [name, b".missing"].concat();
    status::<Lookup>(
        client,
        &LOOKUP3args {
            what: named(&missing),
        },
    )?;
    let list = READDIRPLUS3args {
        dir: root.as_fh(),
        cookie: 0,
        cookieverf: [0; 8],
        dircount: 1024,
        maxcount: 8192,
    };
    status::<ReadDirPlus>(client, &list)?;
    status::<Remove>(
        client,
        &REMOVE3args {
            object: named(name),
        },
    )
}

fn main() -> Ended<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [host, port, text, rounds] = arguments.as_slice() else {
        return Err("converse HOST PORT OPTIONS ROUNDS".into());
    };
    let (host, rounds): (IpAddr, u64) = (host.parse()?, rounds.parse()?);
    let options = MountOptions::parse(&format!("port={port},mountport={port},{text}"))?;
    let mounted = Export::mount(host, "/export", options)?;
    let reader = mounted.client.record_every_call(1 << 20)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mounted = &mounted;
                scope.spawn(move || {
                    (0..rounds).try_for_each(|n| round(mounted, format!("{thread}-{n}").as_bytes()))
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err("a thread panicked".into()))
        })
    })?;
    mounted.client.shutdown();
    let mut records = Vec::new();
    if reader.drain(&mut records) > 0 {
        return Err("records were lost".into());
    }
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "xid,program,procedure,status,enqueued_ns,sent_first_ns,sent_last_ns,completed_ns,sends,\
         replies,call_bytes,reply_bytes,connection"
    )?;
    for r in records {
        let status = match r.outcome {
            Outcome::Answered(status) => status.to_string(),
            _ => String::new(),
        };
        let t = &r.times;
        writeln!(
            out,
            "{},{},{},{status},{},{},{},{},{},{},{},{},{}",
            r.xid,
            r.program,
            r.procedure,
            t.enqueued_ns,
            t.sent_first_ns,
            t.sent_last_ns,
            t.completed_ns,
            r.sends,
            r.replies,
            r.bytes_out,
            r.bytes_in,
            r.connection
        )?;
    }
    Ok(())
}
