#![no_main]
//! COMPOUND and CB_COMPOUND: whole, cut, with a hole. Data: flags (1 a callback, 2 cut, 4 a reply),
//! where it is cut, body.
use bounded::fuzz_target;
use wire::nfs4::OperationList;
use wire::summary::{CallOperation, ReplyOperation};
use wire::{Body, End, Visitor, programs, summarise_call_with, summarise_reply_with};

#[derive(Default)]
struct Count(u32);
impl<'a> Visitor<'a> for Count {
    fn call_operation(&mut self, operation: &CallOperation<'a>) {
        assert_eq!(operation.index, self.0);
        self.0 += 1;
    }
    fn reply_operation(&mut self, operation: &ReplyOperation<'a>) {
        assert_eq!(operation.index, self.0);
        self.0 += 1;
    }
}

/// How a body ends; the operations that it states, that it lists, and that a visitor saw.
fn summarised(flags: u8, body: Body<'_>) -> (End, Option<(u32, OperationList)>, u32) {
    let place = match flags & 1 {
        0 => [programs::NFS, 4, 1],
        _ => [programs::NFS4_CALLBACK_FIRST, 1, 1],
    };
    let mut count = Count::default();
    let (end, compound) = if flags & 4 == 0 {
        let summary = summarise_call_with(place, body, &mut count);
        let compound = summary.compound.map(|c| (c.stated, c.operations));
        (summary.end, compound)
    } else {
        let summary = summarise_reply_with(place, body, &mut count);
        let compound = summary.compound.map(|c| (c.stated, c.operations));
        (summary.end, compound)
    };
    (end, compound, count.0)
}

fuzz_target!(|data: &[u8]| {
    let Some((&[flags, cut], body)) = data.split_first_chunk() else {
        return;
    };
    let (end, compound, seen) = summarised(flags, Body::new(body, flags & 2 == 0));
    if let Some((stated, operations)) = &compound {
        assert_eq!(operations.count(), seen);
        assert!(operations.count() <= *stated);
    }
    let at = body.len() * usize::from(cut) / 256;
    let (part, _, _) = summarised(flags, Body::new(&body[..at], false));
    assert!(!matches!(part, End::Malformed(_)) || !matches!(end, End::Complete));
    let middle = (body.len() - at) / 2;
    let holed = Body::with_hole(&body[..at], middle, &body[at + middle..], true);
    let (holed, through, _) = summarised(flags, holed);
    if holed == End::Complete {
        assert_eq!(compound.map(|c| c.1), through.map(|c| c.1));
    }
});
