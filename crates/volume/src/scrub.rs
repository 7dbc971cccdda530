//! Whether every page can be read and is what its fingerprint says, found out while the pool is used.

use std::collections::BTreeMap;

use onefold_container::ChunkEntry;

use crate::VolumeError;
use crate::bits::Bits;
use crate::engine::Engine;
use crate::files::container_name;
use crate::handle::Handle;
use crate::pool::Pool;
use crate::sparse::Sparse;
use crate::walk::{Step, Walk};

/// Lost pages that are told of.
const TOLD: usize = 10_000;

/// Blocks that are told of a lost page.
const TOLD_BLOCKS: usize = 100;

/// What a scrub found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Pages that were read and hashed.
    pub pages: u64,
    /// What is wrong with others: the first ten thousand.
    pub bad: Vec<BadPage>,
    /// How many pages, some of which nobody may have any more, were not good either.
    pub more: u64,
    /// Whether it was stopped before its end.
    pub is_stopped: bool,
}

/// A page that is lost, and who has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPage {
    /// The container's file.
    pub container: String,
    /// Which of its pages.
    pub slot: u32,
    /// What is wrong.
    pub problem: String,
    /// Volumes and blocks that are this page: the first hundred.
    pub blocks: Vec<(String, u64)>,
    /// How many blocks are it beside these.
    pub more_blocks: u64,
}

/// Said of a page whose container is not there.
const GONE: &str = "its container is gone";

impl Pool {
    /// Reads every page that a volume has, and computes its fingerprint anew.
    ///
    /// Others use the pool meanwhile. What [`scrub_while`](Self::scrub_while) says of that holds.
    pub fn scrub(&self) -> Result<Scrubbed, VolumeError> {
        Ok(self.scrub_while(|| true))
    }

    /// The same until `go_on` says no, which is asked between steps.
    ///
    /// Read is each page that a volume had when this began, but for those that were let go, or moved
    /// by a compaction, before their turn came. Told of are lost pages that a volume still has at the
    /// end. Takes a bit of memory a page. Others wait for as long as 256 segments of maps are taken,
    /// and share the disk.
    pub fn scrub_while(&self, go_on: impl Fn() -> bool) -> Scrubbed {
        let engine = &*self.0;
        let mut scrubbed = Scrubbed::default();
        let mut lost = Lost::default();
        scrubbed.is_stopped = engine.read_all(&go_on, &mut scrubbed.pages, &mut lost).is_none();
        scrubbed.more = lost.more;
        scrubbed.bad = engine.who_has(lost.pages);
        scrubbed
    }
}

/// Pages that are not as they should be, and why.
#[derive(Default)]
struct Lost {
    pages: BTreeMap<Handle, String>,
    /// How many more were met, some perhaps more than once.
    more: u64,
}

impl Lost {
    fn add(&mut self, page: Handle, problem: impl FnOnce() -> String) {
        if self.pages.contains_key(&page) {
            return;
        }
        match self.pages.len() < TOLD {
            true => drop(self.pages.insert(page, problem())),
            false => self.more += 1,
        }
    }
}

impl Engine {
    /// Reads all pages that maps name; `None` if it was stopped.
    fn read_all(&self, go_on: impl Fn() -> bool, good: &mut u64, lost: &mut Lost) -> Option<()> {
        let mut counts = Sparse::default();
        for (number, count) in self.state().pages.counts() {
            counts.insert(number, count);
        }
        let mut mapped = Bits::default();
        let mut walk = Walk::new();
        while let Some(steps) = walk.next(self) {
            go_on().then_some(())?;
            for page in steps.iter().flat_map(|step| step.segment.present()) {
                // the others came since, and were fingerprinted just now, or are nowhere
                let was_there = counts.get(page.container()).is_some_and(|n| page.slot() < *n);
                if was_there {
                    mapped.set(page);
                } else if !self.state().pages.is_there(page) {
                    lost.add(page, || self.why_gone(page));
                }
            }
        }
        for (number, slots) in mapped.containers() {
            go_on().then_some(())?;
            self.scrub_container(number, slots, good, lost);
        }
        Some(())
    }

    /// Why a page is not there, as far as its container tells.
    fn why_gone(&self, page: Handle) -> String {
        match self.directory(page.container()) {
            Ok(Some(directory)) if (page.slot() as usize) < directory.chunks.len() => {
                "its container could not be read when the pool was opened".into()
            }
            Ok(Some(_)) => "its container has no such page".into(),
            Ok(None) => GONE.into(),
            Err(error) => error.to_string(),
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
            Ok(None) => return pages.for_each(|page| lost.add(page, || GONE.to_owned())),
            Err(error) => return pages.for_each(|page| lost.add(page, || error.to_string())),
        };
        for page in pages {
            match self.scrub_page(page, directory.chunks.get(page.slot() as usize)) {
                Ok(()) => *good += 1,
                Err(problem) => {
                    self.state().pages.note_bad(page);
                    lost.add(page, || problem);
                }
            }
        }
    }

    fn scrub_page(&self, page: Handle, chunk: Option<&ChunkEntry>) -> Result<(), String> {
        let chunk = chunk.ok_or("its container has no such page")?;
        let located = self.state().pages.locate(page);
        let Some(located) = located else { return Err(GONE.into()) };
        let mut bytes = vec![0; chunk.len as usize];
        located.read(&mut bytes).map_err(|error| error.to_string())?;
        match self.fingerprinter.fingerprint(&bytes) == chunk.fingerprint {
            true => Ok(()),
            false => Err("it has another fingerprint".into()),
        }
    }

    /// The volumes and blocks that are these pages. Those that a compaction moved meanwhile, or who
    /// had them let go, are nobody's, and not told of.
    fn who_has(&self, lost: BTreeMap<Handle, String>) -> Vec<BadPage> {
        let bad = |(page, problem): (Handle, String)| {
            let (container, slot) = (container_name(page.container()), page.slot());
            (page, BadPage { container, slot, problem, blocks: Vec::new(), more_blocks: 0 })
        };
        let mut lost: BTreeMap<Handle, BadPage> = lost.into_iter().map(bad).collect();
        let mut walk = Walk::new();
        while !lost.is_empty()
            && let Some(steps) = walk.next(self)
        {
            for Step { volume, first_block, segment } in steps {
                for (place, page) in (0..).zip(segment.pages()) {
                    let Some(bad) = lost.get_mut(page) else { continue };
                    if bad.blocks.len() == TOLD_BLOCKS {
                        bad.more_blocks += 1;
                        continue;
                    }
                    let name = self.state().volumes.get(&volume).map(|one| one.name.clone());
                    bad.blocks.extend(name.map(|name| (name, first_block + place)));
                }
            }
        }
        lost.into_values().filter(|page| !page.blocks.is_empty()).collect()
    }
}
