//! Our client against a server that is not ours: NFS-Ganesha (Debian: nfs-ganesha-vfs, rpcbind) on
//! a folder, over every procedure and under load.
//!
//! Ganesha's NFSv3 wants a portmapper: it gets one of its own, in namespaces where nothing else is.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use client::nfs3::Export;

use super::pair::{create, open};
use super::procedures::{Server, everything};
use crate::process::spawn;
use crate::waits::Waits;

const PLUGINS: &str = "/usr/lib/x86_64-linux-gnu/ganesha";

struct Ganesha {
    portmapper: Child,
    server: Child,
    ports: [u16; 2],
    folder: tempfile::TempDir,
}

/// None, with the reason printed, where `unshare` is not installed.
fn in_namespaces(kind: &str, run: &Path, program: &str) -> Option<Child> {
    let script = format!("mount --bind '{}' /run && {program}", run.display());
    let mut command = Command::new("unshare");
    command.args(["-m", kind, "sh", "-c", &script]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    spawn(command.stderr(Stdio::null()))
        .inspect_err(|error| eprintln!("skipped: unshare does not start here ({error})"))
        .ok()
}

fn wait_for(what: &str, child: &mut Child, ready: impl Fn() -> bool) -> bool {
    while !ready() {
        if let Some(status) = child.try_wait().unwrap() {
            eprintln!("skipped: {what} does not start here ({status})");
            return false;
        }
        std::thread::sleep(std::time::Duration::from_millis(5)); // somebody else's process
    }
    true
}

impl Drop for Ganesha {
    fn drop(&mut self) {
        for child in [&mut self.server, &mut self.portmapper] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Ganesha {
    fn start() -> Option<Self> {
        let installed = Path::new(PLUGINS).join("libfsalvfs.so").exists();
        if !rustix::process::geteuid().is_root() || !installed {
            eprintln!("skipped: NFS-Ganesha (nfs-ganesha-vfs) is not installed, or not root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["run", "export", "recovery"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        // Free ones; another program may take them before Ganesha does, which then fails to start.
        let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = free.map(|listener| listener.local_addr().unwrap().port());
        std::fs::write(at("conf"), configuration(folder.path(), ports)).unwrap();
        let program = "ip link set lo up && exec rpcbind -f";
        let mut portmapper = in_namespaces("-n", &at("run"), program)?;
        let socket = at("run/rpcbind.sock");
        if !wait_for("rpcbind", &mut portmapper, || socket.exists()) {
            return None;
        }
        let [conf, log, pid] = ["conf", "log", "pid"].map(|name| at(name).display().to_string());
        let program = format!("exec ganesha.nfsd -F -f '{conf}' -L '{log}' -p '{pid}'");
        let server = in_namespaces("-m", &at("run"), &program).unwrap();
        let mut ganesha = Ganesha {
            portmapper,
            server,
            ports,
            folder,
        };
        let listens = |port| TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).is_ok();
        let ready = || ports.into_iter().all(listens);
        wait_for("ganesha.nfsd", &mut ganesha.server, ready).then_some(ganesha)
    }

    fn mount(&self, text: &str) -> Export {
        let [port, mount_port] = self.ports;
        let text = format!("port={port},mountport={mount_port},{text}");
        let options = client::MountOptions::parse(&text).unwrap();
        Export::mount([127, 0, 0, 1].into(), "/export", options).unwrap()
    }

    fn export(&self) -> PathBuf {
        self.folder.path().join("export")
    }
}

fn configuration(folder: &Path, [port, mount_port]: [u16; 2]) -> String {
    let folder = folder.display();
    format!(
        "NFS_CORE_PARAM {{ Bind_addr = 127.0.0.1; NFS_Port = {port}; MNT_Port = {mount_port};
           Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; Protocols = 3;
           Mount_Path_Pseudo = true; Plugins_Dir = \"{PLUGINS}\"; }}
         NFSv4 {{ Graceless = true; RecoveryBackend = fs; RecoveryRoot = \"{folder}/recovery\"; }}
         EXPORT {{ Export_Id = 1; Path = \"{folder}/export\"; Pseudo = /export;
           Access_Type = RW; Squash = No_Root_Squash; Protocols = 3; Transports = TCP;
           SecType = sys; FSAL {{ Name = VFS; }} }}\n"
    )
}

#[test]
fn every_procedure_against_ganesha() {
    let Some(ganesha) = Ganesha::start() else {
        return;
    };
    for text in ["", "nconnect=3"] {
        let mounted = ganesha.mount(text);
        everything(&mounted, Some(&ganesha.export()), Server::Ganesha);
        let (counters, _) = mounted.client.figures().unwrap();
        assert_eq!(
            (counters.failed, counters.retransmissions),
            (0, 0),
            "{counters:?}"
        );
        assert_eq!(
            (counters.unknown_replies, counters.malformed_replies),
            (0, 0)
        );
    }
}

#[test]
fn data_on_ganesha_is_what_was_written_also_across_its_restart() {
    let Some(mut ganesha) = Ganesha::start() else {
        return;
    };
    let mounted = ganesha.mount("wsize=32k,rsize=32k,timeo=20");
    let file = open(&mounted, create(&mounted, b"big"));
    let bytes: Vec<u8> = (0..6_000_001_u32).map(|i| (i * 31 % 253) as u8).collect();
    let (front, back) = bytes.split_at(2_500_000);
    file.write(0, front).unwrap();
    // Killed with UNSTABLE data in it, and started again where it was.
    ganesha.server.kill().unwrap();
    ganesha.server.wait().unwrap();
    let at = |name: &str| ganesha.folder.path().join(name);
    let [conf, log, pid] = ["conf", "log", "pid"].map(|name| at(name).display().to_string());
    let program = format!("exec ganesha.nfsd -F -f '{conf}' -L '{log}' -p '{pid}'");
    let again = in_namespaces("-m", &at("run"), &program).unwrap();
    ganesha.server = again;
    file.write(front.len() as u64, back).unwrap();
    file.sync().unwrap();
    assert!(std::fs::read(ganesha.export().join("big")).unwrap() == bytes);
    assert!(file.read(0, bytes.len() + 10).unwrap().bytes == bytes);
    let (counters, _) = mounted.client.figures().unwrap();
    assert!(
        counters.disconnects > 0 && counters.failed == 0,
        "{counters:?}"
    );
}
