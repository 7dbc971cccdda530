use std::time::Duration;

use crate::ServerError;

/// What clients can make a server spend.
///
/// Memory is bounded by [`buffers`](Limits::buffers), with up to 32 MiB on top that are kept to be
/// used again, and by about 200 KiB for each connection that does its worst; of a Unix socket the
/// kernel keeps up to 416 KiB more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes that one request reads or writes; what asks for more is refused. Clients that
    /// ask for block sizes are told this number. Those that do not ask assume 32 MiB, and some send
    /// more.
    pub max_request: u32,
    /// The most requests of one connection that are under way; further ones are not read.
    pub in_flight: u32,
    /// The most bytes that all requests together hold, and those of one connection a quarter of it,
    /// or one request of the longest kind. One that needs more waits.
    pub buffers: u64,
    /// The most clients that are served at once. A further one that has chosen an export waits for
    /// its turn.
    pub connections: u32,
    /// The most clients that have not chosen an export yet, or wait for their turn. For a further one
    /// the oldest of them is ended; if that came less than a second ago, the further one waits.
    pub handshakes: u32,
    /// How long a client may take until it is served.
    pub handshake: Duration,
    /// How long a client may stop in the middle of a request, or let a reply wait. Between requests
    /// it may be silent for ever.
    pub stall: Duration,
    /// The bytes a second that a client must send of a request, and take of replies that are ready,
    /// while these are under way: they may take `stall` and a second for so many bytes.
    pub least_rate: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_request: 64 << 20,
            in_flight: 128,
            buffers: 256 << 20,
            connections: 4096,
            handshakes: 256,
            handshake: Duration::from_secs(15),
            stall: Duration::from_secs(60),
            least_rate: 64 << 10,
        }
    }
}

/// The longest string of the protocol, in bytes; names of exports are such.
pub(crate) const MAX_STRING: usize = 4096;
/// The most data of one option, in bytes.
pub(crate) const MAX_OPTION: u32 = 64 << 10;
/// The most options of one handshake, beside [`OPTIONS_EACH`].
pub(crate) const MAX_OPTIONS: u32 = 1024;
/// The most options for each export there is, on top of that: `nbdinfo --list` asks for all exports
/// in one handshake, with some ten options for each.
pub(crate) const OPTIONS_EACH: u32 = 16;
/// The most queries for metadata contexts in one option.
pub(crate) const MAX_QUERIES: u32 = 64;
/// The most extents in one reply. Clients ask again from where a reply ends.
pub(crate) const MAX_EXTENTS: usize = 8191;
/// The bytes of a buffer for these: the context's number, and a length and flags for each.
const EXTENTS_LEN: u32 = 64 << 10;
const _: () = assert!(4 + 8 * MAX_EXTENTS <= EXTENTS_LEN as usize);
/// The most of a device's error that a client is told, in bytes.
pub(crate) const MAX_MESSAGE: usize = 1024;
/// How long a connection that has ended waits for the client to close it, so that the last replies
/// are not lost to it.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// How long clients may take for their last replies when the server ends.
pub(crate) const DELIVERY: Duration = Duration::from_secs(5);

impl Limits {
    pub(crate) fn check(&self) -> Result<(), ServerError> {
        let expected = |is_met: bool, what| {
            if is_met { Ok(()) } else { Err(ServerError::Limits { expected: what }) }
        };
        expected(self.max_request >= 4096, "requests of at least 4,096 bytes")?;
        expected(self.max_request <= 64 << 20, "requests of at most 64 MiB")?;
        expected(self.in_flight > 0, "room for a request")?;
        expected(self.connections > 0, "room for a connection")?;
        expected(self.handshakes > 0, "room for a handshake")?;
        expected(self.least_rate > 0, "a byte a second")?;
        expected(
            self.buffers >= self.longest(),
            "buffers for a request of the longest kind, rounded up to a power of two, and for 64 KiB",
        )?;
        expected(self.buffers <= 1 << 40, "at most 1 TiB of buffers")
    }

    /// The most bytes that a request holds.
    fn longest(&self) -> u64 {
        self.max_request.next_power_of_two().max(EXTENTS_LEN).into()
    }

    /// The most bytes that requests of one connection hold.
    pub(crate) fn share(&self) -> u64 {
        self.longest().max(self.buffers / 4)
    }
}
