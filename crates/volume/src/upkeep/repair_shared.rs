//! Repair of a pool that is a shard of a cluster: its own file, and nodes of maps and tables that cannot be read.
//!
//! The caller first repairs the records of the pool, where these are kept. Shards share containers, so a repair of one
//! pool does not change them: a scrub notes damage in a container for all shards that use it.

use std::collections::BTreeSet;
use std::sync::Arc;

use onefold_backend::{Folder, Log};
use onefold_container::Codec;
use onefold_seal::{Envelope, ObjectId};

use crate::containers::files::Files;
use crate::engine::options::{IndexLayout, Options};
use crate::error::VolumeError;
use crate::ids::{Version, Writer};
use crate::journal::metadata::{Known, Metadata, Shard};
use crate::nodes::files::NodeFiles;
use crate::pool::head::{Hash, Head, is_head_lost, open_head, write_head};
use crate::pool::open::{Pool, SMALL_TABLE, begin_with};
use crate::recovery::mend::Mending;
use crate::recovery::recover::CHECKPOINT;
use crate::recovery::replay::{Places, Replayed};
use crate::sharing::Sharing;
use crate::state::paging::Paging;
use crate::upkeep::repair::{Repaired, copy, end_mending};

/// A pool that is a shard.
struct Parts<'a> {
    folder: &'a Arc<dyn Folder>,
    metadata: &'a Arc<dyn Metadata>,
    sharing: &'a Arc<dyn Sharing>,
    head: Head,
}

impl Pool {
    /// Gives up what only nodes knew that cannot be read, so that all others can: their blocks are lost until they
    /// are written again. The pool is the shard `id`, whose pages are named by `hash`. `metadata` must begin a
    /// checkpoint also if there was no batch since the last one. A pool with nothing wrong stays as it is. What was done
    /// is added to `done`, also before an error.
    ///
    /// # Errors
    /// [`VolumeError::Damaged`] or [`VolumeError::Malformed`] if its records cannot be read: then nothing is changed.
    /// After any error the call can be repeated.
    pub fn repair_shared(
        folder: &Arc<dyn Folder>,
        (id, hash): (ObjectId, Hash),
        metadata: &Arc<dyn Metadata>,
        sharing: &Arc<dyn Sharing>,
        options: Options,
        done: &mut Repaired,
    ) -> Result<(), VolumeError> {
        let head = Head { id, hash, codec: Codec::Zstd, version: Version::Paged };
        let own = open_or_make_head(&**folder, &head, done)?;
        let parts = Parts { folder, metadata, sharing, head };
        if let Some((mending, writer)) = parts.look()? {
            let names = folder.names()?;
            for name in mending.files().filter(|name| names.contains(name)) {
                done.kept.push(copy(&**folder, &name, writer)?);
            }
            let mending = Mending::new(mending.next(), BTreeSet::new());
            done.settled.extend(parts.mend(own, options, mending)?);
        }
        Ok(())
    }
}

/// The pool's own file, which is made anew if it is lost or damaged.
fn open_or_make_head(
    folder: &dyn Folder,
    head: &Head,
    done: &mut Repaired,
) -> Result<Box<dyn Log + Sync>, VolumeError> {
    match open_head(folder) {
        Err(error) if is_head_lost(&error) || matches!(error, VolumeError::NoPool) => {
            write_head(folder, head)?;
            done.settled.push("made 'pool' anew".into());
            open_head(folder).map(|(own, _)| own)
        }
        opened => opened.map(|(own, _)| own),
    }
}

impl Parts<'_> {
    /// Which nodes cannot be read, and the writer by whose name copies are kept; none if all can.
    fn look(&self) -> Result<Option<(Mending, Writer)>, VolumeError> {
        let (id, folder) = (self.head.id, self.folder);
        let sharing = Some((Arc::clone(self.sharing), id));
        let places = Places {
            files: Files::with(Arc::clone(folder), Envelope::plain(id), 1, sharing),
            paging: Paging::new(NodeFiles::new(Arc::clone(folder), id), u64::MAX, 0),
        };
        let mut replayed = Replayed::looking(places);
        let taken = self.metadata.take_over(Shard::of(id), &mut |known| match known {
            // it stores no nodes
            Known::Writer(_) => Ok(()),
            known => replayed.take(known),
        });
        let ended = replayed.end_checkpoint();
        // what could not be read is no fault of the journal that names it
        if let Some(error) = replayed.failed.take() {
            return Err(error);
        }
        let taken = taken?;
        ended.map_err(|source| VolumeError::Malformed { object: CHECKPOINT.to_owned(), source })?;
        let next = replayed.next_container();
        let needed = replayed.mending.filter(Mending::is_needed);
        Ok(needed.map(|mending| (mending.from(next), taken.writer)))
    }

    /// Gives up what nodes knew that cannot be read. Returns what was settled.
    fn mend(
        &self,
        own: Box<dyn Log + Sync>,
        options: Options,
        mending: Mending,
    ) -> Result<Vec<String>, VolumeError> {
        // nobody looks pages up by their fingerprints
        let options = Options { table_bytes: SMALL_TABLE, index: IndexLayout::Chained, ..options };
        let (folder, sharing) = (Arc::clone(self.folder), Some(Arc::clone(self.sharing)));
        let (metadata, head) = (Arc::clone(self.metadata), self.head.clone());
        end_mending(begin_with(
            folder,
            own,
            head,
            metadata,
            options,
            false,
            Some(mending),
            sharing,
        )?)
    }
}
