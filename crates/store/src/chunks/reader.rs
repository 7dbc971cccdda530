//! Reading chunks back: recipe → chunks → bytes, each verified.

use std::collections::{HashMap, HashSet};
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use onefold_backend::{Objects, Request, Span};
use onefold_container::{
    self as container, ContainerError, Content, Directory, container_id, container_name,
};
use onefold_fingerprint::{Fingerprint, Fingerprinter};
use onefold_index::{Hint, Index};
use onefold_seal::{Envelope, ObjectId};
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use crate::chunks::groups::{Group, Groups, Key};
use crate::chunks::place::{Containers, LiveContainer, Used, places};
use crate::local::cache::{self, Copied, ObjectCache};
use crate::{Place, Recipe, StoreError};

/// Bytes of decompressed groups that a reader keeps at most, unless it is told another bound.
const GROUP_CACHE: usize = 24 << 20;
/// Bytes of container footers, about, that a reader keeps at most.
const DIRECTORY_CACHE: u64 = 12 << 20;

/// Where chunks are read from.
pub(crate) trait Chunks {
    /// The bytes of the chunk `fingerprint`; they have that fingerprint.
    fn chunk(&self, fingerprint: &Fingerprint) -> Result<Bytes, StoreError>;

    /// The children of a node.
    fn children(&self, recipe: &Recipe) -> Result<Vec<Recipe>, StoreError> {
        let bytes = self.chunk(&recipe.root)?;
        recipe.decode_node(&bytes).map_err(|source| StoreError::Malformed {
            object: format!("recipe node {}", recipe.root),
            source,
        })
    }

    /// The bytes of a leaf; as many as the recipe says.
    fn leaf(&self, leaf: &Recipe) -> Result<Bytes, StoreError> {
        let bytes = self.chunk(&leaf.root)?;
        if bytes.len() as u64 != leaf.len {
            let found = bytes.len() as u64;
            return Err(StoreError::RecipeLength { expected: leaf.len, found });
        }
        Ok(bytes)
    }

    /// Calls `visit` with each chunk of `recipe` that holds some of the bytes in `range`, which does
    /// not end behind them, and with where in the recipe the chunk begins, counted from `start`. No
    /// other chunk is read.
    fn visit_range(
        &self,
        recipe: &Recipe,
        start: u64,
        range: &Range<u64>,
        visit: &mut dyn FnMut(u64, Bytes),
    ) -> Result<(), StoreError> {
        self.visit_leaves(recipe, start, range, &mut |start, leaf| {
            visit(start, self.leaf(leaf)?);
            Ok(())
        })
    }

    /// As [`visit_range`](Self::visit_range), without reading the chunks.
    fn visit_leaves(
        &self,
        recipe: &Recipe,
        start: u64,
        range: &Range<u64>,
        visit: &mut dyn FnMut(u64, &Recipe) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if range.start.max(start) >= range.end.min(start + recipe.len) {
            return Ok(());
        }
        if recipe.depth == 0 {
            return visit(start, recipe);
        }
        let mut start = start;
        for child in self.children(recipe)? {
            self.visit_leaves(&child, start, range, visit)?;
            start += child.len;
        }
        Ok(())
    }
}

impl Chunks for ChunkReader<'_> {
    fn chunk(&self, fingerprint: &Fingerprint) -> Result<Bytes, StoreError> {
        self.chunk(fingerprint)
    }
}

/// What a reader keeps.
pub(crate) struct KeptChunks<'a>(&'a ChunkReader<'a>);

impl Chunks for KeptChunks<'_> {
    fn chunk(&self, fingerprint: &Fingerprint) -> Result<Bytes, StoreError> {
        let missing = || StoreError::MissingChunk { fingerprint: *fingerprint };
        self.0.kept_chunk(fingerprint).ok_or_else(missing)
    }
}

/// Reads the chunks of an open repository, from any number of threads.
///
/// A group is read and decompressed once for all threads that want it at the same time.
pub(crate) struct ChunkReader<'a> {
    objects: &'a dyn Objects,
    envelope: &'a Envelope,
    cache: Option<&'a ObjectCache>,
    fingerprinter: Fingerprinter,
    index: &'a Index,
    containers: &'a Containers,
    directories: Cache<u32, Arc<Directory>, ByLength>,
    groups: Groups,
    /// Short containers that are kept whole, by their numbers.
    short: HashMap<u32, Bytes>,
    /// How many containers there were at first.
    old_containers: usize,
    /// What the index does not say; learnt only when it turned out to be wrong.
    elsewhere: Mutex<Elsewhere>,
    /// Containers that were asked for and are not there any more.
    gone: RwLock<HashSet<u32>>,
}

/// No container that is kept whole is longer, in bytes; and how many bytes of them are kept.
const MAX_SHORT: u64 = 64 << 10;
const MAX_SHORT_LEN: u64 = 32 << 20;

/// What footers list, of containers of which the index may not know.
#[derive(Default)]
struct Elsewhere {
    /// Sorted by fingerprint.
    listed: Vec<(Fingerprint, Place)>,
    /// Containers that have come since and were read.
    new: HashSet<ObjectId>,
    /// How many listings in a row showed no container that was new.
    in_vain: u32,
    /// Whether the footers of all containers were read, and not only of those that are new.
    is_whole: bool,
}

/// After so many listings in vain no other is tried: what is missing is missing.
const LISTINGS_IN_VAIN: u32 = 8;

#[derive(Clone)]
struct ByLength;

impl Weighter<u32, Arc<Directory>> for ByLength {
    fn weight(&self, _: &u32, directory: &Arc<Directory>) -> u64 {
        (64 + 64 * directory.groups.len() + 48 * directory.chunks.len()) as u64
    }
}

/// A cache of footers for `capacity` bytes. It is one shard: split into several, none of them could
/// keep an item that is a large part of the whole, as a footer can be.
fn directories(capacity: u64) -> Cache<u32, Arc<Directory>, ByLength> {
    let options = OptionsBuilder::new()
        .shards(1)
        .estimated_items_capacity(256)
        .weight_capacity(capacity)
        .build()
        .expect("capacities are given");
    Cache::with_options(options, ByLength, DefaultHashBuilder::default(), Default::default())
}

impl Elsewhere {
    /// Adds what the footers of these containers list.
    fn read(
        &mut self,
        containers: impl Iterator<Item = (u32, LiveContainer)>,
        reader: &ChunkReader<'_>,
    ) -> Result<(), StoreError> {
        let (numbers, ids): (Vec<u32>, Vec<_>) =
            containers.map(|(number, live)| (number, (live.id, live.size))).unzip();
        let mut unreachable = None;
        let _ = cache::read_directories(
            reader.objects,
            reader.envelope,
            None,
            &ids,
            &mut |at, read| {
                match read.map_err(StoreError::from) {
                    Ok(directory) => self.listed.extend(places(&directory, numbers[at])),
                    Err(error) if error.is_unreachable() => {
                        unreachable = Some(error);
                        return ControlFlow::Break(());
                    }
                    // The operation that needs this container reports it.
                    Err(_) => {}
                }
                ControlFlow::Continue(())
            },
        );
        if let Some(error) = unreachable {
            return Err(error);
        }
        self.listed.sort_unstable_by_key(|(fingerprint, _)| *fingerprint);
        Ok(())
    }
}

impl<'a> ChunkReader<'a> {
    pub(crate) fn new(
        objects: &'a dyn Objects,
        envelope: &'a Envelope,
        cache: Option<&'a ObjectCache>,
        fingerprinter: Fingerprinter,
        index: &'a Index,
        containers: &'a Containers,
    ) -> Self {
        Self {
            objects,
            envelope,
            cache,
            fingerprinter,
            index,
            containers,
            directories: directories(DIRECTORY_CACHE),
            groups: Groups::new(GROUP_CACHE),
            short: HashMap::new(),
            old_containers: containers.len(),
            elsewhere: Mutex::default(),
            gone: RwLock::default(),
        }
    }

    /// With room for `bytes` of decompressed groups.
    pub(crate) fn keeping_groups(self, bytes: usize) -> Self {
        Self { groups: Groups::new(bytes), ..self }
    }

    /// With the whole of those containers that are short, read many at a time, if they are far away: for
    /// who walks through what many small backups stored. What cannot be read is read again by whoever
    /// needs it.
    pub(crate) fn keeping_short(mut self, containers: impl IntoIterator<Item = u32>) -> Self {
        if self.objects.gap() == 0 {
            return self;
        }
        let mut len = 0;
        let live =
            |number| (number, self.containers.get(number).expect("containers are only added"));
        let fits = |(_, live): &(u32, LiveContainer)| {
            len += if live.size <= MAX_SHORT { live.size } else { 0 };
            live.size <= MAX_SHORT && len <= MAX_SHORT_LEN
        };
        let kept: Vec<_> = containers.into_iter().map(live).filter(fits).collect();
        let request = |(_, live): &(u32, LiveContainer)| Request {
            name: container_name(live.id),
            span: Span::Range(0..live.size),
        };
        let mut short = HashMap::new();
        let read = self.objects.get_many(&mut kept.iter().map(request), &mut |at, answer| {
            answer.into_iter().for_each(|object| drop(short.insert(kept[at].0, object)));
            ControlFlow::Continue(())
        });
        debug_assert!(read.is_continue(), "nothing ends it early");
        self.short = short;
        self
    }

    /// Whether the index knows every chunk of `recipe`, nodes included, all of which are then noted
    /// as used. Nodes that cannot be read count as no.
    pub(crate) fn has_all(&self, recipe: &Recipe, used: &Used) -> bool {
        if recipe.len == 0 {
            return true;
        }
        // What only a condemned container has is read, but not relied on.
        let Some(Hint(place)) = self.index.get(&recipe.root) else { return false };
        used.note(place);
        recipe.depth == 0
            || self
                .children(recipe)
                .is_ok_and(|children| children.iter().all(|child| self.has_all(child, used)))
    }

    /// Whether the index knows the chunk `fingerprint`.
    pub(crate) fn knows(&self, fingerprint: &Fingerprint) -> bool {
        self.index.get(fingerprint).is_some()
    }

    /// The fingerprint that `bytes` have in this repository.
    pub(crate) fn fingerprint(&self, bytes: &[u8]) -> Fingerprint {
        self.fingerprinter.fingerprint(bytes)
    }

    /// The bytes of the chunk `fingerprint`; they have that fingerprint.
    pub(crate) fn chunk(&self, fingerprint: &Fingerprint) -> Result<Bytes, StoreError> {
        let hint = self.index.get(fingerprint).map(|Hint(place)| place);
        if let Some(bytes) = self.chunk_moved(fingerprint, hint)? {
            return Ok(bytes);
        }
        let found = match hint {
            Some(place) => self.chunk_at(fingerprint, place),
            None => Err(StoreError::MissingChunk { fingerprint: *fingerprint }),
        };
        if let (Err(error), Some(place)) = (&found, hint)
            && error.is_not_found()
        {
            self.gone.write().unwrap_or_else(PoisonError::into_inner).insert(place.container);
        }
        match found {
            Err(error) if !error.is_no_answer() => {
                self.chunk_elsewhere(fingerprint, hint)?.ok_or_else(|| {
                    // Whoever meets these bytes again stores them again.
                    self.index.retract(fingerprint);
                    error
                })
            }
            found => found,
        }
    }

    /// The chunk from where it lies now, if the container of its `hint` turned out to be gone and it is
    /// known where: that container is not asked for once for each chunk.
    fn chunk_moved(
        &self,
        fingerprint: &Fingerprint,
        hint: Option<Place>,
    ) -> Result<Option<Bytes>, StoreError> {
        let gone = self.gone.read().unwrap_or_else(PoisonError::into_inner);
        if hint.is_none_or(|place| !gone.contains(&place.container)) {
            return Ok(None);
        }
        drop(gone);
        let elsewhere = self.elsewhere.lock().expect("no thread panics with it locked");
        self.chunk_listed(&elsewhere, fingerprint, hint)
    }

    /// The chunk from a place that the index did not give: the index is advisory, a chunk may be
    /// in several containers of which one is damaged, and a prune may have put it elsewhere since
    /// the index was loaded.
    ///
    /// # Errors
    ///
    /// The storage gives no answer, so nobody knows whether there is another copy.
    fn chunk_elsewhere(
        &self,
        fingerprint: &Fingerprint,
        tried: Option<Place>,
    ) -> Result<Option<Bytes>, StoreError> {
        let mut elsewhere = self.elsewhere.lock().expect("no thread panics with it locked");
        loop {
            if let Some(bytes) = self.chunk_listed(&elsewhere, fingerprint, tried)? {
                return Ok(Some(bytes));
            }
            let may_list = elsewhere.in_vain < LISTINGS_IN_VAIN;
            if may_list && self.list_new(&mut elsewhere)? {
                continue;
            }
            if elsewhere.is_whole {
                return Ok(None);
            }
            // What is gone by the time it is read was copied before: another listing shows where.
            elsewhere.is_whole = true;
            let old = (0..).zip(self.containers.all()).take(self.old_containers);
            elsewhere.read(old, self)?;
        }
    }

    /// Where chunks lie that are not where the index says, as far as containers tell that have come since
    /// it was loaded: a prune copies chunks there before it deletes containers.
    ///
    /// # Errors
    ///
    /// Containers cannot be listed.
    pub(crate) fn places_since(
        &self,
        fingerprints: &[Fingerprint],
    ) -> Result<Vec<Option<Place>>, StoreError> {
        if fingerprints.is_empty() {
            return Ok(Vec::new());
        }
        let mut elsewhere = self.elsewhere.lock().expect("no thread panics with it locked");
        self.list_new(&mut elsewhere)?;
        let listed = &elsewhere.listed;
        let place = |fingerprint: &Fingerprint| {
            let first = listed.partition_point(|(listed, _)| listed < fingerprint);
            listed.get(first).filter(|(listed, _)| listed == fingerprint).map(|(_, place)| *place)
        };
        Ok(fingerprints.iter().map(place).collect())
    }

    fn chunk_listed(
        &self,
        elsewhere: &Elsewhere,
        fingerprint: &Fingerprint,
        tried: Option<Place>,
    ) -> Result<Option<Bytes>, StoreError> {
        let listed = &elsewhere.listed;
        let first = listed.partition_point(|(listed, _)| listed < fingerprint);
        let places = listed[first..].iter().take_while(|(listed, _)| listed == fingerprint);
        let mut refused = None;
        for place in places.map(|(_, place)| *place).filter(|place| Some(*place) != tried) {
            match self.chunk_at(fingerprint, place) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(error) if error.is_unreachable() => return Err(error),
                Err(error) if error.is_no_answer() => refused = Some(error),
                Err(_) => {}
            }
        }
        refused.map_or(Ok(None), Err)
    }

    /// Lists containers anew and reads the footers of those that are new: what was stored since the
    /// index was loaded, and what is condemned. Whether there are any.
    fn list_new(&self, elsewhere: &mut Elsewhere) -> Result<bool, StoreError> {
        let infos = self.objects.list(container::PREFIX)?;
        let numbered = (0..).zip(self.containers.all()).map(|(number, live)| (live.id, number));
        let numbers: HashMap<ObjectId, u32> = numbered.collect();
        let ids = infos.iter().filter_map(|info| Some((container_id(&info.name)?, info.size)));
        let is_new = |id: &ObjectId| match numbers.get(id) {
            Some(number) => *number as usize >= self.old_containers && !elsewhere.new.contains(id),
            None => true,
        };
        let new: Vec<_> = ids
            .filter(|(id, _)| is_new(id))
            .map(|(id, size)| {
                let number = numbers.get(&id).copied();
                (
                    number.unwrap_or_else(|| self.containers.add(id, size)),
                    LiveContainer { id, size },
                )
            })
            .collect();
        elsewhere.new.extend(new.iter().map(|(_, live)| live.id));
        let is_any = !new.is_empty();
        elsewhere.in_vain = if is_any { 0 } else { elsewhere.in_vain + 1 };
        elsewhere.read(new.into_iter(), self)?;
        Ok(is_any)
    }

    fn chunk_at(&self, fingerprint: &Fingerprint, place: Place) -> Result<Bytes, StoreError> {
        let missing = || StoreError::MissingChunk { fingerprint: *fingerprint };
        let directory = self.directory(place.container)?.ok_or_else(missing)?;
        let number = directory.chunk(place.slot)?.group;
        let group = self.groups.get((place.container, number), || {
            self.read_group(place.container, &directory, number)
        })?;
        self.chunk_of(&group, place, fingerprint)
    }

    /// Group `number` of a container; one of trees and recipes from its copy, if there is one.
    fn read_group(
        &self,
        container: u32,
        directory: &Directory,
        number: u32,
    ) -> Result<Group, StoreError> {
        let range = directory.stored_range(number)?;
        if let Some(stored) = self.of_short(container, &range) {
            return self.decode(directory, number, &stored);
        }
        if let Some(group) = self.copied_group(directory, number) {
            return Ok(group);
        }
        let stored = self
            .objects
            .get_range(&container_name(directory.id), range)
            .map_err(|source| ContainerError::Backend { container: directory.id, source })?;
        self.decode_new(directory, number, &stored)
    }

    /// Group `number` of a container of trees and recipes from its copy, if there is one.
    fn copied_group(&self, directory: &Directory, number: u32) -> Option<Group> {
        let open = |copy: Bytes| self.decode(directory, number, &copy);
        self.copies(directory)?.get(Copied::Group(directory.id, number), open)
    }

    /// Where copies of the groups of a container are kept, if they are.
    fn copies(&self, directory: &Directory) -> Option<&ObjectCache> {
        self.cache.filter(|_| directory.content == Content::Metadata)
    }

    /// Group `number` of a container, from its stored bytes as they came from there.
    pub(crate) fn decode_new(
        &self,
        directory: &Directory,
        number: u32,
        stored: &[u8],
    ) -> Result<Group, StoreError> {
        let group = self.decode(directory, number, stored)?;
        let copied = Copied::Group(directory.id, number);
        self.copies(directory).inspect(|cache| cache.keep(copied, stored));
        Ok(group)
    }

    /// Those bytes of a container that lie in `range`, if it is kept whole.
    pub(crate) fn of_short(&self, container: u32, range: &Range<u64>) -> Option<Bytes> {
        let object = self.short.get(&container)?;
        Some(object.slice(range.start as usize..range.end as usize))
    }

    /// Group `number` of a container, from its stored bytes.
    fn decode(
        &self,
        directory: &Directory,
        number: u32,
        stored: &[u8],
    ) -> Result<Group, StoreError> {
        let len = directory.groups.get(number as usize).map_or(0, |group| group.len);
        let bytes = directory.open_group(number, stored, self.groups.buffer(len as usize))?;
        Ok(Group::new(directory, number, self.groups.bytes(bytes)))
    }

    /// The chunk `fingerprint`, which is at `place`, from the group that holds it.
    pub(crate) fn chunk_of(
        &self,
        group: &Group,
        place: Place,
        fingerprint: &Fingerprint,
    ) -> Result<Bytes, StoreError> {
        let wrong = |reason| {
            let live = self.containers.get(place.container).expect("the group was read from it");
            let (fingerprint, container) = (*fingerprint, live.id);
            StoreError::WrongChunk { fingerprint, container, slot: place.slot, reason }
        };
        let verify = |bytes: &[u8]| match self.fingerprinter.fingerprint(bytes) {
            found if found == *fingerprint => Ok(()),
            found => Err(wrong(format!("the bytes there have fingerprint {found}"))),
        };
        group
            .chunk(place.slot, fingerprint, verify)
            .unwrap_or_else(|| Err(wrong("the footer calls it otherwise".to_owned())))
    }

    /// Whether the chunk was read at `place` and is what it should be.
    pub(crate) fn holds(&self, fingerprint: &Fingerprint, place: Place) -> bool {
        self.chunk_at(fingerprint, place).is_ok()
    }

    /// The footer of a container, or nothing if there is none of this number.
    pub(crate) fn directory(&self, container: u32) -> Result<Option<Arc<Directory>>, StoreError> {
        let Some(live) = self.containers.get(container) else { return Ok(None) };
        let directory = self.directories.get_or_insert_with(&container, || {
            if let Some(object) = self.short.get(&container) {
                return Directory::of_object(self.envelope, live.id, object).map(Arc::new);
            }
            let mut read = None;
            let _ = self.read_footers(&[(live.id, live.size)], &mut |_, directory| {
                read = Some(directory.map(Arc::new));
                ControlFlow::Continue(())
            });
            read.expect("one container was asked for")
        })?;
        Ok(Some(directory))
    }

    /// The footers of many containers, by their numbers; each is handed to `take` with its position.
    pub(crate) fn read_directories(
        &self,
        numbers: &[u32],
        take: &mut dyn FnMut(usize, Result<Arc<Directory>, StoreError>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (mut positions, mut wanted) = (Vec::new(), Vec::new());
        for (at, number) in numbers.iter().enumerate() {
            if self.short.contains_key(number) || self.directories.contains_key(number) {
                let directory = self.directory(*number);
                take(at, directory.map(|found| found.expect("containers are only added")))?;
                continue;
            }
            let live = self.containers.get(*number).expect("containers are only added");
            positions.push(at);
            wanted.push((live.id, live.size));
        }
        self.read_footers(&wanted, &mut |number, directory| {
            let at = positions[number];
            take(
                at,
                directory.map(Arc::new).map_err(StoreError::from).inspect(|directory| {
                    self.directories.insert(numbers[at], Arc::clone(directory));
                }),
            )
        })
    }

    /// Reads the footers of many containers for whoever wants each of them then, and is told what fails.
    pub(crate) fn prepare_directories(&self, numbers: &[u32]) {
        let read = self.read_directories(numbers, &mut |_, _| ControlFlow::Continue(()));
        debug_assert!(read.is_continue(), "nothing ends it early");
    }

    fn read_footers(
        &self,
        containers: &[(ObjectId, u64)],
        take: &mut dyn FnMut(usize, Result<Directory, ContainerError>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        cache::read_directories(self.objects, self.envelope, self.cache, containers, take)
    }

    /// Whether requests take time to travel.
    pub(crate) fn is_far(&self) -> bool {
        self.objects.gap() > 0
    }

    /// Where the objects are.
    pub(crate) fn objects(&self) -> &dyn Objects {
        self.objects
    }

    /// Where the chunk `fingerprint` lies, as far as the index knows.
    pub(crate) fn place_of(&self, fingerprint: &Fingerprint) -> Option<Place> {
        let place = self.index.get(fingerprint).map(|Hint(place)| place);
        place.filter(|place| self.containers.get(place.container).is_some())
    }

    /// Calls `leaf` for every chunk of `recipe`, in order.
    pub(crate) fn visit(
        &self,
        recipe: &Recipe,
        leaf: &mut dyn FnMut(Recipe) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if recipe.len == 0 {
            return Ok(());
        }
        if recipe.depth == 0 {
            return leaf(*recipe);
        }
        for child in self.children(recipe)? {
            self.visit(&child, leaf)?;
        }
        Ok(())
    }

    /// The chunks that are kept, without asking for any other.
    pub(crate) fn kept(&self) -> KeptChunks<'_> {
        KeptChunks(self)
    }

    fn kept_chunk(&self, fingerprint: &Fingerprint) -> Option<Bytes> {
        let place = self.place_of(fingerprint)?;
        let is_here = self.short.contains_key(&place.container)
            || self.directories.get(&place.container).is_some_and(|directory| {
                let group = directory.chunk(place.slot).map(|chunk| chunk.group);
                group.is_ok_and(|group| self.groups.find((place.container, group)).is_some())
            });
        is_here.then(|| self.chunk_at(fingerprint, place).ok())?
    }

    /// A group that is kept, in memory or as a copy.
    pub(crate) fn kept_group(&self, key: Key, directory: &Directory) -> Option<Arc<Group>> {
        self.groups.find(key).or_else(|| {
            let group = Arc::new(self.copied_group(directory, key.1)?);
            self.groups.keep(key, &group);
            Some(group)
        })
    }

    /// Keeps a group that was fetched.
    pub(crate) fn keep_group(&self, key: Key, group: &Arc<Group>) {
        self.groups.keep(key, group);
    }

    /// Appends those bytes of `recipe` that lie in `range`, which does not end behind them. Only the
    /// chunks that hold some of them are read.
    pub(crate) fn read_range(
        &self,
        recipe: &Recipe,
        range: Range<u64>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        self.visit_range(recipe, 0, &range, &mut |start, leaf| {
            bytes.extend_from_slice(part_of(start, &leaf, &range));
        })
    }
}

/// Those bytes of `leaf`, which begins at `start`, that lie in `range`.
pub(crate) fn part_of<'a>(start: u64, leaf: &'a [u8], range: &Range<u64>) -> &'a [u8] {
    let within = |at: u64| at.clamp(start, start + leaf.len() as u64) - start;
    &leaf[within(range.start) as usize..within(range.end) as usize]
}
