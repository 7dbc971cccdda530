//! Standard error: what is said beside the answer.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{MultiProgress, ProgressDrawTarget};

use crate::args::Common;
use crate::name::shown;
use crate::requests::Service;

/// Says things on standard error, above a progress bar if there is one.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    json: bool,
    quiet: bool,
    verbosity: u8,
    /// Whether the repository is not what it should be.
    alarmed: Arc<AtomicBool>,
    /// Whether what was seen of the repository could not be had.
    forgot: Arc<AtomicBool>,
    /// The services that were reached.
    services: Arc<Mutex<Vec<Service>>>,
    bars: MultiProgress,
}

impl Console {
    /// A console as talkative as the user wants it.
    pub(crate) fn new(common: &Common) -> Self {
        Self::with(common.is_json(), common.quiet, common.verbosity())
    }

    /// A console for programs, where it is not known what else was wanted.
    pub(crate) fn of_json() -> Self {
        Self::with(true, false, 0)
    }

    fn with(json: bool, quiet: bool, verbosity: u8) -> Self {
        // Draws nothing where standard error is no terminal.
        let bars = MultiProgress::new();
        if quiet || json {
            bars.set_draw_target(ProgressDrawTarget::hidden());
        }
        Self {
            json,
            quiet,
            verbosity,
            alarmed: Arc::default(),
            forgot: Arc::default(),
            services: Arc::default(),
            bars,
        }
    }

    /// Whether standard output is for programs.
    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    /// Whether summaries are left out.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether it is said what is being done.
    pub(crate) const fn is_verbose(&self) -> bool {
        self.verbosity > 0
    }

    /// Whether every file of a backup is named.
    pub(crate) const fn names_files(&self) -> bool {
        self.verbosity > 1
    }

    /// Notes that the repository is not what it should be, or that this was settled.
    pub(crate) fn alarm(&self, is_alarmed: bool) {
        self.alarmed.store(is_alarmed, Ordering::Relaxed);
    }

    /// Whether the repository is not what it should be.
    pub(crate) fn is_alarmed(&self) -> bool {
        self.alarmed.load(Ordering::Relaxed)
    }

    /// Notes that what was seen of the repository cannot be had.
    pub(crate) fn forget(&self) {
        self.forgot.store(true, Ordering::Relaxed);
    }

    /// Whether what was seen of the repository could not be had.
    pub(crate) fn has_forgotten(&self) -> bool {
        self.forgot.load(Ordering::Relaxed)
    }

    /// Adds a service. The command reports its requests at the end.
    pub(crate) fn add_service(&self, service: Service) {
        self.services.lock().unwrap_or_else(PoisonError::into_inner).push(service);
    }

    /// The services that were reached.
    pub(crate) fn services(&self) -> Vec<Service> {
        self.services.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where progress bars are drawn.
    pub(crate) const fn bars(&self) -> &MultiProgress {
        &self.bars
    }

    /// Says what the user should know and need not act on.
    pub(crate) fn notice(&self, text: impl Display) {
        if !self.quiet {
            self.line(text);
        }
    }

    /// Says what is being done, if the user wants to know.
    pub(crate) fn detail(&self, text: impl Display) {
        if self.is_verbose() {
            self.line(text);
        }
    }

    /// Says what may need the user's attention.
    pub(crate) fn warn(&self, text: impl Display) {
        self.line(format_args!("warning: {text}"));
    }

    /// Writes one line; control characters, which a file's name may have, are escaped.
    pub(crate) fn line(&self, text: impl Display) {
        let line = shown(text.to_string().as_bytes());
        // A standard error that is closed cannot be told of.
        self.bars.suspend(|| drop(writeln!(io::stderr(), "{line}")));
    }
}
