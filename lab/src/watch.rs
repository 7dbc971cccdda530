//! A bar for measurements, and the signal that ends them early.

use std::sync::Arc;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use onefold_bench::Watch;
use onefold_store::Cancel;
use onefold_terminal::Console;

use crate::interrupt::cancel_on_signal;

/// Fits in 80 columns: a bar that wraps cannot be drawn over.
const STYLE: &str = "{bar:20} {percent:>3}%  eta {eta}  {msg}";

/// Shows how far a measurement is, and stops it at the first signal.
pub(crate) struct Bar {
    bar: ProgressBar,
    console: Console,
    cancel: Arc<Cancel>,
}

impl Bar {
    /// Listens for signals from now on. `promise` is said at the first.
    pub(crate) fn new(console: &Console, promise: &'static str) -> Result<Self> {
        let cancel = cancel_on_signal(console, promise)?;
        let bar = console.bars().add(ProgressBar::no_length());
        bar.set_style(ProgressStyle::with_template(STYLE).expect("the template is valid"));
        Ok(Self { bar, console: console.clone(), cancel })
    }
}

impl Watch for Bar {
    fn begin(&self, what: &str, total: u64) {
        self.console.detail(what);
        self.bar.reset();
        self.bar.set_length(total);
        self.bar.set_message(what.to_owned());
    }

    fn advance(&self, steps: u64) {
        self.bar.inc(steps);
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
