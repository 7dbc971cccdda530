//! What a pool durably knows, besides the bytes of its pages: batches of records, and the one
//! writer that may add them.
//!
//! # Fencing
//!
//! A lock on the file `pool` keeps two processes from having a pool. It can fail: a network file system
//! forgets it, or a machine sleeps. Then the following protocol keeps what either process acknowledged,
//! on any disk that shows all processes the same bytes, except pages of a container that the old
//! process was writing, truncating or sealing at that moment; a scrub names them.
//!
//! - A **writer** is one opening of a pool. Its number is one above all before: a fencing token.
//! - The **mark** is the file `writer`: two copies, written in turn, of who owns the pool and where
//!   the cut is. The **owner** is the highest writer in a whole copy.
//! - The **cut** is the fencing point: frames from that number on count only if the writer of the
//!   cut, or a later one, wrote them.
//! - A writer is **superseded** once a later one has written to the mark.
//!
//! 1. *Claim.* A new writer puts itself as the owner into both copies, each synced, before it reads
//!    anything else. If it finds that an earlier writer wrote a copy in between, it starts again
//!    with the next number, because that writer may have written a cut ([`mark`]).
//! 2. *Read.* It reads the last checkpoint and the frames that count after it ([`journals`]).
//! 3. *Cut.* It puts the number of the first frame that it did not find into both copies as the
//!    cut, each synced, before it changes or removes anything. Frames that it did not read never
//!    count from then on.
//! 4. *Append.* It appends to journals of its own, never to those of others. The first journal of an
//!    opening begins at the cut. Before a frame goes to it, the mark says that it has begun.
//! 5. *Acknowledge.* A batch is acknowledged once its frame is synced and a look at the mark *after
//!    that* finds no later writer. Therefore either the later writer reads the frame in step 2, or
//!    the earlier one sees the claim of step 1. Nothing has to be compared and swapped, which files
//!    cannot.
//! 6. *Look first.* A writer looks at both copies of the mark before it writes either (except in
//!    the first write of a claim), before it appends pages to a container or seals one, before a
//!    recovery truncates or removes a container, and after a checkpoint is synced, before older
//!    files are removed.
//! 7. *Stop.* A writer that finds itself superseded changes nothing any more.
//!
//! A look and the write after it are two steps, so a superseded writer may still write one copy of
//! the mark. The other copy still names the owner, and its next look finds that. A torn copy leaves
//! the other one, too. What a late write to a *container* can do, and the reasons, are in
//! docs/decisions/0028-batches.md; the bytes are in docs/pool-format.md.

pub(crate) mod acknowledged;
pub(crate) mod ahead;
pub(crate) mod frame;
pub(crate) mod journals;
pub(crate) mod mark;
pub(crate) mod metadata;
pub(crate) mod record;
