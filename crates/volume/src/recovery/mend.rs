//! Nodes that cannot be read, of a pool that is repaired: what only they knew is given up.
//!
//! That is done between the checkpoint that names them and the batches behind it, so that these find a
//! pool all of whose nodes can be read.
//!
//! - The blocks of a *segment* become pages of a container that has no file: they are lost, like those of
//!   any container that is missing, until they are written again.
//! - *Places* are found again in the footer, or in records of a container that has none yet. If that
//!   cannot be read either, the pages are lost.
//! - *References* are zeros until the caller counts them anew. It must do so before anything is committed:
//!   also those of pages of other containers are too many, which a segment named.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::containers::entry::{ContainerImage, MOST_PAGES, PageEntry, entries};
use crate::containers::files::{Files, PageFile};
use crate::error::{VolumeError, told};
use crate::ids::{Handle, VolumeId, container_name};
use crate::journal::record::SEGMENT;
use crate::nodes::format::{NODE, NodeFile};
use crate::state::dying::Dying;
use crate::state::map::Map;
use crate::state::nodes::{Missing, NodeId};
use crate::state::pages::Pages;
use crate::state::paging::{Paging, STORED};
use crate::state::volume::VolumeState;

/// What was done is told of so many nodes, a text each.
const TOLD: usize = 1000;

/// Numbers that no container has before, for who only looks at a pool.
const NOWHERE: u32 = u32::MAX - (1 << 16);

/// A repair of nodes.
#[derive(Default)]
pub(crate) struct Mending {
    /// Numbers of containers of which there are files.
    taken: BTreeSet<u32>,
    /// Lost pages are in the container of this number, and in later ones.
    next: u32,
    /// The container that takes lost pages, and how many more it takes.
    open: Option<(u32, u32)>,
    /// What was wrong and is settled.
    settled: Vec<String>,
    /// How much more.
    more: u64,
    /// Files of nodes in which something is damaged.
    files: BTreeSet<NodeFile>,
}

/// What could not be read, by node.
type Unread = HashMap<NodeId, VolumeError>;

/// Who has a segment.
struct Owner {
    /// The name of the volume, and which part of its map it is.
    of: (String, u32),
    /// So many blocks are within the volume, or the longest of those that share it.
    blocks: u64,
    is_shared: bool,
}

impl Mending {
    /// Takes numbers for containers without files from `next` on, but for those that are `taken`.
    pub(crate) fn new(next: u32, taken: BTreeSet<u32>) -> Self {
        Self { next, taken, ..Self::default() }
    }

    /// For a pool that is only looked at.
    pub(crate) fn of_looking() -> Self {
        Self::new(NOWHERE, BTreeSet::new())
    }

    /// The same again for another checkpoint.
    pub(crate) fn again(self) -> Self {
        Self::new(self.next, self.taken)
    }

    /// The same with numbers from `next` on.
    pub(crate) fn from(self, next: u32) -> Self {
        Self { next, ..self }
    }

    /// The first number that it leaves to others.
    pub(crate) fn next(&self) -> u32 {
        self.next
    }

    /// Whether a node could not be read.
    pub(crate) fn is_needed(&self) -> bool {
        !self.files.is_empty()
    }

    /// Files of nodes in which something is damaged, of which there may be none.
    pub(crate) fn files(&self) -> impl Iterator<Item = String> {
        self.files.iter().map(|file| file.name())
    }

    /// What was wrong and is settled, a text each.
    pub(crate) fn into_settled(self) -> Vec<String> {
        let Self { mut settled, more, .. } = self;
        if more > 0 {
            settled.push(format!("did so with {more} more nodes"));
        }
        settled
    }

    fn settle(&mut self, what: impl FnOnce() -> String) {
        match self.settled.len() < TOLD {
            true => self.settled.push(what()),
            false => self.more += 1,
        }
    }

    /// Replaces all nodes of `pool` that cannot be read.
    ///
    /// # Errors
    /// Those of the disk: nothing is given up for a file that could not be read just now.
    pub(crate) fn mend(&mut self, mut pool: Mended<'_>) -> Result<(), VolumeError> {
        let unread = pool.find_unread(self)?;
        if unread.is_empty() {
            return Ok(());
        }
        pool.mend_segments(&unread, self);
        for number in pool.pages.numbers() {
            if pool.may_store {
                pool.paging.fit(&mut pool.pages.nodes, true)?;
            }
            pool.mend_table(number, &unread, self)?;
        }
        Ok(())
    }

    /// Makes pages that are lost: the first of `count`, which is at most that of a segment.
    fn lose(&mut self, count: u32, files: &Arc<Files>, pages: &mut Pages) -> Handle {
        let (number, left) = match self.open {
            Some((number, left)) if left >= count => (number, left),
            full => {
                if let Some((number, _)) = full {
                    pages.close_lost(number);
                }
                while self.taken.contains(&self.next) {
                    self.next += 1;
                }
                self.next += 1;
                (self.next - 1, MOST_PAGES)
            }
        };
        self.open = Some((number, left - count));
        pages.add_lost(files, number, count)
    }
}

/// A pool as a checkpoint tells of it.
pub(crate) struct Mended<'a> {
    pub(crate) volumes: &'a mut BTreeMap<VolumeId, VolumeState>,
    pub(crate) dying: &'a mut Dying,
    pub(crate) pages: &'a mut Pages,
    /// Those of which records tell.
    pub(crate) containers: &'a BTreeMap<u32, ContainerImage>,
    pub(crate) files: &'a Arc<Files>,
    pub(crate) paging: &'a Paging,
    /// Whether nodes can be stored, to make room for others.
    pub(crate) may_store: bool,
}

impl Mended<'_> {
    /// Calls `f`, which changes nothing where it misses a node, until it misses none.
    fn paged(
        &mut self,
        mut f: impl FnMut(&mut Pages) -> Result<(), Missing>,
    ) -> Result<(), VolumeError> {
        while let Err(Missing(node)) = f(self.pages) {
            let nodes = &mut self.pages.nodes;
            let address = nodes.to_read(node).expect("what is missing is stored");
            nodes.bring(node, address, self.paging.files.read(address)?);
        }
        Ok(())
    }

    /// Looks at all nodes. Those of a file of which only the header is damaged are kept.
    fn find_unread(&mut self, mending: &mut Mending) -> Result<Unread, VolumeError> {
        let files = &self.paging.files;
        let mut stored: Vec<_> = self.pages.nodes.stored().collect();
        stored.sort_unstable_by_key(|(_, address)| *address);
        let (mut unread, mut kept) = (HashMap::new(), BTreeMap::new());
        for some in stored.chunks(STORED) {
            let addresses: Vec<_> = some.iter().map(|(_, address)| *address).collect();
            for ((id, address), read) in some.iter().zip(files.read_many(&addresses)) {
                let error = match read {
                    Ok(_) => continue,
                    Err(error @ VolumeError::Damaged { .. }) => error,
                    Err(error) => return Err(error),
                };
                let (file, _) = files.place(*address);
                mending.files.insert(file);
                match files.read_despite_header(*address) {
                    Ok(node) => {
                        self.pages.nodes.replace(*id, node);
                        kept.entry(file).or_insert(error);
                    }
                    Err(VolumeError::Damaged { .. }) => drop(unread.insert(*id, error)),
                    Err(error) => return Err(error),
                }
            }
        }
        for error in kept.into_values() {
            mending.settle(|| format!("stored nodes elsewhere: {error}"));
        }
        Ok(unread)
    }

    /// Who has each segment that cannot be read.
    fn owners(&self, unread: &Unread) -> HashMap<NodeId, Owner> {
        let mut owners: HashMap<NodeId, Owner> = HashMap::new();
        for one in self.volumes.values() {
            for (index, id) in one.map.segments().filter(|(_, id)| unread.contains_key(id)) {
                let first = u64::from(index) * SEGMENT as u64;
                let blocks = one.blocks().saturating_sub(first).min(SEGMENT as u64);
                if let Some(owner) = owners.get_mut(&id) {
                    owner.is_shared = true;
                    owner.blocks = owner.blocks.max(blocks);
                } else if blocks > 0 {
                    let of = (one.name.clone(), index);
                    owners.insert(id, Owner { of, blocks, is_shared: false });
                }
            }
        }
        owners
    }

    fn mend_segments(&mut self, unread: &Unread, mending: &mut Mending) {
        let mut owners = self.owners(unread);
        let volumes = self.volumes.values().map(|one| &one.map);
        let all: Vec<NodeId> =
            volumes.chain(self.dying.maps()).flat_map(Map::segments).map(|(_, id)| id).collect();
        for id in all.into_iter().filter(|id| unread.contains_key(id)) {
            if self.pages.nodes.mapped(id) == 0 {
                owners.remove(&id);
            }
            // of a map that is dying nobody wants a block
            if !owners.contains_key(&id) {
                self.pages.nodes.replace(id, Box::new([Handle::HOLE.to_u64(); SEGMENT]));
                self.pages.nodes.set_mapped(id, 0);
            }
        }
        let mut owners: Vec<(NodeId, Owner)> = owners.into_iter().collect();
        owners.sort_unstable_by(|(_, one), (_, other)| one.of.cmp(&other.of));
        for (id, Owner { of: (name, index), blocks, is_shared }) in owners {
            let lost = mending.lose(blocks as u32, self.files, self.pages);
            let mut segment = Box::new([Handle::HOLE.to_u64(); SEGMENT]);
            for (slot, entry) in (lost.slot()..).zip(&mut segment[..blocks as usize]) {
                *entry = Handle::new(lost.container(), slot).to_u64();
            }
            self.pages.nodes.replace(id, segment);
            self.pages.nodes.set_mapped(id, blocks as u32);
            let first = u64::from(index) * SEGMENT as u64;
            let (last, error) = (first + blocks - 1, &unread[&id]);
            let others = if is_shared { " and of volumes that share them" } else { "" };
            mending.settle(|| {
                format!(
                    "gave up blocks {first} to {last} of volume '{name}'{others}, which are lost like \
                     those in a container '{}' that is missing: {error}",
                    container_name(lost.container())
                )
            });
        }
        if let Some((number, _)) = mending.open.take() {
            self.pages.close_lost(number);
        }
        let nodes = &self.pages.nodes;
        self.volumes.values_mut().for_each(|one| one.map.count_mapped(nodes));
        self.dying.maps_mut().for_each(|map| map.count_mapped(nodes));
    }

    /// Replaces the nodes of container `number` that cannot be read.
    fn mend_table(
        &mut self,
        number: u32,
        unread: &Unread,
        mending: &mut Mending,
    ) -> Result<(), VolumeError> {
        let (places, references) = self.pages.unread_nodes(number, |id| unread.contains_key(id));
        let told_of = |pool: &Self, at: usize, id: NodeId| {
            let pages = pool.pages.slots_of(number, at);
            let (first, last, container) = (pages.start, pages.end - 1, container_name(number));
            (format!("pages {first} to {last} of '{container}'"), told(&unread[&id]))
        };
        if !places.is_empty() {
            let all = self.pages.places(number);
            let known = self.known_pages(number)?;
            match &known {
                Some(known) => self.pages.replace_places(number, &places, known),
                None if self.is_shared(number) => {
                    places.iter().for_each(|at| self.pages.forget_places(number, *at));
                }
                None => {
                    for run in places.chunk_by(|one, other| one + 1 == *other) {
                        let at = run[0]..run[run.len() - 1] + 1;
                        // how long the page before is
                        let is_len_known = at.start == 0 || !references.contains(&(at.start - 1));
                        self.paged(|pages| pages.lose_places(number, at.clone(), is_len_known))?;
                    }
                }
            }
            for at in places {
                let (pages, error) = told_of(self, at, all[at].1);
                mending.settle(|| match known.is_some() {
                    true => format!("found the places of {pages} again: {error}"),
                    false => format!(
                        "gave up {pages}, because nothing else says where they are stored: {error}"
                    ),
                });
            }
        }
        let nodes = self.pages.reference_nodes(number);
        let lens = if references.is_empty() { BTreeMap::new() } else { self.known_lens(number)? };
        for at in references {
            self.paged(|pages| pages.clear_references(number, at, &lens))?;
            let (pages, error) = told_of(self, at, nodes[at]);
            mending.settle(|| format!("counted the references of {pages} anew: {error}"));
        }
        Ok(())
    }

    fn is_shared(&self, number: u32) -> bool {
        self.pages.file(number).is_some_and(|file| file.has_gaps())
    }

    /// How long pages of container `number` are, which shards share, by where they begin, as far as that is known.
    fn known_lens(&self, number: u32) -> Result<BTreeMap<u32, u32>, VolumeError> {
        let Some(file) = self.pages.file(number).filter(|file| file.has_gaps()) else {
            return Ok(BTreeMap::new());
        };
        let image = self.containers.get(&number).filter(|image| !image.is_sealed);
        let pages = match image {
            Some(image) => image.pages.clone(),
            None => listed(&file)?.unwrap_or_default(),
        };
        Ok(pages.iter().map(|page| (page.offset, page.stored_len)).collect())
    }

    /// All pages of container `number`, as records tell if it has no footer, else as the footer does;
    /// `None` if that cannot be read, or tells of pages in another order, as that of another pool does.
    fn known_pages(&self, number: u32) -> Result<Option<Vec<PageEntry>>, VolumeError> {
        let Some((file, count)) = self.pages.file_and_count(number) else { return Ok(None) };
        if file.is_foreign() {
            return Ok(None);
        }
        let is_all = |pages: &Vec<PageEntry>| {
            pages.len() == count as usize && pages.iter().all(|page| page.offset < 1 << 30)
        };
        if let Some(image) = self.containers.get(&number).filter(|image| !image.is_sealed) {
            return Ok(Some(image.pages.clone()).filter(is_all));
        }
        Ok(listed(&file)?.filter(is_all))
    }
}

/// The pages that the footer of `file` lists; `None` if that is missing or damaged.
///
/// # Errors
/// If that cannot be found out now.
fn listed(file: &Arc<PageFile>) -> Result<Option<Vec<PageEntry>>, VolumeError> {
    match file.ensure_sealed().and_then(|()| file.directory()) {
        Ok(directory) => Ok(Some(entries(&directory))),
        Err(error) if error.is_of_content() => Ok(None),
        Err(error) => Err(error),
    }
}

const _: () = assert!(SEGMENT == NODE && MOST_PAGES as usize >= SEGMENT);
