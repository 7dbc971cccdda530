//! Mutable objects that change by guarded operations, as Ceph RADOS has them.
//!
//! An [`Update`] is a list of guards and changes of one object. The changes happen all together, and
//! only if every guard holds; then they are durable. That is all that a cluster needs to fence writers:
//! an update names the writer it expects, and the engine refuses it if another one has taken over.
//!
//! A [`RadosPool`] is a namespace of a pool. One suite holds every implementation to this contract.

#[cfg(feature = "conformance")]
pub mod conformance;
mod counted;
mod error;
mod fates;
#[cfg(feature = "rados")]
mod librados;
mod location;
mod memory;
mod update;

pub use counted::{CountedRados, RadosCounters, RadosCounts};
pub use error::{RadosError, Refusal};
pub use fates::{Fate, FatedRados};
#[cfg(feature = "rados")]
pub use librados::{
    CephError, CephOptions, CephPool, CephSpace, RadosCluster, wait_for_connections,
};
pub use location::CephLocation;
pub use memory::MemoryRados;
pub use update::{Compare, Step, Update};

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use bytes::Bytes;

/// What reading an object shall answer, from one moment in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Guards: [`Step::Exists`], [`Step::Version`], [`Step::Xattr`]. Any other step is a panic. The object
    /// must exist in any case.
    pub guards: Vec<Step>,
    /// The bytes to read. The answer is shorter where the object ends.
    pub range: Option<Range<u64>>,
    /// Whether to answer all extended attributes.
    pub xattrs: bool,
    /// The entries of the omap to read.
    pub omap: Option<OmapRange>,
}

/// Entries of an omap, in the order of their keys' bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OmapRange {
    /// Only entries with keys greater than this one; all of them if it is empty.
    pub after: String,
    /// At most this many entries. The engine may answer fewer and say that there are more.
    pub limit: u64,
}

/// What an object had at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The version: every update of the object raises it, and no object of the same name that came
    /// before had it.
    pub version: u64,
    /// The length in bytes.
    pub length: u64,
    /// When it was last updated, in whole seconds since 1970 by the clock of the client that did.
    pub changed: u64,
    /// The bytes of [`Query::range`].
    pub bytes: Bytes,
    /// All extended attributes if [`Query::xattrs`], otherwise none.
    pub xattrs: BTreeMap<String, Bytes>,
    /// The entries of [`Query::omap`].
    pub omap: Vec<(String, Bytes)>,
    /// Whether the omap has entries behind those.
    pub has_more: bool,
}

/// Which pool it is, whatever its name and the addresses of its cluster are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolIdentity {
    /// The cluster: in Ceph its fsid, a UUID in lower case.
    pub cluster: String,
    /// The number of the pool, which no other pool of the cluster has or had.
    pub number: i64,
}

/// Which pool it is, and how it keeps its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolKind {
    /// The name, for messages.
    pub name: String,
    /// Which pool it is.
    pub identity: PoolIdentity,
    /// Whether objects have an omap: replicated pools do, erasure-coded ones do not.
    pub has_omap: bool,
    /// In bytes: each append must begin at a multiple of it, and nothing else writes. One if there is no
    /// such rule.
    pub alignment: u64,
    /// The engine refuses objects that are longer, in bytes.
    pub max_object: u64,
    /// The engine refuses updates with more bytes.
    pub max_update: u64,
}

/// Called with the result of an update: the object's version after it.
pub type OnUpdated = Box<dyn FnOnce(Result<u64, RadosError>) + Send>;

/// Objects of one namespace of one pool.
///
/// A name has 1 to 1,024 bytes of printable ASCII, that of an attribute at most 100. Calls may come from any thread and block until the
/// answer, [`start_update`](Self::start_update) excepted.
///
/// Updates of one object that one caller starts one after the other are applied in that order.
///
/// # Errors
///
/// [`RadosError::Refused`]: nothing changed, unless the client was fenced off. [`RadosError::Unknown`]: no answer came within the time
/// limit or the connection was lost, and the update may have been applied, or be applied later. The
/// caller must find out by guards which.
pub trait RadosPool: Send + Sync {
    /// Which pool it is, and how it keeps its objects.
    fn kind(&self) -> &PoolKind;

    /// Begins an update and returns at once. `done` is called once, from any thread, perhaps before this
    /// returns; it must neither block nor panic.
    fn start_update(&self, object: &str, update: Update, done: OnUpdated);

    /// Applies `update` durably, all of it or nothing. Answers the object's version after it.
    fn update(&self, object: &str, update: Update) -> Result<u64, RadosError> {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let done = move |result| {
            // The receiver below lives until it has received.
            let _ = tell.send(result);
        };
        self.start_update(object, update, Box::new(done));
        told.recv().expect("a pool calls `done` once")
    }

    /// Reads what `query` asks for, at one moment.
    fn query(&self, object: &str, query: &Query) -> Result<Answer, RadosError>;

    /// Calls `each` with the name of every object of the namespace, in any order, until it breaks. An
    /// object that is created or removed meanwhile may be named or left out.
    fn list(&self, each: &mut dyn FnMut(&str) -> ControlFlow<()>) -> Result<(), RadosError>;
}
