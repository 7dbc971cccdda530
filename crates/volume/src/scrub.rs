//! Whether every page can be read and is what its fingerprint says.

use std::collections::BTreeSet;

use onefold_container::ChunkEntry;

use crate::VolumeError;
use crate::engine::Engine;
use crate::handle::Handle;
use crate::pages::container_name;
use crate::pool::Pool;

/// What a scrub found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Pages that were read and hashed.
    pub pages: u64,
    /// What is wrong with others.
    pub bad: Vec<BadPage>,
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
    /// Volumes and blocks that are this page.
    pub blocks: Vec<(String, u64)>,
}

/// Said of a page whose container is not there.
const GONE: &str = "its container is gone";

impl Pool {
    /// Reads every page that a volume has, and computes its fingerprint anew.
    pub fn scrub(&self) -> Result<Scrubbed, VolumeError> {
        let engine = &*self.0;
        let mapped = engine.mapped();
        let mut scrubbed = Scrubbed::default();
        let mut bad = Vec::new();
        let numbers: BTreeSet<u32> = mapped.iter().map(|page| page.container()).collect();
        for number in numbers {
            let of_it: Vec<Handle> =
                mapped.iter().copied().filter(|page| page.container() == number).collect();
            engine.scrub_container(number, &of_it, &mut scrubbed.pages, &mut bad);
        }
        scrubbed.bad = bad
            .into_iter()
            .map(|(page, problem)| BadPage {
                container: container_name(page.container()),
                slot: page.slot(),
                problem,
                blocks: engine.blocks_of(page),
            })
            // those that a compaction moved meanwhile, or who had them let go, are nobody's
            .filter(|page| !page.blocks.is_empty())
            .collect();
        Ok(scrubbed)
    }
}

impl Engine {
    /// The pages that volumes have.
    fn mapped(&self) -> BTreeSet<Handle> {
        let state = self.state();
        let segments = state.volumes.values().flat_map(|one| one.map.segments());
        let pages = segments.flat_map(|(_, segment)| segment.pages().iter().copied());
        pages.filter(|page| !page.is_hole()).collect()
    }

    /// Checks `pages`, all in container `number`.
    fn scrub_container(
        &self,
        number: u32,
        pages: &[Handle],
        good: &mut u64,
        bad: &mut Vec<(Handle, String)>,
    ) {
        let directory = match self.directory(number) {
            Ok(Some(directory)) => directory,
            Ok(None) => {
                bad.extend(pages.iter().map(|page| (*page, GONE.to_owned())));
                return;
            }
            Err(error) => {
                bad.extend(pages.iter().map(|page| (*page, error.to_string())));
                return;
            }
        };
        for &page in pages {
            match self.scrub_page(page, directory.chunks.get(page.slot() as usize)) {
                Ok(()) => *good += 1,
                Err(problem) => {
                    self.state().pages.note_bad(page);
                    bad.push((page, problem));
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

    /// The volumes and blocks that are `page`.
    fn blocks_of(&self, page: Handle) -> Vec<(String, u64)> {
        let state = self.state();
        let mut blocks = Vec::new();
        for one in state.volumes.values() {
            for (index, segment) in one.map.segments() {
                let places =
                    segment.pages().iter().enumerate().filter(|(_, other)| **other == page);
                let first = u64::from(index) * crate::record::SEGMENT as u64;
                blocks.extend(places.map(|(place, _)| (one.name.clone(), first + place as u64)));
            }
        }
        blocks
    }
}
