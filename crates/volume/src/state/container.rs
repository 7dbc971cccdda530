//! One container as a pool has it in memory, and the numbers that its nodes have of each page.

use std::ops::Range;
use std::sync::Arc;

use onefold_container::{Codec, Directory};
use onefold_index::Table;
use onefold_seal::Check;

use crate::containers::append::Appender;
use crate::containers::entry::{ContainerImage, MAX_PAGE, PageEntry};
use crate::containers::files::PageFile;
use crate::containers::located::{Located, short};
use crate::error::VolumeError;
use crate::ids::Handle;
use crate::nodes::format::NODE;
use crate::state::nodes::{Missing, NodeId, Nodes};
use crate::state::pending::Pending;

/// The most references of a page that are counted. A page that reached it is kept for good.
pub(crate) const MOST: u32 = u32::MAX;

/// A container of which a smaller share is referred to is worth compacting.
pub(crate) const MIN_FILL: f64 = 0.5;

/// Where a page begins in its container, and its codec: 30 bits and two.
///
/// No container is closed later than at 2^30 bytes, so every page begins before.
#[derive(Clone, Copy)]
pub(super) struct Place(u32);

impl Place {
    pub(super) const OFFSET_BITS: u32 = 30;

    pub(super) fn new(offset: u64, codec: Codec) -> Option<Self> {
        let is_within = offset < 1 << Self::OFFSET_BITS;
        is_within.then(|| Self(u32::from(codec.code()) << Self::OFFSET_BITS | offset as u32))
    }

    pub(super) fn offset(self) -> u32 {
        self.0 & ((1 << Self::OFFSET_BITS) - 1)
    }

    pub(super) fn codec(self) -> Codec {
        Codec::from_code((self.0 >> Self::OFFSET_BITS) as u8).expect("every code of two bits")
    }
}

/// Where a page begins, in a container that shards share, of which that is not known any more. No page
/// of a container begins there.
pub(crate) const LOST_OFFSET: u32 = (1 << Place::OFFSET_BITS) - 1;

/// A page's entry in a node of places: where it begins, its codec, and four bytes of its check.
pub(super) fn place_entry(place: Place, check: u32) -> u64 {
    u64::from(place.0) << 32 | u64::from(check)
}

pub(super) fn place_of(entry: u64) -> (Place, u32) {
    (Place((entry >> 32) as u32), entry as u32)
}

/// A page's entry in a node of references: how long it is, and how often it is referred to.
pub(super) fn reference_entry(stored_len: u32, references: u32) -> u64 {
    u64::from(stored_len) << 32 | u64::from(references)
}

pub(super) fn references_of(entry: u64) -> (u32, u32) {
    ((entry >> 32) as u32, entry as u32)
}

/// In which node of a container a slot is, and where there.
pub(super) fn split(slot: u32) -> (usize, usize) {
    (slot as usize / NODE, slot as usize % NODE)
}

/// The pages of a container, in nodes.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    pub(crate) count: u32,
    pub(crate) places: Vec<NodeId>,
    pub(crate) references: Vec<NodeId>,
    /// What has to be added to references whose nodes were not in memory.
    pub(crate) pending: Pending,
}

impl Slots {
    pub(super) fn push(
        &mut self,
        place: Place,
        stored_len: u32,
        check: u32,
        is_pinned: bool,
        nodes: &mut Nodes,
    ) -> u32 {
        let slot = self.count;
        let (node, at) = split(slot);
        if node == self.places.len() {
            for all in [&mut self.places, &mut self.references] {
                let id = nodes.add([0; NODE]);
                if is_pinned {
                    nodes.pin(id).expect("just added");
                }
                all.push(id);
            }
        }
        let here = "the nodes of an open container are pinned, and others are here";
        nodes.get_mut(self.places[node]).expect(here)[at] = place_entry(place, check);
        nodes.get_mut(self.references[node]).expect(here)[at] = reference_entry(stored_len, 0);
        self.count += 1;
        slot
    }

    /// Fails unless the nodes are here into which the next page goes.
    pub(super) fn ensure_next_here(&self, nodes: &Nodes) -> Result<(), Missing> {
        let (node, _) = split(self.count);
        let all = [&self.places, &self.references];
        all.iter().filter_map(|all| all.get(node)).try_for_each(|id| nodes.ensure_here(*id))
    }

    pub(super) fn has(&self, slot: u32) -> bool {
        slot < self.count
    }

    /// The slots of node `at`.
    pub(super) fn range(&self, at: usize) -> Range<u32> {
        let first = (at * NODE) as u32;
        first.min(self.count)..(first + NODE as u32).min(self.count)
    }

    /// Where all pages begin.
    pub(super) fn offsets(&self, nodes: &Nodes) -> Result<Vec<u32>, Missing> {
        (0..self.count).map(|slot| Ok(self.place(slot, nodes)?.0.offset())).collect()
    }

    /// Where the page in `slot`, which is there, begins, and its check.
    pub(super) fn place(&self, slot: u32, nodes: &Nodes) -> Result<(Place, u32), Missing> {
        let (node, at) = split(slot);
        Ok(place_of(nodes.get(self.places[node])?[at]))
    }

    /// How long the page in `slot`, which is there, is, and how often it is referred to, but for what is
    /// pending.
    pub(super) fn references(&self, slot: u32, nodes: &Nodes) -> Result<(u32, u32), Missing> {
        let (node, at) = split(slot);
        Ok(references_of(nodes.get(self.references[node])?[at]))
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.places.iter().chain(&self.references).copied()
    }

    /// Lets go of all of its pages.
    pub(super) fn clear(&mut self, is_pinned: bool, nodes: &mut Nodes) {
        for id in std::mem::take(self).nodes() {
            if is_pinned {
                nodes.unpin(id);
            }
            nodes.remove(id);
        }
    }
}

/// What a checkpoint of a paged pool tells of a container.
pub(crate) struct Told {
    pub(crate) begin: u32,
    pub(crate) end: u32,
    pub(crate) live: u32,
    pub(crate) live_bytes: u64,
    pub(crate) lost_references: u64,
    pub(crate) slots: Slots,
}

pub(crate) struct Container {
    pub(crate) file: Arc<PageFile>,
    pub(crate) slots: Slots,
    /// Where the first page begins.
    pub(crate) begin: u32,
    /// Where the last page ends.
    pub(crate) end: u32,
    pub(crate) is_sealed: bool,
    /// Whether its footer cannot be read. Its pages cannot either, and it is kept for who can.
    pub(crate) is_damaged: bool,
    /// Whether its footer could not be read since the pool was opened, though its pages are known.
    pub(super) is_unread: bool,
    /// Whether a page of it cannot be read, so that it cannot be emptied.
    pub(super) is_stuck: bool,
    /// Whether it could not be emptied a moment ago, and others come first.
    pub(super) is_left: bool,
    /// Whether shards share it, and all of them are to do without it.
    pub(crate) is_closing: bool,
    /// The pages of one that is damaged and has no footer.
    pub(crate) lost: Vec<PageEntry>,
    /// References to pages of one that is damaged, whose slots nobody knows.
    pub(crate) lost_references: u64,
    /// Stored bytes of pages that are referred to, but for what is pending.
    pub(crate) live_bytes: u64,
    /// How many those are.
    pub(crate) live: u32,
}

impl Container {
    /// One without pages, of which `end` bytes are there.
    pub(crate) fn new(file: Arc<PageFile>, end: u32) -> Self {
        Self {
            file,
            slots: Slots::default(),
            begin: end,
            end,
            is_sealed: false,
            is_damaged: false,
            is_unread: false,
            is_stuck: false,
            is_left: false,
            is_closing: false,
            lost: Vec::new(),
            lost_references: 0,
            live_bytes: 0,
            live: 0,
        }
    }

    /// Takes up the page that comes next; its slot.
    pub(super) fn push(
        &mut self,
        offset: u64,
        stored_len: u32,
        codec: Codec,
        check: &Check,
        nodes: &mut Nodes,
    ) -> Result<u32, VolumeError> {
        let Some(place) = Place::new(offset, codec) else {
            let problem = format!("a page begins here, expected all of them before {}", 1 << 30);
            return Err(self.file.damaged(offset, problem));
        };
        let check = short(check.as_bytes());
        let slot = self.slots.push(place, stored_len, check, !self.is_sealed, nodes);
        if slot == 0 {
            self.begin = place.offset();
        }
        let end = place.offset().saturating_add(stored_len);
        self.end = if self.file.is_foreign() { end.max(self.end) } else { end };
        Ok(slot)
    }

    /// The same of a page that a record tells of.
    pub(crate) fn push_entry(
        &mut self,
        page: &PageEntry,
        nodes: &mut Nodes,
    ) -> Result<u32, VolumeError> {
        self.push(page.offset.into(), page.stored_len, page.codec, &page.check, nodes)
    }

    /// Takes up what the footer says, and enters the pages into `table`.
    pub(super) fn read_footer(
        &mut self,
        table: &dyn Table,
        nodes: &mut Nodes,
    ) -> Result<(), VolumeError> {
        let directory = self.file.directory()?;
        // slots are positions of groups and of chunks alike
        let chunks = directory.chunks.iter().map(|chunk| chunk.group);
        if !chunks.eq(0..directory.groups.len() as u32) {
            let problem = "a footer, expected one page in each group".into();
            return Err(self.file.damaged(0, problem));
        }
        for group in &directory.groups {
            if group.stored_len > MAX_PAGE || group.len > MAX_PAGE {
                let (stored_len, len) = (group.stored_len, group.len);
                let problem = format!(
                    "a page of {len} bytes, stored in {stored_len}, expected at most {MAX_PAGE}"
                );
                return Err(self.file.damaged(group.offset, problem));
            }
            self.push(group.offset, group.stored_len, group.codec, &group.check, nodes)?;
        }
        enter(table, self.file.number(), &directory);
        Ok(())
    }

    /// Takes up what records tell of, enters it into `table`, and lets `appender` go on.
    pub(super) fn go_on(
        &mut self,
        appender: &mut Appender,
        image: &ContainerImage,
        table: &dyn Table,
        nodes: &mut Nodes,
    ) -> Result<(), VolumeError> {
        for page in &image.pages {
            self.push_entry(page, nodes)?;
        }
        appender.go_on(&self.file, image)?;
        if let Some(directory) = appender.directory() {
            enter(table, self.file.number(), directory);
        }
        Ok(())
    }

    /// No page comes into it any more: its nodes need not be in memory.
    pub(super) fn close(&mut self, nodes: &mut Nodes) {
        if !std::mem::replace(&mut self.is_sealed, true) {
            self.slots.nodes().for_each(|id| nodes.unpin(id));
        }
    }

    /// It cannot be read just now, and nobody adds to it or empties it.
    pub(super) fn keep(&mut self, image: &ContainerImage, nodes: &mut Nodes) {
        self.close(nodes);
        self.is_unread = true;
        if !image.is_sealed {
            self.lost.clone_from(&image.pages);
        }
    }

    /// Whether nothing in it is referred to, and nothing more comes into it.
    pub(super) fn is_dead(&self) -> bool {
        self.is_sealed
            && self.live == 0
            && self.lost_references == 0
            && self.slots.pending.is_empty()
    }

    pub(super) fn can_be_emptied(&self) -> bool {
        let may_be = self.is_closing || !self.file.is_foreign();
        self.is_sealed && may_be && !self.is_damaged && !self.is_unread && !self.is_stuck
    }

    /// Whether what is left in it is worth being moved, so that the rest is given back.
    pub(super) fn is_worth_emptying(&self) -> bool {
        self.can_be_emptied() && self.fill() < MIN_FILL
    }

    /// The share of its bytes that are referred to.
    pub(super) fn fill(&self) -> f64 {
        if self.is_closing {
            return 0.0;
        }
        self.live_bytes as f64 / f64::from(self.end.max(1))
    }

    pub(super) fn located(&self, slot: u32, nodes: &Nodes) -> Result<Option<Located>, Missing> {
        if !self.slots.has(slot) {
            return Ok(None);
        }
        let (place, check) = self.slots.place(slot, nodes)?;
        let stored_len = match self.slots.has(slot + 1) {
            _ if self.file.has_gaps() => self.slots.references(slot, nodes)?.0,
            true => self.slots.place(slot + 1, nodes)?.0.offset() - place.offset(),
            false => self.end - place.offset(),
        };
        Ok(Some(Located {
            page: Handle::new(self.file.number(), slot),
            file: Arc::clone(&self.file),
            offset: place.offset(),
            stored_len,
            check,
            codec: place.codec(),
        }))
    }

    /// Adds `times` to the references of a page that is there; whether it may be dead now.
    pub(super) fn add(
        &mut self,
        slot: u32,
        times: i64,
        nodes: &mut Nodes,
    ) -> Result<Change, Missing> {
        let (node, at) = split(slot);
        let entry = &mut nodes.get_mut(self.slots.references[node])?[at];
        let (stored_len, before) = references_of(*entry);
        // at the limit nobody knows how many there are beyond it, so it stays there
        let after = match before {
            MOST => MOST,
            _ => u32::try_from(i64::from(before) + times).unwrap_or(MOST),
        };
        *entry = reference_entry(stored_len, after);
        Ok(match (before, after) {
            (0, 1..) => {
                self.live += 1;
                self.live_bytes += u64::from(stored_len);
                Change::Found
            }
            (1.., 0) => {
                self.live -= 1;
                self.live_bytes -= u64::from(stored_len);
                Change::LetGo
            }
            _ => Change::Counted,
        })
    }
}

/// What became of a page whose references changed.
#[derive(PartialEq, Eq)]
pub(super) enum Change {
    /// It is referred to for the first time.
    Found,
    /// Nothing refers to it any more.
    LetGo,
    Counted,
}

/// Enters the pages of a container into a table.
pub(super) fn enter(table: &dyn Table, container: u32, directory: &Directory) {
    for (slot, chunk) in (0..).zip(&directory.chunks) {
        table.insert(&chunk.fingerprint, Handle::new(container, slot).to_u64());
    }
}
