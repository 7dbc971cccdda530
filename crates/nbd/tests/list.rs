//! Clients that ask for a long list and do not take it, in a process of its own: memory is counted.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use onefold_block::{BlockDevice, BlockSize, MemoryDevice};
use onefold_nbd::{Config, Export, Listen, Server};

const EXPORTS: usize = 4000;
const CLIENTS: usize = 64;
/// As `Limits` says.
const BYTES_EACH: u64 = 200 << 10;

#[test]
fn a_list_that_is_not_taken_costs_no_more_than_any_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let device: Arc<dyn BlockDevice> =
        Arc::new(MemoryDevice::new(1 << 20, BlockSize::B512).unwrap());
    let name = |number: usize| format!("{number:0>200}");
    let exports = (0..EXPORTS).map(|number| Export::new(name(number), device.clone())).collect();
    let _server = Server::start(Config::new(vec![Listen::Unix(socket.clone())], exports)).unwrap();
    // what is there once and for all
    drop(listing(&socket));
    let before = resident();
    let mut clients: Vec<UnixStream> = (0..CLIENTS).map(|_| listing(&socket)).collect();
    let grown = resident().saturating_sub(before);
    assert!(grown < CLIENTS as u64 * BYTES_EACH, "{} bytes a client", grown / CLIENTS as u64);

    // whoever takes it has all of it
    let mut client = clients.pop().unwrap();
    for number in 0..EXPORTS {
        let mut entry = [0; 204];
        client.read_exact(&mut entry).unwrap();
        assert_eq!(entry[..4], 200_u32.to_be_bytes());
        assert!(entry[4..] == *name(number).as_bytes());
        let mut head = [0; 20];
        client.read_exact(&mut head).unwrap();
        let kind = if number + 1 == EXPORTS { 1_u32 } else { 2 };
        assert_eq!(head[12..16], kind.to_be_bytes());
    }
}

/// A client that has the head of the first entry.
fn listing(socket: &std::path::Path) -> UnixStream {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    let list = [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 3], &[0, 0, 0, 0]].concat();
    stream.write_all(&list).unwrap();
    let mut head = [0; 20];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[12..], [0, 0, 0, 2, 0, 0, 0, 204]);
    stream
}

/// Bytes of memory that this process has.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}
