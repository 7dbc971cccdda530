//! Which small containers to merge, so that many small backups do not leave many small objects.
//!
//! Copies of one content share containers, so a merge only has to choose what is copied.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use onefold_container::{Content, container_name};

use super::Prune;
use super::choose::{Candidate, Choice};
use crate::StoreError;
use crate::chunks::loaded::Loaded;
use crate::chunks::reader::ChunkReader;
use crate::finding::describe;
use crate::writing::added::CONTAINER_CHUNKS;

/// A container is small below this fraction of the length, and of the chunks, at which one is sealed.
const SMALL: u64 = 4;

/// This many small containers are merged even if the result does not reach the target length.
const MANY: usize = 8;

/// A small container that some snapshot needs.
#[derive(Debug, Clone, Copy)]
struct Small {
    candidate: Candidate,
    content: Content,
    /// The position of the index run that covers it, if merging all small containers of that run
    /// leaves nothing that the run covers.
    run: Option<usize>,
    /// Whether it is repacked in any case, because too much of it is unused.
    is_repacked: bool,
}

impl Small {
    /// Bytes that merging it adds to what is repacked.
    fn cost(&self) -> u64 {
        if self.is_repacked { 0 } else { self.candidate.size }
    }
}

impl Prune<'_> {
    /// Chooses the small containers to merge, within what `choice` leaves of the repacking limit.
    ///
    /// Reads the footers of small containers, but only if there are enough of them for a merge.
    pub(super) fn choose_small(
        &mut self,
        candidates: &[Candidate],
        choice: &Choice,
        reader: &ChunkReader<'_>,
        loaded: &Loaded,
    ) -> Result<Vec<Candidate>, StoreError> {
        let target = self.options.container_len as u64;
        let small: Vec<Candidate> =
            candidates.iter().copied().filter(|candidate| is_small(candidate, target)).collect();
        if !is_worthwhile(small.iter(), target) {
            return Ok(Vec::new());
        }
        let runs = runs_that_go(&small, choice, loaded);
        let repacked: HashSet<u32> = choice.repack.iter().map(|one| one.number).collect();
        let small: Vec<Small> = self
            .contents_of(&small, reader, loaded)?
            .into_iter()
            .map(|(candidate, content)| Small {
                candidate,
                content,
                run: runs.get(&candidate.number).copied(),
                is_repacked: repacked.contains(&candidate.number),
            })
            .collect();
        let used: u64 = choice.repack.iter().map(|candidate| candidate.size).sum();
        Ok(choose_merged(&small, target, self.options.max_repack - used))
    }

    /// Reads what kind of content each container has. One whose footer cannot be read is left out,
    /// with a warning.
    fn contents_of(
        &mut self,
        small: &[Candidate],
        reader: &ChunkReader<'_>,
        loaded: &Loaded,
    ) -> Result<Vec<(Candidate, Content)>, StoreError> {
        let numbers: Vec<u32> = small.iter().map(|candidate| candidate.number).collect();
        let (mut contents, mut unreadable, mut failed) = (Vec::new(), Vec::new(), None);
        let _ = reader.read_directories(&numbers, &mut |at, directory| {
            match directory {
                Ok(directory) => contents.push((small[at], directory.content)),
                Err(error @ StoreError::Container(_)) => unreadable.push((numbers[at], error)),
                Err(error) => failed = Some(error),
            }
            match failed.is_some() || self.cancel.is_cancelled() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        self.cancel.check()?;
        for (number, error) in unreadable {
            let container = loaded.containers.get(number).expect("containers are only added");
            let name = container_name(container.id);
            self.report.warnings.push(format!("{name} is left as it is: {}", describe(&error)));
        }
        // Footers come in any order.
        contents.sort_unstable_by_key(|(candidate, _)| candidate.number);
        failed.map_or(Ok(contents), Err)
    }
}

/// Whether a container that is needed is below a quarter of what one is sealed at. One of many
/// short chunks is sealed before it reaches the target length, and is not small.
fn is_small(candidate: &Candidate, target: u64) -> bool {
    candidate.live_bytes > 0
        && SMALL * candidate.size < target
        && SMALL * candidate.live_chunks < CONTAINER_CHUNKS as u64
}

/// Whether copies of these containers reach the target, or replace many.
fn is_worthwhile<'c>(small: impl Iterator<Item = &'c Candidate>, target: u64) -> bool {
    let (mut count, mut bytes, mut chunks) = (0, 0, 0);
    for candidate in small {
        count += 1;
        bytes += candidate.size - candidate.unused();
        chunks += candidate.live_chunks;
    }
    count >= MANY || bytes >= target || chunks >= CONTAINER_CHUNKS as u64
}

/// The run, by position, of each small container whose run covers nothing else that stays.
fn runs_that_go(small: &[Candidate], choice: &Choice, loaded: &Loaded) -> HashMap<u32, usize> {
    let chosen = choice.dead.iter().chain(&choice.repack).chain(small);
    let may_go: HashSet<u32> = chosen.map(|candidate| candidate.number).collect();
    loaded
        .runs
        .iter()
        .enumerate()
        .filter(|(_, (_, covers))| covers.iter().flatten().all(|number| may_go.contains(number)))
        .flat_map(|(at, (_, covers))| covers.iter().flatten().map(move |number| (*number, at)))
        .collect()
}

/// Chooses the containers that are copied only to be merged, of no more than `room` bytes in all.
///
/// Data and metadata are merged apart, each only if that is worthwhile. The small containers of a
/// run are chosen together, the cheapest first, and those of the content that would not be merged by
/// itself go along, so that the run can go too.
fn choose_merged(small: &[Small], target: u64, room: u64) -> Vec<Candidate> {
    let fitting = fitting(small, room);
    let is_merged = |content: Content| {
        let of_content = fitting.iter().filter(|one| one.content == content);
        is_worthwhile(of_content.map(|one| &one.candidate), target)
    };
    let merged: Vec<Content> =
        [Content::Data, Content::Metadata].into_iter().filter(|one| is_merged(*one)).collect();
    let runs: HashSet<usize> = fitting
        .iter()
        .filter(|one| merged.contains(&one.content))
        .filter_map(|one| one.run)
        .collect();
    let is_chosen = |one: &&Small| {
        let goes_along = one.run.is_some_and(|run| runs.contains(&run));
        !one.is_repacked && (merged.contains(&one.content) || goes_along)
    };
    fitting.iter().filter(is_chosen).map(|one| one.candidate).collect()
}

/// The small containers that fit into `room` bytes; of a run all or none.
fn fitting(small: &[Small], mut room: u64) -> Vec<Small> {
    let mut by_run: HashMap<usize, Vec<Small>> = HashMap::new();
    let mut together: Vec<Vec<Small>> = Vec::new();
    for one in small {
        match one.run {
            Some(run) => by_run.entry(run).or_default().push(*one),
            None => together.push(vec![*one]),
        }
    }
    together.extend(by_run.into_values());
    let cost = |list: &Vec<Small>| list.iter().map(Small::cost).sum::<u64>();
    together.sort_unstable_by_key(|list| (cost(list), list[0].candidate.number));
    let mut fitting = Vec::new();
    for list in together {
        if cost(&list) <= room {
            room -= cost(&list);
            fitting.extend(list);
        }
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: u64 = 1000;

    /// A container of data that no run covers, and of which all is needed.
    fn data(number: u32, size: u64) -> Small {
        let candidate =
            Candidate { number, size, chunk_bytes: 100, live_bytes: 100, live_chunks: 1 };
        Small { candidate, content: Content::Data, run: None, is_repacked: false }
    }

    fn metadata(number: u32, size: u64) -> Small {
        Small { content: Content::Metadata, ..data(number, size) }
    }

    /// The numbers of the containers that are merged, in order.
    fn merged(small: &[Small], room: u64) -> Vec<u32> {
        let chosen = choose_merged(small, TARGET, room);
        let mut numbers: Vec<u32> = chosen.iter().map(|candidate| candidate.number).collect();
        numbers.sort_unstable();
        numbers
    }

    fn numbered(
        numbers: std::ops::Range<u32>,
        make: fn(u32, u64) -> Small,
        size: u64,
    ) -> Vec<Small> {
        numbers.map(|number| make(number, size)).collect()
    }

    const NONE: [u32; 0] = [];

    #[test]
    fn a_quarter_of_the_target_is_not_small() {
        let of = |size, live_bytes, live_chunks| {
            let candidate =
                Candidate { number: 0, size, chunk_bytes: 100, live_bytes, live_chunks };
            is_small(&candidate, TARGET)
        };
        assert!(of(249, 100, 1));
        assert!(!of(250, 100, 1));
        assert!(!of(251, 100, 1));
        assert!(!of(249, 0, 0), "nothing of it is needed");
        let quarter = CONTAINER_CHUNKS as u64 / 4;
        assert!(of(249, 100, quarter - 1));
        assert!(!of(249, 100, quarter), "it has a quarter of the chunks");
    }

    #[test]
    fn eight_are_merged_and_seven_are_not() {
        assert_eq!(merged(&numbered(0..7, data, 10), u64::MAX), NONE);
        assert_eq!(merged(&numbered(0..8, data, 10), u64::MAX), Vec::from_iter(0..8));
    }

    #[test]
    fn fewer_are_merged_if_they_reach_the_target() {
        let mut small = numbered(0..5, data, 200);
        assert_eq!(merged(&small, u64::MAX), [0, 1, 2, 3, 4]);
        small[4] = data(4, 199);
        assert_eq!(merged(&small, u64::MAX), NONE);
        let half = CONTAINER_CHUNKS as u64 / 2;
        for one in &mut small[..2] {
            one.candidate.live_chunks = half;
        }
        assert_eq!(merged(&small, u64::MAX), [0, 1, 2, 3, 4], "they reach the limit of chunks");
    }

    #[test]
    fn what_is_unused_does_not_count_towards_the_target() {
        let mut small = numbered(0..5, data, 200);
        small[0].candidate.live_bytes = 99;
        assert_eq!(merged(&small, u64::MAX), NONE);
        small.push(data(5, 2));
        assert_eq!(merged(&small, u64::MAX), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn data_and_metadata_are_counted_apart() {
        let mut small = numbered(0..7, data, 10);
        small.extend(numbered(7..14, metadata, 10));
        assert_eq!(merged(&small, u64::MAX), NONE);
        small.push(metadata(14, 10));
        assert_eq!(merged(&small, u64::MAX), Vec::from_iter(7..15));
    }

    #[test]
    fn what_keeps_a_run_from_going_goes_along() {
        let mut small = numbered(0..8, data, 10);
        small.extend([metadata(8, 20), metadata(9, 20), metadata(10, 20)]);
        small[0].run = Some(0);
        small[8].run = Some(0);
        small[9].run = Some(1);
        assert_eq!(merged(&small, u64::MAX), Vec::from_iter(0..9));
    }

    #[test]
    fn no_more_is_merged_than_there_is_room_for() {
        let mut small = numbered(0..9, data, 10);
        small[0] = data(0, 90);
        assert_eq!(merged(&small, 170), Vec::from_iter(0..9));
        assert_eq!(merged(&small, 169), Vec::from_iter(1..9), "the largest stays");
        assert_eq!(merged(&small, 80), Vec::from_iter(1..9));
        assert_eq!(merged(&small, 79), NONE, "seven have room, which is too few");
        assert_eq!(merged(&small, 0), NONE);
    }

    #[test]
    fn of_a_run_all_are_merged_or_none() {
        let mut small = numbered(0..9, data, 10);
        small.push(metadata(9, 100));
        small[3].run = Some(5);
        small[9].run = Some(5);
        assert_eq!(merged(&small, 190), Vec::from_iter(0..10));
        assert_eq!(merged(&small, 189), [0, 1, 2, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn what_is_repacked_in_any_case_counts_and_costs_nothing() {
        let mut small = numbered(0..8, data, 10);
        for one in &mut small[..3] {
            one.is_repacked = true;
        }
        assert_eq!(merged(&small, 50), [3, 4, 5, 6, 7]);
        assert_eq!(merged(&small, 49), NONE);
    }
}
