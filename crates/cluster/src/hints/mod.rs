//! The pooled index: where pages lie, said by all gateways to one another.
//!
//! Each gateway holds the [hints](Hint) of some ranges of fingerprints. A shard asks the gateway that holds a
//! fingerprint, and tells it of pages that it stored. Everything here is advisory. An answer may be wrong, late
//! or missing: the shard verifies it before use, and a page whose hint is missing is stored once more.
//!
//! | file | content |
//! | --- | --- |
//! | store.rs | the hints of this gateway's ranges, in bounded memory |
//! | ranges.rs | which of the living gateways holds which range |
//! | dump.rs | hints of a range as an object |
//! | encoding.rs | hints as bytes |

pub(crate) mod dump;
pub(crate) mod encoding;
mod ranges;
pub(crate) mod store;

pub use dump::DumpError;
pub use ranges::{MAX_SHARERS, Ranges, SLICES, Slice};
pub use store::{MIN_MEMORY, Store};

use onefold_fingerprint::Fingerprint;
use onefold_seal::ObjectId;

/// The name of a gateway: random, made when it starts.
pub type GatewayId = ObjectId;

/// Bytes of a fingerprint that gateways send and keep. A shard verifies a hint by the whole fingerprint.
pub(crate) const KEY_LEN: usize = 16;

/// The first bytes of a fingerprint.
pub(crate) type Key = [u8; KEY_LEN];

pub(crate) fn key_of(fingerprint: &Fingerprint) -> Key {
    *fingerprint.as_bytes().first_chunk().expect("it is longer")
}

/// A fingerprint that begins with `key`. The tables of the index look at no more of it.
pub(crate) fn fingerprint_of(key: &Key) -> Fingerprint {
    let mut bytes = [0; Fingerprint::LEN];
    bytes[..KEY_LEN].copy_from_slice(key);
    Fingerprint::from_bytes(bytes)
}

/// The name of a container: who made it. `SHARD.container.WRITER.NUMBER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerName {
    /// The shard that made it.
    pub shard: ObjectId,
    /// The writer of that shard.
    pub writer: u64,
    /// The writer's number of the container.
    pub number: u64,
}

/// Where a page was said to be. May be wrong, late or gone: it is verified before use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hint {
    /// The container that has the page.
    pub container: ContainerName,
    /// Where the page begins in the container, in bytes.
    pub offset: u32,
    /// The length of the page as it is stored, in bytes.
    pub stored_len: u32,
    /// The first four bytes of the page's check.
    pub check: u32,
}

/// The pooled index, as a shard uses it. An answer may be missing; that costs ratio, never data.
pub trait Hints: Send + Sync {
    /// The hint for each fingerprint, in order.
    fn find(&self, fingerprints: &[Fingerprint]) -> Vec<Option<Hint>>;
    /// Tells of pages that are stored. May be forgotten.
    fn add(&self, pages: &[(Fingerprint, Hint)]);
}

/// No index: every page that a shard does not know itself is stored.
impl Hints for () {
    fn find(&self, fingerprints: &[Fingerprint]) -> Vec<Option<Hint>> {
        vec![None; fingerprints.len()]
    }

    fn add(&self, _: &[(Fingerprint, Hint)]) {}
}
