//! What a shard durably knows, as objects of a replicated pool. Their bytes are in docs/cluster-format.md.
//!
//! # Fencing
//!
//! - The **head** names the writer, the last checkpoint and the segment that begins with the first batch
//!   behind it.
//! - A **segment** has batches, as frames. Its attributes say who may append and which batch is the next.
//!   It takes batches until it is *sealed*: until it names the segment that follows.
//!
//! 1. *Claim.* A new writer raises the number on the head by one. An unanswered claim counts for nothing,
//!    and the next one is higher.
//! 2. *Raise and read.* It reads the checkpoint, raises the number on the first segment, then reads that,
//!    and goes on with the one that follows until one is not sealed. From then on no batch of an earlier
//!    writer is appended, and each that was appended before has been read.
//! 3. *Append.* A batch is one update: it compares the writer, the number of the next batch and that the
//!    segment is not sealed, raises the number and appends the frame. When it is answered, the batch is
//!    durable and acknowledged. If the answer was lost, the same update is sent again. It is refused if
//!    the first was applied, and the attributes then say so.
//! 4. *Roll.* The writer first makes the next segment, under a name that it never uses again, then seals
//!    the old one: one guarded update that names the new one. A segment that no other names is in no
//!    chain. Therefore neither a late creation nor one by a superseded writer can divert a batch. If the
//!    seal came first and the creation second, a late creation could bring a removed segment back, and a
//!    superseded writer could go on in it.
//! 5. *Checkpoint.* Its parts are durable before one guarded update of the head names it. What the head
//!    no longer names is noted there as trash in the same update, and removed afterwards. What was begun
//!    is noted as well, before the first part. So the next checkpoint removes what a crash left.
//!
//! Updates of the head compare its version. So one that arrives late is refused once another update was
//! applied, and trash is removed only after that.
//!
//! **Repair** ([cut]) ends a journal before the first batch that cannot be read: a new segment follows the last
//! whole batch, by one guarded update.
//!
//! Little else is leaked: a segment that was made and never named, which is empty, and what a superseded
//! writer or a late creation adds. A later writer finds it in a list of all objects
//! ([`remove_leaked`](shards::RadosJournals::remove_leaked)).

pub(crate) mod cut;
pub(crate) mod head;
mod objects;
pub(crate) mod shards;
