//! Timeouts for silence: a request may last as long as bytes are transferred.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use object_store::client::{HttpError, HttpErrorKind};
use tokio::time::{Instant, timeout_at};

/// When the last byte of a request moved. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    silence: Duration,
    last: Arc<Mutex<Instant>>,
}

impl Progress {
    /// Fails a request once no byte moved for `silence`, from now on.
    pub(super) fn begin(silence: Duration) -> Self {
        Self { silence, last: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Takes note that bytes moved, or were held back, until `time`.
    pub(super) fn note(&self, time: Instant) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = time.max(*last);
    }

    /// What comes of `what`, unless no byte moves for too long.
    pub(super) async fn watch<F: Future>(&self, what: F) -> Result<F::Output, HttpError> {
        let mut what = std::pin::pin!(what);
        loop {
            let end = self.end();
            match timeout_at(end, what.as_mut()).await {
                Ok(output) => return Ok(output),
                Err(_) if self.end() > end => {}
                Err(_) => return Err(silent(self.silence)),
            }
        }
    }

    /// When the silence after the last byte is too long.
    fn end(&self) -> Instant {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) + self.silence
    }
}

/// No byte moved for this time.
#[derive(Debug)]
struct Silent(Duration);

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no byte came or went for {:.1} s", self.0.as_secs_f64())
    }
}

impl std::error::Error for Silent {}

/// The error of a request for which no byte moved for `silence`.
pub(super) fn silent(silence: Duration) -> HttpError {
    HttpError::new(HttpErrorKind::Timeout, Silent(silence))
}
