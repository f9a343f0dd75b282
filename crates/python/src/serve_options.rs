//! The options of `Server`: JSON to what crate `server` takes, and back as it is in effect.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use server::key_file::{KeyOrigin, kept_in};
use server::model::ModelDescription;
use server::net::{
    AllowedClient, DEFAULT_THREADS, MAX_THREADS, Secure, ServerError, ServerOptions,
};
use server::protocol::{Export, ExportOptions, Service, Squash};
use server::record::Recorder;
use server::store::Store;
use server::store::directory::{DirectoryOptions, DirectoryStore};
use server::store::memory::MemoryStore;
use server::store::null::NullStore;
use server::{Caller, HandleKey};

/// Most records that may wait to be taken.
pub const MAX_RECORDS: usize = 1 << 24;
/// Memory that a memory store may take unless said otherwise.
const MEMORY_BYTES: u64 = 1 << 30;
/// Size of the null store's files unless said otherwise.
const NULL_FILE_BYTES: u64 = 1 << 30;

/// What `Server` may be given.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    store: StoreKind,
    path: Option<PathBuf>,
    /// Where the key of a folder's handles is kept; without it they end with the server.
    key_file: Option<PathBuf>,
    memory_bytes: Option<u64>,
    file_bytes: Option<u64>,
    #[serde(default = "export_path")]
    export: String,
    #[serde(default)]
    read_only: bool,
    /// Changes of names and attributes are not on the disk when they are answered (directory).
    #[serde(default)]
    unsafe_async_names: bool,
    #[serde(default)]
    squash: Squash,
    /// The export's path is a secret.
    #[serde(default)]
    hidden: bool,
    /// Whose sockets may connect.
    #[serde(default)]
    secure: Secure,
    #[serde(default = "loopback")]
    listen: Vec<SocketAddr>,
    #[serde(default)]
    udp: bool,
    #[serde(default)]
    allow: Vec<String>,
    #[serde(default)]
    workers: usize,
    #[serde(default)]
    client_memory_bytes: usize,
    #[serde(default)]
    record_room: usize,
    model: Option<ModelDescription>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum StoreKind {
    Directory,
    Memory,
    Null,
}

fn export_path() -> String {
    "/export".to_owned()
}

fn loopback() -> Vec<SocketAddr> {
    vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))]
}

/// Why there is no server.
#[derive(Debug)]
pub enum Problem {
    /// The options do not make sense.
    Options(String),
    /// The key of the handles cannot be had.
    Key(String),
    /// The folder cannot be served.
    Folder { path: PathBuf, source: io::Error },
    /// It does not start, or ended badly.
    Server(ServerError),
}

impl Problem {
    /// What happened, and why.
    pub fn split(self) -> (String, String) {
        match self {
            Problem::Options(why) => ("the server's options are wrong".to_owned(), why),
            Problem::Folder { path, source } => {
                let why = match source.kind() {
                    io::ErrorKind::NotFound => "there is no such folder".to_owned(),
                    io::ErrorKind::NotADirectory => "it is not a folder".to_owned(),
                    _ => source.to_string(),
                };
                (format!("cannot serve {}", path.display()), why)
            }
            Problem::Key(why) => (
                "the key of the handles cannot be read or made".to_owned(),
                why,
            ),
            Problem::Server(ServerError::Listen { address, source }) => {
                (format!("cannot listen on {address}"), source.to_string())
            }
            Problem::Server(error) => ("the server cannot run".to_owned(), error.to_string()),
        }
    }
}

/// Everything for a start.
pub struct Prepared {
    pub service: Arc<Service>,
    pub options: ServerOptions,
    pub recorder: Arc<Recorder>,
    /// What is in effect.
    pub stated: Map<String, Value>,
}

/// Opens the store and turns names into values.
pub fn prepare(asked: Asked) -> Result<Prepared, Problem> {
    check(&asked)?;
    let allow: Result<Vec<AllowedClient>, _> =
        asked.allow.iter().map(|text| text.parse()).collect();
    let allow = allow.map_err(|error| Problem::Options(error.to_string()))?;
    if let Some(model) = &asked.model {
        let checked = model.check();
        checked.map_err(|error| Problem::Options(format!("service model: {error}")))?;
    }
    let store = open(&asked)?;
    let workers = match asked.workers {
        0 if store.may_block() => DEFAULT_THREADS,
        given if store.may_block() => given,
        _ => 0,
    };
    let description = store.description();
    let settings: Map<String, Value> = description
        .settings
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    let mut stated = Map::new();
    let mut state = |name: &str, value: Value| stated.insert(name.to_owned(), value);
    state("store", description.kind.into());
    state("store_settings", settings.into());
    state("export", asked.export.clone().into());
    state("read_only", asked.read_only.into());
    state("squash", json!(asked.squash));
    state("secure", json!(asked.secure));
    state("udp", asked.udp.into());
    state("allow", asked.allow.clone().into());
    state("workers", workers.into());
    state("model", json!(asked.model));
    let options = ExportOptions {
        squash: asked.squash,
        read_only: asked.read_only,
        hidden: asked.hidden,
    };
    let (key, origin) = handle_key(asked.key_file.as_deref())?;
    state("handle_key", origin);
    let service = Service::new(vec![Export::new(&asked.export, store, options)], key);
    let recorder = Arc::new(Recorder::default());
    if asked.record_room > 0 {
        recorder.begin(asked.record_room);
    }
    let options = ServerOptions {
        listen: asked.listen,
        udp: asked.udp,
        allow,
        secure: asked.secure,
        threads: asked.workers,
        client_memory_bytes: asked.client_memory_bytes,
        model: asked.model,
        recorder: Arc::clone(&recorder),
    };
    Ok(Prepared {
        service: Arc::new(service),
        options,
        recorder,
        stated,
    })
}

/// The key that seals handles, and what is said of it.
fn handle_key(file: Option<&Path>) -> Result<(HandleKey, Value), Problem> {
    let Some(file) = file else {
        let key = HandleKey::random().map_err(|error| Problem::Key(error.to_string()))?;
        return Ok((key, json!({"origin": "of this start"})));
    };
    let kept = kept_in(file).map_err(|error| Problem::Key(error.to_string()));
    let (key, origin) = kept?;
    let (origin, why) = match origin {
        KeyOrigin::Kept => ("kept", None),
        KeyOrigin::Made => ("made", None),
        KeyOrigin::MadeAnew(why) => ("made anew", Some(why)),
    };
    Ok((key, json!({"origin": origin, "file": file, "why": why})))
}

fn check(asked: &Asked) -> Result<(), Problem> {
    let wrong = |why: &str| Err(Problem::Options(why.to_owned()));
    let directory = asked.store == StoreKind::Directory;
    if directory != asked.path.is_some() {
        return wrong("path goes with the store directory, and only with it");
    }
    if !directory && asked.key_file.is_some() {
        return wrong("key_file goes with the store directory: other handles end with the server");
    }
    if asked.unsafe_async_names && !directory {
        return wrong("unsafe_async_names goes with the store directory");
    }
    if asked.memory_bytes.is_some() && asked.store != StoreKind::Memory {
        return wrong("memory_bytes goes with the store memory");
    }
    if asked.file_bytes.is_some() && asked.store != StoreKind::Null {
        return wrong("file_bytes goes with the store null");
    }
    if !asked.export.starts_with('/') || asked.export.len() > 1024 {
        return wrong("the export's path has to begin with / and to be 1024 bytes at most");
    }
    if asked.workers > MAX_THREADS {
        return Err(Problem::Options(format!("at most {MAX_THREADS} workers")));
    }
    if asked.record_room > MAX_RECORDS {
        return Err(Problem::Options(format!(
            "room for at most {MAX_RECORDS} records"
        )));
    }
    Ok(())
}

fn open(asked: &Asked) -> Result<Arc<dyn Store>, Problem> {
    let instance = measure::clock::realtime_ns();
    match (asked.store, &asked.path) {
        (StoreKind::Directory, Some(path)) => {
            let options = DirectoryOptions {
                stable_names: !asked.unsafe_async_names,
                kernel_handles: true,
                instance,
            };
            let opened = DirectoryStore::open(path, options);
            let failed = |source| Problem::Folder {
                path: path.clone(),
                source,
            };
            Ok(Arc::new(opened.map_err(failed)?))
        }
        (StoreKind::Null, _) => {
            let bytes = asked.file_bytes.unwrap_or(NULL_FILE_BYTES);
            Ok(Arc::new(NullStore::new(bytes)))
        }
        _ => {
            let here = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
            let owner = Caller::with_ids(here, 0, 0);
            let bytes = asked.memory_bytes.unwrap_or(MEMORY_BYTES);
            Ok(Arc::new(MemoryStore::new(bytes, instance, &owner)))
        }
    }
}
