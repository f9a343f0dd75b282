//! A whole run: make the files, do the phases in order, remove the files.

use std::sync::atomic::AtomicBool;

use measure::Clock;
use measure::clock::realtime_ns;

use crate::config::{Config, Plan};
use crate::content::Content;
use crate::error::{Blame, FilesError};
use crate::layout::Layout;
use crate::meter::Counter;
use crate::phase::Phase;
use crate::report::{Fill, Frame, Outcome, PhaseResult, Skipped, sum_up};
use crate::step::{self, Control, Done};
use crate::worker::{Run, Shared, Step};
use crate::workspace::Workspace;

/// How far a run is; handed to the observer several times a second.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Progress {
    /// The phase that runs, or that files are filled for.
    pub phase: Phase,
    /// Its position, from 0.
    pub phase_index: usize,
    /// Number of phases.
    pub phases: usize,
    /// "fill" while files are completed, "run" while the phase is timed.
    pub step: &'static str,
    /// Operations done in this step.
    pub done: u64,
    /// Operations of this step.
    pub total: u64,
    /// Bytes of the operations done.
    pub bytes: u64,
    /// Time since the step began.
    pub elapsed_ns: u64,
}

/// Watches a run.
pub trait Observer {
    /// Told how far the run is; false stops it.
    fn tick(&mut self, progress: &Progress) -> bool;
}

/// An observer that never stops a run.
impl Observer for () {
    fn tick(&mut self, _: &Progress) -> bool {
        true
    }
}

/// An error, with what was measured before it.
#[derive(Debug)]
pub struct Failure {
    /// What went wrong.
    pub error: FilesError,
    /// The phases that were complete; none if there was no phase at all.
    pub partial: Option<Box<Outcome>>,
}

impl From<FilesError> for Failure {
    fn from(error: FilesError) -> Self {
        Self {
            error,
            partial: None,
        }
    }
}

/// Runs `config`. Files are removed in any case, unless it says to keep them.
///
/// # Errors
/// A [`Failure`] with the cause and the phases that were complete.
pub fn run(
    config: Config,
    clock: &dyn Clock,
    observer: &mut dyn Observer,
) -> Result<Outcome, Failure> {
    let plan = config.plan()?;
    let workspace = Workspace::make(&plan)?;
    let mut runner = Runner::new(plan, workspace, clock)?;
    let result = runner.all_phases(observer);
    let (mut outcome, left) = runner.end();
    if let Some(left) = left {
        outcome.flags.push(left);
    }
    match result {
        Ok(()) => Ok(outcome),
        Err(error) => Err(Failure {
            error,
            partial: (!outcome.phases.is_empty()).then(|| Box::new(outcome)),
        }),
    }
}

struct Runner<'c> {
    plan: Plan,
    layout: Layout,
    workspace: Workspace,
    content: Content,
    /// For each block how often it was written (see `content`); 0 = never.
    generations: Vec<u8>,
    clock: &'c dyn Clock,
    outcome: Outcome,
}

impl<'c> Runner<'c> {
    fn new(plan: Plan, workspace: Workspace, clock: &'c dyn Clock) -> Run<Self> {
        let layout = Layout::new(plan.blocks(), plan.files, plan.block_size_bytes);
        let blame = Blame {
            step: "set-up",
            path: workspace.directory(),
            direct: false,
        };
        let block = usize::try_from(plan.block_size_bytes).unwrap_or(usize::MAX);
        let content = Content::new(plan.seed, block);
        let content = content.map_err(|errno| blame.error("malloc", None, errno))?;
        let blocks = usize::try_from(plan.blocks()).unwrap_or(usize::MAX);
        let skipped = plan
            .skipped
            .iter()
            .map(|&(phase, why)| Skipped { phase, why })
            .collect();
        let outcome = Outcome {
            flags: if cfg!(debug_assertions) {
                vec!["debug_build".to_owned()]
            } else {
                Vec::new()
            },
            config: plan.clone(),
            directory: workspace.directory().to_path_buf(),
            kept: plan.keep,
            file_sizes_bytes: (0..plan.files)
                .map(|file| layout.file_bytes(file))
                .collect(),
            start_monotonic_ns: clock.now_ns(),
            start_realtime_ns: realtime_ns(),
            fills: Vec::new(),
            skipped,
            phases: Vec::new(),
        };
        let generations = vec![0; blocks];
        Ok(Self {
            plan,
            layout,
            workspace,
            content,
            generations,
            clock,
            outcome,
        })
    }

    fn all_phases(&mut self, observer: &mut dyn Observer) -> Run<()> {
        let phases = self.plan.phases.clone();
        self.workspace.renew("set-up")?;
        let mut fresh = true;
        for (index, &phase) in phases.iter().enumerate() {
            let cache = if phase.makes_files() {
                if !fresh {
                    self.workspace.renew(phase.name())?;
                    self.generations.fill(0);
                }
                None
            } else {
                self.fill(phase, index, observer)?;
                let asked = self.plan.drop_cache;
                Some(
                    self.workspace
                        .settle_cache(phase.name(), &self.layout, asked)?,
                )
            };
            fresh = false;
            let total = match phase {
                Phase::Seeks => self.plan.seeks,
                Phase::RandomRead | Phase::RandomWrite | Phase::LogWrite => {
                    self.plan.random_operations
                }
                _ => self.plan.blocks(),
            };
            let threads = self.plan.threads_of(phase);
            let frame = Frame {
                phase,
                start_ns: 0,
                block_bytes: self.plan.block_size_bytes,
                interval_ns: self.plan.series_interval_ns,
                cache,
            };
            let progress = self.progress(phase, index, "run", total);
            let result = self.step(Step::Phase(phase), threads, progress, observer, |done| {
                sum_up(
                    Frame {
                        start_ns: done.start_ns,
                        ..frame
                    },
                    done.reports,
                )
            })?;
            self.outcome.phases.push(result);
        }
        Ok(())
    }

    /// Completes files that a phase needs whole and no phase before it wrote, or not to the end.
    fn fill(&mut self, phase: Phase, index: usize, observer: &mut dyn Observer) -> Run<()> {
        let missing = self
            .generations
            .iter()
            .filter(|&&generation| generation == 0)
            .count() as u64;
        if missing == 0 {
            return Ok(());
        }
        let progress = self.progress(phase, index, "fill", missing);
        let threads = self.plan.threads;
        let wall_ns = self.step(Step::Fill, threads, progress, observer, |done| {
            let ends = done.reports.iter().map(|report| report.end_ns);
            Ok(ends.max().unwrap_or(done.start_ns) - done.start_ns)
        })?;
        let bytes = missing * self.plan.block_size_bytes;
        self.outcome.fills.push(Fill {
            before_phase: phase,
            bytes,
            wall_ns,
        });
        Ok(())
    }

    const fn progress(
        &self,
        phase: Phase,
        phase_index: usize,
        step: &'static str,
        total: u64,
    ) -> Progress {
        let phases = self.plan.phases.len();
        Progress {
            phase,
            phase_index,
            phases,
            step,
            done: 0,
            total,
            bytes: 0,
            elapsed_ns: 0,
        }
    }

    fn step<T>(
        &mut self,
        step: Step,
        threads: u64,
        progress: Progress,
        observer: &mut dyn Observer,
        collect: impl FnOnce(Done<'_>) -> Run<T>,
    ) -> Run<T> {
        let mut ask = |done, elapsed_ns| {
            let bytes = done * self.plan.block_size_bytes;
            observer.tick(&Progress {
                done,
                bytes,
                elapsed_ns,
                ..progress
            })
        };
        // Short steps end between two ticks: ask at least once before each.
        if !ask(0, 0) {
            return Err(FilesError::Cancelled);
        }
        let cancel = AtomicBool::new(false);
        let counters: Vec<Counter> = (0..threads).map(|_| Counter::default()).collect();
        let control = Control {
            clock: self.clock,
            cancel: &cancel,
            counters: &counters,
            series_interval_ns: self.plan.series_interval_ns,
        };
        let shared = Shared {
            plan: &self.plan,
            layout: self.layout,
            paths: self.workspace.paths(),
            content: &self.content,
            step,
            threads,
        };
        collect(step::run(shared, control, &mut self.generations, &mut ask)?)
    }

    /// Removes the files; gives the outcome, and in words what could not be removed.
    fn end(self) -> (Outcome, Option<String>) {
        let left = self.workspace.remove().err();
        let left = left.map(|(path, error)| format!("files_left: {}: {error}", path.display()));
        (self.outcome, left)
    }
}

/// For callers that only keep phases.
impl Outcome {
    /// The result of `phase`, if it ran.
    #[must_use]
    pub fn phase(&self, phase: Phase) -> Option<&PhaseResult> {
        self.phases.iter().find(|result| result.phase == phase)
    }
}
