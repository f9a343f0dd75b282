//! What threads that share an engine need of it: [`Engine`], or its model in the tests.

use std::time::Duration;

use rustix::event::Timespec;
use rustix::io::Errno;

use crate::engine::{Completion, Engine, Events, Request, Waits, Waker};
use crate::error::CallError;

/// Ends a wait.
pub(super) trait Wakes {
    /// Makes the present or the next wait return.
    fn wake(&self);
}

impl Wakes for Waker {
    fn wake(&self) {
        Waker::wake(self);
    }
}

/// The wait between the two halves of a turn, which needs nothing of the engine.
pub(super) trait WaitsFor<Events> {
    /// Waits for the engine's connections and its waker, at most so long.
    fn wait(&self, timeout: Option<Timespec>) -> Result<Events, Errno>;
}

impl WaitsFor<Events> for Waits {
    fn wait(&self, timeout: Option<Timespec>) -> Result<Events, Errno> {
        Waits::wait(self, timeout)
    }
}

/// An engine and its turns ([`Engine::poll`] in parts). Each method is what [`Engine`] says.
pub(super) trait Turns {
    type Waker: Wakes;
    type Events;
    fn is_full(&self) -> bool;
    fn submit(&mut self, request: Request<'_>, token: u64) -> Result<(), CallError>;
    fn push(&mut self, sink: &mut impl FnMut(Completion<'_>));
    fn begin(
        &mut self,
        timeout: Option<Duration>,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Option<Timespec>;
    fn finish(&mut self, events: &Self::Events, sink: &mut impl FnMut(Completion<'_>));
    fn is_due_sooner(&mut self) -> bool;
    fn first_timeout(&self) -> Duration;
    fn close(&mut self, sink: &mut impl FnMut(Completion<'_>));
}

impl Turns for Engine {
    type Waker = Waker;
    type Events = Events;

    fn is_full(&self) -> bool {
        Engine::is_full(self)
    }

    fn submit(&mut self, request: Request<'_>, token: u64) -> Result<(), CallError> {
        Engine::submit(self, request, token)
    }

    fn push(&mut self, sink: &mut impl FnMut(Completion<'_>)) {
        Engine::push(self, sink);
    }

    fn begin(
        &mut self,
        timeout: Option<Duration>,
        sink: &mut impl FnMut(Completion<'_>),
    ) -> Option<Timespec> {
        Engine::begin(self, timeout, sink)
    }

    fn finish(&mut self, events: &Events, sink: &mut impl FnMut(Completion<'_>)) {
        Engine::finish(self, events, sink);
    }

    fn is_due_sooner(&mut self) -> bool {
        Engine::is_due_sooner(self)
    }

    fn first_timeout(&self) -> Duration {
        Engine::first_timeout(self)
    }

    fn close(&mut self, sink: &mut impl FnMut(Completion<'_>)) {
        Engine::close(self, sink);
    }
}
