//! What the blocks of a measured volume hold: pages that compress to a few bytes, so that hundreds of
//! millions fit on a disk, and that follow from their numbers, so that every read is verified.

use std::collections::HashMap;

use anyhow::{Result, ensure};
use onefold_lab::index::mixed;

/// Repeats are of the first pages, at most this many: so few that a table of fingerprints that holds a part
/// of the pages has these.
const REPEATED: u64 = 4096;

/// The content of a block: two numbers, then as many random bytes as the [`Shape`] says, then zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    number: u64,
    /// 0 for what a fill wrote, and another one for each turn of overwrites.
    turn: u64,
}

impl Page {
    /// A page that differs from those of all other numbers and turns.
    pub(super) fn new(number: u64, turn: u64) -> Self {
        Self { number, turn }
    }
}

/// A volume, each of whose blocks is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Distinct pages.
    pub(super) pages: u64,
    /// At least as many.
    pub(super) blocks: u64,
    pub(super) block_bytes: u64,
    /// Bytes of each page that do not compress, besides its numbers.
    pub(super) random_bytes: u64,
}

/// The two numbers of a page.
const NUMBERS: usize = 16;

impl Shape {
    /// The size of the volume in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks * self.block_bytes
    }

    /// Fills `block` with `page`, which is never all zeros.
    pub(super) fn write(&self, page: Page, block: &mut [u8]) {
        let (numbers, rest) = block.split_at_mut(NUMBERS);
        numbers[..8].copy_from_slice(&(page.number + 1).to_le_bytes());
        numbers[8..].copy_from_slice(&page.turn.to_le_bytes());
        let (random, zeros) = rest.split_at_mut(rest.len().min(self.random_bytes as usize));
        let stream = mixed(page.number ^ mixed(page.turn));
        for (bytes, at) in random.chunks_mut(8).zip(0..) {
            let drawn = mixed(stream.wrapping_add(at)).to_le_bytes();
            bytes.copy_from_slice(&drawn[..bytes.len()]);
        }
        zeros.fill(0);
    }

    /// What a fill writes to `block`. Blocks with a page of their own and repeats are spread evenly.
    pub(super) fn filled(&self, block: u64) -> Page {
        let distinct_before =
            |block: u64| (u128::from(block) * u128::from(self.pages)).div_ceil(self.blocks.into());
        let number = distinct_before(block) as u64;
        match number < distinct_before(block + 1) as u64 {
            true => Page::new(number, 0),
            false => self.repeated(mixed(block)),
        }
    }

    /// One of the pages that repeats are of, by a random number.
    pub(super) fn repeated(&self, drawn: u64) -> Page {
        Page::new(drawn % self.pages.min(REPEATED), 0)
    }
}

/// What the blocks of a volume hold by now.
pub(super) struct Content {
    pub(super) shape: Shape,
    /// The blocks that were overwritten; `None` if it is not known whether a server that was killed kept it.
    overwritten: HashMap<u64, Option<Page>>,
}

impl Content {
    /// As a fill leaves it.
    pub(super) fn filled(shape: Shape) -> Self {
        Self { shape, overwritten: HashMap::new() }
    }

    pub(super) fn overwrite(&mut self, block: u64, page: Page) {
        self.overwritten.insert(block, Some(page));
    }

    /// Forgets what the blocks of a turn hold, because its server was killed.
    pub(super) fn forget_turn(&mut self, blocks: impl Iterator<Item = u64>) {
        self.overwritten.extend(blocks.map(|block| (block, None)));
    }

    /// Fails unless `found` is what `block` holds.
    pub(super) fn check(&self, block: u64, found: &[u8]) -> Result<()> {
        let expected = match self.overwritten.get(&block) {
            Some(None) => return Ok(()),
            Some(Some(page)) => *page,
            None => self.shape.filled(block),
        };
        let mut written = vec![0; found.len()];
        self.shape.write(expected, &mut written);
        ensure!(
            written == found,
            "block {block} begins with {:x?}, expected {expected:?}",
            &found[..NUMBERS]
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_fill_has_as_many_distinct_pages_as_its_shape_says() {
        for (pages, blocks) in [(1, 1), (1, 9), (10, 10), (10, 30), (7, 100), (5000, 12_345)] {
            let shape = Shape { pages, blocks, block_bytes: 512, random_bytes: 0 };
            let distinct: HashSet<u64> = (0..blocks).map(|at| shape.filled(at).number).collect();
            assert_eq!(distinct.len() as u64, pages, "{shape:?}");
            assert!(distinct.into_iter().all(|number| number < pages), "{shape:?}");
        }
        let large =
            Shape { pages: 300_000_000, blocks: 1 << 38, block_bytes: 4096, random_bytes: 0 };
        assert_eq!(large.filled(0), Page::new(0, 0));
        assert!(large.filled((1 << 38) - 1).number < 300_000_000);
    }

    #[test]
    fn pages_have_as_many_random_bytes_as_were_asked_for() {
        let write = |page, random_bytes| {
            let mut block = [0xff; 512];
            Shape { pages: 1, blocks: 1, block_bytes: 512, random_bytes }.write(page, &mut block);
            block
        };
        let (one, other) = (write(Page::new(7, 0), 203), write(Page::new(7, 1), 203));
        let last = one.iter().rposition(|byte| *byte != 0).unwrap();
        assert!((200..NUMBERS + 203).contains(&last), "{last}");
        assert_ne!(one[16..32], other[16..32]);
        assert_ne!(write(Page::new(0, 0), 0), [0; 512]);
        assert!(write(Page::new(0, 0), 4096)[500..].iter().any(|byte| *byte != 0));
    }

    #[test]
    fn a_block_holds_what_was_written_last() {
        let mut content =
            Content::filled(Shape { pages: 4, blocks: 8, block_bytes: 512, random_bytes: 100 });
        let mut block = [0xff; 512];
        content.shape.write(content.shape.filled(0), &mut block);
        content.check(0, &block).unwrap();
        assert!(content.check(2, &block).is_err());
        block[511] = 1;
        assert!(content.check(0, &block).is_err());
        let page = Page::new(0, 1);
        content.overwrite(0, page);
        assert!(content.check(0, &[0; 512]).is_err());
        content.shape.write(page, &mut block);
        content.check(0, &block).unwrap();
        content.forget_turn([0].into_iter());
        content.check(0, &[0; 512]).unwrap();
    }
}
