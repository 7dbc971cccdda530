//! Jumps by next-chunk hints: exact where that is promised, in bounds everywhere.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::thread;

use onefold_cdc::research::{MemoryHints, MemoryPlace};
use onefold_cdc::{
    Algorithm, BoundaryTest, ChunkSizes, Chunker, Criterion, Hints, Lookahead, MAX_NEXT, NextChunk,
    NextChunks, ParamError, Params, Preset, Rapid, RapidCounters,
};
use onefold_testkit::{SplitMix64, cycle, low_entropy, random, text, versions};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

const ALL: [Criterion; 6] = [
    Criterion::FastForward,
    Criterion::WindowTest,
    Criterion::MarkerTest { bytes: 1 },
    Criterion::MarkerTest { bytes: 4 },
    Criterion::FingerprintTest,
    Criterion::MarkerFingerprintTest,
];

/// Those whose cut-points are the algorithm's own.
const EXACT: [Criterion; 2] = [Criterion::FingerprintTest, Criterion::MarkerFingerprintTest];

type Print = [u8; 32];

fn sha256(chunk: &[u8]) -> Print {
    Sha256::digest(chunk).into()
}

fn chunker(algorithm: Algorithm, avg: usize) -> Chunker {
    Chunker::new(&Params::for_mean(algorithm, avg).unwrap()).unwrap()
}

/// Every algorithm with every criterion that it takes.
fn all_rapid(avg: usize) -> impl Iterator<Item = (Algorithm, Criterion, Rapid)> {
    let pairs = Algorithm::ALL.iter().flat_map(|&a| ALL.iter().map(move |&c| (a, c)));
    pairs.filter_map(move |(algorithm, criterion)| {
        let rapid = Rapid::new(chunker(algorithm, avg), criterion).ok()?;
        Some((algorithm, criterion, rapid))
    })
}

fn serial(rapid: &Rapid, data: &[u8]) -> Vec<usize> {
    rapid.chunker().cut_points(data).collect()
}

fn chunks<'a>(cut_points: &'a [usize], data: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let starts = [0].into_iter().chain(cut_points.iter().copied());
    starts.zip(cut_points).map(|(start, &end)| &data[start..end])
}

fn assert_tiles(rapid: &Rapid, data: &[u8], cut_points: &[usize], counters: &RapidCounters) {
    let sizes = rapid.chunker().sizes();
    assert_eq!(cut_points.last().copied().unwrap_or(0), data.len());
    let lens: Vec<usize> = chunks(cut_points, data).map(<[u8]>::len).collect();
    assert!(lens.iter().all(|&len| 0 < len && len <= sizes.max()));
    // MinCDC can make two chunks of the last bytes
    let whole = lens.len().saturating_sub(2);
    assert!(lens[..whole].iter().all(|&len| len >= sizes.min()));
    assert_eq!(counters.forwarded_bytes + counters.scanned_bytes, data.len() as u64);
    assert!(counters.hits.iter().sum::<u64>() <= lens.len() as u64);
}

fn series() -> Vec<Vec<u8>> {
    let base = [random(1, 150_000), text(2, 100_000), low_entropy(3, 20_000, 2)].concat();
    versions(4, base, 6, 4)
}

#[test]
fn the_fingerprint_test_cuts_where_the_algorithm_cuts() {
    let series = series();
    let mut tried = 0;
    for (algorithm, criterion, rapid) in all_rapid(1024) {
        if !EXACT.contains(&criterion) {
            continue;
        }
        let hints = MemoryHints::new(sha256);
        let mut sum = RapidCounters::default();
        for file in &series {
            let (cut_points, counters) = rapid.cut_points(&hints, file);
            assert_eq!(cut_points, serial(&rapid, file), "{algorithm}");
            assert_tiles(&rapid, file, &cut_points, &counters);
            sum += counters;
        }
        assert!(sum.forwarded_bytes > 0, "{algorithm}");
        tried += 1;
    }
    assert_eq!(tried, 2 * 15);
}

#[test]
fn presets_are_jumped_through_as_exactly() {
    let series = series();
    for preset in [Preset::Xet, Preset::Restic] {
        let sizes = ChunkSizes::new(128, 1024, 4096).unwrap();
        let chunker = Chunker::new(&Params { sizes, ..preset.params() }).unwrap();
        for criterion in EXACT {
            let rapid = Rapid::new(chunker.clone(), criterion).unwrap();
            let hints = MemoryHints::new(sha256);
            let mut forwarded = 0;
            for file in &series {
                let (cut_points, counters) = rapid.cut_points(&hints, file);
                assert_eq!(cut_points, serial(&rapid, file), "{preset}");
                forwarded += counters.forwarded_bytes;
            }
            assert!(forwarded > 0, "{preset}");
        }
    }
    // the byte behind the chunk decides
    for preset in [Preset::FastCdc2016, Preset::FastCdc2020] {
        let chunker = Chunker::new(&preset.params()).unwrap();
        for criterion in EXACT {
            let refusal = Rapid::new(chunker.clone(), criterion).err();
            let algorithm = Algorithm::FastCdc;
            assert_eq!(refusal, Some(ParamError::InexactFingerprintTest { algorithm }));
        }
    }
}

#[test]
fn the_ends_of_files_do_not_mislead_the_fingerprint_test() {
    let data = random(5, 60_000);
    for (algorithm, criterion, rapid) in all_rapid(256) {
        if !EXACT.contains(&criterion) {
            continue;
        }
        let hints = MemoryHints::new(sha256);
        let mut numbers = SplitMix64::new(6);
        for _ in 0..60 {
            // many files that end where others go on, and start where others have ended
            let from = numbers.below(4) * 7_000;
            let to = from + numbers.below(data.len() - from + 1);
            let file = [&data[from..to], &data[..numbers.below(3_000)]].concat();
            assert_eq!(rapid.cut_points(&hints, &file).0, serial(&rapid, &file), "{algorithm}");
        }
    }
}

#[test]
fn the_fingerprint_test_stays_exact_among_hints_of_all_criteria() {
    let series = series();
    for &algorithm in &[Algorithm::Gear, Algorithm::FastCdc, Algorithm::Buzhash] {
        let hints = MemoryHints::new(sha256);
        for file in &series {
            for criterion in ALL {
                let rapid = Rapid::new(chunker(algorithm, 1024), criterion).unwrap();
                let cut_points = rapid.cut_points(&hints, file).0;
                if EXACT.contains(&criterion) {
                    assert_eq!(cut_points, serial(&rapid, file), "{algorithm}");
                }
            }
        }
    }
}

#[test]
fn every_criterion_tiles_and_keeps_the_bounds() {
    let series = series();
    let runs = versions(7, cycle(&[0], 50_000), 3, 3);
    for (algorithm, criterion, rapid) in all_rapid(700) {
        let hints = MemoryHints::new(sha256);
        for file in series.iter().chain(&runs).chain([&Vec::new(), &vec![1]]) {
            let (cut_points, counters) = rapid.cut_points(&hints, file);
            assert_tiles(&rapid, file, &cut_points, &counters);
            if criterion == Criterion::WindowTest {
                let test = BoundaryTest::new(rapid.chunker().params()).unwrap().unwrap();
                let mut start = 0;
                for &end in &cut_points[..cut_points.len().saturating_sub(1)] {
                    assert!(test.accepts(&file[start..], end - start), "{algorithm}");
                    start = end;
                }
            }
        }
    }
}

#[test]
fn a_copy_is_forwarded_but_for_its_first_chunk_and_its_end() {
    let data = [random(8, 200_000), text(9, 100_000)].concat();
    for (algorithm, criterion, rapid) in all_rapid(1024) {
        let hints = MemoryHints::new(sha256);
        let (first, counters) = rapid.cut_points(&hints, &data);
        assert_eq!(first, serial(&rapid, &data), "{algorithm}, {criterion:?}");
        assert_eq!(counters.forwarded_bytes, 0);

        let (second, counters) = rapid.cut_points(&hints, &data);
        assert_eq!(second, first, "{algorithm}, {criterion:?}");
        assert!(counters.scanned_bytes <= 3 * rapid.chunker().sizes().max() as u64);
        assert!(counters.hits[0] + 4 >= first.len() as u64);
        assert_eq!((counters.hits[1], counters.fingerprinted_in_vain), (0, 0));
    }
}

/// Bytes in different chunks.
fn unique_bytes(files: &[Vec<u8>], mut cut: impl FnMut(&[u8]) -> Vec<usize>) -> usize {
    let mut seen = HashMap::new();
    for file in files {
        for chunk in chunks(&cut(file), file) {
            seen.insert(sha256(chunk), chunk.len());
        }
    }
    seen.values().sum()
}

#[test]
fn little_is_stored_that_the_algorithm_alone_would_not_store() {
    let series = versions(10, random(11, 400_000), 8, 3);
    for (algorithm, criterion, rapid) in all_rapid(1024) {
        let hints = MemoryHints::new(sha256);
        let plain = unique_bytes(&series, |file| serial(&rapid, file));
        let hinted = unique_bytes(&series, |file| rapid.cut_points(&hints, file).0);
        let ratio = hinted as f64 / plain as f64;
        assert!(ratio <= 1.05, "{algorithm}, {criterion:?}: {ratio}");
    }
}

#[test]
fn the_chunk_seen_before_the_last_is_found_where_two_are_kept() {
    let shared = random(12, 30_000);
    let file = |seed| [shared.clone(), random(seed, 30_000)].concat();
    let (a, b) = (file(13), file(14));
    let rapid = |criterion| Rapid::new(chunker(Algorithm::Gear, 1024), criterion).unwrap();

    for criterion in [Criterion::MarkerTest { bytes: 4 }, EXACT[0], EXACT[1]] {
        let two = MemoryHints::new(sha256);
        let one = MemoryHints::with_next(sha256, 1);
        for (hits, misses, hints) in [(1, 0, &two), (0, 1, &one)] {
            let rapid = rapid(criterion);
            rapid.cut_points(hints, &a);
            rapid.cut_points(hints, &b);
            let (cut_points, counters) = rapid.cut_points(hints, &a);
            assert_eq!(cut_points, serial(&rapid, &a));
            assert_eq!((counters.hits[1], counters.misses, counters.refused), (hits, misses, 1));

            // what was found has moved to the front
            let (_, counters) = rapid.cut_points(hints, &a);
            assert_eq!((counters.hits[1], counters.misses, counters.refused), (0, 0, 0));
        }
    }

    let none = MemoryHints::with_next(sha256, 0);
    for data in [&a, &b, &a, &a] {
        let (_, counters) = rapid(Criterion::FastForward).cut_points(&none, data);
        assert_eq!((counters.forwarded_bytes, counters.misses), (0, 0));
    }
}

#[test]
fn fast_forward_follows_a_wrong_hint_once_and_then_seeks() {
    let shared = random(12, 30_000);
    let file = |seed| [shared.clone(), random(seed, 30_000)].concat();
    let (a, b) = (file(13), file(14));
    let rapid = Rapid::new(chunker(Algorithm::Gear, 1024), Criterion::FastForward).unwrap();
    let hints = MemoryHints::new(sha256);
    rapid.cut_points(&hints, &a);

    let (cut_points, _) = rapid.cut_points(&hints, &b);
    let wrong: Vec<usize> =
        cut_points.iter().copied().filter(|cut| !serial(&rapid, &b).contains(cut)).collect();
    assert!((1..20).contains(&wrong.len()), "{wrong:?}");
    assert!(wrong.iter().all(|&cut| cut > 30_000 - 4096), "{wrong:?}");
}

#[test]
fn threads_that_share_hints_cut_as_the_algorithm_does() {
    let series = series();
    let lists = [2, MAX_NEXT];
    for (algorithm, most) in [Algorithm::Gear, Algorithm::AeMax].into_iter().zip(lists) {
        let rapid = |criterion| Rapid::new(chunker(algorithm, 1024), criterion).unwrap();
        let exact = EXACT.map(rapid);
        let fast = rapid(Criterion::FastForward);
        let hints = MemoryHints::with_next(sha256, most);
        thread::scope(|scope| {
            for file in &series {
                scope.spawn(|| {
                    for exact in exact.iter().cycle().take(4) {
                        assert_eq!(exact.cut_points(&hints, file).0, serial(exact, file));
                        let (cut_points, counters) = fast.cut_points(&hints, file);
                        assert_tiles(&fast, file, &cut_points, &counters);
                    }
                });
            }
        });
        assert!(hints.len() > 200);
    }
}

/// Hints that are told the fingerprints, in the order in which they are asked for.
struct Told<'a, H> {
    hints: H,
    fingerprints: &'a [Print],
    at: Cell<usize>,
}

impl<H: Hints<Fingerprint = Print>> Hints for Told<'_, H> {
    type Fingerprint = Print;
    type Place = H::Place;

    fn fingerprint(&self, _: &[u8]) -> Print {
        self.at.set(self.at.get() + 1);
        self.fingerprints[self.at.get() - 1]
    }

    fn look_up(&self, fingerprint: &Print, guess: Option<H::Place>) -> Option<H::Place> {
        self.hints.look_up(fingerprint, guess)
    }

    fn is_by_rule(&self, place: H::Place) -> bool {
        self.hints.is_by_rule(place)
    }

    fn next(&self, place: H::Place, position: usize) -> Option<(NextChunk, Option<H::Place>)> {
        self.hints.next(place, position)
    }

    fn learn(&self, fingerprint: &Print, by_rule: bool) -> Option<H::Place> {
        self.hints.learn(fingerprint, by_rule)
    }

    fn learn_next(&self, place: H::Place, next: NextChunk, kept: H::Place) {
        self.hints.learn_next(place, next, kept);
    }
}

#[test]
fn nothing_of_a_forwarded_chunk_is_read_but_its_marker() {
    let data = random(17, 200_000);
    for (criterion, marker) in [
        (Criterion::FastForward, 0),
        (Criterion::MarkerTest { bytes: 1 }, 1),
        (Criterion::MarkerTest { bytes: 4 }, 4),
    ] {
        let rapid = Rapid::new(chunker(Algorithm::Gear, 1024), criterion).unwrap();
        let hints = MemoryHints::new(sha256);
        let (expected, _) = rapid.cut_points(&hints, &data);
        let fingerprints: Vec<Print> = chunks(&expected, &data).map(sha256).collect();

        // other bytes but for the first chunk, the last, which is sought, and the markers
        let mut other = random(18, data.len());
        let last = expected[expected.len() - 2];
        for kept in [0..expected[0], last..data.len()] {
            other[kept.clone()].copy_from_slice(&data[kept]);
        }
        for &end in &expected {
            other[end - marker..end].copy_from_slice(&data[end - marker..end]);
        }
        let told = Told { hints: &hints, fingerprints: &fingerprints, at: Cell::new(0) };
        let (cut_points, counters) = rapid.cut_points(&told, &other);
        assert_eq!(cut_points, expected, "{criterion:?}");
        assert_eq!(counters.hits[0], expected.len() as u64 - 2);

        // nor is anything learned from these bytes
        assert_eq!(rapid.cut_points(&hints, &data).1, counters);
    }
}

/// Hints whose chunks are known and whose lengths are lies, which lead anywhere.
struct Liar<H: Hints> {
    hints: H,
    lies: NextChunks,
    somewhere: Cell<Option<H::Place>>,
}

impl<H: Hints> Liar<H> {
    fn new(hints: H, lies: NextChunks) -> Self {
        Self { hints, lies, somewhere: Cell::new(None) }
    }
}

impl<H: Hints> Hints for Liar<H> {
    type Fingerprint = H::Fingerprint;
    type Place = Option<H::Place>;

    fn fingerprint(&self, chunk: &[u8]) -> H::Fingerprint {
        self.hints.fingerprint(chunk)
    }

    fn look_up(
        &self,
        fingerprint: &H::Fingerprint,
        guess: Option<Self::Place>,
    ) -> Option<Self::Place> {
        Some(self.hints.look_up(fingerprint, guess.flatten()))
    }

    fn is_by_rule(&self, place: Self::Place) -> bool {
        place.is_some_and(|place| self.hints.is_by_rule(place))
    }

    fn next(&self, _: Self::Place, position: usize) -> Option<(NextChunk, Option<Self::Place>)> {
        let lie = self.lies.as_slice().get(position)?;
        Some((*lie, (!position.is_multiple_of(3)).then(|| self.somewhere.get())))
    }

    fn learn(&self, fingerprint: &H::Fingerprint, by_rule: bool) -> Option<Self::Place> {
        let place = self.hints.learn(fingerprint, by_rule);
        if self.somewhere.get().is_none() || by_rule {
            self.somewhere.set(place);
        }
        Some(place)
    }

    fn learn_next(&self, place: Self::Place, next: NextChunk, kept: Self::Place) {
        if let (Some(place), Some(kept)) = (place, kept) {
            self.hints.learn_next(place, next, kept);
        }
    }
}

fn lies(lens: impl IntoIterator<Item = u32>) -> NextChunks {
    let mut lies = NextChunks::new();
    for len in lens {
        lies.touch(NextChunk::new(len, *b"\0\0\0a"), 8);
    }
    lies
}

#[test]
fn wrong_hints_break_nothing() {
    let data = [text(15, 20_000), cycle(&[0], 5_000), random(16, 20_001)].concat();
    for (algorithm, criterion, rapid) in all_rapid(512) {
        let sizes = rapid.chunker().sizes();
        let (min, max, len) = (sizes.min() as u32, sizes.max() as u32, data.len() as u32);
        for wrong in [
            vec![0, 1, min - 1, max + 1, len, len + 1, u32::MAX],
            vec![min],
            vec![max],
            vec![min + 1, max - 1, 100, 3],
        ] {
            let nowhere = wrong.iter().all(|len| !(min..=max).contains(len));
            let hints = Liar::new(MemoryHints::new(sha256), lies(wrong));
            for _ in 0..2 {
                let (cut_points, counters) = rapid.cut_points(&hints, &data);
                assert_tiles(&rapid, &data, &cut_points, &counters);
                if nowhere || EXACT.contains(&criterion) {
                    assert_eq!(cut_points, serial(&rapid, &data), "{algorithm}, {criterion:?}");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn any_lies_leave_the_fingerprint_test_exact_and_all_criteria_in_bounds(
        algorithm in prop::sample::select(Algorithm::ALL),
        criterion in prop::sample::select(&ALL[..]),
        (min, more, most) in (1..60_usize, 0..60_usize, 0..100_usize),
        wrong in prop::collection::vec(0..250_u32, 0..8),
        seed: u64,
        len in 0..3000_usize,
        alphabet in 1..257_usize,
    ) {
        let sizes = match algorithm {
            Algorithm::MinCdc => ChunkSizes::new(min, min + most / 2, min + most),
            _ => ChunkSizes::new(min, min + more, min + more + most),
        };
        let chunker = Chunker::new(&Params::new(algorithm, sizes.unwrap())).unwrap();
        if let Ok(rapid) = Rapid::new(chunker, criterion) {
            let data = low_entropy(seed, len, alphabet);
            let hints = Liar::new(MemoryHints::new(sha256), lies(wrong));
            for file in [&data[..], &data[len / 3..], &data] {
                let (cut_points, counters) = rapid.cut_points(&hints, file);
                assert_tiles(&rapid, file, &cut_points, &counters);
                if EXACT.contains(&criterion) {
                    prop_assert_eq!(cut_points, serial(&rapid, file));
                }
            }
        }
    }
}

/// Hints as the trait describes them and as plain as can be: a map, and no guesses.
#[derive(Default)]
struct Plain {
    known: RefCell<HashMap<Print, (bool, NextChunks)>>,
    most: usize,
    /// How many chunks there is room for.
    room: usize,
}

impl Hints for Plain {
    type Fingerprint = Print;
    type Place = Print;

    fn fingerprint(&self, chunk: &[u8]) -> Print {
        sha256(chunk)
    }

    fn look_up(&self, fingerprint: &Print, _: Option<Print>) -> Option<Print> {
        self.known.borrow().get(fingerprint).map(|_| *fingerprint)
    }

    fn is_by_rule(&self, place: Print) -> bool {
        self.known.borrow()[&place].0
    }

    fn next(&self, place: Print, position: usize) -> Option<(NextChunk, Option<Print>)> {
        let next = self.known.borrow()[&place].1.as_slice().get(position).copied();
        next.map(|next| (next, None))
    }

    fn learn(&self, fingerprint: &Print, by_rule: bool) -> Option<Print> {
        let mut known = self.known.borrow_mut();
        if known.len() == self.room && !known.contains_key(fingerprint) {
            return None;
        }
        known.entry(*fingerprint).or_default().0 |= by_rule;
        Some(*fingerprint)
    }

    fn learn_next(&self, place: Print, next: NextChunk, _: Print) {
        let mut known = self.known.borrow_mut();
        known.get_mut(&place).unwrap().1.touch(next, self.most);
    }
}

/// Hints in memory whose guesses are of another chunk, of one that is right, or missing.
struct Misleading<F> {
    hints: MemoryHints<Print, F>,
    places: RefCell<Vec<MemoryPlace>>,
    numbers: RefCell<SplitMix64>,
}

impl<F: Fn(&[u8]) -> Print> Hints for Misleading<F> {
    type Fingerprint = Print;
    type Place = MemoryPlace;

    fn fingerprint(&self, chunk: &[u8]) -> Print {
        self.hints.fingerprint(chunk)
    }

    fn look_up(&self, fingerprint: &Print, guess: Option<MemoryPlace>) -> Option<MemoryPlace> {
        self.hints.look_up(fingerprint, guess)
    }

    fn is_by_rule(&self, place: MemoryPlace) -> bool {
        self.hints.is_by_rule(place)
    }

    fn next(&self, place: MemoryPlace, i: usize) -> Option<(NextChunk, Option<MemoryPlace>)> {
        let (next, guess) = self.hints.next(place, i)?;
        let mut numbers = self.numbers.borrow_mut();
        let places = self.places.borrow();
        match numbers.below(3) {
            0 => Some((next, guess)),
            1 => Some((next, Some(places[numbers.below(places.len())]))),
            _ => Some((next, None)),
        }
    }

    fn learn(&self, fingerprint: &Print, by_rule: bool) -> Option<MemoryPlace> {
        let place = self.hints.learn(fingerprint, by_rule);
        self.places.borrow_mut().extend(place);
        place
    }

    fn learn_next(&self, place: MemoryPlace, next: NextChunk, kept: MemoryPlace) {
        self.hints.learn_next(place, next, kept);
    }
}

#[test]
fn no_guess_changes_what_is_cut_or_learned() {
    let series = series();
    for criterion in ALL {
        let rapid = Rapid::new(chunker(Algorithm::Buzhash, 512), criterion).unwrap();
        for most in [1, 2, 3, MAX_NEXT] {
            let plain = Plain { most, room: usize::MAX, ..Plain::default() };
            let memory = MemoryHints::with_next(sha256, most);
            let misleading = Misleading {
                hints: MemoryHints::with_next(sha256, most),
                places: RefCell::default(),
                numbers: RefCell::new(SplitMix64::new(19)),
            };
            for file in series.iter().chain(&series[1..3]) {
                let expected = rapid.cut_points(&plain, file);
                assert_eq!(rapid.cut_points(&memory, file), expected, "{criterion:?}, {most}");
                assert_eq!(rapid.cut_points(&misleading, file), expected, "{criterion:?}, {most}");
            }
        }
    }
}

#[test]
fn hints_without_room_for_more_cost_speed_only() {
    let series = series();
    for room in [0, 1, 30] {
        for criterion in ALL {
            let rapid = Rapid::new(chunker(Algorithm::Gear, 1024), criterion).unwrap();
            let hints = Plain { most: 2, room, ..Plain::default() };
            for file in &series {
                let (cut_points, counters) = rapid.cut_points(&hints, file);
                assert_tiles(&rapid, file, &cut_points, &counters);
                if EXACT.contains(&criterion) {
                    assert_eq!(cut_points, serial(&rapid, file), "{criterion:?}");
                }
            }
            assert_eq!(hints.known.borrow().len(), room);
        }
    }
}

#[test]
fn bytes_behind_max_make_no_difference() {
    let series = series();
    for (algorithm, criterion, rapid) in all_rapid(1024) {
        let max = rapid.chunker().sizes().max();
        let (whole, windows) = (MemoryHints::new(sha256), MemoryHints::new(sha256));
        for file in &series[..3] {
            let (expected, counters) = rapid.cut_points(&whole, file);
            let mut input = rapid.start(&windows);
            let (mut start, mut cut_points) = (0, Vec::new());
            while let Some(chunk) = input.next(&file[start..file.len().min(start + max)]) {
                assert_eq!(chunk.fingerprint, sha256(&file[start..start + chunk.len]));
                start += chunk.len;
                cut_points.push(start);
            }
            assert_eq!(cut_points, expected, "{algorithm}, {criterion:?}");
            assert_eq!(input.counters(), &counters);
        }
    }
}

#[test]
fn criteria_without_a_test_are_refused_with_the_reason() {
    for &algorithm in Algorithm::ALL {
        let chunker = chunker(algorithm, 1024);
        let has_window = BoundaryTest::new(chunker.params()).unwrap().is_some();
        let is_exact = chunker.lookahead() == Lookahead::None;
        let refusal = |criterion| Rapid::new(chunker.clone(), criterion).err();
        assert_eq!(refusal(Criterion::FastForward), None);
        assert_eq!(
            refusal(Criterion::WindowTest),
            (!has_window).then_some(ParamError::NoWindowTest { algorithm })
        );
        for criterion in EXACT {
            let expected = (!is_exact).then_some(ParamError::InexactFingerprintTest { algorithm });
            assert_eq!(refusal(criterion), expected);
        }
        for bytes in 0..=255 {
            let expected = !(1..=4).contains(&bytes);
            assert_eq!(
                refusal(Criterion::MarkerTest { bytes }),
                expected.then_some(ParamError::MarkerBytes { bytes })
            );
        }
    }

    let sizes = ChunkSizes::unbounded(1, 1024).unwrap();
    let unbounded = Chunker::new(&Params::new(Algorithm::Gear, sizes)).unwrap();
    let refusal = Rapid::new(unbounded, Criterion::FastForward).err();
    assert_eq!(refusal, Some(ParamError::RapidNeedsMax));
    assert_eq!(
        ParamError::NoWindowTest { algorithm: Algorithm::AeMax }.to_string(),
        "ae-max has no window that tells whether a chunk may end at a position: \
         it compares bytes all over the chunk"
    );
    assert_eq!(
        ParamError::InexactFingerprintTest { algorithm: Algorithm::Maxp }.to_string(),
        "the fingerprint test is not exact for maxp: where its chunks end depends on bytes behind \
         them"
    );
}
