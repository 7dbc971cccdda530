//! What is said of what happens while a pool is served: one line an event, on standard error. Never
//! what is in a page.

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

/// Failures of a kind that are told in [`SPAN`]; the others are counted.
const TOLD: u32 = 10;
const SPAN: Duration = Duration::from_secs(10);

/// How much is said, and how.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// For people, or a JSON object a line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: Format,
    /// The least that is worth a line [default: info, or as --quiet and --verbose say]
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
    /// Whether what ends the program is an event of the logs. With --json alone, programs look for it
    /// where every command has it.
    pub(crate) fn has_errors(&self, console: &Console) -> bool {
        matches!(self.log_format, Format::Json) || !console.is_json()
    }

    /// From now on events are written.
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

/// What happens to connections. Those that end badly before they chose a volume, or cannot be let in,
/// are `strangers`.
pub(crate) fn connection(event: &Event<'_>, strangers: &Failures) {
    match event {
        Event::Served { peer, name, is_encrypted } => {
            info!(%peer, volume = name, tls = is_encrypted, "a client uses a volume");
        }
        Event::Ended { peer, name, error: None } => match name {
            Some(name) => info!(%peer, volume = name, "a client has gone"),
            None => debug!(%peer, "a client has gone that chose no volume"),
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
                warn!(%error, silent, "a client could not be let in");
            }
        }
        _ => {}
    }
}

/// Failures of one kind, of which a client may cause as many as it likes.
pub(crate) struct Failures {
    told: Mutex<Told>,
    /// What is said of those that were not told.
    further: &'static str,
}

#[derive(Default)]
struct Told {
    since: Option<Instant>,
    count: u32,
    /// Those that were not told since the last that was.
    silent: u64,
}

impl Failures {
    /// Those of requests.
    pub(crate) fn of_requests() -> Self {
        Self { told: Mutex::default(), further: "further requests failed" }
    }

    /// Those of clients that have not chosen a volume: anybody who reaches the server.
    pub(crate) fn of_strangers() -> Self {
        Self { told: Mutex::default(), further: "further connections ended, or were not let in" }
    }

    /// Tells of a request for bytes of `volume` that failed, unless there are too many.
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

    /// Tells how many were not told, once the time for it has come, though none comes any more.
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

    /// How many were not told, if some were and the span is over in which they were too many.
    fn due(&self, now: Instant) -> Option<u64> {
        let mut told = self.told();
        let is_over = told.since.is_some_and(|since| now.duration_since(since) >= SPAN);
        (is_over && told.silent > 0).then(|| std::mem::take(&mut told.silent))
    }

    /// How many were not told before this one, if it may be told.
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
