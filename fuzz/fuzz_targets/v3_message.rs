#![no_main]
//! NFSv2/v3, MOUNT, portmap, NLM, NSM and NFSACL: arguments and results. Data: program, version and
//! procedure (one byte each), flags (1 whole, 2 a reply), body.
use bounded::fuzz_target;
use wire::nfs3::*;
use wire::{Decode, Encode, End, mount, portmap, programs, summarise_call, summarise_reply};

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

/// The full type of an NFSv3 call; `None` where it has none.
fn call(procedure: u32, body: &[u8]) -> Option<bool> {
    Some(match procedure {
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
        _ => return None,
    })
}

/// The full type of an NFSv3 reply.
fn reply(procedure: u32, body: &[u8]) -> Option<bool> {
    Some(match procedure {
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
        _ => return None,
    })
}

fuzz_target!(|data: &[u8]| {
    let Some((&[program, version, procedure, flags], body)) = data.split_first_chunk() else {
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
    let (whole, is_reply) = (flags & 1 == 1, flags & 2 == 2);
    let (end, full) = if is_reply {
        let summary = summarise_reply(program, version, procedure, body, whole);
        (summary.end, reply(procedure, body))
    } else {
        let summary = summarise_call(program, version, procedure, body, whole);
        (summary.end, call(procedure, body))
    };
    if let (programs::NFS, 3, Some(full)) = (program, version, full) {
        let summarised = end == End::Complete;
        // Both decoders agree on what is a whole call. Full types of replies are stricter
        // (enumerations inside attributes): never the other way round.
        assert!(
            full == summarised || is_reply && !full,
            "{procedure} {end:?}"
        );
    }
    again::<mount::exports>(body);
    again::<mount::mountres3>(body);
    again::<mount::mountlist>(body);
    again::<portmap::rpcb_rmtcallres>(body);
});
