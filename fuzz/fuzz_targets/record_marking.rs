#![no_main]
//! A stream in two different splits gives the same records, and buffers no more than came.
use bounded::fuzz_target;
use wire::record::RecordDecoder;

const LIMIT_BYTES: u32 = 1 << 16;

fn records(stream: &[u8], mut piece: impl FnMut() -> usize) -> (Vec<Vec<u8>>, bool) {
    let mut decoder = RecordDecoder::new(LIMIT_BYTES);
    let (mut found, mut rest) = (Vec::new(), stream);
    while !rest.is_empty() {
        let (mut now, later) = rest.split_at(piece().clamp(1, rest.len()));
        rest = later;
        while !now.is_empty() {
            let Ok(fed) = decoder.feed(now) else {
                return (found, false);
            };
            let consumed = fed.consumed;
            assert!(consumed <= now.len() && (consumed > 0 || fed.record.is_some()));
            found.extend(fed.record.map(<[u8]>::to_vec));
            now = &now[consumed..];
            assert!(decoder.buffered_bytes() <= stream.len());
        }
    }
    (found, true)
}

fuzz_target!(|data: &[u8]| {
    let Some((&seed, stream)) = data.split_first() else {
        return;
    };
    let whole = records(stream, || stream.len());
    let mut step = usize::from(seed);
    let split = records(stream, || {
        step = (step * 37 + 11) % 97;
        step / 3
    });
    assert_eq!(whole, split);
});
