#![no_main]
//! NFSv2/v3, MOUNT, portmap, NLM, NSM and NFSACL results. Data as in `v3_call`.
use bounded::fuzz_target;
use wire::nfs3::*;
use wire::{Decode, Encode, End, mount, portmap, programs, summarise_reply};

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
    let summary = summarise_reply(program, version, procedure, body, complete & 1 == 1);
    if program == programs::NFS && version == 3 {
        let full = match procedure {
            1 => again::<GETATTR3res>(body),
            2 => again::<SETATTR3res>(body),
            3 => again::<LOOKUP3res>(body),
            4 => again::<ACCESS3res>(body),
            5 => again::<READLINK3res>(body),
            6 => again::<READ3res>(body),
            7 => again::<WRITE3res>(body),
            8 => again::<CREATE3res>(body),
            12 => again::<REMOVE3res>(body),
            14 => again::<RENAME3res>(body),
            15 => again::<LINK3res>(body),
            16 => again::<READDIR3res>(body),
            17 => again::<READDIRPLUS3res>(body),
            18 => again::<FSSTAT3res>(body),
            19 => again::<FSINFO3res>(body),
            20 => again::<PATHCONF3res>(body),
            21 => again::<COMMIT3res>(body),
            _ => return,
        };
        // The full types are stricter (enumerations inside attributes): never the other way round.
        assert!(
            !full || summary.end == End::Complete,
            "{procedure} {:?}",
            summary.end
        );
    }
    again::<mount::mountres3>(body);
    again::<mount::mountlist>(body);
    again::<portmap::rpcb_entry_list>(body);
});
