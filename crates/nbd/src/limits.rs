use std::time::Duration;

use crate::ServerError;

/// Limits on the resources that clients can use.
///
/// Memory is bounded by [`buffers`](Limits::buffers), plus up to 32 MiB of buffers kept for reuse, plus
/// about 200 KiB per connection in the worst case. For a Unix socket the kernel holds up to 416 KiB more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum bytes of one read or write; longer requests are refused. The server sends this number to
    /// clients that request block sizes. Other clients assume 32 MiB, and some send more.
    pub max_request: u32,
    /// The maximum number of requests in flight per connection; further ones are not read.
    pub in_flight: u32,
    /// The maximum bytes of all requests together. One connection may use a quarter of it, or one request
    /// of maximum length. A request that needs more waits.
    pub buffers: u64,
    /// The maximum number of clients served concurrently. A further client that has chosen an export waits
    /// for a place.
    pub connections: u32,
    /// The maximum number of clients that have not chosen an export, or wait for a place. A further client
    /// replaces the oldest of them, or waits while the oldest is younger than a second.
    pub handshakes: u32,
    /// How long a handshake may take, including the wait for a place.
    pub handshake: Duration,
    /// How long a handshake searches for an export that is changing places, with a
    /// [`Finder`](crate::Finder).
    pub search: Duration,
    /// How long a client may stall in the middle of a request, or while a reply waits. Between requests it
    /// may be silent without limit.
    pub stall: Duration,
    /// The minimum rate in bytes per second at which a client must send a request and receive ready
    /// replies. A transfer may take `stall` plus one second for this many bytes.
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
            search: Duration::from_secs(10),
            stall: Duration::from_secs(60),
            least_rate: 64 << 10,
        }
    }
}

/// The longest string of the protocol, such as a name of an export, in bytes.
pub(crate) const MAX_STRING: usize = 4096;
/// The maximum data of one option, in bytes.
pub(crate) const MAX_OPTION: u32 = 64 << 10;
/// The maximum number of options in one handshake, in addition to [`OPTIONS_EACH`].
pub(crate) const MAX_OPTIONS: u32 = 1024;
/// The number of options allowed in addition for each export: `nbdinfo --list` requests all exports in one
/// handshake, with about ten options each.
pub(crate) const OPTIONS_EACH: u32 = 16;
/// The maximum number of queries for metadata contexts in one option.
pub(crate) const MAX_QUERIES: u32 = 64;
/// The maximum number of extents in one reply. Clients continue from the end of a reply.
pub(crate) const MAX_EXTENTS: usize = 8191;
/// The length of a buffer for these extents: the context's number, and a length and flags for each.
const EXTENTS_LEN: u32 = 64 << 10;
const _: () = assert!(4 + 8 * MAX_EXTENTS <= EXTENTS_LEN as usize);
/// The maximum length of a device's error message that a client receives, in bytes.
pub(crate) const MAX_MESSAGE: usize = 1024;
/// How long an ended connection waits for the client to close it, so that the client does not lose the last
/// replies.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
/// How long clients may take to receive their last replies when the server shuts down.
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

    /// The maximum bytes that a request holds.
    fn longest(&self) -> u64 {
        self.max_request.next_power_of_two().max(EXTENTS_LEN).into()
    }

    /// The maximum bytes that requests of one connection hold.
    pub(crate) fn share(&self) -> u64 {
        self.longest().max(self.buffers / 4)
    }
}
