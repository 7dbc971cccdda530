//! How slow a client may be in the middle of something.

use std::io;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::{Limits, NbdError};

/// How slow a client may be in the middle of something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    stall: Duration,
    /// In bytes a second.
    least_rate: u32,
}

/// Bytes that are on their way from a client or to it.
pub(crate) struct Transfer {
    what: &'static str,
    /// How long they may stop.
    stall: Duration,
    /// How long all of them may take.
    whole: Duration,
    begun: Instant,
}

impl Pace {
    pub(crate) fn of(limits: &Limits) -> Pace {
        Pace { stall: limits.stall, least_rate: limits.least_rate }
    }

    /// Begins to move `len` bytes, which are a part of `what`.
    pub(crate) fn begin(self, what: &'static str, len: usize) -> Transfer {
        let moving = Duration::from_millis(len as u64 * 1000 / u64::from(self.least_rate));
        Transfer { what, stall: self.stall, whole: self.stall + moving, begun: Instant::now() }
    }
}

impl Transfer {
    /// Moves some of the bytes, unless that takes too long, by itself or with what was before.
    pub(crate) async fn part<T>(
        &self,
        moving: impl Future<Output = io::Result<T>>,
    ) -> Result<T, NbdError> {
        let left = self.whole.saturating_sub(self.begun.elapsed());
        let (time, limit) =
            if left < self.stall { (left, self.whole) } else { (self.stall, self.stall) };
        match timeout(time, moving).await {
            Ok(moved) => moved.map_err(NbdError::Io),
            Err(_) => Err(NbdError::TimedOut { what: self.what, limit }),
        }
    }

    /// The same for bytes that are read, of which there is at least one.
    pub(crate) async fn arrival(
        &self,
        reading: impl Future<Output = io::Result<usize>>,
    ) -> Result<usize, NbdError> {
        match self.part(reading).await? {
            0 => Err(NbdError::Gone { what: self.what }),
            read => Ok(read),
        }
    }
}
