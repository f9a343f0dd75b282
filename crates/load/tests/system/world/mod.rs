//! An embedded server in this process, and plans for it.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use load::plan::Plan;
use load::{Operation, Prepared, Records, Report};
use measure::{Clock, MonotonicClock};
use serde_json::{Value, json};
use server::model::ModelDescription;
use server::net::{RunningServer, ServerOptions};
use server::protocol::{Export, ExportOptions, Service};
use server::record::{CallRecord, Recorder};
use server::store::memory::MemoryStore;
use server::store::null::NullStore;
use server::store::{Payload, Store};
use server::{Caller, Handle, HandleKey};

pub const SFS3: [(&str, f64); 13] = [
    ("LOOKUP", 27.0),
    ("READ", 18.0),
    ("GETATTR", 11.0),
    ("WRITE", 9.0),
    ("READDIRPLUS", 9.0),
    ("READLINK", 7.0),
    ("ACCESS", 7.0),
    ("COMMIT", 5.0),
    ("READDIR", 2.0),
    ("CREATE", 1.0),
    ("REMOVE", 1.0),
    ("FSSTAT", 1.0),
    ("SETATTR", 1.0),
];

pub struct World {
    pub store: Arc<dyn Store>,
    pub service: Arc<Service>,
    pub server: Option<RunningServer>,
    pub recorder: Arc<Recorder>,
    pub port: u16,
    pub admin: Caller,
}

pub fn admin() -> Caller {
    Caller::with_ids("127.0.0.1:700".parse().unwrap(), 0, 0)
}

impl World {
    pub fn with(store: Arc<dyn Store>, export: ExportOptions) -> Self {
        let exported = Export::new("/export", Arc::clone(&store), export);
        let service = Arc::new(Service::new(vec![exported], HandleKey::new(&[9; 16])));
        let mut world = World {
            store,
            service,
            server: None,
            recorder: Arc::default(),
            port: 0,
            admin: admin(),
        };
        world.recorder.begin(1 << 20);
        world.start(None);
        world
    }

    pub fn memory(limit_bytes: u64) -> Self {
        let store = MemoryStore::new(limit_bytes, 77, &admin());
        World::with(Arc::new(store), ExportOptions::default())
    }

    pub fn null(file_bytes: u64) -> Self {
        World::with(
            Arc::new(NullStore::new(file_bytes)),
            ExportOptions::default(),
        )
    }

    /// Starts (again, at the same port) with another model.
    pub fn start(&mut self, model: Option<ModelDescription>) {
        self.stop();
        let options = ServerOptions {
            listen: vec![([127, 0, 0, 1], self.port).into()],
            model,
            udp: true,
            recorder: Arc::clone(&self.recorder),
            ..ServerOptions::default()
        };
        let server = RunningServer::start(Arc::clone(&self.service), options).unwrap();
        self.port = server.addresses()[0].port();
        self.server = Some(server);
    }

    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().unwrap();
        }
    }

    /// Calls of NFS that the server recorded since the last time.
    pub fn calls(&self) -> Vec<CallRecord> {
        assert_eq!(self.recorder.lost(), 0);
        let mut calls = self.recorder.take();
        calls.retain(|call| call.program == wire::programs::NFS);
        calls
    }

    pub fn options(&self) -> String {
        format!("port={0},mountport={0}", self.port)
    }

    /// Calls of NFS since a point began; the server is stopped, so that all are recorded.
    pub fn calls_of(&mut self, report: &Report) -> Vec<CallRecord> {
        self.stop();
        let mut calls = self.calls();
        calls.retain(|call| call.received_ns >= report.start_monotonic_ns);
        calls
    }

    /// A small plan: 200 files or so, closed, for tests to change.
    pub fn plan(&self) -> Value {
        let mix: serde_json::Map<String, Value> = SFS3
            .iter()
            .map(|(name, weight)| ((*name).to_owned(), json!(weight)))
            .collect();
        json!({
            "servers": [{
                "address": "127.0.0.1", "export": "/export", "options": self.options(),
            }],
            "mix": mix,
            "read_sizes_bytes": {"8192": 149, "3000": 15},
            "write_sizes_bytes": {"8192": 100, "2500": 100},
            "append_share": 0.7,
            "lookup_missing_share": 0.35,
            "file_set": {
                "files": 200,
                "file_sizes_bytes": {"1024": 33, "2048": 21, "4096": 13, "8192": 10,
                    "16384": 8, "32768": 5, "65536": 4, "131072": 3, "262144": 2, "1048576": 1},
                "files_per_directory": 30,
                "symlinks_share": 0.2,
                "accessed_share": 0.5,
            },
            "load": {"mode": "open", "rate_ops_per_s": 2000, "outstanding_max": 64},
            "warm_up_s": 0.05,
            "measure_s": 0.5,
            "cool_down_s": 0.05,
            "verify_share": 1.0,
            "silence_limit_s": 60.0,
        })
    }

    pub fn prepare(&self, plan: &Value) -> Prepared {
        load::prepare(checked(plan), &mut ()).unwrap()
    }

    pub fn run(&self, plan: &Value) -> Report {
        let prepared = self.prepare(plan);
        load::run(prepared, &MonotonicClock, &Records::default(), &mut ()).unwrap()
    }

    pub fn lookup(&self, path: &str) -> Option<Handle> {
        let mut at = self.store.root();
        for name in path.split('/') {
            at = self
                .store
                .lookup(&self.admin, (&at, name.as_bytes()))
                .ok()?
                .0
                .handle;
        }
        Some(at)
    }

    /// All bytes of a file, from the store itself.
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        let file = self.lookup(path)?;
        let size = self.store.getattr(&file).unwrap().size;
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < size {
            let mut payload = Payload::new();
            let at = bytes.len() as u64;
            self.store
                .read(&self.admin, &file, at, 1 << 20, &mut payload)
                .unwrap();
            bytes.extend(payload.to_vec());
        }
        Some(bytes)
    }
}

pub fn checked(plan: &Value) -> load::Checked {
    serde_json::from_value::<Plan>(plan.clone())
        .unwrap()
        .check()
        .unwrap()
}

/// Sets `path` (dots between) of a plan.
pub fn set(plan: &mut Value, path: &str, value: Value) {
    let mut place = plan;
    for key in path.split('.') {
        place = &mut place[key];
    }
    *place = value;
}

/// A plan that needs no file set: for the null store.
pub fn calibration(world: &World) -> Value {
    let mut plan = world.plan();
    set(&mut plan, "file_set.calibration", json!(true));
    for share in ["append_share", "lookup_missing_share", "verify_share"] {
        set(&mut plan, share, json!(0.0));
    }
    plan
}

/// A server of `threads` workers that each take `service_ns`.
pub fn slow(threads: u32, service_ns: u64) -> ModelDescription {
    ModelDescription {
        threads: Some(threads),
        service_ns,
        ..ModelDescription::default()
    }
}

/// 20 processes that wait all the time.
pub fn saturate(plan: &mut Value) {
    let load = json!({"mode": "closed", "clients": 5, "processes": 4, "think": "saturated",
        "rate_ops_per_s": 3200});
    set(plan, "load", load);
    set(plan, "warm_up_s", json!(0.2));
    set(plan, "measure_s", json!(1.0));
}

/// All 20 were outstanding all the time, and Little's law says so, too.
pub fn assert_saturated(report: &Report) {
    let outstanding = report.outstanding_mean;
    assert!((outstanding - 20.0).abs() < 0.2, "{outstanding}");
    assert_littles_law(report);
}

/// L = lambda W: in the product is what was waited before the window, not what will be behind it.
pub fn assert_littles_law(report: &Report) {
    let little = &report.little;
    assert_eq!(little.residual_ns, 0);
    let edges = (little.before_window_ns - little.after_window_ns) as f64;
    let window_ns = (report.window_end_ns - report.window_start_ns) as f64;
    let product = little.rate_times_response - edges / window_ns;
    let outstanding = report.outstanding_mean;
    assert!(
        (outstanding - product).abs() < 1e-6 * outstanding,
        "{outstanding} {product}"
    );
}

/// All is window, and there is a slot for every arrival: each is sent on any machine, or was drawn
/// for nothing.
pub fn all_in_window(plan: &mut Value, measure_s: f64) {
    for (path, value) in [
        ("warm_up_s", json!(0.0)),
        ("measure_s", json!(measure_s)),
        ("cool_down_s", json!(0.0)),
        ("load.outstanding_max", json!(8192)),
    ] {
        set(plan, path, value);
    }
}

/// Operations of each kind that were drawn in a point [`all_in_window`]: the arrivals, no more and
/// no fewer. Each was sent, or found nothing free.
pub fn drawn(report: &Report) -> Vec<(&'static str, u64)> {
    let unsent = report.unsent + report.not_sent;
    assert_eq!((unsent, report.unanswered), (0, 0));
    let drawn: Vec<_> = report
        .operations
        .iter()
        .map(|row| (row.operation, row.calls + row.not_drawn))
        .collect();
    let sum: u64 = drawn.iter().map(|(_, count)| count).sum();
    assert_eq!(sum, report.arrivals);
    drawn
}

/// A clock whose every reading costs so many ns: a generator on a machine that is too slow.
#[derive(Clone)]
pub struct Slow(pub u64);

impl Clock for Slow {
    fn now_ns(&self) -> u64 {
        let now_ns = MonotonicClock.now_ns();
        while MonotonicClock.now_ns() - now_ns < self.0 {
            std::hint::spin_loop();
        }
        MonotonicClock.now_ns()
    }
}

/// How often each procedure is there.
pub fn by_procedure(procedures: impl Iterator<Item = u32>) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    for procedure in procedures {
        *counts.entry(procedure).or_default() += 1;
    }
    counts
}

/// Calls by procedure as the report has them; each of them ended well.
pub fn reported(report: &Report) -> BTreeMap<u32, u64> {
    let rows = report.operations.iter().filter(|row| row.calls > 0);
    rows.map(|row| {
        let (calls, name) = (row.calls, row.operation);
        assert_eq!((calls, row.unexpected), (row.ended, 0), "{name}");
        (Operation::parse(name).unwrap().procedure(), calls)
    })
    .collect()
}

/// The report has the calls that the server recorded, no more and no fewer: one FSINFO or NULL more
/// would be seen, as a run's engines make no calls of their own.
pub fn assert_same_calls(report: &Report, calls: &[CallRecord]) {
    let theirs = by_procedure(calls.iter().map(|call| call.procedure));
    assert_eq!(reported(report), theirs);
}

/// Reasons that a machine alone may be the cause of: a generator that gets no processor is late,
/// works for too long, finds what it makes and removes still under way, and, away for the window,
/// has no answer in it.
const OF_THE_MACHINE: [&str; 4] = [
    "generator_overloaded",
    "generator_cpu",
    "not_drawn",
    "nothing_answered",
];

/// Kinds of the reasons against a point, but for those [`OF_THE_MACHINE`].
pub fn kinds(report: &Report) -> Vec<&'static str> {
    let all = report.reasons.iter().map(|reason| reason.kind);
    all.filter(|kind| !OF_THE_MACHINE.contains(kind)).collect()
}

/// The server's answers were what they ought to be, and nothing was lost.
pub fn assert_valid(report: &Report) {
    assert!(kinds(report).is_empty(), "{:?}", report.reasons);
    assert_eq!(report.little.residual_ns, 0);
}
