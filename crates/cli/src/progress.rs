//! Progress of an operation: a bar on a terminal, lines of JSON for programs, else nothing.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use onefold_store::{Act, Issue, Outcome, Progress};
use serde::Serialize;

use crate::console::Console;
use crate::name::{PathFields, hex_unless_utf8, lossy, shown};
use crate::output::Output;
use crate::ratio;

/// How often a bar is drawn.
const DRAWN_EVERY: Duration = Duration::from_millis(100);
/// How often a line of JSON is written.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Two lines, each of which fits in 80 columns: a bar that wraps cannot be drawn over.
const KNOWN_END: &str = "{bar:20} {percent:>3}%  {binary_bytes}/{binary_total_bytes}  \
                         {binary_bytes_per_sec}  eta {eta}\n{wide_msg}";
const UNKNOWN_END: &str = "{spinner} {elapsed}  {binary_bytes}  {binary_bytes_per_sec}\n{wide_msg}";

/// A line of JSON about a running operation.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    Progress {
        files: u64,
        bytes: u64,
        /// 0 until it is known.
        total_files: u64,
        /// 0 until it is known.
        total_bytes: u64,
        unchanged_files: u64,
        seed_bytes: u64,
        new_bytes: u64,
        stored_bytes: u64,
        issues: u64,
        /// The current file, once known.
        #[serde(skip_serializing_if = "Option::is_none")]
        current: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        current_hex: Option<String>,
        seconds: f64,
    },
    Act {
        act: &'static str,
        #[serde(flatten)]
        path: PathFields,
    },
    Issue {
        #[serde(flatten)]
        path: PathFields,
        /// Whether content is missing because of it.
        loss: bool,
        message: String,
    },
    File {
        #[serde(flatten)]
        path: PathFields,
        outcome: &'static str,
    },
}

/// Runs `work`, which increments the given counters, and shows them until it ends.
///
/// Issues are printed when they occur; so are acts, with --verbose.
pub(crate) fn watched<T>(console: &Console, work: impl FnOnce(&Progress) -> T) -> T {
    match console.is_json() {
        true => work_beside(tell_programs, console, work),
        false => watched_in_silence(console, work),
    }
}

/// As [`watched`], but leaves standard output alone, for a command that writes one document.
pub(crate) fn watched_in_silence<T>(console: &Console, work: impl FnOnce(&Progress) -> T) -> T {
    work_beside(show_bar, console, work)
}

/// Shows an operation until the other end of the channel is dropped.
type Show = fn(&Progress, &Console, &Receiver<()>);

fn work_beside<T>(show: Show, console: &Console, work: impl FnOnce(&Progress) -> T) -> T {
    let teller = console.clone();
    let mut progress = Progress::new(move |issue| tell(issue, &teller));
    let (files, acts) = (console.clone(), console.clone());
    if console.names_files() {
        progress = progress.telling_entries(move |path, outcome| tell_file(path, outcome, &files));
    }
    if console.is_verbose() {
        progress = progress.telling(move |act, path| tell_act(act, path, &acts));
    }
    thread::scope(|scope| {
        let (done, ended) = mpsc::channel();
        let progress = &progress;
        scope.spawn(move || show(progress, console, &ended));
        let result = work(progress);
        drop(done);
        result
    })
}

fn tell_programs(progress: &Progress, _console: &Console, ended: &Receiver<()>) {
    let begun = Instant::now();
    while !ends_within(TOLD_EVERY, ended) {
        emit(&Event::progress(progress, begun));
    }
}

fn show_bar(progress: &Progress, console: &Console, ended: &Receiver<()>) {
    if console.bars().is_hidden() {
        return;
    }
    let bar = console.bars().add(ProgressBar::no_length());
    bar.set_style(style(UNKNOWN_END));
    while !ends_within(DRAWN_EVERY, ended) {
        draw(&bar, progress);
    }
    bar.finish_and_clear();
}

fn ends_within(time: Duration, ended: &Receiver<()>) -> bool {
    ended.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
}

fn tell(issue: &Issue, console: &Console) {
    match console.is_json() {
        true => emit(&Event::issue(issue)),
        false if issue.kind.is_loss() => console.line(format_args!("error: {issue}")),
        false => console.warn(issue),
    }
}

/// Prints the outcome of a file, as restic does with --verbose given twice.
fn tell_file(path: &Path, outcome: Outcome, console: &Console) {
    let outcome = match outcome {
        Outcome::New => "new",
        Outcome::Changed => "changed",
        Outcome::Unchanged => "unchanged",
    };
    match console.is_json() {
        true => emit(&Event::File { path: PathFields::of_path(path), outcome }),
        false => console.line(format_args!("{outcome:<9} {}", path.display())),
    }
}

fn tell_act(act: Act, path: &Path, console: &Console) {
    let act = act.name();
    match console.is_json() {
        true => emit(&Event::Act { act, path: PathFields::of_path(path) }),
        false => console.detail(format_args!("{act} {}", shown(path.as_os_str().as_bytes()))),
    }
}

fn draw(bar: &ProgressBar, progress: &Progress) {
    let (total_bytes, bytes) = (read(&progress.total_bytes), read(&progress.bytes));
    let seed_bytes = read(&progress.seed_bytes);
    if bytes == 0 && seed_bytes > 0 {
        bar.set_message(with_current("reading seeds".to_owned(), progress));
        bar.set_position(seed_bytes);
        return;
    }
    if total_bytes > 0 && bar.length().is_none() {
        // Reading seeds says nothing of how long the rest takes.
        bar.reset();
        bar.set_style(style(KNOWN_END));
    }
    if total_bytes > 0 {
        // Files may grow while they are read.
        bar.set_length(total_bytes.max(bytes));
    }
    bar.set_message(message(progress));
    bar.set_position(bytes);
}

/// The number of files done, the new bytes, and the current file.
fn message(progress: &Progress) -> String {
    let files = HumanCount(read(&progress.files));
    let noun = progress.noun.get().unwrap_or(&"files");
    let mut message = match read(&progress.total_files) {
        0 => format!("{files} {noun}"),
        total => format!("{files}/{} {noun}", HumanCount(total)),
    };
    let (bytes, new_bytes) = (read(&progress.bytes), read(&progress.new_bytes));
    if new_bytes > 0 {
        let dedup = ratio::times(bytes as f64 / new_bytes as f64);
        message.push_str(&format!(", {} new, dedup {dedup}", HumanBytes(new_bytes)));
    }
    with_current(message, progress)
}

/// `message`, and the current file.
fn with_current(mut message: String, progress: &Progress) -> String {
    let current = progress.current();
    if !current.as_os_str().is_empty() {
        message.push_str(&format!("  {}", shown(current.as_os_str().as_bytes())));
    }
    message
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the templates above are valid")
}

/// Writes a line to standard output. If its reader has closed it, the work continues.
fn emit(event: &Event) {
    let mut output = Output::new();
    let _ = output.json_line(event).and_then(|()| output.finish());
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Event {
    fn progress(progress: &Progress, begun: Instant) -> Self {
        let current = progress.current().into_os_string().into_vec();
        let is_known = !current.is_empty();
        Self::Progress {
            files: read(&progress.files),
            bytes: read(&progress.bytes),
            total_files: read(&progress.total_files),
            total_bytes: read(&progress.total_bytes),
            unchanged_files: read(&progress.unchanged_files),
            seed_bytes: read(&progress.seed_bytes),
            new_bytes: read(&progress.new_bytes),
            stored_bytes: read(&progress.stored_bytes),
            issues: read(&progress.issues),
            current: is_known.then(|| lossy(&current)),
            current_hex: hex_unless_utf8(&current),
            seconds: begun.elapsed().as_secs_f64(),
        }
    }

    fn issue(issue: &Issue) -> Self {
        Self::Issue {
            path: PathFields::of_path(&issue.path),
            loss: issue.kind.is_loss(),
            message: issue.to_string(),
        }
    }
}
