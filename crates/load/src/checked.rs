//! A plan that was checked, and what follows from it for each part and thread.

use client::MountOptions;
use generator::Share;

use crate::layout::Layout;
use crate::operation::Operation;
use crate::plan::{LoadPlan, Plan};
use measure::weights::Weights;

/// A plan that can be carried out, with what was made of it.
#[derive(Debug, Clone)]
pub struct Checked {
    /// As given, weights normalised to sum to 100.
    pub plan: Plan,
    /// What was repaired, one sentence each.
    pub notes: Vec<String>,
    /// Options of each server.
    pub options: Vec<MountOptions>,
    /// What to draw.
    pub mix: Weights<Operation>,
    /// READ sizes; `None` if the mix has no READ.
    pub reads: Option<Weights<u32>>,
    /// WRITE sizes; `None` if the mix has no WRITE.
    pub writes: Option<Weights<u32>>,
    /// The file set of each server: the same, but for its number.
    pub layout: Layout,
}

impl Checked {
    /// Threads that work on one server, over all parts.
    pub fn workers_of_server(&self) -> u32 {
        let servers = u32::try_from(self.plan.servers.len()).unwrap_or(1).max(1);
        self.plan.threads / servers * self.plan.part.of
    }

    /// Whether a file or scratch name is for a thread of this part.
    pub(crate) fn owns(&self, number: u64) -> bool {
        let all = self.workers_of_server();
        let here = all / self.plan.part.of.max(1);
        let first = here * self.plan.part.index;
        (first..first + here).contains(&self.layout.owner(number, all))
    }

    /// Offered load of this part: closed processes cannot be split, so parts may differ by one.
    pub(crate) fn offered_here_ops_per_s(&self) -> f64 {
        let part = self.plan.part;
        let rate = self.plan.load.rate_ops_per_s();
        match &self.plan.load {
            LoadPlan::Open { .. } => rate / f64::from(part.of),
            LoadPlan::Closed {
                clients, processes, ..
            } => {
                let all = clients.saturating_mul(*processes);
                let mine = |thread| self.share(thread).part(all);
                let here: u32 = (0..self.plan.threads).map(mine).sum();
                rate * f64::from(here) / f64::from(all.max(1))
            }
        }
    }

    /// A thread among those of all parts.
    pub(crate) fn share(&self, thread: u32) -> Share {
        self.plan.part.thread(thread, self.plan.threads)
    }

    /// Operations under way at once in one thread.
    pub(crate) fn outstanding_of(&self, thread: u32) -> u32 {
        let all = match &self.plan.load {
            LoadPlan::Open {
                outstanding_max, ..
            } => *outstanding_max,
            LoadPlan::Closed {
                clients, processes, ..
            } => clients.saturating_mul(*processes),
        };
        self.share(thread).part(all)
    }
}
