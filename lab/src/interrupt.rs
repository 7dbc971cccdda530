//! Signals that ask to stop.

use std::sync::Arc;

use anyhow::Result;
use onefold_store::Cancel;
use onefold_terminal::{Bar, Console, say_stopping, stop_on_signal};

/// What the first SIGINT, SIGTERM or SIGHUP cancels; the second ends the program.
///
/// `promise` is said at the first: what becomes of the work that is done.
pub(crate) fn cancel_on_signal(console: &Console, promise: &'static str) -> Result<Arc<Cancel>> {
    let cancel = Arc::new(Cancel::default());
    let (heard, console) = (Arc::clone(&cancel), console.clone());
    stop_on_signal(move || {
        heard.cancel();
        say_stopping(&console, promise);
    })?;
    Ok(cancel)
}

/// A bar for a measurement, which the first signal stops.
pub(crate) fn bar_until_signal(console: &Console, promise: &'static str) -> Result<Bar> {
    let cancel = cancel_on_signal(console, promise)?;
    Ok(Bar::new(console, move || cancel.is_cancelled()))
}
