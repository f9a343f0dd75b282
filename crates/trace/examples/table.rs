//! The table by operation, and with `--calls` the rows of the calls, of captures: for profiles
//! and instruction counts without the interpreter (`valgrind --tool=callgrind table FILE`).
//!
//! `table [--calls] [--all] FILE...` prints calls and CPU time; `--all` runs every lens.

use std::process::ExitCode;
use std::thread;

use trace::TraceError;
use trace::analysis::{Analysis, Options};
use trace::source::Input;

fn analyse(arguments: &[String]) -> Result<String, TraceError> {
    let (flags, files): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|it| it.starts_with("--"));
    let has = |name: &str| flags.iter().any(|flag| *flag == name);
    let options = Options {
        lenses: match has("--all") {
            true => Vec::new(),
            false => vec!["operations".to_owned()],
        },
        columns: has("--calls"),
        ..Options::default()
    };
    let inputs = files.into_iter().map(|path| Input::File(path.into()));
    let mut analysis = Analysis::start(inputs.collect(), options)?;
    let taker = analysis.batches().map(|batches| {
        thread::spawn(move || batches.iter().map(|batch| batch.num_rows()).sum::<usize>())
    });
    let found = analysis.finish()?;
    let rows = taker.map_or(0, |taker| taker.join().unwrap_or_default());
    let calls = &found.summary["calls"];
    Ok(format!(
        "{calls} calls, {rows} rows, {} us CPU",
        found.cpu_ns / 1000
    ))
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match analyse(&arguments) {
        Ok(found) => {
            println!("{found}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
