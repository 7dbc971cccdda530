//! Whether maps, references and containers fit together, found out while the pool is used.
//!
//! References are counted by the maps, segment after segment, without the pool's lock, and then held
//! against those that the pool has. A page that got or lost a reference meanwhile was counted at one
//! moment and compared at another, so it is left out: the pool notes which these are. All others had
//! the same references all the while.

use std::collections::HashSet;

use crate::engine::parts::Engine;
use crate::engine::walk::{Step, Walk};
use crate::ids::{Handle, container_name};
use crate::pool::open::Pool;
use crate::state::map::pages;
use crate::state::nodes::{Missing, NodeId};
use crate::state::pages::MOST;
use crate::state::sparse::Sparse;

/// Pages that are compared or looked up at a time, while others wait; of one container all.
const COMPARED: usize = 1 << 15;

/// Problems that are told, each by a text.
const TOLD: usize = 1000;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checked {
    /// Pages whose references were compared.
    pub pages: u64,
    /// Pages that were not, because they got or lost references meanwhile.
    pub changed: u64,
    /// What does not fit together: the first thousand.
    pub problems: Vec<String>,
    /// How many problems there are beside these.
    pub more: u64,
    /// Whether it was stopped before its end.
    pub is_stopped: bool,
}

impl Checked {
    fn tell(&mut self, problem: impl FnOnce() -> String) {
        match self.problems.len() < TOLD {
            true => self.problems.push(problem()),
            false => self.more += 1,
        }
    }
}

impl Pool {
    /// What does not fit together: references that are not those of the maps, and blocks whose pages
    /// are nowhere; at most a thousand. Reads no page.
    ///
    /// Others use the pool meanwhile. What [`check_while`](Self::check_while) says of that holds.
    pub fn check(&self) -> Vec<String> {
        self.check_while(|| true).problems
    }

    /// The same with its figures, until `go_on` says no, which is asked between steps.
    ///
    /// Checked is each page that was there when this began, but for those that were written, erased
    /// or moved until it ended: [`Checked::changed`] counts them. Takes four bytes of memory a page,
    /// an eighth of one for each that changes, and some twenty for each 512 blocks of the volumes.
    /// Others wait for a step at a time: the numbers of all containers, 256 segments of maps, or the
    /// references of some ten thousand pages.
    pub fn check_while(&self, go_on: impl Fn() -> bool) -> Checked {
        let engine = &*self.0;
        let _only = engine.checking.lock().expect("nobody panics with it");
        let watched = Watched::begin(engine);
        let mut counts = Counts::new(&watched.pages);
        let mut checked = Checked::default();
        let mut walk = Walk::of_all();
        loop {
            let steps = match walk.next(engine) {
                Ok(Some(steps)) => steps,
                Ok(None) => break,
                Err(error) => {
                    // what the rest of the maps refer to nobody knows
                    checked.tell(|| error.to_string());
                    return checked;
                }
            };
            if !go_on() {
                checked.is_stopped = true;
                return checked;
            }
            for elsewhere in counts.count(&steps).chunks(COMPARED) {
                engine.check_elsewhere(elsewhere, &mut checked);
            }
        }
        let mut containers = &watched.pages[..];
        while !containers.is_empty() {
            if !go_on() {
                checked.is_stopped = true;
                return checked;
            }
            let now;
            (now, containers) = containers.split_at(together(containers));
            engine.compare(now, &counts, &mut checked);
        }
        checked
    }
}

/// How many of these containers, with as many pages each, are compared at once: at least one.
fn together(containers: &[(u32, u32)]) -> usize {
    let mut pages = 0;
    let fits = |(_, of_it): &&(u32, u32)| {
        pages += *of_it as usize;
        pages <= COMPARED
    };
    containers.iter().take_while(fits).count().max(1)
}

/// While this is there the pool notes which pages get or lose references.
struct Watched<'a> {
    engine: &'a Engine,
    /// How many pages each container had at the beginning.
    pages: Vec<(u32, u32)>,
}

impl<'a> Watched<'a> {
    fn begin(engine: &'a Engine) -> Self {
        let mut state = engine.state();
        state.pages.watch();
        Self { engine, pages: state.pages.counts() }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.engine.state().pages.unwatch();
    }
}

/// How often the maps name each page that was there at the beginning.
struct Counts {
    of: Sparse<Vec<u32>>,
    /// The segments that were counted: one that several volumes share counts once.
    seen: HashSet<NodeId>,
}

/// A block whose page was not there at the beginning.
struct Elsewhere<'a> {
    step: &'a Step,
    place: usize,
    page: Handle,
}

impl Counts {
    fn new(pages: &[(u32, u32)]) -> Self {
        let mut of = Sparse::default();
        for (number, pages) in pages {
            of.insert(*number, vec![0; *pages as usize]);
        }
        Self { of, seen: HashSet::new() }
    }

    /// Counts the segments; what they name beside the pages that were there.
    fn count<'a>(&mut self, steps: &'a [Step]) -> Vec<Elsewhere<'a>> {
        let mut elsewhere = Vec::new();
        for step in steps {
            if !self.seen.insert(step.id) {
                continue;
            }
            for (place, page) in pages(&step.segment).enumerate() {
                if page.is_hole() {
                    continue;
                }
                let of_it = self.of.get_mut(page.container());
                match of_it.and_then(|of_it| of_it.get_mut(page.slot() as usize)) {
                    Some(count) => *count = count.saturating_add(1),
                    None => elsewhere.push(Elsewhere { step, place, page }),
                }
            }
        }
        elsewhere
    }
}

impl Engine {
    /// Tells of blocks whose pages are nowhere. The others came to be since, or went.
    fn check_elsewhere(&self, elsewhere: &[Elsewhere<'_>], checked: &mut Checked) {
        if elsewhere.is_empty() {
            return;
        }
        let state = self.state();
        let watched = state.pages.watched().expect("as long as it is checked");
        for Elsewhere { step, place, page } in elsewhere {
            if state.pages.is_there(*page) || watched.has(*page) {
                continue;
            }
            let name = state.volumes.get(&step.volume).map_or("(deleted)", |one| &one.name);
            checked.tell(|| {
                let (block, slot) = (step.first_block + *place as u64, page.slot());
                let container = container_name(page.container());
                format!("block {block} of volume '{name}' is page {slot} of {container}: not there")
            });
        }
    }

    /// Holds the references of some containers against the counts.
    fn compare(&self, numbers: &[(u32, u32)], counts: &Counts, checked: &mut Checked) {
        for (number, _) in numbers {
            let expected = counts.of.get(*number).into_iter().flatten();
            let mut state = self.state();
            let found = loop {
                match state.pages.references(*number) {
                    // of a container that is gone nobody has a page
                    Ok(found) => break found.unwrap_or_default(),
                    Err(Missing(node)) => {
                        drop(state);
                        if let Err(error) = self.bring_again(&[node], u32::MAX) {
                            return checked.tell(|| error.to_string());
                        }
                        state = self.state();
                    }
                }
            };
            let found = found.into_iter().chain(std::iter::repeat(0));
            let watched = state.pages.watched().expect("as long as it is checked");
            for (slot, (expected, found)) in (0..).zip(expected.zip(found)) {
                if watched.has(Handle::new(*number, slot)) {
                    checked.changed += 1;
                    continue;
                }
                checked.pages += 1;
                // of one that had more than can be counted nobody knows
                if *expected != found && found != MOST {
                    let page = format!("page {slot} of {}", container_name(*number));
                    checked.tell(|| {
                        format!("{page} has {found} references, expected {expected} by the maps")
                    });
                }
            }
        }
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
    use crate::ids::VolumeId;
    use crate::state::map::References;
    use crate::{Hash, Options};

    const BLOCK: u64 = 4096;

    /// A pool with a page in each of `segments` segments of volume `a`.
    fn pool(segments: u64) -> Pool {
        let folder = Arc::new(MemoryFolder::new());
        Pool::create(&folder, Hash::Blake3).unwrap();
        let options = Options { table_bytes: 1 << 20, container_len: 40_000, ..Options::default() };
        let (pool, _) = Pool::open(folder, options).unwrap();
        pool.create_volume("a", segments * STRIDE, BlockSize::B4096).unwrap();
        for at in 0..segments {
            write(&pool, at, at);
        }
        pool
    }

    /// Bytes of the blocks of a segment.
    const STRIDE: u64 = 512 * BLOCK;

    /// Another page for the block of segment `at`.
    fn write(pool: &Pool, at: u64, seed: u64) {
        let volume = pool.volume("a").unwrap();
        volume.write(at * STRIDE, &random(seed, BLOCK as usize), Durability::OnFlush).unwrap();
    }

    #[test]
    fn a_reference_too_many_is_told_with_its_page() {
        let pool = pool(30);
        assert_eq!(pool.check(), Vec::<String>::new());
        let page = Handle::new(2, 3);
        pool.0.state().pages.gain(page);
        let told = ["page 3 of container-00000002 has 2 references, expected 1 by the maps"];
        assert_eq!(pool.check(), told);
        pool.0.state().pages.release(page);
        pool.0.state().pages.release(page);
        let told = ["page 3 of container-00000002 has 0 references, expected 1 by the maps"];
        assert_eq!(pool.check(), told);
    }

    #[test]
    fn a_block_whose_page_is_nowhere_is_told() {
        let pool = pool(3);
        for (nowhere, shown) in [
            (Handle::new(0x384, 5), "page 5 of container-00000384"),
            (Handle::new(1, u32::MAX), "page 4294967295 of container-00000001"),
        ] {
            {
                let mut state = pool.0.state();
                state.map(VolumeId(0), 519, nowhere);
            }
            let told = format!("block 519 of volume 'a' is {shown}: not there");
            assert_eq!(pool.check(), [told]);
        }
    }

    #[test]
    fn of_many_problems_the_first_are_told_and_the_others_counted() {
        let pool = pool(1100);
        let numbers: Vec<Handle> = {
            let counts = pool.0.state().pages.counts();
            let pages = |(number, pages)| (0..pages).map(move |slot| Handle::new(number, slot));
            counts.into_iter().flat_map(pages).collect()
        };
        assert_eq!(numbers.len(), 1100);
        numbers.iter().for_each(|page| pool.0.state().pages.gain(*page));
        let checked = pool.check_while(|| true);
        assert_eq!((checked.problems.len(), checked.more), (1000, 100));
    }

    #[test]
    fn what_changes_meanwhile_is_left_out_and_all_else_is_checked() {
        const SEGMENTS: u64 = 700;
        // six steps along the maps, and one that compares
        for disturbed in 1..=7 {
            let pool = pool(SEGMENTS);
            pool.clone_volume("a", "old", true).unwrap();
            // of a page that nobody changes
            pool.0.state().pages.gain(Handle::new(7, 0));
            let asked = Cell::new(0);
            let checked = pool.check_while(|| {
                asked.set(asked.get() + 1);
                if asked.get() == disturbed {
                    disturb(&pool);
                }
                true
            });
            assert!(asked.get() >= disturbed, "{disturbed}");
            assert_eq!(checked.problems.len(), 1, "{disturbed}: {checked:?}");
            assert!(checked.problems[0].contains("page 0 of container-00000007 has 2"));
            // every page that there was is one or the other
            assert_eq!(checked.pages + checked.changed, SEGMENTS, "{disturbed}");
            assert!(checked.changed >= 30, "{disturbed}: {checked:?}");
            assert!(pool.0.state().pages.watched().is_none());
            assert_eq!(pool.check().len(), 1);
        }
    }

    /// Changes pages at both ends of the map, moves some, and makes and deletes volumes.
    fn disturb(pool: &Pool) {
        pool.delete_volume("old").unwrap();
        for at in (0..20).chain(680..700) {
            write(pool, at, 10_000 + at);
        }
        let volume = pool.volume("a").unwrap();
        // of the second container and the last but one nothing is left, of the third two pages
        for at in (10..20).chain(20..28).chain(680..690) {
            volume.erase(at * STRIDE..at * STRIDE + BLOCK, Durability::OnFlush).unwrap();
        }
        pool.clone_volume("a", "new", false).unwrap();
        let new = pool.volume("new").unwrap();
        new.write(STRIDE * 350, &random(1, BLOCK as usize), Durability::OnReturn).unwrap();
        assert!(pool.maintain().unwrap().compacted > 0);
        new.resize(STRIDE * 300).unwrap();
        pool.checkpoint().unwrap();
    }

    #[test]
    fn one_that_is_stopped_says_so_and_leaves_nothing_behind() {
        let pool = pool(10);
        let checked = pool.check_while(|| false);
        assert!(checked.is_stopped);
        assert_eq!((checked.pages, checked.problems.len()), (0, 0));
        assert!(pool.0.state().pages.watched().is_none());
        assert!(!pool.check_while(|| true).is_stopped);
    }
}
