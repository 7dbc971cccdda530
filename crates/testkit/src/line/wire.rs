//! One direction of one connection: bytes pass at the line's rate and arrive later.

use std::io::{self, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Instant;

use super::Shared;
use super::exchange::Exchanges;
use super::gate::Ends;

/// Parcels that may be on their way. Enough for 1 Gbit/s and 50 ms in pieces of 6 KiB.
const MAX_PARCELS: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
}

/// What arrives at the other end.
#[derive(Debug)]
enum Content {
    Bytes(Vec<u8>),
    /// All bytes of the answer to the request of this number have arrived.
    Answered(u64),
    /// The sender sends no more.
    Shutdown,
    /// Both directions end.
    Close,
}

#[derive(Debug)]
struct Parcel {
    due: Instant,
    content: Content,
}

/// The sending end.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    direction: Direction,
    shared: Arc<Shared>,
    parcels: SyncSender<Parcel>,
}

/// The receiving end.
#[derive(Debug)]
pub(super) struct Arrivals {
    direction: Direction,
    shared: Arc<Shared>,
    parcels: Receiver<Parcel>,
}

/// A wire and its other end.
pub(super) fn wire(direction: Direction, shared: &Arc<Shared>) -> (Wire, Arrivals) {
    let (sender, receiver) = mpsc::sync_channel(MAX_PARCELS);
    let wire = Wire { direction, shared: Arc::clone(shared), parcels: sender };
    (wire, Arrivals { direction, shared: Arc::clone(shared), parcels: receiver })
}

impl Wire {
    /// Sends bytes, and returns when the line has taken them.
    ///
    /// # Errors
    /// Fails if the other end is gone.
    pub(super) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.occupy(bytes.len());
        self.post(Content::Bytes(bytes.to_vec()))
    }

    /// Spends the time that `len` bytes take, and counts them, without sending them.
    pub(super) fn occupy(&self, len: usize) {
        match self.direction {
            Direction::Up => {
                self.shared.upwards.pass(len);
                self.shared.counter.send(len);
            }
            Direction::Down => {
                self.shared.downwards.pass(len);
                self.shared.counter.receive(len);
            }
        }
    }

    pub(super) fn end_answer(&self, number: u64) -> io::Result<()> {
        self.post(Content::Answered(number))
    }

    pub(super) fn shutdown(&self) -> io::Result<()> {
        self.post(Content::Shutdown)
    }

    pub(super) fn close(&self) -> io::Result<()> {
        self.post(Content::Close)
    }

    fn post(&self, content: Content) -> io::Result<()> {
        let due = Instant::now() + self.shared.shape.one_way;
        let sent = self.parcels.send(Parcel { due, content });
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Arrivals {
    /// Delivers each parcel when it is due, until the senders or one of `ends` are gone.
    pub(super) fn deliver(self, ends: &Ends, exchanges: &Exchanges) {
        let mut to = match self.direction {
            Direction::Up => &ends.server,
            Direction::Down => &ends.client,
        };
        for Parcel { due, content } in self.parcels {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if !self.shared.gate.wait_open() {
                break;
            }
            match content {
                Content::Answered(number) => exchanges.end(number),
                content if arrive(&content, &mut to).is_ok() => {}
                _ => break,
            }
        }
        if self.direction == Direction::Down {
            ends.close();
        }
    }
}

/// # Errors
/// Fails if nothing more can arrive.
fn arrive(content: &Content, to: &mut &TcpStream) -> io::Result<()> {
    match content {
        Content::Bytes(bytes) => to.write_all(bytes),
        Content::Shutdown => to.shutdown(Shutdown::Write),
        Content::Answered(_) => Ok(()),
        Content::Close => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}
