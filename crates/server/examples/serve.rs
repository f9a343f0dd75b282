//! A server as a process of its own: `serve memory|null|directory [PATH]`. Prints its port, and its
//! counters for each line of standard input; ends when that ends. Tests run it: kill and restart,
//! hostile clients.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use server::net::{RunningServer, ServerOptions};
use server::protocol::{Export, ExportOptions, Service};
use server::store::Store;
use server::store::directory::{DirectoryOptions, DirectoryStore};
use server::store::memory::MemoryStore;
use server::store::null::NullStore;
use server::{Caller, HandleKey};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_default();
    // A port may be given, so that a server comes back where it was.
    let port = std::env::var("NFSLAB_PORT").unwrap_or_else(|_| "0".to_owned());
    let listen: SocketAddr = format!("127.0.0.1:{port}").parse()?;
    let store: Arc<dyn Store> = match kind.as_str() {
        "null" => Arc::new(NullStore::new(1 << 30)),
        "directory" => {
            let path = arguments.next().ok_or("a folder is needed")?;
            let options = DirectoryOptions {
                stable_names: true,
                kernel_handles: true,
                instance: measure::clock::realtime_ns(),
            };
            let store = DirectoryStore::open(path.as_ref(), options)?;
            for (name, value) in store.description().settings {
                eprintln!("{name} {value}");
            }
            Arc::new(store)
        }
        _ => {
            let instance = measure::clock::realtime_ns();
            let owner = Caller::with_ids(listen, 0, 0);
            Arc::new(MemoryStore::new(1 << 30, instance, &owner))
        }
    };
    let export = Export::new("/export", store, ExportOptions::default());
    let service = Service::new(vec![export], HandleKey::new(b"0123456789abcdef"));
    let options = ServerOptions {
        listen: vec![listen],
        // Tests hold the port of TCP from one server to the next; nothing would hold that of UDP.
        udp: false,
        ..ServerOptions::default()
    };
    let server = RunningServer::start(Arc::new(service), options)?;
    for address in server.addresses() {
        println!("{}", address.port());
    }
    std::io::stdout().flush()?;
    for line in std::io::stdin().lines() {
        line?;
        let counts = server.counts().named();
        let pairs = counts
            .iter()
            .map(|(name, value)| format!("{name}={value} "));
        println!("{}", pairs.collect::<String>());
    }
    server.stop()?;
    Ok(())
}
