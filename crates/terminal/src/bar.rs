//! A bar for measurements that can be stopped.

use indicatif::{ProgressBar, ProgressStyle};
use onefold_bench::Watch;

use crate::Console;

/// Fits in 80 columns: a bar that wraps cannot be drawn over.
const STYLE: &str = "{bar:20} {percent:>3}%  eta {eta}  {msg}";

/// Shows how far a measurement is, and knows whether it should stop.
pub struct Bar {
    bar: ProgressBar,
    console: Console,
    is_cancelled: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Bar {
    /// A bar above which `console` speaks; `is_cancelled` tells whether to stop.
    pub fn new(console: &Console, is_cancelled: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let bar = console.bars().add(ProgressBar::no_length());
        bar.set_style(ProgressStyle::with_template(STYLE).expect("the template is valid"));
        Self { bar, console: console.clone(), is_cancelled: Box::new(is_cancelled) }
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
        (self.is_cancelled)()
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
