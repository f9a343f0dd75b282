//! Whatever bytes a server sends, the engine neither panics nor keeps them, and goes on.

use crate::peer::{Bench, Peer, framed, success};
use client::nfs3::{
    Access, FsInfo, GetAttr, ListExports, Lookup, Mnt, Procedure, Read, ReadDirPlus,
};
use proptest::prelude::*;

/// Bytes that are nearly something: a frame around noise, a reply cut, lengthened or with a changed
/// byte, marks of all kinds, plain noise.
#[derive(Clone, Debug)]
enum Bytes {
    Noise(Vec<u8>),
    Framed(Vec<u8>),
    Fragment(Vec<u8>),
    Changed {
        place: usize,
        value: u8,
        body: Vec<u8>,
    },
    Cut {
        length: usize,
    },
    Valid,
}

fn bytes() -> impl Strategy<Value = Bytes> {
    let noise = || proptest::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        noise().prop_map(Bytes::Noise),
        noise().prop_map(Bytes::Framed),
        noise().prop_map(Bytes::Fragment),
        (0_usize..40, any::<u8>(), noise()).prop_map(|(place, value, body)| Bytes::Changed {
            place,
            value,
            body
        }),
        (0_usize..24).prop_map(|length| Bytes::Cut { length }),
        Just(Bytes::Valid),
    ]
}

fn message(bytes: &Bytes, xid: u32) -> Vec<u8> {
    match bytes {
        Bytes::Noise(noise) => noise.clone(),
        Bytes::Framed(noise) => framed(noise),
        Bytes::Fragment(noise) => {
            let mut out = framed(noise);
            out[0] &= 0x7f;
            out
        }
        Bytes::Changed { place, value, body } => {
            let mut out = framed(&success(xid, body));
            let place = place % out.len();
            out[place] = *value;
            out
        }
        Bytes::Cut { length } => framed(&success(xid, b"")[..*length]),
        Bytes::Valid => framed(&success(xid, b"results")),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn streams(sent in proptest::collection::vec(bytes(), 1..30), udp in any::<bool>()) {
        let mut peer = if udp { Peer::udp("127.0.0.1:0") } else { Peer::tcp("127.0.0.1:0") };
        let mut bench = Bench::new(&peer, if udp { "udp,timeo=5" } else { "timeo=5" });
        (0..4).for_each(|token| bench.submit(token));
        let mut there = bench.until_arrived(&mut peer, 1);
        for bytes in &sent {
            if let Some(call) = there.last().cloned() {
                let message = message(bytes, call.xid);
                if udp {
                    peer.send(&call, message.get(4..).unwrap_or(&message));
                } else {
                    peer.send_raw(call.connection, &message);
                }
            }
            bench.clock.advance(200);
            bench.turn();
            there.extend(peer.pump());
        }
        // An honest server takes over: all calls end, each once.
        if !udp {
            peer.stop();
            bench.turn();
            peer.start();
        }
        for _ in 0..500 {
            if bench.engine.in_flight() == 0 {
                break;
            }
            bench.clock.advance(4_000);
            bench.turn();
            for call in peer.pump() {
                peer.reply(&call, b"results");
            }
        }
        bench.turn();
        let mut tokens: Vec<u64> = bench.ended.iter().map(|end| end.token).collect();
        tokens.sort_unstable();
        prop_assert_eq!(tokens, vec![0, 1, 2, 3]);
    }

    #[test]
    fn results(body in proptest::collection::vec(any::<u8>(), 0..400), ok in any::<bool>()) {
        let mut body = body;
        if ok && body.len() >= 4 {
            body[..4].fill(0);
        }
        fn try_one<P: Procedure>(body: &[u8]) {
            let _ = client::Reply { body, sends: 1 }.decode::<P::Results<'_>>();
        }
        try_one::<GetAttr>(&body);
        try_one::<Lookup>(&body);
        try_one::<Access>(&body);
        try_one::<Read>(&body);
        try_one::<ReadDirPlus>(&body);
        try_one::<FsInfo>(&body);
        try_one::<Mnt>(&body);
        try_one::<ListExports>(&body);
    }
}
