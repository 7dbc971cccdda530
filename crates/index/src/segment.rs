//! Segments: sorted, immutable tables that map keys to pages of lists.
//!
//! A segment is a file of pages: first its filter, then its table. Fingerprints are uniform, so the page of a
//! key can be computed: page `key × nominal / 2^64` of the table, or, if pages before it overflowed, the
//! first later one that did not. Pages are filled to five sixths on average, so that few overflow. Keys that
//! are not uniform make long sequences of full pages, which a look-up must search; that only costs time.

use std::iter::Peekable;
use std::ops::ControlFlow;
use std::sync::OnceLock;

use crate::IndexError;
use crate::filter::{BLOCK_LEN, Block, Blocks, Filter, Shape};
use crate::page::{BODY, PAGE, Sealed, u16_at, u32_at, u64_at};

/// A key (the first eight bytes of a fingerprint as a number) and the page of the lists with the
/// fingerprint.
pub(crate) type Entry = (u64, u32);

/// Bytes of an entry.
const ENTRY: usize = 12;
/// Bytes before the first entry of a page.
const HEADER: usize = 2;
/// The maximum number of entries on a page.
const ROOM: usize = (BODY - HEADER) / ENTRY;
/// The mean number of entries on a page.
const FILL: u64 = ROOM as u64 * 5 / 6;
/// The number of filter blocks on a page.
const BLOCKS: usize = BODY / BLOCK_LEN;
/// The number of pages read together when a whole segment is read.
const STRETCH: usize = 16;

/// The parameters needed to open a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outline {
    /// Its number, which names its file.
    pub(crate) number: u64,
    /// The number of its entries.
    pub(crate) entries: u64,
    /// The number of pages of its table.
    pub(crate) pages: u32,
    /// The shape of its filter.
    pub(crate) filter: Shape,
}

impl Outline {
    /// The number of pages of the filter.
    fn filter_pages(&self) -> u64 {
        u64::from(self.filter.blocks).div_ceil(BLOCKS as u64)
    }

    /// The page at which a look-up of `key` begins.
    fn first_page(&self, key: u64) -> u32 {
        first_page(key, nominal_pages(self.entries))
    }
}

/// The name of the file of segment `number`.
pub(crate) fn file_name(number: u64) -> String {
    format!("segment-{number}")
}

fn nominal_pages(entries: u64) -> u64 {
    entries.div_ceil(FILL).max(1)
}

fn first_page(key: u64, nominal: u64) -> u32 {
    ((u128::from(key) * u128::from(nominal)) >> 64) as u32
}

/// A page of a table.
struct Table<'a>(&'a [u8]);

impl Table<'_> {
    fn len(&self) -> usize {
        usize::from(u16_at(self.0, 0)).min(ROOM)
    }

    fn entry(&self, at: usize) -> Entry {
        let start = HEADER + ENTRY * at;
        (u64_at(self.0, start), u32_at(self.0, start + 8))
    }

    fn is_full(&self) -> bool {
        self.len() == ROOM
    }

    /// The number of entries with a smaller key.
    fn below(&self, key: u64) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.entry(middle).0 < key {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// An immutable part of the index.
pub(crate) struct Segment {
    pub(crate) outline: Outline,
    file: Sealed,
    /// None until it is loaded; until then every hook may be in the segment.
    filter: OnceLock<Filter>,
}

impl Segment {
    /// The segment in `file`.
    pub(crate) fn open(file: Sealed, outline: Outline) -> Result<Self, IndexError> {
        if file.count() < outline.filter_pages() + u64::from(outline.pages) {
            return Err(IndexError::Unfit("a segment is shorter than it was"));
        }
        Ok(Self { outline, file, filter: OnceLock::new() })
    }

    /// Reads the filter into memory.
    pub(crate) fn load_filter(&self) -> Result<(), IndexError> {
        let total = self.outline.filter.blocks as usize;
        let mut blocks: Vec<Block> = Vec::with_capacity(total);
        let mut bytes = [0; PAGE];
        for page in 0..self.outline.filter_pages() {
            self.file.read(page, &mut bytes)?;
            let here = bytes.chunks_exact(BLOCK_LEN).take(BLOCKS.min(total - blocks.len()));
            blocks.extend(here.map(|block| std::array::from_fn(|at| u64_at(block, 8 * at))));
        }
        // Another thread may have read the same concurrently.
        let _ = self.filter.set(Filter::new(self.outline.filter, blocks));
        Ok(())
    }

    /// Whether the segment may have `key`; for a key that is not a hook, only if `all`.
    pub(crate) fn may_have(&self, key: u64, all: bool) -> bool {
        match self.outline.filter.is_hook(key) {
            true => self.filter.get().is_none_or(|filter| filter.may_have(key)),
            false => all,
        }
    }

    /// Calls `visit` with the list page of each entry of `key`, in ascending order, until it breaks.
    pub(crate) fn find(
        &self,
        key: u64,
        mut visit: impl FnMut(u32) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let mut bytes = [0; PAGE];
        let mut page = self.outline.first_page(key);
        self.read(page, &mut bytes)?;
        if is_behind(&Table(&bytes), key) {
            page = self.gallop(page, key, &mut bytes)?;
        }
        loop {
            let table = Table(&bytes);
            let entries = (table.below(key)..table.len()).map(|at| table.entry(at));
            for (_, list_page) in entries.take_while(|(other, _)| *other == key) {
                if visit(list_page).is_break() {
                    return Ok(());
                }
            }
            // Equal keys may continue after a full page.
            let goes_on = table.is_full() && table.entry(ROOM - 1).0 == key;
            page += 1;
            if !goes_on || page >= self.outline.pages {
                return Ok(());
            }
            self.read(page, &mut bytes)?;
        }
    }

    /// The first page after `page`, all of whose keys are smaller, for which [`is_behind`] is false, or the
    /// last page. `bytes` then has its bytes.
    fn gallop(&self, page: u32, key: u64, bytes: &mut [u8; PAGE]) -> Result<u32, IndexError> {
        let last = self.outline.pages - 1;
        let (mut low, mut step) = (page, 1);
        let mut high = loop {
            let next = low.saturating_add(step).min(last);
            self.read(next, bytes)?;
            if next == last || !is_behind(&Table(bytes), key) {
                break next;
            }
            (low, step) = (next, step.saturating_mul(2));
        };
        let mut held = high;
        while high - low > 1 {
            let middle = low.midpoint(high);
            self.read(middle, bytes)?;
            held = middle;
            match is_behind(&Table(bytes), key) {
                true => low = middle,
                false => high = middle,
            }
        }
        if held != high {
            self.read(high, bytes)?;
        }
        Ok(high)
    }

    fn read(&self, page: u32, bytes: &mut [u8; PAGE]) -> Result<(), IndexError> {
        self.file.read(self.outline.filter_pages() + u64::from(page), bytes)
    }

    /// All entries, in ascending order.
    pub(crate) fn entries(&self) -> Entries<'_> {
        Entries { segment: self, bytes: Vec::new(), next_page: 0, page: 0, at: 0 }
    }
}

/// Whether `key` can only be on a later page: this one is full of smaller keys.
fn is_behind(table: &Table<'_>, key: u64) -> bool {
    table.is_full() && table.entry(ROOM - 1).0 < key
}

/// The entries of a segment.
pub(crate) struct Entries<'a> {
    segment: &'a Segment,
    /// A few pages of the table.
    bytes: Vec<u8>,
    /// The first unread page.
    next_page: u32,
    /// The current page, counted from the start of `bytes`.
    page: usize,
    /// The next entry on the current page.
    at: usize,
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry, IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(bytes) = self.bytes.chunks_exact(PAGE).nth(self.page) {
                let table = Table(bytes);
                if self.at < table.len() {
                    self.at += 1;
                    return Some(Ok(table.entry(self.at - 1)));
                }
                (self.page, self.at) = (self.page + 1, 0);
                continue;
            }
            let outline = &self.segment.outline;
            let pages = STRETCH.min((outline.pages - self.next_page) as usize);
            if pages == 0 {
                return None;
            }
            self.bytes.resize(pages * PAGE, 0);
            let first = outline.filter_pages() + u64::from(self.next_page);
            if let Err(error) = self.segment.file.read(first, &mut self.bytes) {
                self.next_page = outline.pages;
                self.bytes.clear();
                return Some(Err(error));
            }
            self.next_page += pages as u32;
            (self.page, self.at) = (0, 0);
        }
    }
}

/// Merges entries of several sources, each in ascending order.
pub(crate) struct Merged<I: Iterator> {
    sources: Vec<Peekable<I>>,
}

impl<I: Iterator<Item = Result<Entry, IndexError>>> Merged<I> {
    /// The merged entries of `sources`.
    pub(crate) fn new(sources: impl IntoIterator<Item = I>) -> Self {
        Self { sources: sources.into_iter().map(Iterator::peekable).collect() }
    }
}

impl<I: Iterator<Item = Result<Entry, IndexError>>> Iterator for Merged<I> {
    type Item = Result<Entry, IndexError>;

    fn next(&mut self) -> Option<Self::Item> {
        // A handful of sources: looking at each is as fast as a heap. An error comes first.
        let order =
            |source: &mut Peekable<I>| source.peek().map(|entry| entry.as_ref().ok().copied());
        let smallest = (0..self.sources.len())
            .filter_map(|at| Some((order(&mut self.sources[at])?, at)))
            .min()?;
        self.sources[smallest.1].next()
    }
}

/// Writes a segment of at most `entries` entries, which must be added in ascending order.
pub(crate) fn write(
    mut file: Sealed,
    number: u64,
    entries: u64,
    filter: Shape,
    sorted: impl Iterator<Item = Result<Entry, IndexError>>,
) -> Result<Segment, IndexError> {
    let mut outline = Outline { number, entries, pages: 0, filter };
    let mut table = TableWriter {
        nominal: nominal_pages(entries),
        base: outline.filter_pages(),
        page: 0,
        len: 0,
        bytes: [0; PAGE],
    };
    let mut blocks = Blocks::new(filter);
    let mut filter_page = FilterWriter { page: 0, len: 0, bytes: [0; PAGE] };
    for entry in sorted {
        let entry = entry?;
        table.push(entry, &mut file)?;
        blocks.push(entry.0, |block| filter_page.push(block, &mut file))?;
    }
    blocks.finish(|block| filter_page.push(block, &mut file))?;
    filter_page.finish(&mut file)?;
    outline.pages = table.finish(&mut file)?;
    file.cut(outline.filter_pages() + u64::from(outline.pages))?;
    file.sync()?;
    Segment::open(file, outline)
}

struct TableWriter {
    nominal: u64,
    /// The page of the file at which the table begins.
    base: u64,
    /// The current page of the table, and the number of its entries.
    page: u32,
    len: usize,
    bytes: [u8; PAGE],
}

impl TableWriter {
    fn push(&mut self, (key, list_page): Entry, file: &mut Sealed) -> Result<(), IndexError> {
        let first = first_page(key, self.nominal);
        while self.page < first || self.len == ROOM {
            self.close(file)?;
        }
        let start = HEADER + ENTRY * self.len;
        self.bytes[start..start + 8].copy_from_slice(&key.to_le_bytes());
        self.bytes[start + 8..start + ENTRY].copy_from_slice(&list_page.to_le_bytes());
        self.len += 1;
        Ok(())
    }

    fn close(&mut self, file: &mut Sealed) -> Result<(), IndexError> {
        self.bytes[..HEADER].copy_from_slice(&(self.len as u16).to_le_bytes());
        file.write(self.base + u64::from(self.page), &mut self.bytes)?;
        self.bytes = [0; PAGE];
        self.len = 0;
        self.page = self.page.checked_add(1).ok_or(IndexError::Unfit("a segment is too long"))?;
        Ok(())
    }

    /// Writes the remaining entries, and returns the number of pages of the table.
    fn finish(mut self, file: &mut Sealed) -> Result<u32, IndexError> {
        // Look-ups begin at any of the nominal pages.
        while u64::from(self.page) < self.nominal || self.len > 0 {
            self.close(file)?;
        }
        Ok(self.page)
    }
}

struct FilterWriter {
    page: u64,
    /// Blocks on the current page.
    len: usize,
    bytes: [u8; PAGE],
}

impl FilterWriter {
    fn push(&mut self, block: Block, file: &mut Sealed) -> Result<(), IndexError> {
        for (at, word) in block.iter().enumerate() {
            let start = self.len * BLOCK_LEN + 8 * at;
            self.bytes[start..start + 8].copy_from_slice(&word.to_le_bytes());
        }
        self.len += 1;
        match self.len == BLOCKS {
            true => self.close(file),
            false => Ok(()),
        }
    }

    fn close(&mut self, file: &mut Sealed) -> Result<(), IndexError> {
        file.write(self.page, &mut self.bytes)?;
        self.bytes = [0; PAGE];
        (self.page, self.len) = (self.page + 1, 0);
        Ok(())
    }

    fn finish(mut self, file: &mut Sealed) -> Result<(), IndexError> {
        match self.len {
            0 => Ok(()),
            _ => self.close(file),
        }
    }
}

#[cfg(test)]
mod tests {
    use onefold_backend::MemoryPages;
    use onefold_seal::ObjectId;
    use onefold_testkit::SplitMix64;

    use super::*;

    fn segment(entries: &[Entry]) -> Segment {
        let mut sorted = entries.to_vec();
        sorted.sort_unstable();
        let file = Box::new(MemoryPages::new(PAGE));
        let file = Sealed::new(file, ObjectId::from_bytes([7; 16]), file_name(0));
        let shape = Shape::fitting(sorted.len() as u64, 1 << 20);
        let count = sorted.len() as u64;
        let segment = write(file, 0, count, shape, sorted.into_iter().map(Ok)).unwrap();
        segment.load_filter().unwrap();
        segment
    }

    /// All pages that a segment names for a key.
    fn pages_of(segment: &Segment, key: u64) -> Vec<u32> {
        let mut pages = Vec::new();
        let note = |page| {
            pages.push(page);
            ControlFlow::Continue(())
        };
        segment.find(key, note).unwrap();
        pages
    }

    /// The segment names for every key what the entries name, keys beside them included.
    fn assert_equal(entries: &[Entry], others: &[u64]) {
        let segment = segment(entries);
        let read: Result<Vec<Entry>, IndexError> = segment.entries().collect();
        let mut sorted = entries.to_vec();
        sorted.sort_unstable();
        assert_eq!(read.unwrap(), sorted);
        let beside = entries.iter().flat_map(|(key, _)| [*key, key.wrapping_add(1)]);
        for key in beside.chain(others.iter().copied()) {
            let first = sorted.partition_point(|(other, _)| *other < key);
            let same = sorted[first..].iter().take_while(|(other, _)| *other == key);
            let expected: Vec<u32> = same.map(|(_, page)| *page).collect();
            assert_eq!(pages_of(&segment, key), expected, "{key:#x}");
            assert!(expected.is_empty() || segment.may_have(key, false), "{key:#x}");
        }
    }

    #[test]
    fn uniform_keys_are_found_and_no_others() {
        let mut random = SplitMix64::new(3);
        for count in [0, 1, 2, 282, 283, 339, 340, 341, 5_000, 20_000] {
            let entries: Vec<Entry> = (0..count).map(|page| (random.next_u64(), page)).collect();
            let others: Vec<u64> = (0..500).map(|_| random.next_u64()).collect();
            assert_equal(&entries, &others);
        }
    }

    #[test]
    fn keys_crowded_anywhere_are_found() {
        let ends = [0, 1, u64::MAX / 2, u64::MAX - 1_200, u64::MAX];
        for base in ends {
            let crowd = (0..1_500).map(|n| (base.saturating_add(u64::from(n)), n));
            assert_equal(&crowd.collect::<Vec<_>>(), &ends);
        }
        // Three crowds far apart with a few between them.
        let mut entries: Vec<Entry> = Vec::new();
        for base in [1 << 20, 1 << 40, 1 << 62] {
            entries.extend((0..800).map(|n| (base + u64::from(n) * 3, n)));
            entries.push((base << 1, 9));
        }
        assert_equal(&entries, &ends);
    }

    #[test]
    fn equal_keys_are_all_named_over_any_number_of_pages() {
        for count in [1, 338, 339, 340, 700, 1_500] {
            for key in [0, 1 << 63, u64::MAX] {
                let mut entries: Vec<Entry> = (0..count).map(|page| (key, page)).collect();
                entries.extend([(key ^ 1, 7), (key ^ (1 << 62), 8)]);
                assert_equal(&entries, &[]);
            }
        }
    }

    #[test]
    fn uniform_keys_take_little_more_than_one_page_to_find() {
        let mut random = SplitMix64::new(5);
        let keys: Vec<u64> = (0..200_000).map(|_| random.next_u64()).collect();
        let segment = segment(&keys.iter().map(|key| (*key, 0)).collect::<Vec<_>>());
        let mut bytes = [0; PAGE];
        let beyond = keys.iter().filter(|key| {
            segment.read(segment.outline.first_page(**key), &mut bytes).unwrap();
            is_behind(&Table(&bytes), **key)
        });
        assert!(beyond.count() * 100 < keys.len());
    }

    #[test]
    fn merged_entries_ascend() {
        let mut random = SplitMix64::new(4);
        let parts: Vec<Vec<Entry>> = [0, 1, 700, 3_000]
            .map(|count| (0..count).map(|n| (random.next_u64() >> 50, n)).collect())
            .into();
        let segments: Vec<Segment> = parts.iter().map(|part| segment(part)).collect();
        let merged: Result<Vec<Entry>, IndexError> =
            Merged::new(segments.iter().map(Segment::entries)).collect();
        let mut all = parts.concat();
        all.sort_unstable();
        assert_eq!(merged.unwrap(), all);
    }
}
