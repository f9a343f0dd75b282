//! A mount as a process of its own: `mount HOST:/EXPORT DIR [OPTIONS]`. Prints the options in
//! effect; ends when it is unmounted or standard input ends. The tests kill it.

use std::io::{Read, Write};
use std::path::Path;

use mount::{Mount, Source, Unmount};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let source = arguments.next().ok_or("HOST:/EXPORT is needed")?;
    let directory = arguments.next().ok_or("a folder is needed")?;
    let options = arguments.next().unwrap_or_default();
    let mount = Mount::new(&Source::parse(&source)?, Path::new(&directory), &options)?;
    println!("{}", mount.options().to_text());
    std::io::stdout().flush()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    mount.unmount(Unmount::Normal)?;
    mount.wait(None);
    Ok(())
}
