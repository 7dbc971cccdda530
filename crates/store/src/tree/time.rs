//! Moments, as file systems and objects keep them.

use std::time::UNIX_EPOCH;

use onefold_seal::wire::{Put, Reader, WireError};

use crate::clock;

/// A moment, as file systems keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time {
    /// Seconds since 1970-01-01 00:00:00 UTC; negative before.
    pub secs: i64,
    /// Nanoseconds after that second, below 10^9.
    pub nanos: u32,
}

impl Time {
    /// This moment; 1970 if the clock stands before.
    pub fn now() -> Self {
        let since = clock::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { secs: since.as_secs() as i64, nanos: since.subsec_nanos() }
    }

    pub(crate) fn encode(self, body: &mut Vec<u8>) {
        body.put_signed(self.secs);
        body.put_varint(self.nanos.into());
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let secs = reader.signed("seconds")?;
        let nanos = reader.varint_to(999_999_999, "nanoseconds")? as u32;
        Ok(Self { secs, nanos })
    }
}
