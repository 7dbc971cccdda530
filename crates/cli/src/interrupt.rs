//! Signals that ask to stop.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{process, thread};

use anyhow::{Context, Result};
use onefold_backend::Stop;
use onefold_store::Cancel;

use crate::console::Console;
use crate::exit::Exit;

/// How long requests may go on after the first signal: the command takes back what it announced, and
/// ends within a second.
const GRACE: Duration = Duration::from_millis(500);

/// What ends requests to services, one for each place that was opened.
static STOPS: Mutex<Vec<Stop>> = Mutex::new(Vec::new());

/// A stop that is asked for at the first signal, if the command listens for signals.
pub(crate) fn new_stop() -> Stop {
    let stop = Stop::default();
    stops().push(stop.clone());
    stop
}

fn stops() -> MutexGuard<'static, Vec<Stop>> {
    STOPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the first SIGINT, SIGTERM or SIGHUP cancels; the second ends the program at once.
///
/// `promise` is said at the first: what becomes of the work that is done.
pub(crate) fn cancel_on_signal(console: &Console, promise: &'static str) -> Result<Arc<Cancel>> {
    let console = console.clone();
    cancel_telling(move || say_stopping(&console, promise))
}

/// The same for a command that may wait for the reader of its output, and takes nothing back: if it has
/// not ended by itself after the grace of its requests, it ends nevertheless.
pub(crate) fn cancel_output_on_signal(
    console: &Console,
    promise: &'static str,
) -> Result<Arc<Cancel>> {
    let console = console.clone();
    cancel_telling(move || {
        say_stopping(&console, promise);
        thread::spawn(|| {
            thread::sleep(GRACE);
            process::exit(Exit::Interrupted.code().into());
        });
    })
}

fn say_stopping(console: &Console, promise: &str) {
    console.line(format_args!("stopping; {promise}; a second signal stops at once"));
}

/// The same, calling `tell` at the first signal.
pub(crate) fn cancel_telling(tell: impl Fn() + Send + 'static) -> Result<Arc<Cancel>> {
    let cancel = Arc::new(Cancel::default());
    let heard = Arc::clone(&cancel);
    let on_signal = move || {
        if heard.is_cancelled() {
            process::exit(Exit::Interrupted.code().into());
        }
        heard.cancel();
        tell();
        stops().iter().for_each(|stop| stop.ask(GRACE));
    };
    ctrlc::set_handler(on_signal).context("cannot listen for signals")?;
    Ok(cancel)
}
