//! A client of the protocol that shares no code with the server, and can also misbehave.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub(crate) const EXPORT_NAME: u32 = 1;
pub(crate) const ABORT: u32 = 2;
pub(crate) const LIST: u32 = 3;
pub(crate) const STARTTLS: u32 = 5;
pub(crate) const INFO: u32 = 6;
pub(crate) const GO: u32 = 7;
pub(crate) const STRUCTURED_REPLY: u32 = 8;
pub(crate) const LIST_META_CONTEXT: u32 = 9;
pub(crate) const SET_META_CONTEXT: u32 = 10;

pub(crate) const ACK: u32 = 1;
pub(crate) const REP_SERVER: u32 = 2;
pub(crate) const REP_INFO: u32 = 3;
pub(crate) const REP_META_CONTEXT: u32 = 4;
pub(crate) const ERR_UNSUP: u32 = 0x8000_0001;
pub(crate) const ERR_POLICY: u32 = 0x8000_0002;
pub(crate) const ERR_INVALID: u32 = 0x8000_0003;
pub(crate) const ERR_TLS_REQD: u32 = 0x8000_0005;
pub(crate) const ERR_UNKNOWN: u32 = 0x8000_0006;
pub(crate) const ERR_SHUTDOWN: u32 = 0x8000_0007;
pub(crate) const ERR_TOO_BIG: u32 = 0x8000_0009;

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 1;
pub(crate) const DISCONNECT: u16 = 2;
pub(crate) const FLUSH: u16 = 3;
pub(crate) const TRIM: u16 = 4;
pub(crate) const CACHE: u16 = 5;
pub(crate) const WRITE_ZEROES: u16 = 6;
pub(crate) const BLOCK_STATUS: u16 = 7;
pub(crate) const RESIZE: u16 = 8;

pub(crate) const FUA: u16 = 1;
pub(crate) const NO_HOLE: u16 = 2;
pub(crate) const DF: u16 = 4;
pub(crate) const REQ_ONE: u16 = 8;
pub(crate) const FAST_ZERO: u16 = 16;

pub(crate) const EPERM: u32 = 1;
pub(crate) const EIO: u32 = 5;
pub(crate) const EINVAL: u32 = 22;
pub(crate) const ENOSPC: u32 = 28;
pub(crate) const EOVERFLOW: u32 = 75;
pub(crate) const ENOTSUP: u32 = 95;
pub(crate) const ESHUTDOWN: u32 = 108;

/// Longer than anything takes on a busy machine, so that a test ends that waits in vain.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a connection may run over.
pub(crate) trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

/// A connection to a server.
pub(crate) struct Client {
    pub(crate) wire: Box<dyn Wire>,
    is_structured: bool,
}

/// What a server said to a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A simple reply with an error, or 0.
    Simple { cookie: u64, errno: u32 },
    /// The only or last chunk of a structured reply.
    Chunk { cookie: u64, kind: u16, payload: Vec<u8> },
}

pub(crate) fn unix(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

pub(crate) fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

impl Client {
    /// Greets as a client of the fixed newstyle that wants no zeroes.
    pub(crate) fn greet(wire: impl Wire + 'static) -> Client {
        Client::greet_with(wire, 3)
    }

    /// A client over a connection on which the greetings have been exchanged.
    pub(crate) fn greeted(wire: impl Wire + 'static) -> Client {
        Client { wire: Box::new(wire), is_structured: false }
    }

    pub(crate) fn greet_with(wire: impl Wire + 'static, flags: u32) -> Client {
        let mut client = Client::greeted(wire);
        assert_eq!(client.bytes(16), b"NBDMAGICIHAVEOPT");
        assert_eq!(client.bytes(2), [0, 3], "flags of the server");
        client.send(&flags.to_be_bytes());
        client
    }

    /// A client that is served `name`, with structured replies and `base:allocation`.
    pub(crate) fn served(wire: impl Wire + 'static, name: &str) -> Client {
        let mut client = Client::greet(wire);
        client.structure();
        let contexts = client.option(SET_META_CONTEXT, &context_query(name, &["base:allocation"]));
        assert_eq!(contexts.len(), 2, "{contexts:?}");
        client.go(name);
        client
    }

    /// A client that is served `name`, with simple replies.
    pub(crate) fn served_simply(wire: impl Wire + 'static, name: &str) -> Client {
        let mut client = Client::greet(wire);
        client.go(name);
        client
    }

    pub(crate) fn structure(&mut self) {
        assert_eq!(self.option(STRUCTURED_REPLY, &[]), [(ACK, vec![])]);
        self.is_structured = true;
    }

    /// Size and flags of the export that is served from now on.
    pub(crate) fn go(&mut self, name: &str) -> (u64, u16) {
        let answers = self.option(GO, &info_query(name, &[]));
        assert_eq!(answers.last(), Some(&(ACK, vec![])), "{answers:?}");
        let (kind, info) = &answers[0];
        assert_eq!((*kind, info.len(), &info[..2]), (REP_INFO, 12, &[0, 0][..]));
        (u64_at(info, 2), u16::from_be_bytes([info[10], info[11]]))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.wire.write_all(bytes).unwrap();
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.wire.read_exact(&mut bytes).unwrap();
        bytes
    }

    pub(crate) fn send_option(&mut self, option: u32, data: &[u8]) {
        let len = data.len() as u32;
        let head = [&b"IHAVEOPT"[..], &option.to_be_bytes(), &len.to_be_bytes(), data].concat();
        self.send(&head);
    }

    /// All answers to an option, the last of which is an error or an acknowledgement.
    pub(crate) fn option(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send_option(option, data);
        let mut answers = Vec::new();
        loop {
            let head = self.bytes(20);
            assert_eq!(u64_at(&head, 0), 0x0003_e889_0455_65a9);
            assert_eq!(u32_at(&head, 8), option);
            let (kind, len) = (u32_at(&head, 12), u32_at(&head, 16));
            assert!(len <= 65_536, "an answer of {len} bytes");
            let data = self.bytes(len as usize);
            let is_last = kind == ACK || kind >= 1 << 31;
            answers.push((kind, data));
            if is_last {
                return answers;
            }
        }
    }

    /// The kind of the only answer to an option.
    pub(crate) fn answer(&mut self, option: u32, data: &[u8]) -> u32 {
        let answers = self.option(option, data);
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers[0].0
    }

    pub(crate) fn send_request(
        &mut self,
        (command, flags): (u16, u16),
        cookie: u64,
        offset: u64,
        len: u32,
    ) {
        self.send(&request((command, flags), cookie, offset, len));
    }

    /// The next reply to a request that reads nothing, or to any if replies are structured.
    pub(crate) fn reply(&mut self) -> Reply {
        self.reply_or_end().expect("a reply, not the end")
    }

    /// Sends, unless the server has ended the connection.
    pub(crate) fn send_or_end(&mut self, bytes: &[u8]) -> Option<()> {
        self.wire.write_all(bytes).ok()
    }

    /// The next reply, or `None` if the connection ends before it begins.
    pub(crate) fn reply_or_end(&mut self) -> Option<Reply> {
        let mut first = [0];
        self.wire.read_exact(&mut first).ok()?;
        let head = [&first[..], &self.bytes(15)].concat();
        Some(match u32_at(&head, 0) {
            0x6744_6698 => Reply::Simple { cookie: u64_at(&head, 8), errno: u32_at(&head, 4) },
            0x668e_33ef => {
                assert!(self.is_structured, "a chunk that nobody asked for");
                assert_eq!(head[4..6], [0, 1], "flags: the only chunk");
                let kind = u16::from_be_bytes([head[6], head[7]]);
                let len = self.bytes(4);
                let payload = self.bytes(u32_at(&len, 0) as usize);
                Reply::Chunk { cookie: u64_at(&head, 8), kind, payload }
            }
            magic => panic!("a reply begins with {magic:#x}"),
        })
    }

    /// What a server says to a request that it takes or refuses: 0 or an error.
    pub(crate) fn ask(&mut self, command: (u16, u16), offset: u64, len: u32) -> u32 {
        self.send_request(command, 77, offset, len);
        self.outcome(77)
    }

    pub(crate) fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> u32 {
        let head = request((WRITE, flags), 78, offset, data.len() as u32);
        self.send(&[&head, data].concat());
        self.outcome(78)
    }

    /// The outcome of the request with `cookie`, which no other reply may precede.
    pub(crate) fn outcome(&mut self, cookie: u64) -> u32 {
        match self.reply() {
            Reply::Simple { cookie: found, errno } => {
                assert_eq!(found, cookie);
                errno
            }
            Reply::Chunk { cookie: found, kind: 0, payload } => {
                assert_eq!((found, payload.len()), (cookie, 0));
                0
            }
            Reply::Chunk { cookie: found, kind: 0x8001, payload } => {
                assert_eq!(found, cookie);
                let len = usize::from(u16::from_be_bytes([payload[4], payload[5]]));
                let message = str::from_utf8(&payload[6..]).unwrap();
                assert_eq!(message.len(), len);
                assert!(!message.is_empty(), "an error without words");
                u32_at(&payload, 0)
            }
            other => panic!("{other:?}"),
        }
    }

    /// The bytes that are read, or an error.
    pub(crate) fn read(&mut self, flags: u16, offset: u64, len: u32) -> Result<Vec<u8>, u32> {
        self.send_request((READ, flags), 79, offset, len);
        self.read_reply(79, offset, len)
    }

    pub(crate) fn read_reply(
        &mut self,
        cookie: u64,
        offset: u64,
        len: u32,
    ) -> Result<Vec<u8>, u32> {
        match self.reply() {
            Reply::Simple { errno: 0, cookie: found } => {
                assert!(!self.is_structured, "a simple reply to a structured read");
                assert_eq!(found, cookie);
                Ok(self.bytes(len as usize))
            }
            Reply::Simple { errno, cookie: found } => {
                assert!(!self.is_structured, "a simple reply to a structured read");
                assert_eq!(found, cookie);
                Err(errno)
            }
            Reply::Chunk { kind: 1, payload, cookie: found } => {
                assert_eq!((found, u64_at(&payload, 0)), (cookie, offset));
                assert_eq!(payload.len(), 8 + len as usize);
                Ok(payload[8..].to_vec())
            }
            Reply::Chunk { kind: 0x8001, payload, .. } => Err(u32_at(&payload, 0)),
            other => panic!("{other:?}"),
        }
    }

    /// Lengths and states of extents, or an error.
    pub(crate) fn extents(
        &mut self,
        flags: u16,
        offset: u64,
        len: u32,
    ) -> Result<Vec<(u32, u32)>, u32> {
        self.send_request((BLOCK_STATUS, flags), 80, offset, len);
        match self.reply() {
            Reply::Chunk { kind: 5, payload, cookie: 80 } => {
                assert_eq!(u32_at(&payload, 0), 1, "the context's number");
                let pairs = payload[4..].chunks_exact(8);
                assert!(pairs.remainder().is_empty());
                Ok(pairs.map(|pair| (u32_at(pair, 0), u32_at(pair, 4))).collect())
            }
            Reply::Chunk { kind: 0x8001, payload, .. } => Err(u32_at(&payload, 0)),
            other => panic!("{other:?}"),
        }
    }

    /// Panics unless the server closes the connection without another byte.
    pub(crate) fn expect_end(&mut self) {
        let mut byte = [0];
        match self.wire.read(&mut byte) {
            Ok(0) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            other => panic!("expected the end, found {other:?} {byte:?}"),
        }
    }
}

pub(crate) fn request((command, flags): (u16, u16), cookie: u64, offset: u64, len: u32) -> Vec<u8> {
    let mut bytes = vec![0x25, 0x60, 0x95, 0x13];
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(len.to_be_bytes());
    bytes
}

/// Data of INFO and GO.
pub(crate) fn info_query(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((wanted.len() as u16).to_be_bytes());
    wanted.iter().for_each(|info| data.extend(info.to_be_bytes()));
    data
}

/// Data of LIST_META_CONTEXT and SET_META_CONTEXT.
pub(crate) fn context_query(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = string(name);
    data.extend((queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| data.extend(string(query)));
    data
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap())
}
