//! From a host, a path and options to a client with a root handle: what mount.nfs(8) does.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use measure::MonotonicClock;
use wire::mount::{dirpath, mountres3};
use wire::nfs3::{FSINFO3args, FSINFO3resok, Res};
use wire::programs::{MOUNT, NFS};

use super::portmap::setup_options;
use super::{Dump, FileHandle, FsInfo, ListExports, Mnt, PortQuery, Umnt, call_once, find_port};
use crate::engine::{Caller, Engine};
use crate::error::{CallError, ConnectError};
use crate::handle::Client;
use crate::options::MountOptions;

/// AUTH_SYS among the flavours that MNT lists (RFC 5531: flavor 1).
const AUTH_SYS: u32 = wire::rpc::auth::AUTH_SYS;

/// The MOUNT service of a server.
#[derive(Debug)]
pub struct MountService {
    engine: Engine,
    address: SocketAddr,
}

impl MountService {
    /// Finds the service (`mountport`, or the portmapper) and connects.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(host: IpAddr, options: &MountOptions) -> Result<Self, ConnectError> {
        let transport = options.mount_transport;
        let port = match options.mount_port {
            0 => find_port(host, PortQuery::new(MOUNT, 3, transport), options)?,
            port => port,
        };
        let address = SocketAddr::new(host, port);
        let setup = setup_options(options, transport);
        let engine = Engine::connect(address, &setup, MonotonicClock)?;
        Ok(MountService { engine, address })
    }

    /// Uses another caller than this process.
    pub fn set_caller(&mut self, caller: Caller) {
        self.engine.set_caller(caller);
    }

    fn failed(&self, what: &str, source: CallError) -> ConnectError {
        ConnectError::Call {
            what: format!("{what} at {}", self.address),
            source,
        }
    }

    /// MNT: the root handle of an export.
    ///
    /// # Errors
    /// What the server says, or [`CallError::Protocol`] if it would not take AUTH_SYS.
    pub fn mnt(&mut self, path: &str) -> Result<FileHandle, ConnectError> {
        let argument = dirpath(path.as_bytes());
        let mounted = call_once::<Mnt, _, _>(&mut self.engine, &argument, |results| {
            let granted = match results {
                mountres3::Ok(granted) => granted,
                mountres3::Fail(status) => return Err(CallError::Mount(status)),
            };
            let flavours = &granted.auth_flavors.0;
            // An empty list leaves it to the caller (as Linux takes it).
            if !flavours.is_empty() && !flavours.contains(&AUTH_SYS) {
                return Err(CallError::Protocol("the export does not take AUTH_SYS"));
            }
            FileHandle::new(granted.fhandle.0)
        });
        mounted.map_err(|error| self.failed(&format!("mounting {path}"), error))
    }

    /// UMNT: the server's list of mounts forgets this one.
    ///
    /// # Errors
    /// The call's.
    pub fn umnt(&mut self, path: &str) -> Result<(), ConnectError> {
        let argument = dirpath(path.as_bytes());
        call_once::<Umnt, _, _>(&mut self.engine, &argument, Ok)
            .map_err(|error| self.failed(&format!("unmounting {path}"), error))
    }

    /// EXPORT: paths, and the groups that may mount them (none: everybody).
    ///
    /// # Errors
    /// The call's.
    pub fn exports(&mut self) -> Result<Vec<(String, Vec<String>)>, ConnectError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        call_once::<ListExports, _, _>(&mut self.engine, &(), |exports| {
            let entry = |node: &wire::mount::exportnode<'_>| {
                let groups = node.ex_groups.0.iter().map(|group| text(group.0)).collect();
                (text(node.ex_dir.0), groups)
            };
            Ok(exports.0.iter().map(entry).collect())
        })
        .map_err(|error| self.failed("listing exports", error))
    }

    /// DUMP: hosts, and what they have mounted, as far as the server knows.
    ///
    /// # Errors
    /// The call's.
    pub fn mounts(&mut self) -> Result<Vec<(String, String)>, ConnectError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        call_once::<Dump, _, _>(&mut self.engine, &(), |mounts| {
            let pairs = mounts.0.iter();
            Ok(pairs
                .map(|body| (text(body.ml_hostname.0), text(body.ml_directory.0)))
                .collect())
        })
        .map_err(|error| self.failed("listing mounts", error))
    }
}

/// A mounted export.
#[derive(Debug)]
pub struct Export {
    /// Makes the calls.
    pub client: Arc<Client>,
    /// Root handle.
    pub root: FileHandle,
    /// Options in effect, sizes negotiated.
    pub options: MountOptions,
    /// What FSINFO said.
    pub info: FSINFO3resok,
}

/// A mounted export whose engine belongs to the caller: a load generator runs it in its own loop.
#[derive(Debug)]
pub struct MountedEngine {
    /// Connected, nothing outstanding.
    pub engine: Engine,
    /// Address of NFS.
    pub address: SocketAddr,
    /// Root handle.
    pub root: FileHandle,
    /// Options in effect, sizes negotiated.
    pub options: MountOptions,
    /// What FSINFO said.
    pub info: FSINFO3resok,
}

impl MountedEngine {
    /// Mounts `path` of `host`: ports, MNT, a connection to NFS, FSINFO.
    ///
    /// # Errors
    /// [`ConnectError`], with the step that failed.
    pub fn mount(
        host: IpAddr,
        path: &str,
        mut options: MountOptions,
    ) -> Result<Self, ConnectError> {
        let root = MountService::connect(host, &options)?.mnt(path)?;
        let port = match options.port {
            0 => find_port(host, PortQuery::new(NFS, 3, options.transport), &options)?,
            port => port,
        };
        let address = SocketAddr::new(host, port);
        let mut engine = Engine::connect(address, &options, MonotonicClock)?;
        let arguments = FSINFO3args {
            fsroot: root.as_fh(),
        };
        let asked = call_once::<FsInfo, _, _>(&mut engine, &arguments, |info| match info {
            Res::Ok(info) => Ok(info),
            Res::Fail(status, _) => Err(CallError::Nfs(status)),
        });
        let info = asked.map_err(|source| ConnectError::Call {
            what: format!("asking {address} for FSINFO of {path}"),
            source,
        })?;
        options.negotiate(&info);
        options.port = port; // what was found, for the results
        Ok(MountedEngine {
            engine,
            address,
            root,
            options,
            info,
        })
    }
}

impl Export {
    /// As [`MountedEngine::mount`], with a thread that runs the engine.
    ///
    /// # Errors
    /// [`ConnectError`], with the step that failed.
    pub fn mount(host: IpAddr, path: &str, options: MountOptions) -> Result<Self, ConnectError> {
        let mounted = MountedEngine::mount(host, path, options)?;
        Ok(Export {
            client: Client::start(mounted.engine)?,
            root: mounted.root,
            options: mounted.options,
            info: mounted.info,
        })
    }
}
