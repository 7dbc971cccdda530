//! Signals that ask to stop.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{process, thread};

use anyhow::Result;
use onefold_backend::Stop;
use onefold_store::Cancel;
use onefold_terminal::{Bar, say_stopping, stop_on_signal};

use crate::console::Console;
use crate::exit::Exit;

/// How long requests may run after the first signal. In this time a backup withdraws its intent; the command
/// ends within a second.
const GRACE: Duration = Duration::from_millis(500);

/// Handles that end requests to services, one for each open location.
static STOPS: Mutex<Vec<Stop>> = Mutex::new(Vec::new());

/// A stop that the first signal requests, if the command listens for signals.
pub(crate) fn new_stop() -> Stop {
    let stop = Stop::default();
    stops().push(stop.clone());
    stop
}

fn stops() -> MutexGuard<'static, Vec<Stop>> {
    STOPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A token that the first SIGINT, SIGTERM or SIGHUP cancels; the second signal ends the program
/// immediately.
///
/// At the first signal `promise` is printed, which says what happens to completed work.
pub(crate) fn cancel_on_signal(console: &Console, promise: &'static str) -> Result<Arc<Cancel>> {
    let console = console.clone();
    cancel_telling(move || say_stopping(&console, promise))
}

/// The same for a command that has nothing to withdraw and may block on the reader of its output: if it
/// has not ended after the grace period of its requests, it is ended.
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

/// The same, calling `tell` at the first signal.
pub(crate) fn cancel_telling(tell: impl Fn() + Send + 'static) -> Result<Arc<Cancel>> {
    let cancel = Arc::new(Cancel::default());
    let heard = Arc::clone(&cancel);
    stop_on_signal(move || {
        heard.cancel();
        tell();
        stops().iter().for_each(|stop| stop.ask(GRACE));
    })?;
    Ok(cancel)
}

/// A bar for a measurement, which the first signal stops.
pub(crate) fn bar_until_signal(console: &Console, promise: &'static str) -> Result<Bar> {
    bar_until(console, promise, None)
}

/// A bar for a measurement, which the first signal stops, or the clock at `end`.
pub(crate) fn bar_until(
    console: &Console,
    promise: &'static str,
    end: Option<Instant>,
) -> Result<Bar> {
    let cancel = cancel_on_signal(console, promise)?;
    let is_over = move || end.is_some_and(|end| Instant::now() >= end);
    Ok(Bar::new(console, move || cancel.is_cancelled() || is_over()))
}
