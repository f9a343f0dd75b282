//! Some of the lenses, and what they want to see.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::call::Call;
use crate::error::TraceError;
use crate::event::Event;
use crate::lens::{Extent, Interest, LENSES, Lens, LensOptions, Registered, Section};
use crate::names::Names;

/// A lens, with its line in the list of all.
struct Running {
    place: usize,
    lens: Box<dyn Lens>,
    interest: Interest,
}

impl Running {
    fn line(&self) -> &'static Registered {
        &LENSES[self.place]
    }
}

/// Lenses, in the order of the report.
#[derive(Default)]
pub(super) struct Lenses {
    running: Vec<Running>,
    interest: Interest,
}

impl fmt::Debug for Lenses {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.running.iter().map(|it| it.line().0);
        out.debug_list().entries(names).finish()
    }
}

impl FromIterator<Running> for Lenses {
    fn from_iter<T: IntoIterator<Item = Running>>(all: T) -> Self {
        let mut running: Vec<Running> = all.into_iter().collect();
        running.sort_by_key(|it| it.place);
        let interests = running.iter().map(|it| it.interest);
        let interest = interests.fold(Interest::default(), Interest::with);
        Lenses { running, interest }
    }
}

impl Lenses {
    /// Those that are wanted, of all behind the first.
    ///
    /// # Errors
    /// One does not like its options.
    pub(super) fn make(
        wanted: impl Fn(&str) -> bool,
        options: &LensOptions,
    ) -> Result<Self, TraceError> {
        let all = LENSES.iter().enumerate().skip(1);
        all.filter(|(_, (name, ..))| wanted(name))
            .map(|(place, (_, make, _))| {
                let lens = make(options)?;
                let interest = lens.interest();
                Ok(Running {
                    place,
                    lens,
                    interest,
                })
            })
            .collect()
    }

    #[cfg(test)]
    pub(super) fn of_one(lens: Box<dyn Lens>) -> Self {
        let interest = lens.interest();
        std::iter::once(Running {
            place: 0,
            lens,
            interest,
        })
        .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// What they want to see, all together.
    pub(super) fn interest(&self) -> Interest {
        self.interest
    }

    /// Those that need no names go, in at most so many shares, of which none takes much more than
    /// another.
    pub(super) fn share_out(&mut self, shares: usize) -> Vec<Lenses> {
        let all = std::mem::take(&mut self.running).into_iter();
        let (mut go, stay): (Vec<_>, Vec<_>) = all.partition(|it| shares > 0 && !it.interest.names);
        *self = stay.into_iter().collect();
        go.sort_by_key(|it| Reverse(it.line().2));
        let mut shared: Vec<(u32, Vec<Running>)> = Vec::new();
        shared.resize_with(shares.min(go.len()), Default::default);
        for running in go {
            if let Some((cost, share)) = shared.iter_mut().min_by_key(|(cost, _)| *cost) {
                *cost += running.line().2;
                share.push(running);
            }
        }
        let shared = shared.into_iter();
        shared
            .map(|(_, share)| share.into_iter().collect())
            .collect()
    }

    /// These come back.
    pub(super) fn take_back(&mut self, shares: Vec<Lenses>) {
        let here = std::mem::take(&mut self.running).into_iter();
        let others = shares.into_iter().flat_map(|it| it.running);
        *self = here.chain(others).collect();
    }

    /// What they counted since this was asked last; `None` if one cannot tell.
    pub(super) fn take_counted(&mut self) -> Option<BTreeMap<String, Value>> {
        let all = self.running.iter_mut();
        all.map(|it| Some((it.line().0.to_owned(), it.lens.take_counted().ok()?)))
            .collect()
    }

    /// Something happened.
    #[inline(always)]
    pub(super) fn event(&mut self, event: &Event<'_>) {
        for running in &mut self.running {
            if running.interest.wants(event) {
                running.lens.event(event);
            }
        }
    }

    /// A call is settled; `names` for those that want them, which are none on other threads.
    #[inline(always)]
    pub(super) fn call(&mut self, call: &Call, names: Option<&Names>) {
        for running in &mut self.running {
            match names.filter(|_| running.interest.names) {
                Some(names) => running.lens.call_named(call, names),
                None if running.interest.calls => running.lens.call(call),
                None => {}
            }
        }
    }

    /// Sections by name.
    pub(super) fn finish(
        &mut self,
        names: &Names,
        extent: &Extent,
    ) -> impl Iterator<Item = (String, Section)> {
        let all = self.running.iter_mut();
        all.map(|it| (it.line().0.to_owned(), it.lens.finish(names, extent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(lenses: &Lenses) -> Vec<&'static str> {
        lenses.running.iter().map(|it| it.line().0).collect()
    }

    fn cost(lenses: &Lenses) -> u32 {
        lenses.running.iter().map(|it| it.line().2).sum()
    }

    #[test]
    fn lenses_are_shared_out_by_what_they_take_and_come_back_in_order() {
        for shares in 0..12 {
            let mut lenses = Lenses::make(|_| true, &LensOptions::default()).unwrap();
            let all = names(&lenses);
            let interest = lenses.interest();
            let shared = lenses.share_out(shares);
            let here = names(&lenses);
            if shares == 0 {
                assert_eq!((here.len(), shared.len()), (all.len(), 0));
                continue;
            }
            assert_eq!(here, ["files"], "it wants names");
            assert_eq!(shared.len(), shares.min(all.len() - 1));
            let costs = shared.iter().map(cost);
            let (least, most) = (costs.clone().min(), costs.max());
            let longest = LENSES.iter().map(|(.., cost)| *cost).max();
            assert!(most <= longest.max(least.map(|it| it + 70)), "{shared:?}");
            assert!(!shared.iter().any(|it| it.interest().names));
            lenses.take_back(shared);
            assert_eq!((names(&lenses), lenses.interest()), (all, interest));
        }
    }
}
