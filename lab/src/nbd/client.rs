//! A connection to an export.
//!
//! It asks for no structured replies, since it needs nothing that they can do. No TLS.

use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::uri::{Place, Uri};

const GREETING: &[u8; 16] = b"NBDMAGICIHAVEOPT";
const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u32 = 2;
const OPTION_ABORT: u32 = 2;
const OPTION_GO: u32 = 7;
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const ANSWER_ACK: u32 = 1;
const ANSWER_INFO: u32 = 3;
const ANSWER_ERROR: u32 = 1 << 31;
const INFO_EXPORT: u16 = 0;
const FLAG_READ_ONLY: u16 = 1 << 1;
const FLAG_MULTI_CONN: u16 = 1 << 8;
const REQUEST: u32 = 0x2560_9513;
const SIMPLE_REPLY: u32 = 0x6744_6698;
const FUA: u16 = 1;

/// No answer of a handshake is longer.
const MAX_ANSWER: u32 = 64 << 10;

/// No request is longer, whatever the server would take; longer ones are split.
const MAX_LEN: usize = 32 << 20;

/// How long nothing may come, and nothing be taken, unless the caller says otherwise.
const PATIENCE: Duration = Duration::from_secs(120);

enum Command {
    Read = 0,
    Write = 1,
    Disconnect = 2,
    Flush = 3,
    Trim = 4,
}

trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

/// A connection to an export.
pub struct Client {
    wire: Box<dyn Wire>,
    size: u64,
    flags: u16,
    cookie: u64,
    /// Whether the server has let this client have the export.
    is_served: bool,
}

/// A server's answer that it did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What was asked.
    pub request: String,
    /// The error, by the number that the protocol has for it.
    pub errno: u32,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.errno {
            1 => "EPERM",
            5 => "EIO",
            12 => "ENOMEM",
            22 => "EINVAL",
            28 => "ENOSPC",
            75 => "EOVERFLOW",
            95 => "ENOTSUP",
            108 => "ESHUTDOWN",
            _ => "an error without a name",
        };
        write!(f, "the server refused {}: {name} ({})", self.request, self.errno)
    }
}

impl std::error::Error for Refused {}

impl Client {
    /// Connects and asks for the export.
    ///
    /// # Errors
    ///
    /// Nobody listens there, no such export, and what is no NBD.
    pub fn connect(uri: &Uri) -> Result<Self> {
        Self::connect_with(uri, PATIENCE)
    }

    /// The same for a server that may take as long as `patience` before its first reply, because it opens
    /// something large, and for any later reply.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub fn connect_with(uri: &Uri, patience: Duration) -> Result<Self> {
        let wire: Box<dyn Wire> = match &uri.place {
            Place::Tcp(host, port) => {
                let place = || format!("cannot connect to {host}, port {port}");
                let stream = TcpStream::connect((host.as_str(), *port)).with_context(place)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                Box::new(stream)
            }
            Place::Unix(path) => {
                let place = || format!("cannot connect to socket '{}'", path.display());
                let stream = UnixStream::connect(path).with_context(place)?;
                stream.set_read_timeout(Some(patience))?;
                stream.set_write_timeout(Some(patience))?;
                Box::new(stream)
            }
        };
        let mut client = Self { wire, size: 0, flags: 0, cookie: 0, is_served: false };
        client.ask_for(&uri.export).with_context(|| format!("export '{}'", uri.export))?;
        client.is_served = true;
        Ok(client)
    }

    /// The size of the export in bytes, as it was when the connection began.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether the server refuses writes.
    pub fn is_read_only(&self) -> bool {
        self.flags & FLAG_READ_ONLY != 0
    }

    /// Whether a flush on one connection covers what others wrote.
    pub fn is_shared(&self) -> bool {
        self.flags & FLAG_MULTI_CONN != 0
    }

    /// Fills all of `buffer` with what is at byte `offset`.
    ///
    /// # Errors
    ///
    /// [`Refused`], and a connection that ends.
    pub fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut at = offset;
        for part in buffer.chunks_mut(MAX_LEN) {
            self.send(Command::Read, 0, at, part.len(), &[])?;
            self.expect_reply(|| format!("a read of {} bytes at {at}", part.len()))?;
            self.wire.read_exact(part).context("the connection ended")?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Writes `data` at byte `offset`; a flush makes it durable.
    ///
    /// # Errors
    ///
    /// [`Refused`], and a connection that ends.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.write_with(0, offset, data)
    }

    /// Writes `data` at byte `offset`, durably when this returns.
    ///
    /// # Errors
    ///
    /// [`Refused`], and a connection that ends.
    pub fn write_durably(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.write_with(FUA, offset, data)
    }

    fn write_with(&mut self, flags: u16, offset: u64, data: &[u8]) -> Result<()> {
        let mut at = offset;
        for part in data.chunks(MAX_LEN) {
            self.send(Command::Write, flags, at, part.len(), part)?;
            self.expect_reply(|| format!("a write of {} bytes at {at}", part.len()))?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Makes durable what was written before, on all connections if the export is shared.
    ///
    /// # Errors
    ///
    /// [`Refused`], and a connection that ends.
    pub fn flush(&mut self) -> Result<()> {
        self.send(Command::Flush, 0, 0, 0, &[])?;
        self.expect_reply(|| "a flush".into())
    }

    /// Gives back the space of `len` bytes at byte `offset`, which need not read as zeros then.
    ///
    /// # Errors
    ///
    /// [`Refused`], and a connection that ends.
    pub fn trim(&mut self, offset: u64, len: u32) -> Result<()> {
        self.send(Command::Trim, 0, offset, len as usize, &[])?;
        self.expect_reply(|| format!("a trim of {len} bytes at {offset}"))
    }

    /// Begins a write and sends only a part of its data, for a test of what a server makes of that.
    ///
    /// # Errors
    ///
    /// A connection that ends.
    pub fn begin_write(&mut self, offset: u64, len: usize, part: &[u8]) -> Result<()> {
        self.send(Command::Write, 0, offset, len, part)
    }

    /// The handshake.
    fn ask_for(&mut self, export: &str) -> Result<()> {
        ensure!(self.array::<16>()? == *GREETING, "who listens there does not speak NBD");
        let flags = u16::from_be_bytes(self.array()?);
        ensure!(flags & FIXED_NEWSTYLE != 0, "the server is too old");
        let answer = (u32::from(flags) & NO_ZEROES) | u32::from(FIXED_NEWSTYLE);
        let mut data = (export.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(export.as_bytes());
        data.extend_from_slice(&[0, 0]);
        self.wire.write_all(&answer.to_be_bytes())?;
        self.wire.write_all(&option(OPTION_GO, &data))?;
        let mut is_known = false;
        loop {
            let (kind, data) = self.answer(OPTION_GO)?;
            match kind {
                ANSWER_ACK => {
                    ensure!(is_known, "the server does not say how long it is");
                    return Ok(());
                }
                ANSWER_INFO => is_known |= self.learn(&data),
                kind if kind & ANSWER_ERROR != 0 => {
                    // the refusal says more than a farewell that fails
                    let _ = self.abort();
                    bail!(
                        "the server refused it (error {}): {}",
                        kind & !ANSWER_ERROR,
                        String::from_utf8_lossy(&data)
                    )
                }
                // nothing else was asked
                _ => {}
            }
        }
    }

    /// Takes leave of a server that did not let this client have the export.
    fn abort(&mut self) -> Result<()> {
        self.wire.write_all(&option(OPTION_ABORT, &[]))?;
        self.answer(OPTION_ABORT).map(drop)
    }

    /// Whether this is what is told of the export.
    fn learn(&mut self, info: &[u8]) -> bool {
        let Some((kind, info)) = info.split_first_chunk() else { return false };
        let Some((size, flags)) = info.split_first_chunk() else { return false };
        let Ok(flags) = flags.try_into() else { return false };
        if u16::from_be_bytes(*kind) != INFO_EXPORT {
            return false;
        }
        (self.size, self.flags) = (u64::from_be_bytes(*size), u16::from_be_bytes(flags));
        true
    }

    /// Kind and data of the next answer to an option.
    fn answer(&mut self, option: u32) -> Result<(u32, Vec<u8>)> {
        ensure!(u64::from_be_bytes(self.array()?) == OPTION_REPLY, "an answer that is none");
        ensure!(u32::from_be_bytes(self.array()?) == option, "an answer to something else");
        let kind = u32::from_be_bytes(self.array()?);
        let len = u32::from_be_bytes(self.array()?);
        ensure!(len <= MAX_ANSWER, "an answer of {len} bytes, expected at most {MAX_ANSWER}");
        let mut data = vec![0; len as usize];
        self.wire.read_exact(&mut data)?;
        Ok((kind, data))
    }

    fn send(
        &mut self,
        command: Command,
        flags: u16,
        offset: u64,
        len: usize,
        data: &[u8],
    ) -> Result<()> {
        self.cookie += 1;
        let mut request = Vec::with_capacity(28 + data.len());
        request.extend_from_slice(&REQUEST.to_be_bytes());
        request.extend_from_slice(&flags.to_be_bytes());
        request.extend_from_slice(&(command as u16).to_be_bytes());
        request.extend_from_slice(&self.cookie.to_be_bytes());
        request.extend_from_slice(&offset.to_be_bytes());
        request.extend_from_slice(&(len as u32).to_be_bytes());
        request.extend_from_slice(data);
        self.wire.write_all(&request).context("the connection ended")
    }

    fn expect_reply(&mut self, request: impl FnOnce() -> String) -> Result<()> {
        let magic = u32::from_be_bytes(self.array()?);
        let errno = u32::from_be_bytes(self.array()?);
        let cookie = u64::from_be_bytes(self.array()?);
        ensure!(magic == SIMPLE_REPLY, "a reply that is none: it begins with {magic:#x}");
        ensure!(cookie == self.cookie, "a reply to request {cookie}, expected {}", self.cookie);
        if errno != 0 {
            return Err(Refused { request: request(), errno }.into());
        }
        Ok(())
    }

    fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN]> {
        let mut bytes = [0; LEN];
        self.wire.read_exact(&mut bytes).context("the connection ended")?;
        Ok(bytes)
    }
}

/// An option of the handshake.
fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = GREETING[8..].to_vec();
    bytes.extend_from_slice(&option.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.is_served {
            // the server notices anyway
            let _ = self.send(Command::Disconnect, 0, 0, 0, &[]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use onefold_block::{BlockSize, MemoryDevice};
    use onefold_nbd::{Config, Event, Export, Listen, Server};

    use super::*;

    fn served() -> (tempfile::TempDir, Server, Uri) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let device = Arc::new(MemoryDevice::new(1 << 20, BlockSize::B4096).unwrap());
        let listen = vec![Listen::Unix(socket.clone())];
        let server = Server::start(Config::new(listen, vec![Export::new("disk", device)])).unwrap();
        let uri = Uri { place: Place::Unix(socket), export: "disk".into() };
        (folder, server, uri)
    }

    #[test]
    fn what_was_written_is_read_on_every_connection() {
        let (_folder, _server, uri) = served();
        let mut clients = [0; 2].map(|_| Client::connect(&uri).unwrap());
        assert!(clients[0].is_shared());
        assert_eq!(clients[0].size(), 1 << 20);
        clients[0].write(5000, &[7; 3000]).unwrap();
        clients[1].write_durably(8000, &[8; 10]).unwrap();
        clients[1].flush().unwrap();
        let mut found = [0; 3012];
        clients[1].read(4999, &mut found).unwrap();
        assert_eq!((found[0], found[1], found[3000]), (0, 7, 7));
        clients[0].trim(4096, 4096).unwrap();
        clients[0].read(4999, &mut found).unwrap();
        assert_eq!((found[1], found[3000]), (0, 0));
    }

    #[test]
    fn errors_are_told_by_name_and_the_connection_goes_on() {
        let (_folder, _server, uri) = served();
        let mut client = Client::connect(&uri).unwrap();
        let error = client.write(1 << 20, &[0; 512]).unwrap_err();
        let refused = error.downcast_ref::<Refused>().unwrap();
        assert_eq!(refused.errno, 28);
        assert_eq!(
            refused.to_string(),
            "the server refused a write of 512 bytes at 1048576: ENOSPC (28)"
        );
        client.flush().unwrap();
        let other = Uri { export: "other".into(), ..uri };
        let error = format!("{:#}", Client::connect(&other).err().unwrap());
        assert!(error.contains("export 'other': the server refused it"), "{error}");
        let nobody = Uri { place: Place::Unix("/nowhere/socket".into()), ..other };
        let error = format!("{:#}", Client::connect(&nobody).err().unwrap());
        assert!(error.contains("cannot connect to socket '/nowhere/socket'"), "{error}");
    }

    #[test]
    fn who_is_refused_takes_leave_and_breaks_no_rule() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let device = Arc::new(MemoryDevice::new(1 << 20, BlockSize::B4096).unwrap());
        let mut config =
            Config::new(vec![Listen::Unix(socket.clone())], vec![Export::new("disk", device)]);
        let (ended, ends) = std::sync::mpsc::channel();
        config.on_event = Arc::new(move |event| {
            if let Event::Ended { error, .. } = event {
                ended.send(error.map(ToString::to_string)).unwrap();
            }
        });
        let _server = Server::start(config).unwrap();
        for export in ["other", "disk"] {
            let uri = Uri { place: Place::Unix(socket.clone()), export: export.into() };
            let client = Client::connect(&uri);
            assert_eq!(client.is_ok(), export == "disk");
            drop(client);
            assert_eq!(ends.recv().unwrap(), None, "{export}");
        }
    }

    #[test]
    fn who_does_not_speak_nbd_is_found_out() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let answered = std::thread::spawn(move || {
            for text in ["HTTP/1.1 400 Bad Request", "NBDMAGIC"] {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(text.as_bytes()).unwrap();
            }
        });
        let uri = Uri { place: Place::Unix(socket), export: String::new() };
        for expected in ["does not speak NBD", "the connection ended"] {
            let error = format!("{:#}", Client::connect(&uri).err().unwrap());
            assert!(error.contains(expected), "{error}");
        }
        answered.join().unwrap();
    }
}
