//! The minimum speed of a client in the middle of a transfer.

use std::io;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use crate::{Limits, NbdError};

/// The minimum speed of a client in the middle of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    stall: Duration,
    /// In bytes a second.
    least_rate: u32,
}

/// A transfer of bytes from a client or to it.
pub(crate) struct Transfer {
    what: &'static str,
    /// How long it may stall.
    stall: Duration,
    /// How long all of it may take.
    whole: Duration,
    begun: Instant,
}

impl Pace {
    pub(crate) fn of(limits: &Limits) -> Pace {
        Pace { stall: limits.stall, least_rate: limits.least_rate }
    }

    /// Begins the transfer of `len` bytes, which are a part of `what`.
    pub(crate) fn begin(self, what: &'static str, len: usize) -> Transfer {
        let moving = Duration::from_millis(len as u64 * 1000 / u64::from(self.least_rate));
        Transfer { what, stall: self.stall, whole: self.stall + moving, begun: Instant::now() }
    }
}

impl Transfer {
    /// Transfers some of the bytes. Fails if this step, or the whole transfer, takes too long.
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
