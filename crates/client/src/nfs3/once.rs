//! One call on an engine of its own, waiting for its end: what mounting is made of.

use measure::Clock;

use super::Procedure;
use crate::engine::{Engine, Request};
use crate::error::CallError;

/// Makes one call on an idle engine and hands its results to `take`.
///
/// # Errors
/// The call's. With a `hard` engine it waits until the server answers.
pub fn call_once<P: Procedure, C: Clock, T>(
    engine: &mut Engine<C>,
    arguments: &P::Arguments<'_>,
    take: impl FnOnce(P::Results<'_>) -> Result<T, CallError>,
) -> Result<T, CallError> {
    let request = Request {
        target: P::TARGET,
        caller: None,
        arguments,
        payload: None,
    };
    engine.submit(request, 0)?;
    let mut take = Some(take);
    let mut ended = None;
    while ended.is_none() {
        let polled = engine.poll(None, &mut |end| {
            let decoded = super::decode::<P>(end.result);
            if let Some(take) = take.take() {
                ended = Some(decoded.and_then(take));
            }
        });
        polled.map_err(CallError::Unsendable)?;
    }
    ended.unwrap_or(Err(CallError::Closed))
}
