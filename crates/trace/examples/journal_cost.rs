use std::path::PathBuf;
use std::sync::Arc;
use trace::analysis::parts::{Following, Task, read};
use trace::analysis::{Options, Pass};
use trace::block::Block;
use trace::lens::{LENSES, LensOptions};
use trace::source::{Bounds, Input, Reader};
fn cpu() -> f64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let file = PathBuf::from(&args[1]);
    let report = [
        "operations",
        "clients",
        "files",
        "rpcstat",
        "stalls",
        "access",
        "network",
    ];
    let followed: Vec<String> = report[2..].iter().map(|it| (*it).to_owned()).collect();
    for round in 0..args[2].parse::<usize>().unwrap() {
        let begun = cpu();
        let options = Options {
            lenses: report.iter().map(|it| (*it).to_owned()).collect(),
            ..Options::default()
        };
        let mut reader = Reader::open(vec![Input::File(file.clone())]).unwrap();
        let mut pass = Pass::new(&options, Arc::default()).unwrap();
        let mut block = Block::default();
        while reader.read(&mut block).unwrap() {
            pass.block(&block).unwrap();
        }
        let found = pass.finish(&reader.totals(), &[]).unwrap();
        let row = cpu();
        let _ = &found;
        let calls = found.summary["calls"].as_u64().unwrap();
        let dir = std::env::temp_dir().join("journal-x");
        let task = Task {
            lenses: vec!["clients".to_owned()],
            followed: followed.clone(),
            journal: Some(dir.clone()),
            ..Task::new(vec![file.clone()], None)
        };
        let part = read(&task, |_| true).unwrap();
        let parted = cpu();
        let bytes = std::fs::metadata(&dir).unwrap().len();
        let threads: usize = args[3].parse().unwrap();
        let mut f = Following::begin(&followed, &LensOptions::default(), threads, None).unwrap();
        f.follow(&part, dir).unwrap();
        let _ = f.findings(part, 0, &[]).unwrap();
        let done = cpu();
        println!(
            "{round}: calls {calls} in a row {:.2}, part {:.2} (journal {:.1} B/call), follow {:.2}; sum/row {:.3}",
            row - begun,
            parted - row,
            bytes as f64 / calls as f64,
            done - parted,
            (done - row) / (row - begun)
        );
    }
    let _ = (LENSES, Bounds::default());
}
