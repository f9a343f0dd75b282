//! A foreign client: libnfs' utilities (Debian: libnfs-utils) copy, list and read through us.

use crate::process::output;
use crate::trees;
use std::process::{Command, Output};
use std::sync::Arc;

use server::HandleKey;
use server::net::{RunningServer, ServerOptions};
use server::protocol::{Export, ExportOptions, Service};
use server::store::Store;

fn there(program: &str) -> bool {
    output(&mut Command::new(program)).is_ok()
}

struct Foreign {
    server: RunningServer,
}

impl Foreign {
    fn url(&self, name: &str) -> String {
        let port = self.server.addresses()[0].port();
        format!("nfs://127.0.0.1/export{name}?nfsport={port}&mountport={port}")
    }
    fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let done = output(Command::new(program).args(arguments)).unwrap();
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{program} {arguments:?}: {errors}");
        done
    }
}

#[test]
fn libnfs_copies_lists_and_reads() {
    if !["nfs-ls", "nfs-cp", "nfs-cat"].into_iter().all(there) {
        eprintln!("skipped: nfs-ls, nfs-cp, nfs-cat are not installed (libnfs-utils)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let local = folder.path().join("local");
    // Longer than one WRITE, and no multiple of anything.
    let bytes: Vec<u8> = (0..3_333_333u32).map(|i| (i * 7 % 251) as u8).collect();
    std::fs::write(&local, &bytes).unwrap();
    for (number, mut tree) in trees::stores().into_iter().enumerate() {
        // nfs-cp does not write over what is there.
        let back = folder.path().join(format!("back{number}"));
        for i in 0..200 {
            tree.file(format!("file{i}").as_bytes());
        }
        tree.dir(b"sub");
        tree.chmod(&tree.store.root(), 0o777);
        let kind = tree.store.description().kind;
        let kept = tree.folder.take();
        let store: Arc<dyn Store> = Arc::from(tree.store);
        let export = Export::new("/export", store, ExportOptions::default());
        let service = Arc::new(Service::new(vec![export], HandleKey::new(&[1; 16])));
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        let options = ServerOptions {
            listen,
            ..ServerOptions::default()
        };
        let server = RunningServer::start(service, options).unwrap();
        let foreign = Foreign { server };
        let remote = foreign.url("/sub/copy");
        foreign.run("nfs-cp", &[local.to_str().unwrap(), &remote]);
        let read = foreign.run("nfs-cat", &[&remote]);
        assert!(read.stdout == bytes, "{kind}: other bytes came back");
        foreign.run("nfs-cp", &[&remote, back.to_str().unwrap()]);
        assert!(
            std::fs::read(&back).unwrap() == bytes,
            "{kind}: another copy came back"
        );
        if let Some(folder) = &kept {
            assert!(std::fs::read(folder.path().join("sub/copy")).unwrap() == bytes);
        }
        let listed = foreign.run("nfs-ls", &[&foreign.url("")]);
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        for i in 0..200 {
            let name = format!("file{i}");
            let lines = listed
                .lines()
                .filter(|line| line.ends_with(&format!(" {name}")));
            assert_eq!(lines.count(), 1, "{kind}: {name} in\n{listed}");
        }
        let listed = foreign.run("nfs-ls", &[&foreign.url("/sub")]);
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(
            listed.contains("3333333") && listed.contains("copy"),
            "{kind}: {listed}"
        );
        foreign.server.stop().unwrap();
    }
}
