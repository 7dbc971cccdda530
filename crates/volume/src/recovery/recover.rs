//! Opening a pool: what is known of it, its containers, and what a crash left over.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use onefold_backend::Folder;
use onefold_index::Table;
use onefold_seal::Envelope;

use crate::containers::append::Appender;
use crate::containers::entry::ContainerImage;
use crate::containers::files::Files;
use crate::error::VolumeError;
use crate::ids::{VolumeId, container_name, container_of, is_container};
use crate::journal::metadata::{Known, Metadata, Shard, Taken};
use crate::journal::record::Record;
use crate::recovery::mend::Mending;
use crate::recovery::replay::{Places, Replayed};
use crate::seeded::fault;
use crate::state::State;
use crate::state::map::{References, present};
use crate::state::pages::Pages;
use crate::state::paging::Paging;
use crate::state::registrations::Stage;
use crate::state::volume::VolumeState;
use crate::state::waiting::Waiting;

/// A pool as it was found.
pub(crate) struct Recovered {
    pub(crate) state: State,
    pub(crate) appender: Appender,
    pub(crate) taken: Taken,
    /// Of the batches since the checkpoint.
    pub(crate) bytes: u64,
    /// Whether its pages are not in the table yet.
    pub(crate) is_paged: bool,
    /// Containers that cannot be read.
    pub(crate) damage: Vec<VolumeError>,
    /// What was given up of nodes, if that was asked for.
    pub(crate) mending: Option<Mending>,
}

/// Where a paged pool has its nodes.
pub(crate) struct NodePlace {
    pub(crate) paging: Arc<Paging>,
    /// Where those that cannot be read are given up.
    pub(crate) mending: Option<Mending>,
}

/// A container of a paged pool with so many pages gets its footer, however short they are: what is known
/// of all pages of one container is in memory at a time, about a hundred bytes a page.
const PAGED_MOST_PAGES: usize = 1 << 15;

/// What an error of records is said of.
pub(crate) const CHECKPOINT: &str = "the checkpoint";

/// So many numbers beyond the last that is known were given out at most: to containers that no batch
/// tells of. A file with a higher one is none that a pool left, and takes no numbers away.
const FAR: u32 = 1 << 20;

/// Takes `shard` over and finds the state that its batches end with, and enters all pages into
/// `table`, so that each footer is read once.
///
/// What is named stays as it is. A container without a footer loses what is behind its last page,
/// and gets its footer if another one follows; if it is missing it is an empty file from then
/// on. One with a footer is read and not synced: it was durable before a record said that it has one.
/// And those that nothing names are removed, and their numbers not given out by this opening.
/// Where nothing at all is known of a pool that has containers, nothing is touched: whoever was asked
/// does not know it.
/// Nodes that cannot be read are given up if there is a `mending`: then references have to be counted anew
/// before anything is committed.
/// Before a container is cut off, gets its footer or is removed it is looked whether the shard is
/// still this one's.
pub(crate) fn recover(
    folder: &Arc<dyn Folder>,
    metadata: &dyn Metadata,
    shard: Shard,
    files: Arc<Files>,
    nodes: Option<NodePlace>,
    container_len: u64,
    table: &dyn Table,
) -> Result<Recovered, VolumeError> {
    let (paging, mending) = nodes.map_or((None, None), |one| (Some(one.paging), one.mending));
    let places = paging.clone().map(|paging| Places { files: Arc::clone(&files), paging });
    let (mut replayed, mut is_known) = (Replayed::new(places), false);
    replayed.mending = mending;
    let taken = metadata.take_over(shard, &mut |known| {
        match known {
            Known::Anew | Known::Writer(_) => is_known = false,
            Known::Checkpoint(_) | Known::Batch(_) => is_known = true,
            Known::Coming(_) => {}
        }
        replayed.take(known)
    });
    let ended = replayed.end();
    // what could not be read is no fault of the journal that names it
    if let Some(error) = replayed.failed.take() {
        match taken {
            // who has the pool by now may have removed the file
            Ok(taken) => metadata.expect_current(shard, taken.writer)?,
            Err(superseded @ VolumeError::Superseded { .. }) => return Err(superseded),
            Err(_) => {}
        }
        return Err(error);
    }
    let taken = taken?;
    if let Some(paging) = &paging
        && !replayed.may_store
    {
        paging.files.begin(taken.writer)?;
    }
    ended.map_err(|source| VolumeError::Malformed { object: CHECKPOINT.to_owned(), source })?;
    if !is_known && let Some(found) = folder.names()?.into_iter().find(|one| is_container(one)) {
        return Err(VolumeError::NothingKnown { found });
    }
    let (is_paged, keeps_pages) = (replayed.is_paged, paging.is_some());
    let Replayed { mending, volumes, containers, next_volume, next_container, .. } = replayed;
    let Replayed { bytes, pages, dying, .. } = replayed;
    let mut appender = Appender::new(files, Envelope::plain(shard.id()), container_len);
    if keeps_pages {
        appender.most_pages = PAGED_MOST_PAGES;
    }
    let mut pages = pages;
    let mut damage = Vec::new();
    let mut waiting = Waiting::default();
    // another one may have the pool by now, and these files with it
    let ensure_current = || metadata.expect_current(shard, taken.writer);
    for (container, image) in &containers {
        // pages are moved to later containers only, so that none but the last one goes on
        if appender.number().is_some() {
            ensure_current()?;
            damage.extend(pages.close_open(&mut appender, &mut waiting));
        }
        if !image.is_sealed {
            ensure_current()?;
        }
        if !image.is_sealed && appender.files.sharing().is_some() {
            damage.extend(seal_shared(&mut appender, &mut pages, *container, image, table)?);
            waiting.push(&Record::Sealed { container: *container });
            continue;
        }
        damage.extend(match is_paged {
            true => pages.take_file(&mut appender, table, *container, image)?,
            false => pages.load(&mut appender, table, *container, image, keeps_pages)?,
        });
    }
    pages.next = pages.next.max(next_container);
    if let Some(mending) = &mending {
        pages.next = pages.next.max(mending.next());
    }
    let names = folder.names()?;
    if is_paged {
        // those that were not there then, and may be by now
        for number in pages.too_short() {
            let (file, missing) = appender.files.open_sealed(number)?;
            if missing.is_none() {
                file.let_close();
                pages.replace_file(number, file);
            }
        }
        damage.extend(find_missing(&names, &mut pages));
        pages.count_bytes();
    } else {
        recount(&volumes, &mut pages);
    }
    remove_unnamed(&**folder, &names, &mut pages, ensure_current)?;
    end_unfinished(&appender.files, &mut pages, &mut waiting);
    // where nodes were given up, what is referred to is counted later
    if mending.is_none()
        && let Some(open) = appender.number()
        && pages.doom_open(open, |record| waiting.push(record))
    {
        appender.abandon();
    }
    let state = State { volumes, next_volume, dying, pages, waiting };
    Ok(Recovered { state, appender, taken, bytes, is_paged, damage, mending })
}

/// Gives a container that an earlier writer of this shard filled its footer: nothing is appended to it, as
/// that writer may still send pages. Returns what is wrong with one that cannot be read.
fn seal_shared(
    appender: &mut Appender,
    pages: &mut Pages,
    number: u32,
    image: &ContainerImage,
    table: &dyn Table,
) -> Result<Option<VolumeError>, VolumeError> {
    let sealed = appender.files.closed(number, 0).seal_inherited(&image.pages);
    let missing = match sealed {
        Ok(()) => None,
        Err(error @ VolumeError::Damaged { .. }) => Some(error),
        Err(error) => return Err(error),
    };
    let image = ContainerImage { is_sealed: true, pages: image.pages.clone() };
    let unread = pages.take_file(appender, table, number, &image)?;
    pages.replay_sealed(number);
    Ok(missing.or(unread))
}

/// Ends what was announced of registrations and not settled: each is dropped. So is one that counts and
/// has no page.
fn end_unfinished(files: &Arc<Files>, pages: &mut Pages, waiting: &mut Waiting) {
    let unfinished: Vec<(u32, Stage)> = pages
        .registrations
        .iter()
        .filter(|(number, one)| one.stage != Stage::Registered || !pages.has_container(*number))
        .map(|(number, one)| (number, one.stage))
        .collect();
    for (number, stage) in unfinished {
        if fault!(DropsForgotten) && stage == Stage::Dropping {
            pages.registrations.settle(number, true);
            pages.add_foreign(files.closed(number, 0));
            continue;
        }
        let record = pages.give_up_registration(files.closed(number, 0));
        if stage != Stage::Dropping {
            waiting.push(&record);
        }
    }
}

/// Removes containers that never came to be, or should have gone: those that are not `named`. Numbers
/// that a pool may have given out are not given out again.
fn remove_unnamed(
    folder: &dyn Folder,
    names: &[String],
    pages: &mut Pages,
    ensure_current: impl Fn() -> Result<(), VolumeError>,
) -> Result<(), VolumeError> {
    let far = pages.next.saturating_add(FAR);
    let there = names.iter().filter_map(|name| container_of(name));
    let unnamed: Vec<u32> = there.filter(|number| !pages.has_container(*number)).collect();
    for number in unnamed {
        if number < far {
            // who began it may go on with it, having lost the pool and not knowing that yet
            pages.next = pages.next.max(number + 1);
        }
        if !fault!(RemovedUnseen) {
            ensure_current()?;
        }
        folder.remove(&container_name(number))?;
    }
    Ok(())
}

/// Containers whose files are not there. What refers to their pages cannot be read.
fn find_missing(names: &[String], pages: &mut Pages) -> Vec<VolumeError> {
    let there: HashSet<u32> = names.iter().filter_map(|name| container_of(name)).collect();
    // those that shards share are not looked for
    let is_here = |number: &u32| pages.registrations.get(*number).is_some();
    let missing = pages.numbers().into_iter();
    let missing = missing.filter(|number| !there.contains(number) && !is_here(number));
    let missing: Vec<u32> = missing.collect();
    let tell = |number: u32| {
        pages.note_unread(number);
        let problem = match pages.is_lost(number) {
            true => "it has no file, and stands for pages that a repair gave up".to_owned(),
            false => "the file is not there".to_owned(),
        };
        VolumeError::Damaged { object: container_name(number), at: 0, problem }
    };
    missing.into_iter().map(tell).collect()
}

/// Counts what refers to each page: every entry of every segment once.
fn recount(volumes: &BTreeMap<VolumeId, VolumeState>, references: &mut impl References) {
    let mut seen = BTreeSet::new();
    for (_, segment) in volumes.values().flat_map(|one| one.map.segments()) {
        if seen.insert(segment) {
            let pages = references.nodes().share(segment).expect("what was replayed is in memory");
            present(&pages).for_each(|page| references.gain(page));
        }
    }
}
