//! The compiled eBPF programs that are shipped: what they are, and that the build refuses them when
//! their source is another. That they are what the source makes is tests/core/test_ebpf_object.py's.

use std::fs;
use std::path::Path;

#[path = "../../build/ebpf.rs"]
mod ebpf;

/// What cargo would say of a machine of the other byte order.
fn of(name: &str) -> String {
    match name {
        "CARGO_CFG_TARGET_OS" => "linux".to_owned(),
        "CARGO_CFG_TARGET_ENDIAN" => "big".to_owned(),
        other => panic!("{other} was not asked for before"),
    }
}

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf");

/// A copy of the folder, in which `changed` may change something; what the build says of it then.
fn said(changed: impl FnOnce(&Path)) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(FOLDER).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    changed(folder.path());
    ebpf::stale(folder.path())
}

fn append(folder: &Path, name: &str) {
    let mut bytes = fs::read(folder.join(name)).unwrap_or_default();
    bytes.push(b'\n');
    fs::write(folder.join(name), bytes).unwrap();
}

#[test]
fn what_is_shipped_is_of_its_source() {
    assert_eq!(said(|_| {}), None);
    // What an editor leaves there is nobody's business.
    assert_eq!(said(|folder| append(folder, "state.h~")), None);
}

#[test]
fn a_build_of_another_source_is_refused_and_says_how_to_mend_it() {
    for name in ["state.h", "watch.bpf.c", "make", "watch.o", "new.h"] {
        let why = said(|folder| append(folder, name)).expect(name);
        assert!(
            why.starts_with(&format!("{name} is not as it was")),
            "{why}"
        );
        assert!(why.contains("crates/syscalls/bpf/make"), "{why}");
        assert!(why.contains("Debian: clang llvm"), "{why}");
    }
    for name in ["blocks.h", "watch.o", "watch.made"] {
        let why = said(|folder| fs::remove_file(folder.join(name)).unwrap()).expect(name);
        assert!(why.contains("crates/syscalls/bpf/make"), "{why}");
    }
    // As long as before, one bit flipped.
    let why = said(|folder| {
        let mut bytes = fs::read(folder.join("names.h")).unwrap();
        bytes[100] ^= 1;
        fs::write(folder.join("names.h"), bytes).unwrap();
    });
    assert!(why.unwrap().starts_with("names.h is not as it was"));
}

#[test]
fn another_byte_order_is_told_that_it_has_none() {
    let why = ebpf::usable().unwrap_err();
    assert!(why.contains("little-endian"), "{why}");
}

/// By the ELF specification (e_ident, e_machine 247 is EM_BPF) and by what licence lets the kernel
/// grant its helpers (include/linux/license.h).
#[test]
fn it_is_a_small_object_for_any_machine_without_a_path_of_its_own() {
    let bytes = fs::read(Path::new(FOLDER).join("watch.o")).unwrap();
    assert_eq!(&bytes[..6], b"\x7fELF\x02\x01", "64 bits, little-endian");
    assert_eq!(&bytes[18..20], &247_u16.to_le_bytes());
    let texts: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    assert!(texts.contains(&&b"Dual MIT/GPL"[..]));
    let relocations = texts.iter().find(|text| text.ends_with(b".BTF.ext"));
    assert!(relocations.is_some(), "by which the loader finds fields");
    let debugging = texts.iter().find(|text| text.starts_with(b".debug_"));
    assert_eq!(debugging, None);
    // BTF keeps the lines and the names of sources: those are relative.
    assert!(texts.contains(&&b"./bpf/state.h"[..]));
    // Bytes of an instruction may look like the begin of one.
    let absolute =
        |text: &&&[u8]| text.len() > 4 && text[0] == b'/' && text.iter().all(u8::is_ascii_graphic);
    assert_eq!(texts.iter().find(absolute), None);
    assert!(bytes.len() < 192 << 10, "{} bytes", bytes.len());
}
