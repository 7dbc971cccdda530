//! Copying snapshots from one repository to another, which may name and cut chunks otherwise.
//!
//! Only what the other repository lacks crosses. Where both name chunks alike that is known without
//! reading them; else each chunk is read once, because only its bytes tell its other name. Chunks
//! stay as they were cut, unless the user wants the data cut anew.
//!
//! To the other repository a copy is a backup: it gives notice of each snapshot to come before it
//! looks at what is there, and commits each by a conditional put.

mod crossing;

use std::sync::atomic::Ordering;
use std::thread;

use onefold_seal::ObjectId;

use self::crossing::Crossing;
use crate::chunks::place::Used;
use crate::seeded::fault;
use crate::tree::Time;
use crate::writing::alive::Alive;
use crate::writing::chunk_writer::ChunkWriter;
use crate::writing::commit::{Announced, Author, PROGRAM};
use crate::{Cancel, Progress, Repository, Snapshot, StoreError};

/// How a copy is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// The host that the notices name.
    pub host: String,
    /// The user that they name.
    pub user: String,
    /// Whether files are cut anew, by the chunker of the repository that they are copied to.
    pub rechunk: bool,
    /// Length in bytes at which a container is sealed.
    pub container_len: usize,
}

/// What a copy did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Snapshots with those that were made of them.
    pub copied: Vec<(ObjectId, ObjectId)>,
    /// Snapshots that were there already, with what stands for them there.
    pub there: Vec<(ObjectId, ObjectId)>,
    /// Bytes of chunks that crossed, before compression.
    pub new_bytes: u64,
    /// Bytes of the containers that they take.
    pub stored_bytes: u64,
}

/// Copies `snapshots` of `from` to `to`, the oldest first.
///
/// A snapshot keeps its time, host, user, paths and tags, with one more if a write-only client made it,
/// and has the one that it was copied from
/// for its parent. One that is there with the same time, host, paths and tags is not copied again.
/// Stopped or failed it leaves whole snapshots only; another copy goes on.
pub fn copy(
    from: &Repository,
    to: &Repository,
    mut snapshots: Vec<(ObjectId, Snapshot)>,
    options: &Options,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Report, StoreError> {
    let mut report = Report::default();
    let (there, _damaged) = to.snapshots()?;
    snapshots.sort_by_key(|(id, snapshot)| (snapshot.time, *id));
    snapshots.retain(|(id, snapshot)| {
        match there.iter().find(|(_, other)| is_same(snapshot, other)) {
            Some((other, _)) => report.there.push((*id, *other)),
            None => return true,
        }
        false
    });
    // A copy before this one may have failed just before it was told.
    report.there.iter().try_for_each(|(_, copy)| to.acknowledge(*copy))?;
    if snapshots.is_empty() {
        return Ok(report);
    }
    let bytes = snapshots.iter().map(|(_, snapshot)| snapshot.summary.bytes);
    let total = bytes.fold(0, u64::saturating_add);
    progress.total_bytes.store(total, Ordering::Relaxed);
    let author = Author { host: &options.host, user: &options.user, program: PROGRAM };
    let alive = Alive::begin(to);
    // All notices first: then the index that is loaded now holds until the last commit.
    let mut announced = Vec::new();
    let result = snapshots
        .iter()
        .try_for_each(|_| {
            announced.push(Announced::new(to, author, Time::now(), &alive)?);
            Ok(())
        })
        .and_then(|()| {
            let copied = (progress, cancel);
            copy_all(from, to, &snapshots, options, copied, &mut announced, &mut report)
        });
    announced.into_iter().for_each(Announced::withdraw);
    result.map(|()| report)
}

/// Whether `copy` stands for `snapshot`. One that a write-only client made stands for none but such.
fn is_same(snapshot: &Snapshot, copy: &Snapshot) -> bool {
    let tags = snapshot.tags_of_copy();
    (snapshot.time, &snapshot.host, &snapshot.paths) == (copy.time, &copy.host, &copy.paths)
        && (tags == copy.tags || snapshot.tags == copy.tags)
        && snapshot.is_from_client == copy.is_from_client
}

fn copy_all<'a>(
    from: &Repository,
    to: &'a Repository,
    snapshots: &[(ObjectId, Snapshot)],
    options: &Options,
    (progress, cancel): (&Progress, &Cancel),
    announced: &mut Vec<Announced<'a>>,
    report: &mut Report,
) -> Result<(), StoreError> {
    let loaded = to.load_index()?;
    loaded.marks.expect_whole()?;
    let used = Used::of(&loaded.containers);
    let writer = ChunkWriter::new(to, &loaded, &used, options.container_len)?;
    let reader = from.reader()?;
    let names_alike = !from.is_encrypted()
        && !to.is_encrypted()
        && from.config().fingerprint == to.config().fingerprint;
    let how = crossing::How { names_alike, rechunk: options.rechunk, progress, cancel };
    thread::scope(|scope| {
        let mut crossing = Crossing::new(scope, &reader, &to.fingerprinter, writer, how);
        for (id, snapshot) in snapshots {
            let before = crossing.writer.new_bytes;
            let root = match crossing.root(&snapshot.root) {
                Ok(root) => root,
                Err(error) => {
                    // What crossed is kept for the next copy.
                    crossing.writer.finish()?;
                    return Err(match error {
                        error if error.is_no_answer() => error,
                        source => StoreError::Broken { snapshot: *id, source: Box::new(source) },
                    });
                }
            };
            if !fault!(CopyCommittedEarly) {
                crossing.writer.finish()?;
            }
            let new_bytes = crossing.writer.new_bytes - before;
            let summary = crate::Summary { new_bytes, ..snapshot.summary };
            let tags = snapshot.tags_of_copy();
            let copy = Snapshot { parent: Some(*id), tags, summary, root, ..snapshot.clone() };
            let notice = announced.pop().expect("there is one for each snapshot");
            let committed = notice.commit(&copy, &loaded, &used).map_err(StoreError::half_way)?;
            report.copied.push((*id, committed));
            fault!(CopyCommittedEarly => crossing.writer.finish()?);
            report.new_bytes = crossing.writer.new_bytes;
            report.stored_bytes = crossing.writer.stored_bytes();
        }
        Ok(())
    })
}
