//! The bytes that a client sends during the transmission, in pieces of requested lengths.

use std::io;

use tokio::io::AsyncReadExt;

use crate::NbdError;
use crate::pace::{Pace, Transfer};
use crate::stream::ReadHalf;

/// Bytes read by one system call if available, so that it reads several short requests.
const AHEAD: usize = 64 << 10;

/// Bytes from a client, some of them read ahead.
pub(crate) struct Inbox {
    reader: ReadHalf,
    ahead: Vec<u8>,
    /// How many of those have been consumed.
    taken: usize,
    pace: Pace,
}

impl Inbox {
    /// An inbox that fails if the client is slower than `pace` in the middle of something.
    pub(crate) fn new(reader: ReadHalf, pace: Pace) -> Inbox {
        Inbox { reader, ahead: Vec::with_capacity(AHEAD), taken: 0, pace }
    }

    /// Whether nothing has been read ahead.
    pub(crate) fn is_empty(&self) -> bool {
        self.ahead.len() == self.taken
    }

    /// Waits without limit until bytes arrive; false if the client closed the connection.
    ///
    /// Cancel safe: no bytes are lost.
    pub(crate) async fn wait(&mut self) -> Result<bool, NbdError> {
        Ok(!self.is_empty() || self.fill().await.map_err(NbdError::Io)? > 0)
    }

    /// The next `N` bytes, which are a part of `what`.
    pub(crate) async fn array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], NbdError> {
        let mut bytes = [0; N];
        self.read(&mut bytes, what).await?;
        Ok(bytes)
    }

    /// Fills `bytes`, which are a part of `what`.
    pub(crate) async fn read(
        &mut self,
        bytes: &mut [u8],
        what: &'static str,
    ) -> Result<(), NbdError> {
        let mut rest = self.take_ahead(bytes);
        if rest.is_empty() {
            return Ok(());
        }
        let transfer = self.pace.begin(what, rest.len());
        while !rest.is_empty() {
            if rest.len() < AHEAD {
                self.fill_in_time(&transfer).await?;
                rest = self.take_ahead(rest);
            } else {
                // straight to where it belongs
                let read = transfer.arrival(self.reader.read(rest)).await?;
                rest = &mut rest[read..];
            }
        }
        Ok(())
    }

    /// Reads and discards `len` bytes, which are a part of `what`.
    pub(crate) async fn skip(&mut self, len: usize, what: &'static str) -> Result<(), NbdError> {
        let mut rest = len;
        let transfer = self.pace.begin(what, len);
        loop {
            let skipped = rest.min(self.ahead.len() - self.taken);
            self.taken += skipped;
            rest -= skipped;
            if rest == 0 {
                return Ok(());
            }
            self.fill_in_time(&transfer).await?;
        }
    }

    /// Reads and discards bytes until the client closes the connection.
    pub(crate) async fn drain(&mut self) -> Result<(), NbdError> {
        while self.fill().await.map_err(NbdError::Io)? > 0 {
            self.taken = self.ahead.len();
        }
        Ok(())
    }

    /// Moves bytes that were read ahead to the front of `bytes`, and returns the rest of `bytes`.
    fn take_ahead<'b>(&mut self, bytes: &'b mut [u8]) -> &'b mut [u8] {
        let len = bytes.len().min(self.ahead.len() - self.taken);
        let (front, rest) = bytes.split_at_mut(len);
        front.copy_from_slice(&self.ahead[self.taken..self.taken + len]);
        self.taken += len;
        rest
    }

    /// Reads some bytes; 0 at the end. All bytes read ahead must have been consumed.
    async fn fill(&mut self) -> io::Result<usize> {
        assert!(self.is_empty(), "what was read ahead would be lost");
        self.ahead.clear();
        self.taken = 0;
        match self.reader.read_buf(&mut self.ahead).await {
            // a client that says no farewell over TLS
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            read => read,
        }
    }

    async fn fill_in_time(&mut self, transfer: &Transfer) -> Result<(), NbdError> {
        transfer.arrival(self.fill()).await.map(drop)
    }
}
