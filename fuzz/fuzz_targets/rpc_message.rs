#![no_main]
//! RPC headers, recognition, protection, and the body of whatever program the header names.
use bounded::fuzz_target;
use wire::rpc::recognise::looks_like_record;
use wire::rpc::{Call, Payload, Reply, looks_like_call, looks_like_reply, looks_like_tls_record};
use wire::{summarise_call, summarise_reply};

fuzz_target!(|data: &[u8]| {
    let _ = (
        looks_like_call(data),
        looks_like_reply(data),
        looks_like_tls_record(data),
    );
    if let Some((mark, _)) = looks_like_record(data) {
        assert!(mark.length > 0);
    }
    if let Ok(call) = Call::parse(data) {
        assert!(call.body_offset <= data.len());
        let (body, complete) = match call.arguments() {
            Payload::Plain(bytes) => (bytes, true),
            Payload::Integrity {
                bytes, complete, ..
            } => (bytes, complete),
            _ => (&[][..], false),
        };
        let _ = call.is_tls_probe();
        let (program, version, procedure) = (call.program, call.version, call.procedure);
        let _ = summarise_call(program, version, procedure, body, complete);
        let _ = summarise_reply(program, version, procedure, body, complete);
    }
    if let Ok(reply) = Reply::parse(data) {
        assert!(reply.body_offset <= data.len());
    }
});
