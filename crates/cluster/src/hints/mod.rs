//! What shards tell one another of pages that are stored.

use onefold_fingerprint::Fingerprint;
use onefold_seal::ObjectId;

/// The name of a container: who made it. `SHARD.container.WRITER.NUMBER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerName {
    /// The shard that made it.
    pub shard: ObjectId,
    /// The writer that made it.
    pub writer: u64,
    /// The number that it has in that shard.
    pub number: u64,
}

/// Where a page was said to be. May be wrong, late or gone: it is verified before use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint {
    /// The container.
    pub container: ContainerName,
    /// Where the stored bytes begin, in bytes.
    pub offset: u32,
    /// How many stored bytes there are.
    pub stored_len: u32,
    /// The first four bytes of their check.
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
