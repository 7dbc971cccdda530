//! Standard error: progress, notices, warnings and errors.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use onefold_terminal::Console as Terminal;

use crate::args::Common;
use crate::requests::Service;

/// Says things on standard error, and keeps what the end of the command has to tell.
#[derive(Clone, Debug)]
pub(crate) struct Console {
    terminal: Terminal,
    /// Whether the repository is not what it should be.
    alarmed: Arc<AtomicBool>,
    /// Whether what was seen of the repository could not be had.
    forgot: Arc<AtomicBool>,
    /// The services that were reached.
    services: Arc<Mutex<Vec<Service>>>,
}

impl Deref for Console {
    type Target = Terminal;

    fn deref(&self) -> &Terminal {
        &self.terminal
    }
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
        Self {
            terminal: Terminal::new(json, quiet, verbosity),
            alarmed: Arc::default(),
            forgot: Arc::default(),
            services: Arc::default(),
        }
    }

    /// Whether every file of a backup is named.
    pub(crate) fn names_files(&self) -> bool {
        self.verbosity() > 1
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
}
