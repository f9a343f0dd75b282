#![no_main]
//! NFSv2/v3, MOUNT, portmap, NLM, NSM and NFSACL arguments. Data: program, version and procedure
//! (one byte each), completeness, body.
use bounded::fuzz_target;
use wire::nfs3::*;
use wire::{Decode, Encode, End, mount, portmap, programs, summarise_call};

fn again<'a, T: Decode<'a> + Encode + PartialEq + std::fmt::Debug>(body: &'a [u8]) -> bool {
    let Ok(value) = T::decode_whole(body, "value") else {
        return false;
    };
    let mut bytes = Vec::new();
    value
        .encode(&mut bytes)
        .expect("what decodes can be encoded");
    assert_eq!(bytes.len(), body.len());
    true
}

fuzz_target!(|data: &[u8]| {
    let Some((&[program, version, procedure, complete], body)) = data.split_first_chunk() else {
        return;
    };
    let known = [
        programs::NFS,
        programs::MOUNT,
        programs::NLM,
        programs::NSM,
        programs::NFSACL,
        programs::PORTMAP,
    ];
    let program = known[usize::from(program) % known.len()];
    let (version, procedure) = (u32::from(version % 6), u32::from(procedure % 32));
    if program == programs::NFS && version == 4 {
        return;
    }
    let summary = summarise_call(program, version, procedure, body, complete & 1 == 1);
    if program == programs::NFS && version == 3 {
        let full = match procedure {
            1 => again::<GETATTR3args>(body),
            2 => again::<SETATTR3args>(body),
            3 => again::<LOOKUP3args>(body),
            4 => again::<ACCESS3args>(body),
            6 => again::<READ3args>(body),
            7 => again::<WRITE3args>(body),
            8 => again::<CREATE3args>(body),
            9 => again::<MKDIR3args>(body),
            10 => again::<SYMLINK3args>(body),
            11 => again::<MKNOD3args>(body),
            12 => again::<REMOVE3args>(body),
            14 => again::<RENAME3args>(body),
            15 => again::<LINK3args>(body),
            16 => again::<READDIR3args>(body),
            17 => again::<READDIRPLUS3args>(body),
            21 => again::<COMMIT3args>(body),
            _ => return,
        };
        // The two decoders agree on what is a whole message.
        assert_eq!(
            full,
            summary.end == End::Complete,
            "{procedure} {:?}",
            summary.end
        );
    }
    again::<mount::exports>(body);
    again::<portmap::rpcb_stat_byvers>(body);
});
