//! What the fuzz targets of the NBD server share: one server, and a client that takes no reply that
//! is not one.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use onefold_block::{BlockSize, MemoryDevice};
use onefold_nbd::{Config, Export, Server};

/// The size of the export "disk", of which `DEVICE` is a copy in the eyes of the client.
pub const SIZE: u64 = 64 << 10;

/// The server, and the device behind its first export.
pub struct Bench {
    server: Server,
    /// Behind the exports "disk" and, for readers only, "fixed".
    pub device: Arc<MemoryDevice>,
}

/// The one server of this process.
pub fn bench() -> &'static Bench {
    static BENCH: OnceLock<Bench> = OnceLock::new();
    BENCH.get_or_init(|| {
        let device = Arc::new(MemoryDevice::new(SIZE, BlockSize::B512).expect("whole blocks"));
        let exports = vec![
            Export::new("disk", device.clone()).described("words"),
            Export::new("fixed", device.clone()).read_only(),
        ];
        let mut config = Config::new(vec![], exports);
        config.workers = 2;
        Bench { server: Server::start(config).expect("nothing is in its way"), device }
    })
}

/// A client. It panics at whatever the protocol does not have.
pub struct Client {
    socket: UnixStream,
}

/// A reply in either form.
#[derive(Debug)]
pub enum Reply {
    /// The request's cookie and an error, or 0.
    Simple(u64, u32),
    /// The request's cookie, the kind of the only chunk, and what is in it.
    Chunk(u64, u16, Vec<u8>),
}

impl Bench {
    /// A client that has exchanged greetings, with these flags.
    pub fn connect(&self, flags: u32) -> Client {
        let (socket, theirs) = UnixStream::pair().expect("there are sockets");
        socket.set_read_timeout(Some(Duration::from_secs(20))).expect("it can be set");
        assert!(self.server.adopt(theirs).expect("it is a socket"), "too many connections");
        let mut client = Client { socket };
        let greeting: [u8; 18] = client.array().expect("a greeting");
        assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
        client.send(&flags.to_be_bytes());
        client
    }
}

impl Client {
    /// Sends bytes; a server that has closed the connection is no error.
    pub fn send(&mut self, bytes: &[u8]) {
        if let Err(error) = self.socket.write_all(bytes) {
            assert!(is_closed(error.kind()), "{error}");
        }
    }

    /// Sends nothing more.
    pub fn finish(&mut self) {
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// The next bytes, or `None` if the connection has ended before the first of them.
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        let mut filled = 0;
        while filled < N {
            match self.socket.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if is_closed(error.kind()) => return None,
                Err(error) => panic!("the server is silent: {error}"),
            }
        }
        assert!(filled == 0 || filled == N, "an end after {filled} of {N} bytes");
        (filled == N).then_some(bytes)
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.socket.read_exact(&mut bytes).expect("a reply is whole");
        bytes
    }

    pub fn send_option(&mut self, option: u32, data: &[u8]) {
        let len = data.len() as u32;
        let head = [&b"IHAVEOPT"[..], &option.to_be_bytes(), &len.to_be_bytes(), data].concat();
        self.send(&head);
    }

    /// The kind of the last answer to `option`, or `None` if the connection has ended.
    pub fn answers(&mut self, option: u32) -> Option<u32> {
        loop {
            let head: [u8; 20] = self.array()?;
            assert_eq!(&head[..8], &0x0003_e889_0455_65a9_u64.to_be_bytes());
            assert_eq!(u32_at(&head, 8), option, "an answer to another option");
            let (kind, len) = (u32_at(&head, 12), u32_at(&head, 16) as usize);
            assert!(len <= 4200, "an answer of {len} bytes");
            let data = self.bytes(len);
            match kind {
                1 => assert!(data.is_empty()),
                2 => assert!(data.len() >= 4 && u32_at(&data, 0) as usize <= data.len() - 4),
                3 => assert!(data.len() >= 2),
                4 => assert_eq!(&data[4..], b"base:allocation"),
                0x8000_0001..=0x8000_0009 => assert!(str::from_utf8(&data).is_ok()),
                other => panic!("an answer of kind {other:#x}"),
            }
            if kind == 1 || kind >= 1 << 31 {
                return Some(kind);
            }
        }
    }

    /// What is sent for an export that was chosen in the old way; false if the connection ended.
    pub fn old_choice(&mut self, has_zeroes: bool) -> bool {
        let Some(info) = self.array::<10>() else { return false };
        assert_eq!(&info[..8], &SIZE.to_be_bytes());
        if has_zeroes {
            assert_eq!(self.bytes(124), [0; 124]);
        }
        true
    }

    pub fn request(&mut self, command: u16, flags: u16, cookie: u64, offset: u64, len: u32) {
        let mut bytes = vec![0x25, 0x60, 0x95, 0x13];
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(len.to_be_bytes());
        self.send(&bytes);
    }

    /// The next reply, without the data that may follow a simple one; `None` at the end.
    pub fn reply(&mut self) -> Option<Reply> {
        let head: [u8; 16] = self.array()?;
        match u32_at(&head, 0) {
            0x6744_6698 => {
                let errno = u32_at(&head, 4);
                assert!(errno == 0 || is_errno(errno), "error {errno}");
                Some(Reply::Simple(u64_at(&head, 8), errno))
            }
            0x668e_33ef => {
                assert_eq!(head[4..6], [0, 1], "flags of a chunk");
                let kind = u16::from_be_bytes([head[6], head[7]]);
                let len = self.bytes(4);
                let len = u32_at(&len, 0) as usize;
                assert!(len <= 8 + SIZE as usize, "a chunk of {len} bytes");
                let payload = self.bytes(len);
                check_chunk(kind, &payload);
                Some(Reply::Chunk(u64_at(&head, 8), kind, payload))
            }
            other => panic!("a reply begins with {other:#x}"),
        }
    }

    /// The data behind a simple reply to a read.
    pub fn data(&mut self, len: u32) -> Vec<u8> {
        self.bytes(len as usize)
    }
}

/// Panics unless `payload` is what a chunk of this kind has.
fn check_chunk(kind: u16, payload: &[u8]) {
    match kind {
        0 => assert!(payload.is_empty()),
        1 => assert!(payload.len() > 8),
        5 => {
            assert_eq!(u32_at(payload, 0), 1);
            assert!(payload.len() > 4 && (payload.len() - 4).is_multiple_of(8));
        }
        0x8001 => {
            assert!(is_errno(u32_at(payload, 0)), "{payload:?}");
            let len = usize::from(u16::from_be_bytes([payload[4], payload[5]]));
            assert_eq!(len, payload.len() - 6);
            assert!(str::from_utf8(&payload[6..]).is_ok());
        }
        other => panic!("a chunk of kind {other}"),
    }
}

fn is_errno(number: u32) -> bool {
    [1, 5, 22, 28, 75, 95, 108].contains(&number)
}

fn is_closed(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::NotConnected)
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
