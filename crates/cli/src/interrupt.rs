//! Signals that ask to stop.

use std::process;
use std::sync::Arc;

use anyhow::{Context, Result};
use onefold_store::Cancel;

use crate::console::Console;
use crate::exit::Exit;

/// What the first SIGINT, SIGTERM or SIGHUP cancels; the second ends the program at once.
///
/// `promise` is said at the first: what becomes of the work that is done.
pub(crate) fn cancel_on_signal(console: &Console, promise: &'static str) -> Result<Arc<Cancel>> {
    let console = console.clone();
    cancel_telling(move || {
        console.line(format_args!("stopping; {promise}; a second signal stops at once"));
    })
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
    };
    ctrlc::set_handler(on_signal).context("cannot listen for signals")?;
    Ok(cancel)
}
