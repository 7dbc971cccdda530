//! Whether maps, references and containers fit together, found out while the pool is used.
//!
//! References are counted by the maps, segment after segment, without the pool's lock, and then held
//! against those that the pool has. A page that got or lost a reference meanwhile was counted at one
//! moment and compared at another, so it is left out: the pool notes which these are. All others had
//! the same references all the while.

use std::collections::HashSet;

use crate::engine::parts::Engine;
use crate::engine::walk::{Unread, Walk};
use crate::error::{VolumeError, told};
use crate::ids::{Handle, container_name};
use crate::journal::record::SEGMENT;
use crate::nodes::format::NODE;
use crate::pool::open::Pool;
use crate::state::container::MOST;
use crate::state::nodes::NodeId;
use crate::upkeep::counts::{Counted, Counts, Elsewhere, fitting};

/// Pages that are compared or looked up at a time; of one container all.
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
    /// What does not fit together, or cannot be read: the first thousand.
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
    /// What does not fit together: references that are not those of the maps, blocks whose pages are
    /// nowhere, and nodes of maps and tables that cannot be read; at most a thousand. Reads no page.
    ///
    /// Others use the pool meanwhile. What [`check_while`](Self::check_while) says of that holds.
    pub fn check(&self) -> Vec<String> {
        self.check_while(|| true).problems
    }

    /// The same with its figures, until `go_on` says no, which is asked between steps.
    ///
    /// Checked is each page that was there when this began, but for those that were written, erased
    /// or moved while they were counted: [`Checked::changed`] counts them. References are counted in
    /// passes, each of which walks all maps. A pass takes four bytes of memory for each page that it
    /// counts, and all of these together at most a quarter of
    /// [`Options::node_bytes`](crate::Options::node_bytes), which nodes lack meanwhile, or 2 MiB if that
    /// is more; besides a bit for each page that changes, and one for each 512 blocks of the volumes.
    /// Others wait for a step at a time: the numbers of all containers, 256 segments of maps, or the
    /// references of 512 pages.
    pub fn check_while(&self, go_on: impl Fn() -> bool) -> Checked {
        self.0.check(self.0.counter_bytes(), go_on)
    }
}

/// How many of these containers, with as many pages each, are compared together: at least one.
fn together(containers: &[Counted]) -> usize {
    let mut pages = 0;
    let fits = |(_, of_it): &&Counted| {
        pages += *of_it as usize;
        pages <= COMPARED
    };
    containers.iter().take_while(fits).count().max(1)
}

/// While this is there the pool notes which pages get or lose references.
struct Watched<'a>(&'a Engine);

impl<'a> Watched<'a> {
    /// Also returned is how many pages each container has.
    fn begin(engine: &'a Engine) -> (Self, Vec<Counted>) {
        let mut state = engine.state();
        state.pages.watch();
        (Self(engine), state.pages.counts())
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.state().pages.unwatch();
    }
}

/// A check under way.
struct Check<'a, G> {
    engine: &'a Engine,
    go_on: G,
    /// The containers that were there at the beginning, by number.
    all: Vec<Counted>,
    /// Segments that cannot be read, and were told of.
    unread: HashSet<NodeId>,
    checked: Checked,
}

/// Why a check ends early.
enum End {
    /// It was told to.
    Stopped,
    /// Another process has the pool, for example.
    Failed(VolumeError),
}

impl From<VolumeError> for End {
    fn from(error: VolumeError) -> Self {
        Self::Failed(error)
    }
}

impl Engine {
    /// Checks the pool until `go_on` says no. The counters of a pass take at most `bytes`, or are those
    /// of one container.
    fn check(&self, bytes: u64, go_on: impl Fn() -> bool) -> Checked {
        let _only = self.checking.lock().expect("nobody panics with it");
        let (watched, all) = Watched::begin(self);
        let (unread, checked) = (HashSet::new(), Checked::default());
        let mut check = Check { engine: self, go_on, all, unread, checked };
        match check.run(bytes, watched) {
            Ok(()) => {}
            Err(End::Stopped) => check.checked.is_stopped = true,
            Err(End::Failed(error)) => check.checked.tell(|| error.to_string()),
        }
        check.checked
    }
}

impl<'a, G: Fn() -> bool> Check<'a, G> {
    fn ensure_wanted(&self) -> Result<(), End> {
        if (self.go_on)() { Ok(()) } else { Err(End::Stopped) }
    }

    /// Counts and compares in passes; `watched` is for the first.
    fn run(&mut self, bytes: u64, watched: Watched<'a>) -> Result<(), End> {
        let all = self.all.clone();
        let (now, mut rest) = all.split_at(fitting(&all, bytes));
        self.pass(now, true)?;
        drop(watched);
        while !rest.is_empty() {
            let now;
            (now, rest) = rest.split_at(fitting(rest, bytes));
            let _watched = Watched::begin(self.engine);
            self.pass(now, false)?;
        }
        Ok(())
    }

    /// Counts the references to pages of some containers, and holds those against them that the pool
    /// has. The first pass tells of what else maps name.
    fn pass(&mut self, now: &[Counted], is_first: bool) -> Result<(), End> {
        let mut counts = Counts::new(now);
        let paging = self.engine.paging.as_ref();
        let _lent = paging.map(|paging| paging.lend(counts.bytes()));
        let mut walk = Walk::of_all().past_unreadable();
        // references that segments have which cannot be read, at most
        let mut unread = 0;
        while let Some(steps) = walk.next(self.engine)? {
            self.ensure_wanted()?;
            let elsewhere = counts.count(&steps);
            if is_first {
                elsewhere.chunks(COMPARED).for_each(|some| self.check_elsewhere(some));
            }
            for one in walk.take_passed() {
                if counts.is_first(one.id) {
                    unread += one.mapped;
                    self.tell_unread(&one);
                }
            }
        }
        let mut containers = now;
        while !containers.is_empty() {
            self.ensure_wanted()?;
            let now;
            (now, containers) = containers.split_at(together(containers));
            for (number, _) in now {
                self.verify_places(*number)?;
                self.compare(*number, counts.of(*number), unread)?;
            }
        }
        Ok(())
    }

    /// Tells of a segment that cannot be read, once.
    fn tell_unread(&mut self, one: &Unread) {
        let Unread { volume, first_block, id, is_shared, mapped: _, problem } = one;
        if !self.unread.insert(*id) {
            return;
        }
        let (name, last) = {
            let state = self.engine.state();
            let volume = state.volumes.get(volume);
            let blocks = volume.map_or(u64::MAX, |one| one.blocks());
            let last = (first_block + SEGMENT as u64).min(blocks.max(first_block + 1)) - 1;
            (volume.map_or("(deleted)".to_owned(), |one| one.name.clone()), last)
        };
        let others = if *is_shared { " and of volumes that share them" } else { "" };
        self.checked.tell(|| {
            format!(
                "{problem}: the map of blocks {first_block} to {last} of volume '{name}'{others} \
                 cannot be read"
            )
        });
    }

    /// Tells of blocks whose pages are nowhere. The others are counted by another pass, came to be since,
    /// or went.
    fn check_elsewhere(&mut self, elsewhere: &[Elsewhere<'_>]) {
        let was_there = |page: Handle| {
            let at = self.all.binary_search_by_key(&page.container(), |(number, _)| *number);
            at.is_ok_and(|at| page.slot() < self.all[at].1)
        };
        let state = self.engine.state();
        let watched = state.pages.watched().expect("as long as it is checked");
        for Elsewhere { step, place, page } in elsewhere {
            if was_there(*page) || state.pages.is_there(*page) || watched.has(*page) {
                continue;
            }
            let name = state.volumes.get(&step.volume).map_or("(deleted)", |one| &one.name);
            self.checked.tell(|| {
                let (block, slot) = (step.first_block + *place as u64, page.slot());
                let container = container_name(page.container());
                format!("block {block} of volume '{name}' is page {slot} of {container}: not there")
            });
        }
    }

    /// Tells of nodes with places of pages of container `number` that cannot be read.
    fn verify_places(&mut self, number: u32) -> Result<(), End> {
        let places = self.engine.state().pages.places(number);
        for (at, error) in self.engine.verify_nodes(&places)? {
            self.tell_table("places", number, at, &error);
        }
        Ok(())
    }

    /// Tells of a node of a container's table that cannot be read.
    fn tell_table(&mut self, what: &str, number: u32, at: usize, error: &VolumeError) {
        let pages = self.engine.state().pages.slots_of(number, at);
        self.checked.tell(|| {
            let (first, last) = (pages.start, pages.end.max(pages.start + 1) - 1);
            let (container, error) = (container_name(number), told(error));
            format!("{error}: the {what} of pages {first} to {last} of {container} cannot be read")
        });
    }

    /// Holds the references of a container against those that were counted, where maps have `unread`
    /// more at most.
    fn compare(&mut self, number: u32, expected: &[u32], unread: u32) -> Result<(), End> {
        for (at, expected) in expected.chunks(NODE).enumerate() {
            let first = (at * NODE) as u32;
            let Self { engine, checked, .. } = self;
            let compared = engine.paged(|state| {
                // of a container that is gone nobody has a page
                let found = state.pages.references_in(number, at)?.unwrap_or_default();
                let found = found.into_iter().chain(std::iter::repeat(0));
                let watched = state.pages.watched().expect("as long as it is checked");
                for ((slot, expected), found) in (first..).zip(expected).zip(found) {
                    if watched.has(Handle::new(number, slot)) {
                        checked.changed += 1;
                        continue;
                    }
                    checked.pages += 1;
                    let is_right = found.checked_sub(*expected).is_some_and(|more| more <= unread);
                    // of one that had more than can be counted nobody knows
                    if !is_right && found != MOST {
                        let page = format!("page {slot} of {}", container_name(number));
                        checked.tell(|| {
                            format!(
                                "{page} has {found} references, expected {expected} by the maps"
                            )
                        });
                    }
                }
                Ok(())
            });
            match compared {
                Ok(()) => {}
                Err(error @ (VolumeError::Superseded { .. } | VolumeError::Stopped { .. })) => {
                    return Err(error.into());
                }
                Err(error) => self.tell_table("references", number, at, &error),
            }
        }
        Ok(())
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

    /// A pool in memory for few nodes, whose maps name pages where they were before a compaction.
    fn forwarded() -> Pool {
        let folder = Arc::new(MemoryFolder::new());
        Pool::create(&folder, Hash::Blake3).unwrap();
        let options = Options {
            table_bytes: 1 << 20,
            container_len: 40_000,
            node_bytes: 0,
            least_nodes: 12,
            ..Options::default()
        };
        let (pool, _) = Pool::open(folder, options).unwrap();
        pool.create_volume("a", 60 * STRIDE, BlockSize::B4096).unwrap();
        (0..60).for_each(|at| write(&pool, at, at));
        pool.clone_volume("a", "old", true).unwrap();
        // other pages for most of what is in every container
        pool.delete_volume("old").unwrap();
        (0..60).filter(|at| at % 10 > 2).for_each(|at| write(&pool, at, 1000 + at));
        assert!(pool.maintain().unwrap().compacted > 0);
        assert!(pool.0.state().pages.forwarded() > 0);
        pool
    }

    /// What a check finds whose counters take at most `bytes`, and how many bytes those of each pass took.
    fn check_in(pool: &Pool, bytes: u64) -> (Checked, Vec<u64>) {
        let passes = std::cell::RefCell::new(Vec::new());
        let checked = pool.0.check(bytes, || {
            passes.borrow_mut().push(pool.0.paging.as_ref().unwrap().lent());
            true
        });
        assert_eq!(pool.0.paging.as_ref().unwrap().lent(), 0, "they are given back");
        (checked, passes.into_inner())
    }

    #[test]
    fn several_passes_find_what_one_finds_within_their_memory() {
        let pool = forwarded();
        let whole = check_in(&pool, u64::MAX).0;
        let pages: u64 =
            pool.0.state().pages.counts().iter().map(|(_, pages)| u64::from(*pages)).sum();
        assert_eq!((whole.pages, whole.changed, &whole.problems[..]), (pages, 0, &[][..]));
        // one too many, one too few, and a block whose page is nowhere
        // the first that moved: it is not the last page, whose references change below
        let (from, to) = pool.0.state().pages.forwards().min().unwrap();
        let last = *pool.0.state().pages.counts().last().unwrap();
        pool.0.state().pages.gain(from);
        pool.0.state().pages.release(Handle::new(last.0, last.1 - 1));
        let nowhere = Handle::new(0x384, 5);
        {
            let state =
                || pool.0.state_with(|state| state.ensure_here(VolumeId(0), [7].into_iter()));
            state().unwrap().map(VolumeId(0), 7, nowhere);
        }
        let (whole, _) = check_in(&pool, u64::MAX);
        assert_eq!(whole.problems.len(), 3, "{whole:?}");
        let moved = format!("page {} of {}", to.slot(), container_name(to.container()));
        assert!(whole.problems.iter().any(|one| one.starts_with(&moved)), "{whole:?}");
        // a container has ten pages
        for bytes in [0, 4 * 9, 4 * 10, 4 * 25, 4 * 60] {
            let (checked, lent) = check_in(&pool, bytes);
            assert_eq!(checked, whole, "{bytes}");
            assert!(lent.iter().all(|lent| *lent <= bytes.max(4 * 10)), "{bytes}: {lent:?}");
            assert!(lent.len() as u64 >= 2 * pages * 4 / bytes.max(4 * 10), "{bytes}: {lent:?}");
        }
        // for so small a pool the least that there is for counters is enough
        assert_eq!(pool.0.counter_bytes(), 2 << 20);
    }

    #[test]
    fn a_pass_that_is_disturbed_leaves_out_what_changed_meanwhile() {
        for disturbed in 1..30 {
            let pool = forwarded();
            let first = pool.0.state().pages.numbers()[0];
            pool.0.state().pages.gain(Handle::new(first, 0));
            let asked = Cell::new(0);
            let checked = pool.0.check(4 * 25, || {
                asked.set(asked.get() + 1);
                if asked.get() == disturbed {
                    (0..60).step_by(7).for_each(|at| write(&pool, at, 5000 + at));
                    pool.clone_volume("a", "new", false).unwrap();
                    pool.maintain().unwrap();
                    pool.checkpoint().unwrap();
                }
                true
            });
            assert!(checked.problems.len() <= 1, "{disturbed}: {checked:?}");
            if asked.get() < disturbed {
                assert!(disturbed > 6, "{disturbed}");
                return;
            }
        }
        panic!("it takes more steps than were tried");
    }
}
