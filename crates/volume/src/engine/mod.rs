//! The engine of a pool: writes, reads, erases and commits, over one shared state.
//!
//! **Write order.** A write appends new pages to a container and queues records of them, and of
//! their blocks, in memory. A commit first syncs the containers, then writes the queued records as
//! durable batches ([metadata](crate::journal::metadata)). Therefore no batch names a page that is
//! not durable, and batches hold all that an acknowledged flush covers. A file is deleted only
//! after a durable batch drops it.
//!
//! **Lock order:** `maintenance` (one checkpoint or compaction at a time) or `checking`, block
//! stripes, [claims](crate::sync::claims), `adopting`, `batches`, `appender`, and then `state` or that of
//! [neighbours]. Threads fingerprint, compress and read without `batches` and those after it. `state`
//! and that of neighbours are never held while a file is read, written or synced. Long work under
//! `state` is done in steps, and waiters have it in between ([turns](crate::sync::turns)).
//!
//! **Threads.** Each thread takes its pages through all stages itself, many at a time: it
//! fingerprints them in vector lanes while memory is prefetched for the look-ups and maps of the
//! pages before ([look_up]), changes maps and references, and appends new pages in one write.

pub(crate) mod adopt;
pub(crate) mod ahead;
pub(crate) mod append;
pub(crate) mod checkpoint;
pub(crate) mod commit;
pub(crate) mod counters;
pub(crate) mod erase;
pub(crate) mod fill;
pub(crate) mod hook;
pub(crate) mod look_up;
pub(crate) mod neighbours;
pub(crate) mod options;
pub(crate) mod paging;
pub(crate) mod parts;
pub(crate) mod read;
pub(crate) mod room;
pub(crate) mod shard;
pub(crate) mod shared;
pub(crate) mod table;
pub(crate) mod walk;
pub(crate) mod write;
