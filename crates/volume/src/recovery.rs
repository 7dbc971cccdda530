//! Opening a pool: the newest checkpoint, what the journals add to it, and what a crash left over.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use onefold_backend::Folder;
use onefold_index::Table;
use onefold_seal::wire::WireError;
use onefold_seal::{Envelope, ObjectId};

use crate::append::Appender;
use crate::checkpoint::{self, Replayed, checkpoint_name, journal_name, number_in};
use crate::engine::{State, VolumeState, Waiting};
use crate::files::{Files, container_name};
use crate::handle::{Handle, VolumeId};
use crate::map::{Map, References, Uncounted};
use crate::pages::Pages;
use crate::pool::check_size;
use crate::record::{Record, decode_all};
use crate::{VolumeError, frame};

/// A pool as it was found.
pub(crate) struct Recovered {
    pub(crate) state: State,
    pub(crate) appender: Appender,
    /// Of the last journal there is.
    pub(crate) journal: u64,
    /// Where its last frame ends.
    pub(crate) end: u64,
    pub(crate) frame: u64,
    /// Containers that cannot be read.
    pub(crate) damage: Vec<VolumeError>,
}

/// Finds the state that the journals end with, and enters all pages into `table`, so that each
/// footer is read once.
///
/// What is named stays as it is. A container without a footer loses what is behind its last page,
/// and gets its footer if another one without follows; one that is missing is an empty file from
/// then on; and those that nothing names are removed.
pub(crate) fn recover(
    folder: &Arc<dyn Folder>,
    pool: ObjectId,
    files: Arc<Files>,
    container_len: u64,
    table: &dyn Table,
) -> Result<Recovered, VolumeError> {
    let names = folder.names()?;
    let numbers = |prefix| -> BTreeSet<u64> {
        names.iter().filter_map(|name| number_in(name, prefix)).collect()
    };
    let (number, mut replayed) = newest(&**folder, pool, &numbers("checkpoint-"))?;
    let mut moved = HashMap::new();
    let journals = numbers("journal-");
    let mut journal = number;
    let end = loop {
        if !journals.contains(&journal) {
            // it was made before the checkpoint was written
            let object = journal_name(journal);
            return Err(VolumeError::Damaged { object, at: 0, problem: "it is missing".into() });
        }
        let end = replay(&**folder, pool, journal, &mut replayed, &mut moved)?;
        if !journals.contains(&(journal + 1)) {
            break end;
        }
        journal += 1;
    };
    let Replayed { mut volumes, containers, next_volume, next_container, frame } = replayed;
    forward(&mut volumes, &moved);
    let mut appender = Appender::new(files, Envelope::plain(pool), container_len);
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
    for name in &names {
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
    Ok(Recovered { state, appender, journal, end, frame, damage })
}

/// The newest checkpoint that is whole. One that is not was being written when the power went, if
/// there is an older one; these go once it is whole.
fn newest(
    folder: &dyn Folder,
    pool: ObjectId,
    numbers: &BTreeSet<u64>,
) -> Result<(u64, Replayed), VolumeError> {
    let mut why = VolumeError::NoPool;
    for &number in numbers.iter().rev() {
        match checkpoint::read(folder, pool, number) {
            Ok(Some(replayed)) => return Ok((number, replayed)),
            Ok(None) => {
                why = VolumeError::Damaged {
                    object: checkpoint_name(number),
                    at: 0,
                    problem: "it is not whole, and there is no older one".into(),
                };
            }
            Err(error @ (VolumeError::Damaged { .. } | VolumeError::Malformed { .. })) => {
                why = error;
            }
            Err(error) => return Err(error),
        }
    }
    Err(why)
}

/// Takes up what a journal adds; returns where its last frame ends.
fn replay(
    folder: &dyn Folder,
    pool: ObjectId,
    journal: u64,
    replayed: &mut Replayed,
    moved: &mut HashMap<Handle, Handle>,
) -> Result<u64, VolumeError> {
    let name = journal_name(journal);
    let log = folder.log(&name)?;
    let frames = frame::read(&*log, &name, pool, replayed.frame, |body| {
        decode_all(body, |record| apply(replayed, moved, record))
            .map_err(|source| VolumeError::Malformed { object: name.clone(), source })
    })?;
    replayed.frame = frames.next;
    Ok(frames.end)
}

/// Does what a record of a journal says.
fn apply(
    replayed: &mut Replayed,
    moved: &mut HashMap<Handle, Handle>,
    record: Record,
) -> Result<(), WireError> {
    let refused = |expected| Err(WireError { at: 0, expected });
    match record {
        Record::Page { container, page } => {
            replayed.next_container = replayed.next_container.max(container.saturating_add(1));
            replayed.containers.entry(container).or_default().pages.push(page);
        }
        Record::Sealed { container } => match replayed.containers.get_mut(&container) {
            Some(image) => image.is_sealed = true,
            None => return refused("a container that came before"),
        },
        Record::Dropped { container } => {
            replayed.containers.remove(&container);
        }
        Record::Map { volume, block, to } => {
            let Some(one) = replayed.volumes.get(&volume) else {
                return refused("a volume that is there");
            };
            if block >= one.size / u64::from(one.block_size.bytes()) {
                return refused("a block within its volume");
            }
            if moved.contains_key(&to) {
                // this page is what it was moved from, which was found again since
                forward(&mut replayed.volumes, moved);
                moved.clear();
            }
            let one = replayed.volumes.get_mut(&volume).expect("just found");
            one.map.set(block, to, &mut Uncounted);
        }
        Record::Create { volume, name, size, block_size, is_read_only, source, made } => {
            let map = match source {
                None => Map::default(),
                Some(source) => match replayed.volumes.get(&source) {
                    Some(source) => source.map.share(),
                    None => return refused("a source that is there"),
                },
            };
            replayed.next_volume = replayed.next_volume.max(volume.0.saturating_add(1));
            let state = VolumeState { name, size, block_size, is_read_only, source, made, map };
            replayed.volumes.insert(volume, state);
        }
        Record::Delete { volume } => match replayed.volumes.remove(&volume) {
            Some(one) => one.map.release(&mut Uncounted),
            None => return refused("a volume that is there"),
        },
        Record::Resize { volume, size } => {
            let Some(one) = replayed.volumes.get_mut(&volume) else {
                return refused("a volume that is there");
            };
            if check_size(size, one.block_size).is_err() {
                return refused("a size that a volume can have");
            }
            one.size = size;
            one.map.truncate(size / u64::from(one.block_size.bytes()), &mut Uncounted);
        }
        Record::Moved { from, to } => {
            moved.insert(from, to);
        }
        Record::Placed { .. } | Record::Segment { .. } | Record::End { .. } => {
            return refused("a record of a journal");
        }
    }
    Ok(())
}

/// Lets the maps know where pages were moved, perhaps more than once.
fn forward(volumes: &mut BTreeMap<VolumeId, VolumeState>, moved: &HashMap<Handle, Handle>) {
    if moved.is_empty() {
        return;
    }
    let last = |page: Handle| {
        let mut to = *moved.get(&page)?;
        // pages move to later places only, so this ends
        while let Some(further) = moved.get(&to) {
            to = *further;
        }
        Some(to)
    };
    let mut replaced = HashMap::new();
    for volume in volumes.values_mut() {
        volume.map.forward(last, &mut replaced);
    }
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
