//! Signals that ask to stop.

use std::process;
use std::sync::Arc;

use anyhow::{Context, Result};
use onefold_store::Cancel;
use onefold_terminal::Console;

use crate::exit::Exit;

/// What the first SIGINT, SIGTERM or SIGHUP cancels; the second ends the program.
///
/// `promise` is said at the first: what becomes of the work that is done.
pub(crate) fn cancel_on_signal(console: &Console, promise: &'static str) -> Result<Arc<Cancel>> {
    let cancel = Arc::new(Cancel::default());
    let (heard, console) = (Arc::clone(&cancel), console.clone());
    let on_signal = move || {
        if heard.is_cancelled() {
            process::exit(Exit::Interrupted.code().into());
        }
        heard.cancel();
        console.line(format_args!("stopping; {promise}; a second signal stops at once"));
    };
    ctrlc::set_handler(on_signal).context("cannot listen for signals")?;
    Ok(cancel)
}
