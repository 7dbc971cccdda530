//! What an open repository knows of its chunks, and how it learns that.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use onefold_backend::LocalFolder;
use onefold_container as container;
use onefold_index::{self as index, Index, IndexError, Listed, Memory, Run};
use onefold_seal::ObjectId;

use crate::chunks::loaded::{IndexPlace, Loaded};
use crate::chunks::place::{Containers, listed};
use crate::chunks::reader::ChunkReader;
use crate::error::damage;
use crate::finding::{Warning, describe};
use crate::local::cache::read_directories;
use crate::objects::bundle::Of;
use crate::objects::mark::{self, Marks};
use crate::objects::read::{or_end, until_error};
use crate::seeded::fault;
use crate::threads::both;
use crate::{Repository, StoreError};

/// So many processes have a folder each below one directory; others keep their index in memory.
const FOLDERS: u32 = 8;

/// An index is built anew once it has so many chunks of containers that are gone, and they are more
/// than the others.
const MANY_GONE: u64 = 1 << 16;

impl Repository {
    /// Learns where every chunk lies: from the place where the index is kept, from runs that came
    /// since, and from the footers of containers that no readable run covers. What is said of
    /// containers that are gone, or shorter than it must be, is passed over, and condemned containers
    /// are treated as if they were gone.
    pub(crate) fn load_index(&self) -> Result<Loaded, StoreError> {
        let (index, mut warnings) = self.open_index();
        let mut loaded = self.load_into(index)?;
        if let Some(trouble) = loaded.index.trouble() {
            let text = format!("{}; the index is kept in memory instead", describe(&trouble));
            warnings.push(text);
            loaded = self.load_into(Index::in_memory())?;
        }
        warnings.append(&mut loaded.warnings);
        Ok(Loaded { warnings, ..loaded })
    }

    /// Learns where every chunk lies from the repository alone, in memory: for whoever takes a chunk
    /// for lost that the index does not know, and where the place of the index failed.
    pub(crate) fn load_index_anew(&self) -> Result<Loaded, StoreError> {
        self.load_into(Index::in_memory())
    }

    /// Opens the index where it is kept, or one in memory.
    fn open_index(&self) -> (Index, Vec<Warning>) {
        let place = match self.lacks_epochs.load(Ordering::Relaxed) {
            true => &IndexPlace::Memory,
            false => &self.index_place,
        };
        let opened = match place {
            IndexPlace::Memory => return (Index::in_memory(), Vec::new()),
            IndexPlace::Folder(folder, memory) => {
                Index::open(Arc::clone(folder), self.id(), *memory)
            }
            IndexPlace::Directory(directory, memory) => {
                self.open_below(directory, "index", *memory)
            }
        };
        match opened {
            Ok((index, None)) => (index, Vec::new()),
            Ok((index, Some(why))) => {
                (index, vec![format!("{}; it is built again", describe(&why))])
            }
            Err(error) => {
                let text = format!("{}; the index is kept in memory instead", describe(&error));
                (Index::in_memory(), vec![text])
            }
        }
    }

    /// An index that knows nothing, for one operation: on disk, within the memory that is
    /// configured, or in memory where there is no place for it.
    pub(crate) fn passing_index(&self) -> Index {
        let IndexPlace::Directory(directory, memory) = &self.index_place else {
            return Index::in_memory();
        };
        let opened = self.open_below(directory, "passing", *memory);
        // What the last operation left, if it was cut off, goes.
        opened.and_then(|(index, _)| index.clear()).unwrap_or_else(|_| Index::in_memory())
    }

    /// Opens the first index below `directory` that no other process uses.
    fn open_below(
        &self,
        directory: &Path,
        kind: &str,
        memory: Memory,
    ) -> Result<(Index, Option<IndexError>), IndexError> {
        let folder = LocalFolder::create_private(directory)
            .and_then(|all| all.folder(&self.id().to_string()))
            .map_err(IndexError::Local)?;
        (1..=FOLDERS)
            .map(|number| {
                let folder =
                    folder.folder(&format!("{kind}-{number}")).map_err(IndexError::Local)?;
                Index::open(Arc::new(folder), self.id(), memory)
            })
            .find(|opened| !opened.as_ref().is_err_and(IndexError::is_in_use))
            .unwrap_or(Err(IndexError::Unfit("too many processes use it")))
    }

    fn load_into(&self, index: Index) -> Result<Loaded, StoreError> {
        let since = Instant::now();
        let (objects, envelope) = (&*self.objects, &self.envelope);
        // Marks are listed and read before containers are listed: when a mark is gone, so are its
        // containers. Runs are listed before, too: what a run covers was durable before the run was.
        let (marks_listed, runs_listed) =
            both(|| mark::list(objects), || objects.list_names(index::PREFIX));
        let (marks_listed, runs_listed) = (marks_listed?, runs_listed?);
        let marks = Marks::read_listed(objects, envelope, &marks_listed)?;
        let condemned = match fault!(CondemnedReused) {
            false => marks.condemned(),
            true => HashSet::new(),
        };
        let containers = Containers::default();
        let live: HashMap<ObjectId, u32> = objects
            .list(container::PREFIX)?
            .into_iter()
            .filter_map(|info| Some((container::container_id(&info.name)?, info.size)))
            .filter(|(id, _)| !condemned.contains(id))
            .map(|(id, size)| (id, containers.add(id, size)))
            .collect();
        let runs_there: HashSet<ObjectId> =
            runs_listed.iter().filter_map(|name| index::run_id(name)).collect();
        let mut warnings = marks.damaged.clone();
        let index = match is_mostly_gone(&index, &live) || is_withdrawn(&index, &live, &runs_there)
        {
            true => begun_anew(index, &mut warnings),
            false => index,
        };
        let may_hold = |number: u32, chunks: u64, bytes: u64| {
            let container = containers.get(number).expect("it was just added");
            container.size >= container::least_len(&self.envelope, chunks, bytes)
        };
        let mut learning = Learning::begin(index, &live, &may_hold);
        learning.warnings = warnings;
        let mut runs: Vec<_> = runs_listed
            .iter()
            .filter_map(|name| index::run_id(name))
            .filter(|id| !learning.knows_run(*id))
            .collect();
        // A copy of a run counts if the run is listed: it may lie as a run may.
        if let Some(copies) = self.copies(Of::Runs, runs.len()) {
            runs.retain(|id| {
                let copy = copies.get(id).map(|copy| Run::open(&self.envelope, *id, copy));
                copy.and_then(Result::ok).map(|run| learning.run(*id, run)).is_none()
            });
        }
        until_error(|failed| {
            Run::read_many(&*self.objects, &self.envelope, &runs, &mut |at, run| match run {
                Ok(run) => {
                    learning.run(runs[at], run);
                    ControlFlow::Continue(())
                }
                // A prune put what it says elsewhere.
                Err(error) if is_gone(&error) => ControlFlow::Continue(()),
                Err(error) => learning.warn(error.into(), failed),
            })
        })?;
        // What a write-only client does not know of, it stores again.
        let unknown = match self.is_write_only() {
            true => Vec::new(),
            false => learning.unknown_containers(),
        };
        let containers_of = |number: &u32| {
            let live = containers.get(*number).expect("it was just added");
            (live.id, live.size)
        };
        let wanted: Vec<_> = unknown.iter().map(containers_of).collect();
        until_error(|failed| {
            let (objects, envelope, cache) = (&*self.objects, &self.envelope, self.cache());
            read_directories(
                objects,
                envelope,
                cache,
                &wanted,
                &mut |at, directory| match directory {
                    Ok(directory) => {
                        learning.container(wanted[at].0, unknown[at], &listed(&directory));
                        ControlFlow::Continue(())
                    }
                    Err(error) => match StoreError::from(error) {
                        // A prune deletes what it has condemned.
                        error if error.is_not_found() => ControlFlow::Continue(()),
                        error => learning.warn(error, failed),
                    },
                },
            )
        })?;
        learning.runs.retain(|(id, _)| runs_there.contains(id));
        let Learning { index, runs, chunk_bytes, covered, warnings, .. } = learning;
        let backing_up = Mutex::new(());
        let loaded = Loaded {
            since,
            index,
            containers,
            backing_up,
            marks,
            runs,
            chunk_bytes,
            covered,
            warnings,
        };
        loaded.keep_index();
        Ok(loaded)
    }

    /// Keeps the index at `place` from now on, unless it is loaded already. Where a key epoch is
    /// missing it is learnt anew and not kept: one that was learnt before knows containers that
    /// nobody can open now, and a backup must not rely on these.
    pub fn keep_index(&mut self, place: IndexPlace) {
        self.index_place = place;
    }

    /// What is wrong with the place of the index, if anything became known since it was asked last.
    /// Nothing is lost by it but time, and chunks that are stored a second time.
    pub fn index_trouble(&self) -> Option<Warning> {
        let trouble = self.loaded.get()?.index.trouble()?;
        Some(format!("{}; it is built again when it is needed next", describe(&trouble)))
    }

    /// Loads the index if it is not loaded; what was wrong with it.
    pub fn load(&self) -> Result<&[Warning], StoreError> {
        Ok(&self.loaded()?.warnings)
    }

    pub(crate) fn reader(&self) -> Result<ChunkReader<'_>, StoreError> {
        self.expect_reading()?;
        Ok(self.reader_of(self.loaded()?))
    }

    /// A reader that knows what `loaded` knows.
    pub(crate) fn reader_of<'a>(&'a self, loaded: &'a Loaded) -> ChunkReader<'a> {
        ChunkReader::new(
            &*self.objects,
            &self.envelope,
            self.cache(),
            self.fingerprinter.clone(),
            &loaded.index,
            &loaded.containers,
        )
    }

    /// What was wrong with the index; nothing if it is not loaded.
    pub fn warnings(&self) -> &[Warning] {
        self.loaded.get().map_or(&[], |loaded| &loaded.warnings)
    }

    pub(crate) fn loaded(&self) -> Result<&Loaded, StoreError> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let loaded = self.load_index()?;
        Ok(self.loaded.get_or_init(|| loaded))
    }
}

/// Whether most of the index is of containers that are gone.
fn is_mostly_gone(index: &Index, live: &HashMap<ObjectId, u32>) -> bool {
    let (mut gone, mut there) = (0, 0);
    for object in index.objects() {
        let count = if live.contains_key(&object.id) { &mut there } else { &mut gone };
        *count += u64::from(object.chunks);
    }
    gone > MANY_GONE && gone > there
}

/// Whether a run is gone from which the index learnt and what it covers is not: a prune deletes a
/// run after all that it covers, so a repair found it wrong.
fn is_withdrawn(index: &Index, live: &HashMap<ObjectId, u32>, runs: &HashSet<ObjectId>) -> bool {
    let objects = index.objects();
    let is_live = |object: &u32| {
        objects.get(*object as usize).is_some_and(|object| live.contains_key(&object.id))
    };
    let is_withdrawn =
        |(id, covers): &(ObjectId, Vec<u32>)| !runs.contains(id) && covers.iter().any(is_live);
    index.runs().iter().any(is_withdrawn)
}

/// An index that knows nothing: in the same place, or else in memory.
fn begun_anew(index: Index, warnings: &mut Vec<Warning>) -> Index {
    index.clear().unwrap_or_else(|error| {
        warnings.push(format!("{}; the index is kept in memory instead", describe(&error)));
        Index::in_memory()
    })
}

/// An index that learns what a repository holds.
struct Learning<'a> {
    index: Index,
    /// The containers that there are, by id.
    live: &'a HashMap<ObjectId, u32>,
    /// Whether the container of this number is long enough to hold so many chunks of so many bytes
    /// in all. One that was cut short is left to its footer, which cannot be read.
    may_hold: &'a dyn Fn(u32, u64, u64) -> bool,
    /// What the index calls each container, by number.
    objects: Vec<Option<u32>>,
    known_runs: HashSet<ObjectId>,
    runs: Vec<(ObjectId, Vec<Option<u32>>)>,
    chunk_bytes: Vec<u64>,
    covered: Vec<bool>,
    warnings: Vec<Warning>,
}

impl<'a> Learning<'a> {
    /// Begins with what the index knows already.
    fn begin(
        index: Index,
        live: &'a HashMap<ObjectId, u32>,
        may_hold: &'a dyn Fn(u32, u64, u64) -> bool,
    ) -> Self {
        let mut learning = Self {
            live,
            may_hold,
            objects: vec![None; live.len()],
            known_runs: HashSet::new(),
            runs: Vec::new(),
            chunk_bytes: vec![0; live.len()],
            covered: vec![false; live.len()],
            warnings: Vec::new(),
            index,
        };
        let mut numbers = Vec::new();
        for (object, known) in (0..).zip(learning.index.objects()) {
            let number = live.get(&known.id).copied();
            numbers.push(number);
            let Some(number) = number else { continue };
            if !may_hold(number, known.chunks.into(), known.bytes) {
                continue;
            }
            learning.index.admit(object, number);
            learning.objects[number as usize] = Some(object);
            learning.chunk_bytes[number as usize] = known.bytes;
        }
        for (id, covers) in learning.index.runs() {
            let covers = covers.iter().map(|object| numbers.get(*object as usize).copied());
            learning.known_runs.insert(id);
            learning.cover(id, covers.map(Option::flatten).collect());
        }
        learning
    }

    fn knows_run(&self, id: ObjectId) -> bool {
        self.known_runs.contains(&id)
    }

    fn knows_container(&self, number: u32) -> bool {
        self.chunk_bytes[number as usize] > 0
    }

    /// The numbers of the containers that it does not know.
    fn unknown_containers(&self) -> Vec<u32> {
        (0..self.live.len() as u32).filter(|number| !self.knows_container(*number)).collect()
    }

    /// Notes what is wrong with an object that can be done without, or ends with the error.
    fn warn(&mut self, error: StoreError, failed: &mut Result<(), StoreError>) -> ControlFlow<()> {
        or_end(damage(error).map(|warning| self.warnings.push(warning)), failed)
    }

    fn cover(&mut self, run: ObjectId, numbers: Vec<Option<u32>>) {
        numbers.iter().flatten().for_each(|number| self.covered[*number as usize] = true);
        self.runs.push((run, numbers));
    }

    /// Learns what a run says of containers that are there and not known yet. One of which it does
    /// not list every slot, or that was cut short, is left to its footer.
    fn run(&mut self, id: ObjectId, mut run: Run) {
        run.entries.sort_unstable_by_key(|(_, place)| (place.container, place.slot));
        let numbers: Vec<Option<u32>> =
            run.covers.iter().map(|id| self.live.get(id).copied()).collect();
        for entries in run.entries.chunk_by(|(_, a), (_, b)| a.container == b.container) {
            let container = entries[0].1.container as usize;
            let Some(Some(number)) = numbers.get(container) else { continue };
            let is_whole = (0..).zip(entries).all(|(slot, (_, place))| place.slot == slot);
            let bytes = entries.iter().map(|(_, place)| u64::from(place.len)).sum();
            let is_cut = !(self.may_hold)(*number, entries.len() as u64, bytes);
            if is_whole && !is_cut && !self.knows_container(*number) {
                let chunks: Vec<Listed> =
                    entries.iter().map(|(f, place)| (*f, place.len)).collect();
                self.container(run.covers[container], *number, &chunks);
            }
        }
        let known = numbers.iter().flatten().map(|number| self.objects[*number as usize]);
        // What could not be taken up has to be read again.
        if let Some(known) = known.collect() {
            self.index.note_run(id, known);
        }
        self.cover(id, numbers);
    }

    fn container(&mut self, id: ObjectId, number: u32, chunks: &[Listed]) {
        self.objects[number as usize] = self.index.publish(id, number, chunks);
        self.chunk_bytes[number as usize] = chunks.iter().map(|(_, len)| u64::from(*len)).sum();
    }
}

/// Whether a run was deleted since it was listed.
fn is_gone(error: &IndexError) -> bool {
    matches!(error, IndexError::Backend { source, .. } if source.is_not_found())
}
