//! Opening a pool: what is known of it, its containers, and what a crash left over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use onefold_backend::Folder;
use onefold_index::Table;
use onefold_seal::Envelope;

use crate::VolumeError;
use crate::append::Appender;
use crate::engine::{State, VolumeState, Waiting};
use crate::files::{Files, container_name};
use crate::handle::VolumeId;
use crate::map::References;
use crate::metadata::{Metadata, Shard, Taken};
use crate::pages::Pages;
use crate::replay::Replayed;

/// A pool as it was found.
pub(crate) struct Recovered {
    pub(crate) state: State,
    pub(crate) appender: Appender,
    pub(crate) taken: Taken,
    /// Of the batches since the checkpoint.
    pub(crate) bytes: u64,
    /// Containers that cannot be read.
    pub(crate) damage: Vec<VolumeError>,
}

/// Takes `shard` over and finds the state that its batches end with, and enters all pages into
/// `table`, so that each footer is read once.
///
/// What is named stays as it is. A container without a footer loses what is behind its last page,
/// and gets its footer if another one without follows; one that is missing is an empty file from
/// then on; and those that nothing names are removed.
pub(crate) fn recover(
    folder: &Arc<dyn Folder>,
    metadata: &dyn Metadata,
    shard: Shard,
    files: Arc<Files>,
    container_len: u64,
    table: &dyn Table,
) -> Result<Recovered, VolumeError> {
    let mut replayed = Replayed::default();
    let taken = metadata.take_over(shard, &mut |known| replayed.take(known))?;
    replayed.forward();
    let Replayed { volumes, containers, next_volume, next_container, bytes, .. } = replayed;
    let mut appender = Appender::new(files, Envelope::plain(shard.id()), container_len);
    let mut pages = Pages::new();
    let mut damage = Vec::new();
    let mut waiting = Waiting::default();
    for (container, image) in &containers {
        if !image.is_sealed {
            damage.extend(pages.close_open(&mut appender, &mut waiting));
        }
        damage.extend(pages.load(&mut appender, table, *container, image)?);
    }
    pages.next = pages.next.max(next_container);
    recount(&volumes, &mut pages);
    // what never came to be, or should have gone
    for name in &folder.names()? {
        let container =
            name.strip_prefix("container-").and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let is_left_over = container.is_some_and(|number| {
            container_name(number) == *name && !containers.contains_key(&number)
        });
        if is_left_over {
            folder.remove(name)?;
        }
    }
    if let Some(open) = appender.number()
        && pages.doom_open(open, |record| waiting.push(record))
    {
        appender.abandon();
    }
    let state = State { volumes, next_volume, pages, waiting };
    Ok(Recovered { state, appender, taken, bytes, damage })
}

/// Counts what refers to each page: every entry of every segment once.
fn recount(volumes: &BTreeMap<VolumeId, VolumeState>, references: &mut impl References) {
    let mut seen = BTreeSet::new();
    for (_, segment) in volumes.values().flat_map(|one| one.map.segments()) {
        if seen.insert(segment.identity()) {
            let present = segment.pages().iter().filter(|page| !page.is_hole());
            present.for_each(|page| references.gain(*page));
        }
    }
}
