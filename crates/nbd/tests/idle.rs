//! Connections on which nothing happens, in a process of their own: threads and memory are counted.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use onefold_block::{BlockSize, MemoryDevice};
use onefold_nbd::{Config, Export, Listen, Server};

const MANY: usize = 3000;
/// A page or two for what was read ahead, and as much for what the connection is.
const BYTES_EACH: u64 = 24 << 10;

#[test]
fn thousands_of_idle_connections_cost_no_thread_and_little_memory() {
    if !can_open(2 * MANY as u64 + 100) {
        onefold_testkit::skip("a process may not open enough files");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let device = Arc::new(MemoryDevice::new(1 << 20, BlockSize::B4096).unwrap());
    let exports = vec![Export::new("", device)];
    let server = Server::start(Config::new(vec![Listen::Unix(socket.clone())], exports)).unwrap();
    let first = served(&socket);
    let (threads_before, memory_before) = (threads(), resident());
    let idle: Vec<UnixStream> = (0..MANY).map(|_| served(&socket)).collect();
    assert_eq!(server.connections() as usize, MANY + 1);
    assert_eq!(threads(), threads_before);
    let grown = resident().saturating_sub(memory_before);
    assert!(grown < MANY as u64 * BYTES_EACH, "{} bytes a connection", grown / MANY as u64);

    // one among them is served as if it were alone
    let mut busy = served(&socket);
    let flush = [&[0x25, 0x60, 0x95, 0x13, 0, 0, 0, 3][..], &[7; 8], &[0; 12]].concat();
    for _ in 0..100 {
        busy.write_all(&flush).unwrap();
        let mut reply = [0; 16];
        busy.read_exact(&mut reply).unwrap();
        assert_eq!(reply[4..], [0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7]);
    }
    drop((first, idle, busy));
    let end = Instant::now() + Duration::from_secs(30);
    while server.connections() > 0 {
        assert!(Instant::now() < end, "{} connections are left", server.connections());
        thread::sleep(Duration::from_millis(5));
    }
}

/// A client that has chosen the only export.
fn served(socket: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    // flags, and the choice of the export without a name
    let choice = [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 1], &[0, 0, 0, 0]].concat();
    stream.write_all(&choice).unwrap();
    let mut export = [0; 10];
    stream.read_exact(&mut export).unwrap();
    assert_eq!(export[..8], (1_u64 << 20).to_be_bytes());
    stream
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Bytes of memory that this process has.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

/// Whether this process may open so many files; it is allowed as many as it can be.
fn can_open(files: u64) -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    limit.maximum.is_none_or(|maximum| maximum >= files)
}
