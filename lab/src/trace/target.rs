//! What a trace is replayed to.

use std::sync::Arc;

use anyhow::Result;
use onefold_block::{BlockDevice, Durability};

use crate::nbd::Client;

/// A device that one thread reads and writes; its offsets and lengths are in bytes.
pub trait Target: Send {
    /// How long it is.
    fn size(&self) -> u64;
    /// Fills all of `buffer`.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()>;
    /// Writes all of `data`.
    fn write(&mut self, offset: u64, data: &[u8]) -> Result<()>;
    /// Makes durable what was written.
    fn flush(&mut self) -> Result<()>;
}

/// A device of this process.
pub struct Device(pub Arc<dyn BlockDevice>);

impl Target for Device {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        Ok(self.0.read(offset, buffer)?)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        Ok(self.0.write(offset, data, Durability::OnFlush)?)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(self.0.flush()?)
    }
}

impl Target for Client {
    fn size(&self) -> u64 {
        Client::size(self)
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        Client::read(self, offset, buffer)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        Client::write(self, offset, data)
    }

    fn flush(&mut self) -> Result<()> {
        Client::flush(self)
    }
}
