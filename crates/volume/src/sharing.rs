//! Containers that the shards of a cluster share, as a pool asks for them.
//!
//! A pool in a folder has none of this. One that is a shard of a cluster makes its containers through a
//! [`Sharing`], refers to pages in those of other shards, and is registered in each container that it needs:
//! the order of the steps is that of docs/decisions/0053-cluster-core.md. The pool keeps what it announced in
//! its journal; a [`Sharing`] does what was announced.

use onefold_backend::{BackendError, Log, LogReader};
use onefold_fingerprint::Fingerprint;

use crate::error::VolumeError;
use crate::ids::{SharedName, Writer};

/// Where a page was said to be stored. May be wrong, late or gone: it is verified before use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageHint {
    /// The container.
    pub container: SharedName,
    /// Where the stored bytes begin, in bytes.
    pub offset: u32,
    /// How many stored bytes there are.
    pub stored_len: u32,
    /// The first four bytes of their check.
    pub check: u32,
}

/// By what a shard is registered in a container. None is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisteredAs {
    /// The writer that registers.
    pub writer: Writer,
    /// The number that the container has in the shard from then on.
    pub number: u32,
}

/// A container that is being filled.
pub trait SharedLog: Log + Sync {
    /// Ends the container with the directory for the length in bytes that it is called with; it is durable
    /// with the next sync. Nothing is appended then.
    fn end(&mut self, directory: &dyn Fn(u64) -> Vec<u8>) -> Result<(), BackendError>;
}

/// What a container of any shard is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedState {
    /// In bytes.
    pub len: u64,
    /// Whether it has its directory, and never changes.
    pub is_sealed: bool,
}

/// What a shared container is, and the bytes that it has.
pub type SharedLook = (SharedState, Box<dyn LogReader>);

/// The room that all who share containers leave for new pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedRoom {
    /// Bytes that this pool may store now.
    pub bytes: u64,
    /// Bytes of all containers, as they were counted last.
    pub stored: u64,
    /// Bytes that these may have together.
    pub quota: u64,
}

/// What a shard shares with others.
pub trait Sharing: Send + Sync {
    /// The hint for each fingerprint, in order. An answer may be missing.
    fn find(&self, fingerprints: &[Fingerprint]) -> Vec<Option<PageHint>>;

    /// Tells of pages that are durable.
    fn add(&self, pages: &[(Fingerprint, PageHint)]);

    /// Makes container `name` of this shard, which is announced in a durable batch, with this shard
    /// registered as `value`. It is sent once.
    ///
    /// # Errors
    /// The container must be given up.
    fn create(
        &self,
        name: SharedName,
        value: RegisteredAs,
    ) -> Result<Box<dyn SharedLog>, VolumeError>;

    /// Registers this shard in container `name` as `value`, which is announced in a durable batch. False if it
    /// is not registered and never will be as that.
    ///
    /// # Errors
    /// [`VolumeError::Superseded`], or no answer: then the registration must be dropped.
    fn register(&self, name: SharedName, value: RegisteredAs) -> Result<bool, VolumeError>;

    /// Drops the registration as `value`, whose drop is announced in a durable batch, or which an opening
    /// found unfinished; and removes the container if nobody needs it. After that it may be settled.
    ///
    /// # Errors
    /// It must be done again.
    fn release(&self, name: SharedName, value: RegisteredAs) -> Result<(), VolumeError>;

    /// Seals container `name` of this shard, which an earlier writer filled, with the directory for the
    /// length in bytes that it is called with. One that is sealed stays as it is.
    fn seal(&self, name: SharedName, directory: &dyn Fn(u64) -> Vec<u8>)
    -> Result<(), VolumeError>;

    /// What container `name` is, and the bytes that it has; none if it is gone.
    fn look(&self, name: SharedName) -> Result<Option<SharedLook>, VolumeError>;

    /// Container `name`, to be read.
    fn reader(&self, name: SharedName) -> Result<Box<dyn LogReader>, BackendError>;

    /// Whether a shard other than this one is registered in container `name`.
    fn has_others(&self, name: SharedName) -> Result<bool, VolumeError>;

    /// The room for new pages; none if no quota bounds it. Never waits.
    fn room(&self) -> Option<SharedRoom>;

    /// Counts again what is stored; whether there is room for `needed` bytes. May wait for the engine.
    fn ask_room(&self, needed: u64) -> bool;

    /// So many bytes of new pages are about to be stored.
    fn note_stored(&self, bytes: u64);
}
