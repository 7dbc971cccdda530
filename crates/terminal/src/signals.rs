//! Signals that ask to stop.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use crate::Console;

/// The exit code of a program that a signal ended.
const INTERRUPTED: i32 = 130;

/// Calls `stop` at the first SIGINT, SIGTERM or SIGHUP; the second ends the program immediately.
pub fn stop_on_signal(stop: impl Fn() + Send + 'static) -> Result<()> {
    let heard = AtomicBool::new(false);
    let on_signal = move || {
        if heard.swap(true, Ordering::Relaxed) {
            process::exit(INTERRUPTED);
        }
        stop();
    };
    ctrlc::set_handler(on_signal).context("cannot listen for signals")
}

/// Says that the command is stopping, and in `promise` what happens to the work done so far.
pub fn say_stopping(console: &Console, promise: &str) {
    console.line(format_args!("stopping; {promise}; a second signal stops immediately"));
}
