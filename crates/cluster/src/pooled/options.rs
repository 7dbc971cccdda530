//! What is chosen, counted and told of the pooled index.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use onefold_index::TableError;
use onefold_volume::VolumeError;

use crate::hints::{DumpError, GatewayId, MIN_MEMORY};

/// How a gateway shares the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PooledOptions {
    /// Memory for the hints that this gateway holds, in bytes; at least [`MIN_MEMORY`].
    pub memory: usize,
    /// How long a look-up waits for other gateways.
    pub deadline: Duration,
    /// The most pages that wait to be told to one other gateway.
    pub queue: usize,
    /// How often the living gateways are looked at.
    pub poll: Duration,
    /// How often hints that changed are dumped.
    pub dump_every: Duration,
    /// How long after a range was taken over its dump is read once more: the gateway that held it may have
    /// written it since.
    pub read_again: Duration,
    /// How long the last dumps may take at the end.
    pub last_dumps: Duration,
    /// The time between two footers that are read.
    pub footer_every: Duration,
    /// By how much the clocks of gateways may differ: so much older than the dump may a container be whose footer
    /// is read.
    pub clocks_apart: Duration,
    /// After which time containers that were not sealed are looked at again; after twice as much the next time, and
    /// so on.
    pub look_again: Duration,
}

impl Default for PooledOptions {
    fn default() -> Self {
        Self {
            memory: (256 << 20).max(MIN_MEMORY),
            deadline: Duration::from_millis(5),
            queue: 1 << 16,
            poll: Duration::from_secs(1),
            dump_every: Duration::from_secs(600),
            read_again: Duration::from_secs(10),
            last_dumps: Duration::from_secs(5),
            footer_every: Duration::from_millis(50),
            clocks_apart: Duration::from_secs(60),
            look_again: Duration::from_secs(10),
        }
    }
}

/// What happens that an operator may want to know; no data are at risk.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// The living gateways have changed: how many share the index, this one included, and how many of the 4,096
    /// slices this one holds.
    Members {
        /// Gateways that share the index.
        gateways: usize,
        /// Slices of this one.
        slices: usize,
    },
    /// There is a connection to another gateway now, or none any more.
    Link {
        /// The gateway.
        gateway: GatewayId,
        /// Where it is.
        address: SocketAddr,
        /// Whether there is a connection.
        is_up: bool,
    },
    /// A connection was refused.
    Refused {
        /// Where it came from.
        from: SocketAddr,
        /// Why.
        why: &'a str,
    },
    /// A dump was not read or not written.
    Dump(&'a DumpError),
    /// After ranges were taken over, footers of containers that are younger than their dumps have filled them.
    Filled {
        /// Footers that were read.
        footers: u64,
        /// Pages that no dump had.
        pages: u64,
    },
    /// A footer was not read.
    Footer(&'a VolumeError),
    /// The system had no memory for a slice.
    NoMemory(TableError),
}

/// Hears of notices, from any thread.
pub(super) type Tell = Arc<dyn Fn(Notice<'_>) + Send + Sync>;

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HintCounters {
    /// Fingerprints that were looked up by shards of this gateway.
    pub lookups: u64,
    /// Of these, those that had a hint.
    pub hits: u64,
    /// Of these, those whose gateway was away, or gave no answer in time.
    pub late: u64,
    /// Pages that were told.
    pub added: u64,
    /// Of these, those that another gateway was not told: its queue was full, or it was away.
    pub dropped: u64,
    /// Fingerprints that other gateways looked up here.
    pub asked: u64,
    /// Of these, those that had a hint.
    pub answered: u64,
    /// Pages that the store passed over: this gateway does not hold their range, or had no room for their
    /// container's name.
    pub passed_over: u64,
    /// Footers of containers that were read because they were younger than dumps.
    pub footers: u64,
    /// Pages that footers named and no dump.
    pub filled: u64,
    /// Bytes of hints sent to other gateways, without those of HTTP and TLS.
    pub sent_bytes: u64,
    /// Bytes of hints received from other gateways, without those of HTTP and TLS.
    pub received_bytes: u64,
    /// Messages to other gateways that looked fingerprints up.
    pub finds: u64,
    /// Messages to other gateways that told of pages.
    pub tells: u64,
}

#[derive(Default)]
pub(super) struct Counts {
    pub(super) lookups: AtomicU64,
    pub(super) hits: AtomicU64,
    pub(super) late: AtomicU64,
    pub(super) added: AtomicU64,
    pub(super) dropped: Arc<AtomicU64>,
    pub(super) asked: AtomicU64,
    pub(super) answered: AtomicU64,
    pub(super) footers: AtomicU64,
    pub(super) filled: AtomicU64,
}

/// Adds to a counter.
pub(super) fn count(counter: &AtomicU64, number: usize) {
    counter.fetch_add(number as u64, Ordering::Relaxed);
}
