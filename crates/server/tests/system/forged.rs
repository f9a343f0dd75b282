//! Handles that a client made itself, through the protocol: with the key as it was once derived
//! from the machine's world-readable id, with any other, and with the server's own.

use std::fs;
use std::hash::Hasher;
use std::path::Path;
use std::sync::Arc;

use crate::calls::{NFS3, ask, call_as, decoded, root_handle};
use crate::exported::{as_all, serve};
use server::key_file::{KeyOrigin, kept_in};
use server::protocol::{Export, ExportOptions, Service, Squash};
use server::store::Store;
use server::{Handle, HandleKey};
use siphasher::sip::SipHasher24;
use wire::nfs3::*;

/// The key before it was random: of /etc/machine-id and the folder's path.
fn key_of_the_machine(folder: &Path) -> HandleKey {
    let identity = fs::read("/etc/machine-id").unwrap_or_default();
    let path = fs::canonicalize(folder).unwrap();
    let mut key = [0; 16];
    for (part, word) in key.chunks_mut(8).zip(0u64..) {
        let mut hasher = SipHasher24::new_with_keys(0x6e66_736c_6162, word);
        hasher.write(&identity);
        hasher.write(&[0]);
        hasher.write(path.as_os_str().as_encoded_bytes());
        part.copy_from_slice(&hasher.finish().to_be_bytes());
    }
    HandleKey::new(&key)
}

/// READ and WRITE by such a handle, as this user.
fn use_it(service: &Service, sealed: &[u8], uid: u32) -> [nfsstat3; 2] {
    let read = READ3args {
        file: nfs_fh3(sealed),
        offset: 0,
        count: 100,
    };
    let write = WRITE3args {
        file: nfs_fh3(sealed),
        offset: 0,
        count: 4,
        stable: stable_how::UNSTABLE,
        data: payload3(b"gone"),
    };
    let read = ask(service, &call_as(1, NFS3, 6, uid, &read)).unwrap();
    let write = ask(service, &call_as(2, NFS3, 7, uid, &write)).unwrap();
    [
        decoded::<READ3res<'_>>(&read).status(),
        decoded::<WRITE3res>(&write).status(),
    ]
}

#[test]
fn handles_that_clients_made() {
    as_all("forged::handles_that_clients_made", |it| {
        fs::write(it.outside.join("secret"), "secret").unwrap();
        fs::write(it.export.join("own"), "own").unwrap();
        let keys = it.base().join("keys");
        let (key, origin) = kept_in(&keys.join("k")).unwrap();
        assert_eq!(origin, KeyOrigin::Made);
        for kernel_handles in [true, false] {
            let outside = serve(&it.outside, kernel_handles);
            let found = outside.lookup(&it.me, (&outside.root(), b"secret"));
            let secret = found.unwrap().0.handle;
            for squash in [Squash::None, Squash::Root, Squash::All] {
                let options = ExportOptions {
                    squash,
                    read_only: false,
                };
                let store = Arc::new(serve(&it.export, kernel_handles));
                let service = Service::new(vec![Export::new("/export", store, options)], key);
                let (number, root) = key.open(&root_handle(&service)).unwrap();
                let forge =
                    |key: &HandleKey, object: &Handle| key.seal(number, object).as_bytes().to_vec();
                for uid in [0, it.me.uid, 1234] {
                    let bad = [nfsstat3::NFS3ERR_BADHANDLE; 2];
                    let derived = key_of_the_machine(&it.export);
                    assert_eq!(use_it(&service, &forge(&derived, &secret), uid), bad);
                    assert_eq!(use_it(&service, &forge(&derived, &root), uid), bad);
                    let any = HandleKey::random().unwrap();
                    assert_eq!(use_it(&service, &forge(&any, &secret), uid), bad);
                    let stale = [nfsstat3::NFS3ERR_STALE; 2];
                    assert_eq!(use_it(&service, &forge(&key, &secret), uid), stale);
                }
            }
        }
        assert_eq!(fs::read(it.outside.join("secret")).unwrap(), b"secret");
        let (again, origin) = kept_in(&keys.join("k")).unwrap();
        assert_eq!(origin, KeyOrigin::Kept);
        let sealed = key.seal(1, &Handle::new(2, 3));
        assert_eq!(again.open(sealed.as_bytes()), Ok((1, Handle::new(2, 3))));
    });
}
