//! Whether every page can be read and is what its fingerprint says, found out while the pool is used.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use onefold_container::{ChunkEntry, Directory};

use crate::containers::entry::MAX_PAGE;
use crate::containers::located::{Located, Wanted, read_all};
use crate::engine::parts::Engine;
use crate::engine::walk::{Step, Walk};
use crate::error::VolumeError;
use crate::ids::{Handle, SharedName, VolumeId, container_name};
use crate::pool::open::Pool;
use crate::state::bits::Bits;
use crate::state::map::pages;
use crate::state::sparse::Sparse;

/// Lost pages that are told of.
const TOLD: usize = 10_000;

/// Blocks that are told of a lost page.
const TOLD_BLOCKS: usize = 100;

/// Pages that are read and fingerprinted together.
const TOGETHER: usize = 64;

/// What a scrub found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Pages that were read and hashed.
    pub pages: u64,
    /// What is wrong with others: the first ten thousand. None if it was stopped.
    pub bad: Vec<BadPage>,
    /// How many pages, some of which nobody may have any more, were not good either. All of them if it
    /// was stopped.
    pub more: u64,
    /// Why a part of a map could not be read, if so: pages that only such parts name were not read.
    /// [`Pool::check`] tells of each.
    pub unread: Option<String>,
    /// Pages that could not be read just now, if so, which says nothing of them: the next scrub may read
    /// them.
    pub unanswered: Option<Unanswered>,
    /// Whether it was stopped before its end.
    pub is_stopped: bool,
}

impl Scrubbed {
    /// Whether all was read, and is as it was written.
    pub fn is_good(&self) -> bool {
        *self == Self { pages: self.pages, ..Self::default() }
    }
}

/// Pages that a file system or a service did not give just now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unanswered {
    /// How many.
    pub pages: u64,
    /// Why the first of them was not read.
    pub problem: String,
}

/// A page that is lost, and who has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPage {
    /// The container's file.
    pub container: String,
    /// The container, if it is one that shards share.
    pub shared: Option<SharedName>,
    /// Which of its pages.
    pub slot: u32,
    /// What is wrong.
    pub problem: String,
    /// Volumes and blocks that are this page: the first hundred.
    pub blocks: Vec<(String, u64)>,
    /// How many blocks are it beside these.
    pub more_blocks: u64,
}

/// Said of a page whose container can be read by now.
const UNREAD: &str =
    "its container could not be read when the pool was opened, and can be now: open the pool again";

/// Said of a page whose container is not there.
const GONE: &str = "its container is gone";

impl Pool {
    /// Reads every page that a volume has, and computes its fingerprint anew.
    ///
    /// Others use the pool meanwhile. What [`scrub_while`](Self::scrub_while) says of that holds.
    pub fn scrub(&self) -> Scrubbed {
        self.scrub_while(|| true)
    }

    /// The same until `go_on` says no, which is asked between steps.
    ///
    /// Read is each page that a volume had when this began, but for those that were let go, or moved
    /// by a compaction, before their turn came. Told of are lost pages that a volume still has at the
    /// end. Takes a bit of memory a page, and one for each that went meanwhile. Others wait for as long
    /// as 256 segments of maps are taken, and share the disk.
    pub fn scrub_while(&self, go_on: impl Fn() -> bool) -> Scrubbed {
        self.scrub_some(go_on, |_| true)
    }

    /// The same of pages in those of `containers`, which shards share, that the pool uses.
    pub fn scrub_containers(
        &self,
        containers: &[SharedName],
        go_on: impl Fn() -> bool,
    ) -> Scrubbed {
        let numbers: BTreeSet<u32> = {
            let state = self.0.state();
            let number = |name| state.pages.registrations.of(name).map(|(number, _)| number);
            containers.iter().filter_map(number).collect()
        };
        if numbers.is_empty() {
            return Scrubbed::default();
        }
        self.scrub_some(go_on, |number| numbers.contains(&number))
    }

    /// The same of pages in containers of which `is_wanted`.
    fn scrub_some(&self, go_on: impl Fn() -> bool, is_wanted: impl Fn(u32) -> bool) -> Scrubbed {
        let engine = &*self.0;
        let mut scrubbed = Scrubbed::default();
        let mut lost = Lost::default();
        let read = engine.scrub_mapped(&go_on, is_wanted, &mut scrubbed.pages, &mut lost);
        scrubbed.is_stopped = read.and_then(|()| engine.who_has(&go_on, &mut lost)).is_none();
        scrubbed.unread = lost.unread.take();
        scrubbed.unanswered = lost.unanswered.take();
        scrubbed.more = lost.more;
        if scrubbed.is_stopped {
            scrubbed.more += lost.pages.len() as u64;
        } else {
            // a compaction moved the others meanwhile, or who had them let them go
            let named = |(page, bad): (Handle, BadPage)| {
                // what shards share has another name than its number
                let file = engine.state().pages.file(page.container());
                let shared = file.as_ref().and_then(|file| file.shared());
                let container = shared.map_or(bad.container, |name| name.to_string());
                BadPage { container, shared, ..bad }
            };
            let pages = lost.pages.into_iter().filter(|(_, page)| !page.blocks.is_empty());
            scrubbed.bad = pages.map(named).collect();
        }
        scrubbed
    }
}

/// Pages that are not as they should be, and why.
#[derive(Default)]
struct Lost {
    pages: BTreeMap<Handle, BadPage>,
    /// How many more were met, some perhaps more than once.
    more: u64,
    /// Pages that were there, and whose container went meanwhile. Only if a volume has one for all that
    /// it is lost.
    gone: Bits,
    /// Why maps could not be read, if so, or the first part of them that could not.
    unread: Option<String>,
    /// Pages that nothing is known of.
    unanswered: Option<Unanswered>,
}

impl Lost {
    fn add(&mut self, page: Handle, problem: impl FnOnce() -> String) {
        if self.pages.contains_key(&page) {
            return;
        }
        if self.pages.len() == TOLD {
            self.more += 1;
            return;
        }
        let (container, slot) = (container_name(page.container()), page.slot());
        let problem = problem();
        let (shared, blocks) = (None, Vec::new());
        let bad = BadPage { container, shared, slot, problem, blocks, more_blocks: 0 };
        self.pages.insert(page, bad);
    }

    fn note(&mut self, page: Handle, why: NotGood) {
        match why {
            NotGood::Gone => self.gone.set(page),
            NotGood::Unanswered(problem) => {
                self.unanswered.get_or_insert(Unanswered { pages: 0, problem }).pages += 1;
            }
            NotGood::Undescribed(problem) | NotGood::Wrong(problem) => self.add(page, || problem),
        }
    }

    /// The next steps of a walk. What cannot be read is noted.
    fn steps(&mut self, walk: &mut Walk, engine: &Engine) -> Option<Vec<Step>> {
        let steps = walk.next(engine).unwrap_or_else(|error| {
            self.unread = Some(with_causes(&error));
            None
        });
        if let Some(first) = walk.take_passed().first() {
            self.unread.get_or_insert_with(|| first.problem.to_string());
        }
        steps
    }

    fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.gone.is_empty()
    }
}

/// Why a page is not counted as good.
enum NotGood {
    /// Its container went meanwhile.
    Gone,
    /// It could not be read just now, and is perhaps good.
    Unanswered(String),
    /// What says where it is, and what it should be, cannot be read.
    Undescribed(String),
    /// It is lost.
    Wrong(String),
}

impl NotGood {
    /// What `error` says of a page: `lasting`, unless the next attempt may go well.
    fn because(error: &VolumeError, lasting: fn(String) -> Self) -> Self {
        let kind = if error.may_pass() { Self::Unanswered } else { lasting };
        kind(with_causes(error))
    }
}

/// A page that can be read.
struct There<'a> {
    /// Which one of those that are asked about.
    at: usize,
    /// What the footer says of it.
    chunk: &'a ChunkEntry,
    located: Located,
}

/// What a footer says of `page`.
fn expected(directory: &Directory, page: Handle) -> Result<&ChunkEntry, NotGood> {
    let wrong = |problem: &str| NotGood::Wrong(problem.to_owned());
    let chunk = directory.chunks.get(page.slot() as usize);
    let chunk = chunk.ok_or_else(|| wrong("its container has no such page"))?;
    // the footer is another one than when the pool was opened
    let too_long = "its container says that it is longer than any page";
    if chunk.len > MAX_PAGE { Err(wrong(too_long)) } else { Ok(chunk) }
}

/// An error, and why it came to it.
fn with_causes(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |error: &&dyn Error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl Engine {
    /// Reads all pages that maps name, in containers of which `is_wanted`; `None` if it was stopped.
    fn scrub_mapped(
        &self,
        go_on: impl Fn() -> bool,
        is_wanted: impl Fn(u32) -> bool,
        good: &mut u64,
        lost: &mut Lost,
    ) -> Option<()> {
        let mut counts = Sparse::default();
        for (number, count) in self.state().pages.counts() {
            counts.insert(number, count);
        }
        let (mut mapped, mut nowhere) = (Bits::default(), Bits::default());
        let mut walk = Walk::of_volumes().past_unreadable();
        while let Some(steps) = lost.steps(&mut walk, self) {
            go_on().then_some(())?;
            for Step { volume, first_block, segment, .. } in steps {
                let wanted = (first_block..).zip(pages(&segment));
                for (block, page) in wanted.filter(|(_, page)| is_wanted(page.container())) {
                    // the others came since, and were fingerprinted just now, or are nowhere
                    let was_there = counts.get(page.container()).is_some_and(|n| page.slot() < *n);
                    if was_there {
                        mapped.set(page);
                    } else if !page.is_hole()
                        && !nowhere.has(page)
                        && self.is_nowhere(volume, block, page)
                    {
                        nowhere.set(page);
                        lost.note(page, self.why_nowhere(page));
                    }
                }
            }
        }
        for (number, slots) in mapped.containers() {
            go_on().then_some(())?;
            self.scrub_container(number, slots, good, lost);
        }
        Some(())
    }

    /// Whether a block is a page that is nowhere. One that went since it was found there is not.
    fn is_nowhere(&self, volume: VolumeId, block: u64, page: Handle) -> bool {
        let now = self.paged(|state| {
            let Some(one) = state.volumes.get(&volume) else { return Ok(None) };
            one.map.get(block, &state.pages.nodes).map(Some)
        });
        now.is_ok_and(|now| now == Some(page)) && !self.state().pages.is_there(page)
    }

    /// Why a page is nowhere, as far as its container tells.
    fn why_nowhere(&self, page: Handle) -> NotGood {
        match self.directory(page.container()) {
            Ok(Some(directory)) => match expected(&directory, page) {
                Ok(_) => NotGood::Unanswered(UNREAD.into()),
                Err(why) => why,
            },
            Ok(None) => NotGood::Wrong(GONE.into()),
            Err(error) => NotGood::because(&error, NotGood::Wrong),
        }
    }

    /// Checks the pages in `slots` of container `number`.
    fn scrub_container(
        &self,
        number: u32,
        slots: impl Iterator<Item = u32>,
        good: &mut u64,
        lost: &mut Lost,
    ) {
        let pages = slots.map(|slot| Handle::new(number, slot));
        let directory = match self.directory(number) {
            Ok(Some(directory)) => directory,
            // what another shard still fills has no fingerprints yet
            Ok(None) if self.state().pages.file(number).is_some_and(|file| file.is_foreign()) => {
                return;
            }
            Ok(None) => return pages.for_each(|page| lost.note(page, NotGood::Gone)),
            Err(error) => {
                let why = || NotGood::because(&error, NotGood::Undescribed);
                return pages.for_each(|page| lost.note(page, why()));
            }
        };
        let pages: Vec<Handle> = pages.collect();
        for pages in pages.chunks(TOGETHER) {
            for (&page, found) in pages.iter().zip(self.scrub_pages(pages, &directory)) {
                let Err(why) = found else {
                    *good += 1;
                    continue;
                };
                if let NotGood::Wrong(_) = why {
                    self.state().pages.note_bad(page);
                }
                lost.note(page, why);
            }
        }
    }

    /// Whether each of these pages of a container is good.
    fn scrub_pages(&self, pages: &[Handle], directory: &Directory) -> Vec<Result<(), NotGood>> {
        let mut found = Vec::with_capacity(pages.len());
        let mut there = Vec::with_capacity(pages.len());
        for (at, &page) in pages.iter().enumerate() {
            let chunk = expected(directory, page);
            let located = |chunk| match self.paged(|state| state.pages.locate(page)) {
                Ok(located) => Ok((chunk, located.ok_or(NotGood::Gone)?)),
                Err(error) => Err(NotGood::because(&error, NotGood::Undescribed)),
            };
            found.push(chunk.and_then(located).map(|(chunk, located)| {
                there.push(There { at, chunk, located });
            }));
        }
        let mut buffers: Vec<Vec<u8>> =
            there.iter().map(|one| vec![0; one.chunk.len as usize]).collect();
        let each = there.iter().zip(&mut buffers);
        let wanted = each.map(|(one, into)| Wanted { at: one.at, located: &one.located, into });
        for (at, error) in read_all(wanted.collect()) {
            found[at] = Err(NotGood::because(&error, NotGood::Wrong));
        }
        let bytes: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
        let mut fingerprints = Vec::with_capacity(bytes.len());
        self.fingerprinter.fingerprint_many(&bytes, &mut fingerprints);
        let mut state = self.state();
        for (There { at, chunk, .. }, fingerprint) in there.iter().zip(fingerprints) {
            match &mut found[*at] {
                Ok(()) if fingerprint == chunk.fingerprint => state.pages.note_good(pages[*at]),
                Ok(()) => found[*at] = Err(NotGood::Wrong("it has another fingerprint".into())),
                Err(_) => {}
            }
        }
        drop(state);
        found
    }

    /// Notes the volumes and blocks that are lost pages; `None` if it was stopped.
    fn who_has(&self, go_on: impl Fn() -> bool, lost: &mut Lost) -> Option<()> {
        let mut walk = Walk::of_volumes().past_unreadable();
        while !lost.is_empty()
            && let Some(steps) = lost.steps(&mut walk, self)
        {
            go_on().then_some(())?;
            for Step { volume, first_block, segment, .. } in steps {
                for (block, page) in (first_block..).zip(pages(&segment)) {
                    if lost.gone.has(page) {
                        lost.add(page, || GONE.to_owned());
                    }
                    let Some(bad) = lost.pages.get_mut(&page) else { continue };
                    if bad.blocks.len() == TOLD_BLOCKS {
                        bad.more_blocks += 1;
                        continue;
                    }
                    let name = self.state().volumes.get(&volume).map(|one| one.name.clone());
                    bad.blocks.extend(name.map(|name| (name, block)));
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use onefold_backend::MemoryFolder;
    use onefold_block::{BlockDevice, BlockSize, Durability};
    use onefold_testkit::random;

    use super::*;
    use crate::state::map::References;
    use crate::{Hash, Options};

    #[test]
    fn a_container_that_goes_although_a_volume_has_its_pages_is_told() {
        let folder = Arc::new(MemoryFolder::new());
        Pool::create(&folder, Hash::Blake3).unwrap();
        let options = Options { container_len: 40_000, ..Options::default() };
        let (pool, _) = Pool::open(folder, options).unwrap();
        pool.create_volume("a", 1 << 20, BlockSize::B4096).unwrap();
        let volume = pool.volume("a").unwrap();
        volume.write(0, &random(1, 30 * 4096), Durability::OnReturn).unwrap();
        let asked = Cell::new(0);
        let scrubbed = pool.scrub_while(|| {
            asked.set(asked.get() + 1);
            // the first container was read; somebody forgets what refers to the second
            if asked.get() == 3 {
                let slots = 0..10;
                slots.for_each(|slot| pool.0.state().pages.release(Handle::new(2, slot)));
                pool.flush().unwrap();
            }
            true
        });
        assert_eq!((scrubbed.pages, scrubbed.more, scrubbed.is_stopped), (20, 0, false));
        let told: Vec<_> = scrubbed.bad.iter().map(|page| (page.slot, &page.blocks[..])).collect();
        let blocks: Vec<_> = (10..20).map(|block| [("a".to_owned(), block)]).collect();
        let expected: Vec<_> = (0..10).zip(blocks.iter().map(|one| &one[..])).collect();
        assert_eq!(told, expected);
        assert!(scrubbed.bad.iter().all(|page| page.problem == GONE));
    }
}
