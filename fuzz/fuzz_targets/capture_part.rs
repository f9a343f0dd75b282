#![no_main]
//! Parts of a capture that somebody hands over: bytes as they are, or one that was made of a
//! capture with bytes of it changed. It is refused, or goes on its way and comes back as it was;
//! parts that are joined and looked into give findings or a reason, and nothing panics.
use bounded::fuzz_target;
use trace::analysis::parts::Part;

/// Of the first packets of `tests/captures/v41_slots8.pcap.gz`.
const MADE: &[u8] = include_bytes!("capture_part.json");
const LAST: &[u8] = b"\"end\":\"Last\"";
const AGREES: &[u8] = b"\"end\":{\"Agrees\":{\"checkpoint\":0,\"rest\":[],\"now_ns\":0,\
    \"numbers\":[[0,0]],\"numbered\":[1,1]}}";

/// The made part, ending in another way if asked to, with bytes set as the script says.
fn changed(script: &[u8], agrees: bool) -> Vec<u8> {
    let mut bytes = MADE.to_vec();
    let place = bytes.windows(LAST.len()).position(|it| it == LAST);
    if let (true, Some(at)) = (agrees, place) {
        bytes.splice(at..at + LAST.len(), AGREES.iter().copied());
    }
    for edit in script.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([edit[0], edit[1]])) % bytes.len();
        // Mostly digits, so that most of it stays JSON.
        bytes[at] = match edit[2] {
            digit @ 0..200 if bytes[at].is_ascii_digit() => b'0' + digit % 10,
            0..200 => bytes[at],
            byte => byte,
        };
    }
    bytes
}

fuzz_target!(|data: &[u8]| {
    let (first, second) = data.split_at(data.len() / 2);
    for (one, other) in [
        (data.to_vec(), MADE.to_vec()),
        (changed(first, true), changed(second, false)),
    ] {
        let (Ok(one), Ok(other)) = (Part::decode(&one), Part::decode(&other)) else {
            continue;
        };
        for part in [&one, &other] {
            let bytes = part.encode().expect("it was read, so it can be written");
            assert_eq!(Part::decode(&bytes).as_ref(), Ok(part));
            let _ = part.clone().findings(0, &[]);
        }
        if let Ok(joined) = one.join(other) {
            let bytes = joined.encode().expect("it was joined, so it can be written");
            assert!(Part::decode(&bytes).is_ok());
            let _ = joined.findings(0, &[]);
        }
    }
});
