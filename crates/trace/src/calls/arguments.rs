//! The arguments of a call, decoded once into what waits for its reply.

use wire::programs::{MOUNT, NFS, NLM, is_callback};
use wire::summary::{Arguments, CompoundCall};
use wire::{CallSummary, Ignore, summarise_call_with};

use super::anomaly::Anomaly;
use super::body::{Ended, ended};
use super::open::{NONE, Open, has};
use super::steps::{Collector, MOUNT_ROOT, Step, of_procedure};
use super::{Calls, Output};
use crate::block::Host;
use crate::call::marks;
use crate::stream::Message;

impl<O: Output> Calls<O> {
    /// Decodes the arguments into the waiting call.
    #[inline(always)]
    pub(super) fn arguments(
        &mut self,
        message: &Message<'_>,
        body: wire::Body<'_>,
        open: &mut Open,
    ) {
        let place = [open.program, open.version, open.procedure];
        let server = name_space(open, message.from.host, message.to.host);
        let compound = open.procedure == wire::nfs4::PROCEDURE_COMPOUND
            && ((open.program == NFS && open.version == 4) || is_callback(open.program));
        if !self.output.wants_files() {
            let summary = summarise_call_with(place, body, &mut Ignore);
            if compound && let Some(compound) = &summary.compound {
                self.compound(compound, open);
            } else {
                open.bytes_written = summary.arguments.data_bytes.unwrap_or(0);
            }
            extent(&summary.arguments, open);
            self.judge(message, &summary, open);
            return;
        }
        if compound {
            self.scratch.clear();
            let mut collector = Collector {
                names: &mut self.names,
                server,
                steps: &mut self.scratch,
                teaches: false,
            };
            let summary = summarise_call_with(place, body, &mut collector);
            let teaches = collector.teaches;
            if let Some(compound) = &summary.compound {
                self.compound(compound, open);
            }
            self.fields(server, &summary.arguments, open);
            if teaches {
                self.keep_steps(open);
            }
            self.judge(message, &summary, open);
            return;
        }
        let summary = summarise_call_with(place, body, &mut Ignore);
        let arguments = &summary.arguments;
        self.fields(server, arguments, open);
        open.bytes_written = arguments.data_bytes.unwrap_or(0);
        if arguments.name.is_some() || arguments.target_name.is_some() {
            self.procedure_steps(server, arguments, open);
        }
        self.judge(message, &summary, open);
    }

    fn compound(&mut self, compound: &CompoundCall<'_>, open: &mut Open) {
        open.minor_version = compound.minor_version;
        open.operation = compound.named_by.unwrap_or(open.procedure);
        let list = self.names.operations_id(&compound.operations);
        open.operations = list.map_or(NONE, |id| id.0);
        open.bytes_written = u32::try_from(compound.data_bytes).unwrap_or(u32::MAX);
        if let Some(sequence) = &compound.sequence {
            open.detail.slot = sequence.slot;
            open.has |= has::SLOT;
        }
    }

    #[inline(always)]
    fn fields(&mut self, server: Host, arguments: &Arguments<'_>, open: &mut Open) {
        if let Some(handle) = arguments.file_handle {
            open.detail.file = self.names.file_id(server, handle);
        }
        extent(arguments, open);
    }

    fn procedure_steps(&mut self, server: Host, arguments: &Arguments<'_>, open: &mut Open) {
        let names = &mut self.names;
        let step = match open.program {
            NFS => of_procedure(
                open.version,
                open.procedure,
                open.detail.file,
                arguments,
                |handle| names.file_id(server, handle),
            ),
            MOUNT if open.procedure == wire::mount::procedure::MNT => Some(Step {
                opcode: MOUNT_ROOT,
                name: arguments.name.unwrap_or_default(),
                ..Step::default()
            }),
            _ => None,
        };
        if let Some(step) = step {
            self.scratch.clear();
            step.write(&mut self.scratch);
            self.keep_steps(open);
        }
    }

    fn keep_steps(&mut self, open: &mut Open) {
        match self.pool.add(&self.scratch) {
            Some((place, length)) => {
                (open.detail.steps_at, open.detail.steps_bytes) = (place, length)
            }
            None => self.anomalies.count(Anomaly::StepsBeyondLimit),
        }
    }

    #[inline(always)]
    fn judge(&mut self, message: &Message<'_>, summary: &CallSummary<'_>, open: &mut Open) {
        match ended(&summary.end, message) {
            Ended::Well => {}
            Ended::Cut => open.mark(marks::TRUNCATED),
            Ended::Badly => self.bad_call(open),
        }
    }
}

/// Which bytes of a file a call is about.
#[inline(always)]
fn extent(arguments: &Arguments<'_>, open: &mut Open) {
    open.set_offset(arguments.offset);
    open.set_count(arguments.count);
    open.detail.stable = arguments.stable;
}

/// The host whose file handles a call carries: callbacks speak of their caller's.
#[inline(always)]
pub(super) fn name_space(open: &Open, from: Host, to: Host) -> Host {
    /// GRANTED and GRANTED_MSG of NLM.
    const GRANTED: [u32; 2] = [5, 10];
    let back = open.marks & marks::CALLBACK != 0
        || (open.program == NLM && GRANTED.contains(&open.procedure));
    if back { from } else { to }
}
