//! The file set on the server is the one that seed and plan say, whoever looks at it.

use crate::world::{World, admin, checked, set};
use load::LoadError;
use load::content::Content;
use load::layout::{Layout, MARKER, Name};
use serde_json::json;
use server::protocol::ExportOptions;
use std::sync::Arc;

fn path(layout: &Layout, file: u64) -> String {
    let directory = Name::directory(layout.directory_of(file));
    format!("nfslab-load/{directory}/{}", Name::file(file))
}

/// Every file against the pattern, read from the store and not over NFS.
fn assert_whole(world: &World, layout: &Layout) {
    let content = Content::default();
    for file in 0..layout.files {
        let bytes = world.content(&path(layout, file)).unwrap();
        assert_eq!(bytes.len() as u64, layout.size_bytes(file), "file {file}");
        for (n, part) in bytes.chunks(1 << 20).enumerate() {
            assert_eq!(
                content.mismatch(file, (n as u64) << 20, part),
                None,
                "file {file}"
            );
        }
        let link = path(layout, file).replace("/f", "/l");
        assert_eq!(
            world.lookup(&link).is_some(),
            layout.has_link(file),
            "{link}"
        );
        if let Some(link) = world.lookup(&link) {
            let mut text = Vec::new();
            world.store.readlink(&admin(), &link, &mut text).unwrap();
            assert_eq!(text, Name::file(file).as_bytes());
        }
    }
}

#[test]
fn what_is_written_is_in_the_store_and_extended_not_made_anew() {
    let mut world = World::memory(1 << 28);
    let mut plan = world.plan();
    let first = world.prepare(&plan);
    assert_eq!(first.mounts[0].made, 200);
    assert_whole(&world, &first.checked.layout);
    // A server that has ended has recorded all of its calls.
    let writes = |world: &mut World| {
        world.start(None);
        world
            .calls()
            .iter()
            .filter(|call| call.procedure == 7)
            .count()
    };
    assert!(writes(&mut world) > 200);
    // Again: all is found, nothing is written.
    let again = world.prepare(&plan);
    assert_eq!((again.mounts[0].found, again.mounts[0].made), (200, 0));
    assert_eq!(writes(&mut world), 0);
    // Larger: what is there stays, the rest is made.
    set(&mut plan, "file_set.files", json!(333));
    let larger = world.prepare(&plan);
    assert_eq!((larger.mounts[0].found, larger.mounts[0].made), (200, 133));
    assert_whole(&world, &larger.checked.layout);
    // Half as many files with more of them worked on: more scratch names, and nothing forgotten.
    set(&mut plan, "file_set.accessed_share", json!(1.0));
    set(&mut plan, "file_set.files", json!(300));
    assert!(world.prepare(&plan).checked.layout.scratch > larger.checked.layout.scratch);
    set(&mut plan, "file_set.accessed_share", json!(0.5));
    set(&mut plan, "file_set.files", json!(333));
    assert_eq!(world.prepare(&plan).mounts[0].made, 0);
    // The smaller one is still there.
    set(&mut plan, "file_set.files", json!(200));
    assert_eq!(world.prepare(&plan).mounts[0].made, 0);
}

#[test]
fn the_set_is_sized_by_the_offered_load_and_by_nothing_else() {
    let world = World::memory(1 << 20);
    let mut plan = world.plan();
    set(&mut plan, "file_set.files", json!(null));
    set(&mut plan, "file_set.bytes_per_op_per_s", json!(10 << 20));
    let layout = checked(&plan).layout;
    // 2,000 operations a second at 10 MiB each; the last file may be above.
    assert!((20_971_520_000..20_971_520_000 + (1 << 20)).contains(&layout.bytes));
    // 26.71 KB a file by the weights: the sum of 766,000 of them is within five deviations.
    let files = 20_971_520_000.0 / (26.71 * 1024.0);
    assert!(
        (layout.files as f64 / files - 1.0).abs() < 0.02,
        "{}",
        layout.files
    );
    let share = layout.accessed_files as f64 / layout.files as f64;
    assert!((share - 0.5).abs() < 0.005, "{share}");
    for threads in [1, 2, 16] {
        for (clients, processes) in [(5, 4), (50, 8)] {
            set(&mut plan, "threads", json!(threads));
            set(
                &mut plan,
                "load",
                json!({"mode": "closed", "clients": clients, "processes": processes,
                    "rate_ops_per_s": 2000}),
            );
            assert_eq!(checked(&plan).layout, layout);
        }
    }
    // A smaller load's set is the beginning of it.
    set(&mut plan, "load.rate_ops_per_s", json!(10));
    let small = checked(&plan).layout;
    assert!(small.files < layout.files / 100);
    for file in 0..small.files {
        assert_eq!(small.size_bytes(file), layout.size_bytes(file));
        assert_eq!(small.is_accessed(file), layout.is_accessed(file));
        assert_eq!(small.has_link(file), layout.has_link(file));
    }
    // Another seed is another set.
    set(&mut plan, "seed", json!(2));
    let other = checked(&plan).layout;
    assert!((0..50).any(|file| other.size_bytes(file) != small.size_bytes(file)));
}

#[test]
fn a_small_set_has_links_that_are_worked_on() {
    let world = World::memory(1 << 20);
    let mut plan = world.plan();
    // LADDIS at 50 operations a second, at 128 KiB each: one file in 30 would leave one link.
    set(&mut plan, "file_set.files", json!(47));
    set(&mut plan, "file_set.accessed_share", json!(0.2));
    set(&mut plan, "file_set.symlinks_share", json!(0.033_333_3));
    let small = checked(&plan).layout;
    let worked_on = |file: &u64| small.is_accessed(*file) && small.has_link(*file);
    assert!((0..small.files).filter(worked_on).count() >= 5);
    set(&mut plan, "file_set.symlinks_share", json!(0));
    let without = checked(&plan).layout;
    assert!((0..without.files).all(|file| !without.has_link(file)));
}

#[test]
fn files_that_grew_are_cut_and_those_that_shrank_are_refused() {
    let world = World::memory(1 << 28);
    let plan = world.plan();
    let prepared = world.prepare(&plan);
    let layout = &prepared.checked.layout;
    let file = world.lookup(&path(layout, 5)).unwrap();
    let size = layout.size_bytes(5);
    let resize = |size| {
        let new = wire::nfs3::sattr3 {
            size: Some(size),
            ..wire::nfs3::sattr3::UNCHANGED
        };
        world.store.setattr(&admin(), &file, &new, None).unwrap();
    };
    resize(size + 777);
    world.prepare(&plan);
    assert_whole(&world, layout);
    resize(size - 1);
    let error = load::prepare(checked(&plan), &mut ()).unwrap_err();
    assert_eq!(error.kind(), "file_set");
    let why = format!("f00000005 has {} bytes instead of {size}", size - 1);
    assert!(error.why().contains(&why), "{}", error.why());
    assert!(error.fix().contains("file_set.directory"));
}

#[test]
fn another_seed_and_foreign_files_are_not_taken_for_ours() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: what the store's root user made, another may not write");
        return;
    }
    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    world.prepare(&plan);
    set(&mut plan, "seed", json!(99));
    let error = load::prepare(checked(&plan), &mut ()).unwrap_err();
    assert!(
        error.why().contains("another value of seed"),
        "{}",
        error.why()
    );
    // A directory of somebody.
    let how = wire::nfs3::createhow3::UNCHECKED(wire::nfs3::sattr3::UNCHANGED);
    let new = wire::nfs3::sattr3::UNCHANGED;
    let root = world.store.root();
    let dir = world
        .store
        .mkdir(&admin(), (&root, b"thesis"), &new)
        .unwrap()
        .0
        .handle;
    world
        .store
        .create(&admin(), (&dir, b"chapter1"), &how)
        .unwrap();
    set(&mut plan, "file_set.directory", json!("thesis"));
    let error = load::prepare(checked(&plan), &mut ()).unwrap_err();
    assert!(error.why().contains("chapter1"), "{}", error.why());
    // A marker of nonsense.
    let dir = world.lookup("nfslab-load").unwrap();
    let marker = world
        .store
        .lookup(&admin(), (&dir, MARKER.as_bytes()))
        .unwrap()
        .0
        .handle;
    let stable = wire::nfs3::stable_how::FILE_SYNC;
    world
        .store
        .write(&admin(), &marker, 0, b"!!", stable)
        .unwrap();
    set(&mut plan, "file_set.directory", json!("nfslab-load"));
    let error = load::prepare(checked(&plan), &mut ()).unwrap_err();
    assert!(error.why().contains("makes no sense"), "{}", error.why());
}

/// Stops after some looks.
struct Impatient(u32);
impl load::Observer<load::Progress> for Impatient {
    fn tick(&mut self, _: &load::Progress) -> bool {
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

#[test]
fn an_interrupted_preparation_goes_on_where_it_was() {
    let world = World::memory(1 << 28);
    let plan = world.plan();
    let error = load::prepare(checked(&plan), &mut Impatient(1)).unwrap_err();
    assert!(matches!(error, LoadError::Cancelled));
    // As if the server had gone after some files: no marker, files half made.
    let prepared = world.prepare(&plan);
    let dir = world.lookup("nfslab-load").unwrap();
    world
        .store
        .remove(&admin(), (&dir, MARKER.as_bytes()))
        .unwrap();
    let again = world.prepare(&plan);
    assert_eq!(
        again.mounts[0].made, 200,
        "without a marker nothing is vouched for"
    );
    assert_whole(&world, &prepared.checked.layout);
}

#[test]
fn refusals_say_what_and_how_to_mend_it() {
    let refused = |world: &World, plan: &serde_json::Value| {
        let error = load::prepare(checked(plan), &mut ()).unwrap_err();
        drop(world.calls());
        (error.kind(), error.why(), error.fix())
    };
    let store = Arc::new(server::store::memory::MemoryStore::new(
        1 << 28,
        1,
        &admin(),
    ));
    let read_only = ExportOptions {
        read_only: true,
        ..ExportOptions::default()
    };
    let world = World::with(store, read_only);
    let (kind, why, _) = refused(&world, &world.plan());
    assert_eq!(kind, "read_only", "{why}");
    assert!(why.contains("NFS3ERR_ROFS"), "{why}");

    let world = World::memory(1 << 20);
    let (kind, why, fix) = refused(&world, &world.plan());
    assert_eq!(kind, "space", "{why}");
    assert!(why.contains("NFS3ERR_NOSPC") && fix.contains("--bytes-per-op"));

    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(&mut plan, "caller", json!({"uid": 4321, "gid": 4321}));
    let closed = wire::nfs3::sattr3 {
        mode: Some(0o755),
        ..wire::nfs3::sattr3::UNCHANGED
    };
    world
        .store
        .setattr(&admin(), &world.store.root(), &closed, None)
        .unwrap();
    let (kind, why, fix) = refused(&world, &plan);
    assert_eq!(kind, "permission", "{why}");
    assert!(fix.contains("uid"));

    let world = World::null(4096);
    let (kind, _, fix) = refused(&world, &world.plan());
    assert_eq!(kind, "file_set", "its marker is a file of zeros");
    assert!(fix.contains("--calibration"), "{fix}");
}

#[test]
fn parts_share_one_set_which_the_first_makes() {
    let world = World::memory(1 << 28);
    let mut plan = world.plan();
    set(&mut plan, "part", json!({"index": 1, "of": 2}));
    let error = load::prepare(checked(&plan), &mut ()).unwrap_err();
    assert!(error.fix().contains("part 0"), "{}", error.fix());
    set(&mut plan, "part", json!({"index": 0, "of": 2}));
    let first = world.prepare(&plan);
    set(&mut plan, "part", json!({"index": 1, "of": 2}));
    let second = world.prepare(&plan);
    let layout = &second.checked.layout;
    // Each looks at what it works on, and both together work on all of it.
    let sum = first.mounts[0].files.len() + second.mounts[0].files.len();
    assert_eq!(sum as u64, layout.accessed_files);
    assert_eq!(first.mounts[0].links, second.mounts[0].links);
}
