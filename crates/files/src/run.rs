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
use crate::step::{self, Control, Done, Watch};
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

/// A place in a run at which its processes wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Meeting {
    /// The phase that is to come; behind the last one it is that.
    pub phase: Phase,
    /// "ended": the phase before is over; "made": its files are there; "filled": they are whole;
    /// "start": its threads are ready, and begin together.
    pub gate: &'static str,
}

/// Watches a run.
pub trait Observer {
    /// Told how far the run is; false stops it.
    fn tick(&mut self, progress: &Progress) -> bool;

    /// Waits until all processes of the run are there: the instant at which they go on, on the
    /// run's clock (one that is past: now); None stops the run. Asked of a part of a run alone.
    fn meet(&mut self, _meeting: &Meeting) -> Option<u64> {
        Some(0)
    }
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
        let layout = plan.layout();
        let blame = Blame {
            step: "set-up",
            path: workspace.directory(),
            direct: false,
        };
        let block = usize::try_from(plan.block_size_bytes).unwrap_or(usize::MAX);
        let content = Content::new(plan.seed, block);
        let content = content.map_err(|errno| blame.error("malloc", None, errno))?;
        let own = layout.own();
        let blocks = usize::try_from(own.end - own.start).unwrap_or(usize::MAX);
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
        let mut last = None;
        for (index, &phase) in phases.iter().enumerate() {
            if last.is_some() {
                self.meet(phase, "ended", observer)?;
            }
            if last.is_none() || phase.makes_files() {
                self.workspace
                    .renew(last.map_or("set-up", |_| phase.name()))?;
                self.generations.fill(0);
                self.meet(phase, "made", observer)?;
                self.workspace.look()?;
            }
            last = Some(phase);
            let cache = if phase.makes_files() {
                None
            } else {
                self.fill(phase, index, observer)?;
                self.meet(phase, "filled", observer)?;
                let asked = self.plan.drop_cache;
                Some(
                    self.workspace
                        .settle_cache(phase.name(), &self.layout, asked)?,
                )
            };
            let threads = self.plan.threads_of(phase);
            let mine = match phase {
                Phase::Seeks => self.plan.share(self.plan.seeks, threads),
                Phase::RandomRead | Phase::RandomWrite | Phase::LogWrite => {
                    self.plan.share(self.plan.random_operations, threads)
                }
                _ => self.layout.own(),
            };
            let total = mine.end - mine.start;
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
        // Who made files that others share removes them when all are done.
        last.map_or(Ok(()), |phase| self.meet(phase, "ended", observer))
    }

    /// Waits for the other processes of the run, if there are any.
    fn meet(&self, phase: Phase, gate: &'static str, observer: &mut dyn Observer) -> Run<()> {
        if self.plan.part.is_none() {
            return Ok(());
        }
        let met = observer.meet(&Meeting { phase, gate });
        met.map_or(Err(FilesError::Cancelled), |_| Ok(()))
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
        let meets = matches!(step, Step::Phase(_)) && self.plan.part.is_some();
        let mut asked = Asked {
            observer,
            progress,
            block_bytes: self.plan.block_size_bytes,
            clock: self.clock,
            meets,
        };
        // Short steps end between two ticks: ask at least once before each.
        if !asked.goes_on(0, 0) {
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
        collect(step::run(
            shared,
            control,
            &mut self.generations,
            &mut asked,
        )?)
    }

    /// Removes the files; gives the outcome, and in words what could not be removed.
    fn end(self) -> (Outcome, Option<String>) {
        let left = self.workspace.remove().err();
        let left = left.map(|(path, error)| format!("files_left: {}: {error}", path.display()));
        (self.outcome, left)
    }
}

/// The observer, as a step asks it.
struct Asked<'o, 'c> {
    observer: &'o mut dyn Observer,
    progress: Progress,
    block_bytes: u64,
    clock: &'c dyn Clock,
    /// The step begins together with those of other processes.
    meets: bool,
}

impl Watch for Asked<'_, '_> {
    fn goes_on(&mut self, done: u64, elapsed_ns: u64) -> bool {
        self.observer.tick(&Progress {
            done,
            bytes: done * self.block_bytes,
            elapsed_ns,
            ..self.progress
        })
    }

    fn start_ns(&mut self) -> Option<u64> {
        if !self.meets {
            return Some(self.clock.now_ns());
        }
        self.observer.meet(&Meeting {
            phase: self.progress.phase,
            gate: "start",
        })
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
