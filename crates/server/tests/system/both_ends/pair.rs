//! A server and a client that has mounted it.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use client::nfs3::{Export as Mounted, FileHandle, Procedure};
use client::{Client, File, MountOptions};
use rustix::net;
use server::HandleKey;
use server::net::{RunningServer, ServerOptions};
use server::protocol::{Export, ExportOptions, Service};
use server::store::Store;
use wire::nfs3::{CREATE3args, Res, createhow3, diropargs3, filename3, sattr3};

pub const NEW: sattr3 = sattr3 {
    mode: Some(0o640),
    ..sattr3::UNCHANGED
};

pub fn service(store: Arc<dyn Store>) -> Arc<Service> {
    let export = Export::new("/export", store, ExportOptions::default());
    Arc::new(Service::new(vec![export], HandleKey::new(&[9; 16])))
}

/// At `address` (port 0: any), UDP too.
pub fn start(service: &Arc<Service>, address: SocketAddr, options: ServerOptions) -> RunningServer {
    let options = ServerOptions {
        listen: vec![address],
        udp: true,
        ..options
    };
    RunningServer::start(Arc::clone(service), options).unwrap()
}

/// A port that servers, one after the other, listen on: no connection of another process is given
/// it between two of them (nobody listens here, and both allow the address to be used again).
pub struct Port {
    pub address: SocketAddr,
    _holder: OwnedFd,
}

impl Port {
    pub fn held() -> Self {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let holder = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None).unwrap();
        net::sockopt::set_socket_reuseaddr(&holder, true).unwrap();
        net::bind(&holder, &any).unwrap();
        Port {
            address: net::getsockname(&holder).unwrap().try_into().unwrap(),
            _holder: holder,
        }
    }

    /// Over TCP alone: nothing holds the port of UDP.
    pub fn start(&self, service: &Arc<Service>) -> RunningServer {
        let options = ServerOptions {
            listen: vec![self.address],
            udp: false,
            ..ServerOptions::default()
        };
        RunningServer::start(Arc::clone(service), options).unwrap()
    }
}

pub fn mount(server: SocketAddr, text: &str) -> Mounted {
    let port = server.port();
    let text = format!("port={port},mountport={port},{text}");
    let options = MountOptions::parse(&text).unwrap();
    Mounted::mount(server.ip(), "/export", options).unwrap()
}

/// Calls, and hands the decoded results on.
pub fn ask<P: Procedure, T>(
    client: &Client,
    arguments: &P::Arguments<'_>,
    look: impl FnOnce(P::Results<'_>) -> T,
) -> T {
    let answer = client.call::<P>(None, arguments).unwrap();
    look(answer.decode().unwrap())
}

pub fn at<'a>(dir: &'a FileHandle, name: &'a [u8]) -> diropargs3<'a> {
    diropargs3 {
        dir: dir.as_fh(),
        name: filename3(name),
    }
}

/// A new file in the root.
pub fn create(mounted: &Mounted, name: &[u8]) -> FileHandle {
    let arguments = CREATE3args {
        where_: at(&mounted.root, name),
        how: createhow3::GUARDED(NEW),
    };
    ask::<client::nfs3::Create, _>(&mounted.client, &arguments, |made| match made {
        Res::Ok(made) => made.obj.unwrap().try_into().unwrap(),
        Res::Fail(status, _) => panic!("{status:?}"),
    })
}

pub fn open(mounted: &Mounted, handle: FileHandle) -> File {
    let client = Arc::clone(&mounted.client);
    File::new(client, handle, None, &mounted.options, None)
}
