//! The log of POSTs and the access log.
//!
//! POSTs have one writer: a thread that takes all that wait, appends their lines with one write(2)
//! each batch, syncs once if that is asked for, and then tells each its number. So a POST that is
//! answered is in the log, whole lines only, and syncs are shared by those that wait for them.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::{Counters, count};
use crate::error::WebError;
use crate::fileset::errno;
use crate::page::RequestId;

/// POSTs that may wait for the writer; further ones wait before.
const QUEUE: usize = 1024;
/// Most lines of one write.
const BATCH: usize = 256;
/// Buffer of the access log.
const ACCESS_BYTES: usize = 64 << 10;

/// A POST that is to be recorded.
#[derive(Debug)]
pub(crate) struct Post {
    pub id: RequestId,
    pub body_bytes: usize,
    /// Told its number once its line is written; dropped if it could not be.
    pub done: oneshot::Sender<u64>,
}

/// The writer's end.
pub(crate) struct PostLogWriter {
    sender: mpsc::Sender<Post>,
    thread: std::thread::JoinHandle<()>,
}

impl PostLogWriter {
    pub fn start(path: &Path, sync: bool, counters: &Arc<Counters>) -> Result<Self, WebError> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = file.map_err(|error| WebError::file(path, "opening")(errno(&error)))?;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let counters = Arc::clone(counters);
        let body = move || {
            measure::thread::leave_signals_to_others();
            write_posts(&file, sync, receiver, &counters);
        };
        let thread = std::thread::Builder::new()
            .name("web-posts".to_owned())
            .spawn(body);
        let thread = thread.map_err(|error| WebError::system("no thread for POSTs", error))?;
        Ok(PostLogWriter { sender, thread })
    }

    pub fn sender(&self) -> mpsc::Sender<Post> {
        self.sender.clone()
    }

    /// Waits until all that was sent is written and synced.
    pub fn finish(self) {
        drop(self.sender);
        let _ = self.thread.join();
    }
}

fn write_posts(file: &File, sync: bool, mut posts: mpsc::Receiver<Post>, counters: &Counters) {
    let (mut batch, mut lines, mut number) = (Vec::with_capacity(BATCH), Vec::new(), 0_u64);
    while posts.blocking_recv_many(&mut batch, BATCH) > 0 {
        lines.clear();
        for (line, post) in (number..).zip(&batch) {
            let id = post.id.text();
            let id = String::from_utf8_lossy(&id);
            // Writing to a vector does not fail.
            let _ = writeln!(lines, "{line} {id} {}", post.body_bytes);
        }
        let mut file = file;
        let written = file.write_all(&lines);
        let written = written.and_then(|()| if sync { file.sync_data() } else { Ok(()) });
        if written.is_err() {
            count(&counters.io_errors, batch.len() as u64);
            batch.clear(); // their senders are dropped: 500
            continue;
        }
        count(&counters.posts_written, batch.len() as u64);
        for post in batch.drain(..) {
            let _ = post.done.send(number); // its connection may be gone
            number += 1;
        }
    }
    if file.sync_data().is_err() {
        count(&counters.io_errors, 1);
    }
}

/// The access log: buffered, written out when the buffer is full and at the end.
#[derive(Debug)]
pub(crate) struct AccessLog {
    file: Mutex<BufWriter<File>>,
    errors: AtomicU64,
}

impl AccessLog {
    pub fn create(path: &Path) -> Result<Self, WebError> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = file.map_err(|error| WebError::file(path, "opening")(errno(&error)))?;
        Ok(AccessLog {
            file: Mutex::new(BufWriter::with_capacity(ACCESS_BYTES, file)),
            errors: AtomicU64::new(0),
        })
    }

    pub fn line(&self, line: &[u8]) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.write_all(line).is_err() {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes out what is buffered; returns how many lines could not be written.
    pub fn finish(&self) -> u64 {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = file
            .flush()
            .and_then(|()| file.get_ref().sync_data())
            .is_err();
        self.errors.load(Ordering::Relaxed) + u64::from(failed)
    }
}

/// Seconds since 1970 as `02/Jan/2006:15:04:05 +0000`, as access logs have it.
pub(crate) fn write_date(seconds: u64, out: &mut Vec<u8>) {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    // Days to a date of the Gregorian calendar, with years from March on (H. Hinnant's
    // days_from_civil the other way round): 146,097 days in 400 years, and months of 153 days in
    // five.
    let day = seconds / 86_400 + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let month = (month + 2) % 12;
    let year = era * 400 + year + u64::from(month < 2);
    let name = MONTHS.get(month as usize).copied().unwrap_or_default();
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let _ = write!(
        out,
        "{of_month:02}/{name}/{year}:{hour:02}:{minute:02}:{second:02} +0000"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_date() {
        // `date -u -d @N '+%d/%b/%Y:%H:%M:%S'` of coreutils.
        for (seconds, date) in [
            (0, "01/Jan/1970:00:00:00 +0000"),
            (951_827_696, "29/Feb/2000:12:34:56 +0000"),
            (1_709_251_199, "29/Feb/2024:23:59:59 +0000"),
            (1_709_251_200, "01/Mar/2024:00:00:00 +0000"),
            (4_102_444_799, "31/Dec/2099:23:59:59 +0000"),
        ] {
            let mut text = Vec::new();
            write_date(seconds, &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), date);
        }
    }
}
