#![no_main]
//! COMPOUND and CB_COMPOUND results: whole, cut, with a hole. Data: flags, cut, body.
use bounded::fuzz_target;
use wire::summary::ReplyOperation;
use wire::{Body, End, Ignore, Visitor, programs, summarise_reply, summarise_reply_with};

struct Count(u32);
impl<'a> Visitor<'a> for Count {
    fn reply_operation(&mut self, operation: &ReplyOperation<'a>) {
        assert_eq!(operation.index, self.0);
        self.0 += 1;
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&[flags, cut], body)) = data.split_first_chunk() else {
        return;
    };
    let program = if flags & 1 == 0 {
        programs::NFS
    } else {
        programs::NFS4_CALLBACK_FIRST
    };
    let place = [program, if flags & 1 == 0 { 4 } else { 1 }, 1];
    let mut count = Count(0);
    let whole = summarise_reply_with(place, Body::new(body, flags & 2 == 0), &mut count);
    if let Some(compound) = &whole.compound {
        assert_eq!(compound.operations.len(), count.0);
        assert!(compound.operations.len() <= compound.stated);
    }
    let at = body.len() * usize::from(cut) / 256;
    let part = summarise_reply(place[0], place[1], 1, &body[..at], false);
    assert!(!matches!(part.end, End::Malformed(_)) || !matches!(whole.end, End::Complete));
    let middle = (body.len() - at) / 2;
    let holed = Body::with_hole(&body[..at], middle, &body[at + middle..], true);
    let holed = summarise_reply_with(place, holed, &mut Ignore);
    if holed.end == End::Complete {
        assert_eq!(
            whole.compound.map(|c| c.operations),
            holed.compound.map(|c| c.operations)
        );
    }
});
