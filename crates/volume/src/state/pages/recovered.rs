//! What opening a pool does to its pages: from checkpoints, footers and the journal.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use onefold_container::Codec;
use onefold_index::Table;
use onefold_seal::{CHECK_LEN, Check};

use crate::containers::append::Appender;
use crate::containers::entry::{ContainerImage, PageEntry, entries};
use crate::containers::files::{Files, PageFile};
use crate::containers::located::short;
use crate::error::VolumeError;
use crate::ids::Handle;
use crate::journal::record::Record;
use crate::nodes::format::NODE;
use crate::state::container::{
    Container, LOST_OFFSET, Place, Told, enter, place_entry, reference_entry, references_of,
};
use crate::state::nodes::{Missing, NodeId};
use crate::state::pages::Pages;
use crate::state::waiting::Waiting;

impl Pages {
    /// Takes up a container that was there before, and enters its pages into `table`; `appender` goes
    /// on with one that has no footer. Returns what is wrong with one that cannot be read: its pages
    /// are lost, the others are not. Where it `keeps_pages`, those that records tell of stay known.
    pub(crate) fn load(
        &mut self,
        appender: &mut Appender,
        table: &dyn Table,
        number: u32,
        image: &ContainerImage,
        keeps_pages: bool,
    ) -> Result<Option<VolumeError>, VolumeError> {
        let (file, missing) = match image.is_sealed {
            true => appender.files.open_sealed(number)?,
            false => (appender.files.open(number)?, None),
        };
        let mut container = Container::new(file, 0);
        let loaded = match (missing, image.is_sealed) {
            (Some(missing), _) => Err(missing.into()),
            (None, true) => container.read_footer(table, &mut self.nodes),
            (None, false) => container.go_on(appender, image, table, &mut self.nodes),
        };
        if loaded.is_err() && keeps_pages && !image.pages.is_empty() {
            container.slots.clear(true, &mut self.nodes);
            for page in &image.pages {
                container.push_entry(page, &mut self.nodes)?;
            }
            container.keep(image, &mut self.nodes);
        } else if loaded.is_err() {
            container.is_damaged = true;
            // of one with a footer, that tells of them, whoever can read it again
            if !image.is_sealed {
                container.lost = image.pages.clone();
            }
            container.slots.clear(true, &mut self.nodes);
        }
        // one that cannot be gone on with takes no more pages either
        if image.is_sealed || loaded.is_err() {
            container.close(&mut self.nodes);
        }
        self.bytes += container.file.own_len();
        if container.is_sealed {
            // what it holds was durable when a record said so, or when it was opened
            container.file.let_close();
        }
        self.all.insert(number, container);
        self.maybe_dead.push(number);
        self.next = self.next.max(number + 1);
        Ok(loaded.err())
    }

    /// Takes up a container of which a checkpoint of a paged pool tells; `file` is not opened. Without
    /// nodes for its pages it is one that cannot be read.
    pub(crate) fn add_told(&mut self, file: Arc<PageFile>, told: Told) {
        let number = file.number();
        let mut container = Container::new(file, told.end);
        // one that was given up has its nodes, and takes no part in anything until a repair
        container.is_damaged = told.lost_references > 0 && told.slots.count == 0;
        container.is_stuck = told.lost_references > 0;
        container.is_sealed = true;
        (container.begin, container.end) = (told.begin, told.end);
        (container.live, container.live_bytes) = (told.live, told.live_bytes);
        container.lost_references = told.lost_references;
        container.slots = told.slots;
        self.next = self.next.max(number + 1);
        self.maybe_dead.push(number);
        self.all.insert(number, container);
    }

    /// Adds `count` pages that nobody can read to container `number`, which has no file: the first. Nothing
    /// refers to them before [`set_references`](Self::set_references).
    pub(crate) fn add_lost(&mut self, files: &Arc<Files>, number: u32, count: u32) -> Handle {
        let new = || Container { is_unread: true, ..Container::new(files.closed(number, 0), 0) };
        let container = self.all.get_or_insert(number, new);
        let first = container.slots.count;
        for _ in 0..count {
            let check = Check::from_bytes([0; CHECK_LEN]);
            container.push(0, 0, Codec::Raw, &check, &mut self.nodes).expect("it begins at 0");
        }
        Handle::new(number, first)
    }

    /// No pages are added to container `number`, which has none that can be read, any more.
    pub(crate) fn close_lost(&mut self, number: u32) {
        if let Some(container) = self.all.get_mut(number) {
            container.close(&mut self.nodes);
        }
    }

    /// Whether container `number` has no file, and stands for pages that a repair gave up.
    pub(crate) fn is_lost(&self, number: u32) -> bool {
        self.all.get(number).is_some_and(|one| one.end == 0 && one.slots.count > 0)
    }

    /// The nodes of container `number` that `is_unread` is true of: which of those with places, and which
    /// of those with references.
    pub(crate) fn unread_nodes(
        &self,
        number: u32,
        is_unread: impl Fn(&NodeId) -> bool,
    ) -> (Vec<usize>, Vec<usize>) {
        let Some(container) = self.all.get(number) else { return Default::default() };
        let of = |nodes: &[NodeId]| {
            nodes.iter().enumerate().filter(|(_, id)| is_unread(id)).map(|(at, _)| at).collect()
        };
        (of(&container.slots.places), of(&container.slots.references))
    }

    /// Makes nodes `at` with places of container `number` anew, as `known` says of all of its pages.
    pub(crate) fn replace_places(&mut self, number: u32, at: &[usize], known: &[PageEntry]) {
        let Some(container) = self.all.get(number) else { return };
        for &at in at {
            let mut node = Box::new([0; NODE]);
            let known = container.slots.range(at).map(|slot| &known[slot as usize]);
            for (entry, page) in node.iter_mut().zip(known) {
                let place = Place::new(page.offset.into(), page.codec);
                let place = place.expect("who knows the pages made sure of that");
                *entry = place_entry(place, short(page.check.as_bytes()));
            }
            self.nodes.replace(container.slots.places[at], node);
        }
    }

    /// Makes nodes `at` with places of container `number` anew, neighbours in it, as those of pages that
    /// nobody can read; `is_len_known` is whether how long the page before them is can be read. All
    /// others keep their places.
    pub(crate) fn lose_places(
        &mut self,
        number: u32,
        at: Range<usize>,
        is_len_known: bool,
    ) -> Result<(), Missing> {
        let Some(container) = self.all.get(number) else { return Ok(()) };
        let slots = &container.slots;
        let (first, end_slot) = (slots.range(at.start).start, slots.range(at.end - 1).end);
        let end = match slots.has(end_slot) {
            true => slots.place(end_slot, &self.nodes)?.0.offset(),
            false => container.end,
        };
        let begin = match first.checked_sub(1) {
            None => container.begin,
            Some(before) => {
                let offset = slots.place(before, &self.nodes)?.0.offset();
                let len = if is_len_known { slots.references(before, &self.nodes)?.0 } else { 0 };
                offset.saturating_add(len)
            }
        };
        // The others take no bytes, whose check is another one. What the first takes is longer than any
        // page, or has another check as far as four bytes of one tell.
        let unfit = !short(Check::of(&[]).as_bytes());
        let entry = |offset: u32| {
            let offset = offset.min(end).min((1 << Place::OFFSET_BITS) - 1);
            place_entry(Place::new(offset.into(), Codec::Raw).expect("it is below"), unfit)
        };
        for at in at {
            let mut node = Box::new([entry(end); NODE]);
            if slots.range(at).start == first {
                node[0] = entry(begin);
            }
            self.nodes.replace(slots.places[at], node);
        }
        Ok(())
    }

    /// Makes node `at` with places of container `number` anew, which shards share, as those of pages of
    /// which nobody knows where they begin.
    pub(crate) fn forget_places(&mut self, number: u32, at: usize) {
        let Some(container) = self.all.get(number) else { return };
        let place = Place::new(LOST_OFFSET.into(), Codec::Raw).expect("it is below");
        // that of bytes which are none: whatever is read there does not fit
        let unfit = !short(Check::of(&[]).as_bytes());
        self.nodes.replace(container.slots.places[at], Box::new([place_entry(place, unfit); NODE]));
    }

    /// Makes node `at` with references of container `number` anew, whose pages are as long as their places
    /// say, or `lens` by where they begin, if shards share it: one that begins elsewhere is lost. Nothing
    /// refers to them before [`set_references`](Self::set_references).
    pub(crate) fn clear_references(
        &mut self,
        number: u32,
        at: usize,
        lens: &BTreeMap<u32, u32>,
    ) -> Result<(), Missing> {
        let Some(container) = self.all.get(number) else { return Ok(()) };
        let mut node = Box::new([0; NODE]);
        for (entry, slot) in node.iter_mut().zip(container.slots.range(at)) {
            let stored_len = if container.file.has_gaps() {
                let offset = container.slots.place(slot, &self.nodes)?.0.offset();
                lens.get(&offset).copied().unwrap_or(0)
            } else {
                container.located(slot, &self.nodes)?.expect("it has this slot").stored_len
            };
            *entry = reference_entry(stored_len, 0);
        }
        self.nodes.replace(container.slots.references[at], node);
        Ok(())
    }

    /// The pages of node `at` of container `number` are referred to so often, whatever was noted before.
    /// Returns how many of them are at all, and how many bytes these take.
    pub(crate) fn set_references(
        &mut self,
        number: u32,
        at: usize,
        references: &[u32],
    ) -> Result<(u32, u64), Missing> {
        let Some(container) = self.all.get(number) else { return Ok((0, 0)) };
        let (id, range) = (container.slots.references[at], container.slots.range(at));
        let (mut changed, mut live, mut live_bytes) = (*self.nodes.get(id)?, 0, 0);
        for ((entry, _), references) in changed.iter_mut().zip(range).zip(references) {
            let (stored_len, _) = references_of(*entry);
            *entry = reference_entry(stored_len, *references);
            if *references > 0 {
                live += 1;
                live_bytes += u64::from(stored_len);
            }
        }
        if changed != *self.nodes.get(id)? {
            *self.nodes.get_mut(id)? = changed;
        }
        Ok((live, live_bytes))
    }

    /// Sets what was counted of container `number`: the pages that are referred to, their bytes, and the
    /// references to pages that nobody knows.
    pub(crate) fn set_live(&mut self, number: u32, live: u32, live_bytes: u64, lost: u64) {
        let Some(container) = self.all.get_mut(number) else { return };
        (container.live, container.live_bytes) = (live, live_bytes);
        (container.lost_references, container.is_stuck) = (lost, false);
        self.pending -= std::mem::take(&mut container.slots.pending).len();
        self.unsettled.remove(&number);
        self.maybe_dead.push(number);
    }

    /// What container `number` is, and how many pages it has.
    pub(crate) fn file_and_count(&self, number: u32) -> Option<(Arc<PageFile>, u32)> {
        let container = self.all.get(number)?;
        Some((Arc::clone(&container.file), container.slots.count))
    }

    /// Container `number` has no footer yet: its nodes are pinned, and more pages come into it.
    pub(crate) fn reopen(&mut self, number: u32) -> Result<(), Missing> {
        let Some(container) = self.all.get_mut(number) else { return Ok(()) };
        if container.is_sealed {
            container.slots.nodes().try_for_each(|id| self.nodes.ensure_here(id))?;
            container.slots.nodes().for_each(|id| self.nodes.pin(id).expect("it is here"));
            container.is_sealed = false;
        }
        Ok(())
    }

    /// Takes up a page that a record of a journal tells of, in a container whose file is not opened yet.
    pub(crate) fn replay_page(
        &mut self,
        files: &Arc<Files>,
        number: u32,
        page: &PageEntry,
    ) -> Result<(), VolumeError> {
        self.next = self.next.max(number + 1);
        let new = || Container::new(files.closed(number, 0), page.offset);
        let container = self.all.get_or_insert(number, new);
        container.push_entry(page, &mut self.nodes).map(drop)
    }

    /// Container `number` has its footer, as a record of a journal says.
    pub(crate) fn replay_sealed(&mut self, number: u32) {
        if let Some(container) = self.all.get_mut(number) {
            container.close(&mut self.nodes);
            self.maybe_dead.push(number);
        }
    }

    /// Container `number` is gone, as a record of a journal says.
    pub(crate) fn replay_dropped(&mut self, number: u32) {
        if let Some(mut container) = self.all.remove(number) {
            self.pending -= container.slots.pending.len();
            container.slots.clear(!container.is_sealed, &mut self.nodes);
        }
        self.unsettled.remove(&number);
    }

    /// A page was moved with all of its references, as a record of a journal says.
    pub(crate) fn replay_moved(&mut self, from: Handle, to: Handle) -> Result<(), Missing> {
        self.settle(from.container())?;
        if let Some((references, _)) = self.footprint(from)? {
            self.release_times(from, references);
            self.gain_times(to, references);
        }
        self.note_moved(from, to);
        Ok(())
    }

    /// Maps may name a page where it was.
    pub(crate) fn note_moved(&mut self, from: Handle, to: Handle) {
        self.forwards.insert(from, to);
        self.moved_from.insert(from.container());
    }

    /// Where pages went that maps may name where they were.
    pub(crate) fn forwards(&self) -> impl Iterator<Item = (Handle, Handle)> {
        self.forwards.iter().map(|(from, to)| (*from, *to))
    }

    /// What is to be added to references of a page once its node is here.
    pub(crate) fn add_pending(&mut self, page: Handle, times: i32) {
        let Some(container) = self.all.get_mut(page.container()) else { return };
        if container.slots.has(page.slot()) {
            container.slots.pending.push(page.slot(), times);
            self.pending += 1;
            if container.slots.pending.len() >= container.live.max(1) as usize {
                self.unsettled.insert(page.container());
            }
        }
    }

    /// Gives a container that was replayed its file, of which `appender` goes on with one that has no
    /// footer. Returns what is wrong with one that cannot be read; its pages stay known, and none more
    /// comes into it.
    pub(crate) fn take_file(
        &mut self,
        appender: &mut Appender,
        table: &dyn Table,
        number: u32,
        image: &ContainerImage,
    ) -> Result<Option<VolumeError>, VolumeError> {
        let (file, missing) = match image.is_sealed {
            true => appender.files.open_sealed(number)?,
            false => (appender.files.open(number)?, None),
        };
        let Some(container) = self.all.get_mut(number) else {
            let problem = "pages of it are known, and none of its table".to_owned();
            return Err(file.damaged(0, problem));
        };
        container.file = Arc::clone(&file);
        if !image.is_sealed && container.slots.count as usize != image.pages.len() {
            // whose references were lost: they are kept for who can read them
            container.keep(image, &mut self.nodes);
            let problem = "nobody knows what refers to its pages".to_owned();
            return Ok(Some(file.damaged(0, problem)));
        }
        let went_on = match (missing, image.is_sealed) {
            (Some(missing), _) => Err(missing.into()),
            (None, true) => Ok(()),
            (None, false) => appender.go_on(&file, image).map(|()| {
                if let Some(directory) = appender.directory() {
                    enter(table, number, directory);
                }
            }),
        };
        if let Err(error) = went_on {
            container.keep(image, &mut self.nodes);
            return Ok(Some(error));
        }
        if image.is_sealed {
            file.let_close();
        }
        Ok(None)
    }

    /// The bytes of all containers are those of their files.
    pub(crate) fn count_bytes(&mut self) {
        self.bytes = self.all.values().map(|container| container.file.own_len()).sum();
    }

    pub(crate) fn has_container(&self, number: u32) -> bool {
        self.all.get(number).is_some()
    }

    /// Containers whose files were shorter than their pages when a checkpoint told of them.
    pub(crate) fn too_short(&self) -> Vec<u32> {
        let is_short = |one: &Container| !one.file.is_foreign() && one.file.len() < one.end.into();
        self.all.iter().filter(|(_, one)| is_short(one)).map(|(number, _)| number).collect()
    }

    /// The file of container `number` is this one.
    pub(crate) fn replace_file(&mut self, number: u32, file: Arc<PageFile>) {
        if let Some(container) = self.all.get_mut(number) {
            container.file = file;
        }
    }

    /// The footer of container `number` cannot be read; whether nobody knew that.
    pub(crate) fn note_unread(&mut self, number: u32) -> bool {
        let Some(container) = self.all.get_mut(number) else { return false };
        !std::mem::replace(&mut container.is_unread, true)
    }

    /// Gives the open container its footer before another one is taken up: it could not be read once,
    /// so that another one was begun. If that fails it is as one that cannot be read, until the pool
    /// is opened again.
    pub(crate) fn close_open(
        &mut self,
        appender: &mut Appender,
        waiting: &mut Waiting,
    ) -> Option<VolumeError> {
        let (number, pages) = (appender.number()?, appender.directory().map(entries)?);
        match appender.seal() {
            Ok((container, len)) => {
                self.seal(container, len);
                waiting.push(&Record::Sealed { container });
                None
            }
            Err(error) => {
                appender.abandon();
                let container = self.all.get_mut(number).expect("the open one is one of all");
                container.slots.clear(true, &mut self.nodes);
                container.lost = pages;
                container.close(&mut self.nodes);
                container.is_damaged = true;
                Some(error)
            }
        }
    }
}
