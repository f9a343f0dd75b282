#![no_main]
//! Journals that somebody hands over, in chunks with checkpoints anywhere: they are refused or
//! played, nothing panics, and what is held is bounded.
use bounded::fuzz_target;
use trace::Names;
use trace::call::{Brief, Call};
use trace::calls::Output;
use trace::event::Event;
use trace::journal::{Player, Shift};

/// Counts what it is told.
#[derive(Default)]
struct Listener(u64);

impl Output for Listener {
    fn wants_messages(&self) -> bool {
        true
    }

    fn wants_transport(&self) -> bool {
        true
    }

    fn event(&mut self, _: &Event<'_>, names: &Names) {
        self.0 += names.files() as u64;
    }

    fn brief(&mut self, _: &Brief, _: &Names) {}

    fn call(&mut self, call: &Call, names: &Names) {
        let path = call.file.and_then(|file| names.path(file));
        self.0 += path.map_or(0, |path| path.len() as u64);
    }
}

fuzz_target!(|data: &[u8]| {
    let mut player = Player::default();
    let mut listener = Listener::default();
    player.next_reader(Shift {
        frames: 5,
        calls: u64::MAX - 1,
        connection: Box::new(|it| it.wrapping_mul(3)),
    });
    for chunk in data.chunks(1 + data.first().map_or(0, |it| usize::from(*it)) * 16) {
        if player.play(chunk, &mut listener).is_err() {
            player.begin_anew();
        }
    }
});
