use std::path::PathBuf;
use trace::analysis::parts::{Task, read};
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let file = PathBuf::from(&args[1]);
    let report = ["files", "rpcstat", "stalls", "access", "network"];
    let followed: Vec<String> = report.iter().map(|it| (*it).to_owned()).collect();
    let task = Task {
        lenses: vec!["clients".to_owned()],
        followed,
        journal: Some(PathBuf::from("/dev/shm/j")),
        ..Task::new(vec![file.clone()], None)
    };
    let _ = read(&task, |_| true).unwrap();
}
