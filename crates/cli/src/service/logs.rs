//! The log of a served pool: one line per event, on standard error. It never has the content of a page.

use std::io::{self, IsTerminal};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Args, ValueEnum};
use onefold_block::{BlockError, Operation};
use onefold_nbd::Event;
use tracing::level_filters::LevelFilter;
use tracing::{debug, info, warn};

use super::metrics::label;
use crate::console::Console;

/// Failures of a kind that are logged per [`SPAN`]; the others are counted.
const TOLD: u32 = 10;
const SPAN: Duration = Duration::from_secs(10);

/// Options for the format and the level of the log.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// The format of logs: text, or one JSON object per line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: Format,
    /// The lowest level that is logged [default: info, or set by --quiet and --verbose]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<Level>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

impl LogArgs {
    /// Whether the final error is logged as an event. With --json alone it is printed as by every other
    /// command.
    pub(crate) fn has_errors(&self, console: &Console) -> bool {
        matches!(self.log_format, Format::Json) || !console.is_json()
    }

    /// Starts logging.
    pub(crate) fn start(&self, console: &Console) -> Result<()> {
        let level = match self.log_level {
            Some(Level::Error) => LevelFilter::ERROR,
            Some(Level::Warn) => LevelFilter::WARN,
            Some(Level::Info) => LevelFilter::INFO,
            Some(Level::Debug) => LevelFilter::DEBUG,
            None if console.is_quiet() => LevelFilter::WARN,
            None if console.is_verbose() => LevelFilter::DEBUG,
            None => LevelFilter::INFO,
        };
        let lines = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_target(false)
            .with_ansi(io::stderr().is_terminal())
            .with_writer(io::stderr);
        let started = match self.log_format {
            Format::Text => lines.try_init(),
            Format::Json => lines.json().flatten_event(true).try_init(),
        };
        started.map_err(|error| anyhow::anyhow!("cannot write logs: {error}"))
    }
}

/// Logs events of connections. `strangers` counts those that fail before they choose a volume, or that
/// cannot be accepted.
pub(crate) fn connection(event: &Event<'_>, strangers: &Failures) {
    match event {
        Event::Served { peer, name, is_encrypted } => {
            info!(%peer, volume = name, tls = is_encrypted, "a client uses a volume");
        }
        Event::Ended { peer, name, error: None } => match name {
            Some(name) => info!(%peer, volume = name, "a client disconnected"),
            None => debug!(%peer, "a client disconnected without choosing a volume"),
        },
        Event::Ended { peer, name: Some(name), error: Some(error) } => {
            warn!(%peer, volume = name, %error, "a connection ended");
        }
        Event::Ended { peer, name: None, error: Some(error) } => {
            if let Some(silent) = strangers.pass(Instant::now()) {
                warn!(%peer, %error, silent, "a connection ended");
            }
        }
        Event::Refused { peer, name, operation, offset, len, why } => {
            let operation = operation.map(label);
            debug!(%peer, volume = name, operation, offset, len, why, "a request was refused");
        }
        Event::NotAccepted { error } => {
            if let Some(silent) = strangers.pass(Instant::now()) {
                warn!(%error, silent, "a client could not be accepted");
            }
        }
        _ => {}
    }
}

/// Failures of one kind, of which a client may cause any number.
pub(crate) struct Failures {
    told: Mutex<Told>,
    /// The message for failures that were not logged singly.
    further: &'static str,
}

#[derive(Default)]
struct Told {
    since: Option<Instant>,
    count: u32,
    /// Failures since the last logged one.
    silent: u64,
}

impl Failures {
    /// Failures of requests.
    pub(crate) fn of_requests() -> Self {
        Self { told: Mutex::default(), further: "further requests failed" }
    }

    /// Failures of clients that have not chosen a volume: any client that reaches the server.
    pub(crate) fn of_strangers() -> Self {
        Self { told: Mutex::default(), further: "further connections ended, or were not accepted" }
    }

    /// Logs a failed request for bytes of `volume`, unless there are too many.
    pub(crate) fn tell(
        &self,
        volume: &str,
        operation: Operation,
        range: Range<u64>,
        error: &BlockError,
    ) {
        let operation = label(operation);
        let (offset, len) = (range.start, range.end - range.start);
        if !matches!(error, BlockError::NoSpace { .. } | BlockError::Io { .. }) {
            debug!(volume, operation, offset, len, %error, "a request was refused");
        } else if let Some(silent) = self.pass(Instant::now()) {
            warn!(volume, operation, offset, len, %error, silent, "a request failed");
        }
    }

    /// Logs how many were not logged singly, when the span is over, even if no further failure occurs.
    pub(crate) fn tell_silent(&self) {
        if let Some(silent) = self.due(Instant::now()) {
            warn!(silent, "{}", self.further);
        }
    }

    /// The same at the end.
    pub(crate) fn tell_last(&self) {
        let silent = std::mem::take(&mut self.told().silent);
        if silent > 0 {
            warn!(silent, "{}", self.further);
        }
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many were not logged singly, if any, once the span is over.
    fn due(&self, now: Instant) -> Option<u64> {
        let mut told = self.told();
        let is_over = told.since.is_some_and(|since| now.duration_since(since) >= SPAN);
        (is_over && told.silent > 0).then(|| std::mem::take(&mut told.silent))
    }

    /// How many were not logged before this one, if this one may be logged.
    fn pass(&self, now: Instant) -> Option<u64> {
        let mut told = self.told();
        if told.since.is_none_or(|since| now.duration_since(since) >= SPAN) {
            (told.since, told.count) = (Some(now), 0);
        }
        if told.count == TOLD {
            told.silent += 1;
            return None;
        }
        told.count += 1;
        Some(std::mem::take(&mut told.silent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_failures_some_are_told_and_the_others_counted() {
        let failures = Failures::of_requests();
        let start = Instant::now();
        let told = (0..1000).filter(|_| failures.pass(start).is_some()).count();
        assert_eq!(told, 10);
        assert_eq!(failures.pass(start + SPAN / 2), None);
        assert_eq!(failures.pass(start + SPAN), Some(991));
        assert_eq!(failures.pass(start + SPAN), Some(0));
    }

    #[test]
    fn clients_that_cannot_be_let_in_are_strangers() {
        let strangers = Failures::of_strangers();
        let error = io::Error::other("too many files are open");
        for _ in 0..1000 {
            connection(&Event::NotAccepted { error: &error }, &strangers);
        }
        assert_eq!(strangers.told().silent, 990);
    }

    #[test]
    fn those_that_are_not_told_are_counted_though_none_fails_any_more() {
        let failures = Failures::of_requests();
        let start = Instant::now();
        assert_eq!(failures.due(start), None);
        assert_eq!((0..12).filter(|_| failures.pass(start).is_some()).count(), 10);
        assert_eq!(failures.due(start + SPAN / 2), None);
        assert_eq!(failures.due(start + SPAN), Some(2));
        assert_eq!(failures.due(start + SPAN * 2), None, "once");
        assert_eq!(failures.pass(start + SPAN * 2), Some(0));
    }
}
