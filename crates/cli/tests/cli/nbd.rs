//! A client of the NBD protocol, as little of it as the tests need.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub(crate) const EPERM: u32 = 1;
pub(crate) const ENOSPC: u32 = 28;
pub(crate) const EIO: u32 = 5;

/// A connection that has chosen an export.
pub(crate) struct Nbd {
    stream: UnixStream,
    /// Of the export, in bytes.
    pub(crate) size: u64,
    /// Whether the server says that it can be resized.
    pub(crate) may_resize: bool,
}

impl Nbd {
    /// Chooses `name`, which must be there.
    pub(crate) fn open(socket: &Path, name: &str) -> Self {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        // fixed newstyle and no zeroes; then the option that chooses an export
        let mut choice = [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 1]].concat();
        choice.extend((name.len() as u32).to_be_bytes());
        choice.extend(name.as_bytes());
        stream.write_all(&choice).unwrap();
        let mut export = [0; 10];
        stream.read_exact(&mut export).unwrap();
        let size = u64::from_be_bytes(export[..8].try_into().unwrap());
        let may_resize = u16::from_be_bytes(export[8..].try_into().unwrap()) & (1 << 9) != 0;
        Self { stream, size, may_resize }
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), u32> {
        self.ask(1, offset, data.len(), data)
    }

    pub(crate) fn read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, u32> {
        self.ask(0, offset, len, &[])?;
        let mut data = vec![0; len];
        self.stream.read_exact(&mut data).unwrap();
        Ok(data)
    }

    pub(crate) fn flush(&mut self) -> Result<(), u32> {
        self.ask(3, 0, 0, &[])
    }

    pub(crate) fn trim(&mut self, offset: u64, len: usize) -> Result<(), u32> {
        self.ask(4, offset, len, &[])
    }

    pub(crate) fn zeroes(&mut self, offset: u64, len: usize) -> Result<(), u32> {
        self.ask(6, offset, len, &[])
    }

    pub(crate) fn resize(&mut self, size: u64) -> Result<(), u32> {
        self.ask(8, size, 0, &[])
    }

    /// Whether the server has closed the connection, waiting until it does.
    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.stream.read(&mut [0]), Ok(0))
    }

    fn ask(&mut self, command: u16, offset: u64, len: usize, data: &[u8]) -> Result<(), u32> {
        let mut request = vec![0x25, 0x60, 0x95, 0x13, 0, 0];
        request.extend(command.to_be_bytes());
        request.extend(9_u64.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend((len as u32).to_be_bytes());
        request.extend(data);
        self.stream.write_all(&request).unwrap();
        let mut reply = [0; 16];
        self.stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..4], [0x67, 0x44, 0x66, 0x98]);
        assert_eq!(reply[8..], 9_u64.to_be_bytes());
        match u32::from_be_bytes(reply[4..8].try_into().unwrap()) {
            0 => Ok(()),
            errno => Err(errno),
        }
    }
}
