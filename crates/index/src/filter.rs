//! A blocked Bloom filter over the hooks of a segment.
//!
//! A key's block follows from its high bits, so that keys in ascending order fill one block after
//! another and a filter is written as a stream. Within its block of 512 bits a key has seven
//! (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters, 2007).

/// Bits of memory per hook.
const BITS: u64 = 10;

/// One block: a cache line.
pub(crate) type Block = [u64; 8];

/// Bytes in a block.
pub(crate) const BLOCK_LEN: usize = 64;

/// The density of hooks in a filter, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// A key is a hook if this many of its lowest bits are zero.
    pub(crate) sparsity: u32,
    /// The number of blocks.
    pub(crate) blocks: u32,
}

impl Shape {
    /// The densest shape for `entries` keys whose filter takes at most `limit` bytes, but at least a block.
    pub(crate) fn fitting(entries: u64, limit: u64) -> Self {
        let shape = |sparsity: u32| {
            let bits = (entries >> sparsity).saturating_mul(BITS);
            let blocks = bits.div_ceil(8 * BLOCK_LEN as u64).max(1);
            Self { sparsity, blocks: u32::try_from(blocks).unwrap_or(u32::MAX) }
        };
        let limit = limit.max(BLOCK_LEN as u64);
        (0..=63).map(shape).find(|shape| shape.len() <= limit).expect("one hook takes one block")
    }

    /// The memory of the filter in bytes.
    pub(crate) fn len(&self) -> u64 {
        u64::from(self.blocks) * BLOCK_LEN as u64
    }

    /// Whether `key` is a hook of the filter.
    pub(crate) fn is_hook(&self, key: u64) -> bool {
        key.trailing_zeros() >= self.sparsity
    }

    fn block_of(&self, key: u64) -> usize {
        ((u128::from(key) * u128::from(self.blocks)) >> 64) as usize
    }
}

/// The bits that `key` has in its block.
fn bits_of(key: u64) -> Block {
    // The finaliser of SplitMix64: any bit of the key reaches all nine bits of each position.
    let mut mixed = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    let mut block = [0; 8];
    for _ in 0..7 {
        block[(mixed & 7) as usize] |= 1 << ((mixed >> 3) & 63);
        mixed >>= 9;
    }
    block
}

/// Tells which hooks are certainly not in a segment.
#[derive(Debug)]
pub(crate) struct Filter {
    shape: Shape,
    blocks: Vec<Block>,
}

impl Filter {
    /// A filter of these blocks, as many as `shape` requires.
    pub(crate) fn new(shape: Shape, blocks: Vec<Block>) -> Self {
        assert_eq!(blocks.len(), shape.blocks as usize, "a filter has all its blocks");
        Self { shape, blocks }
    }

    /// Whether the segment may have `key`, which is a hook.
    pub(crate) fn may_have(&self, key: u64) -> bool {
        let bits = bits_of(key);
        let block = &self.blocks[self.shape.block_of(key)];
        block.iter().zip(&bits).all(|(block, bits)| block & bits == *bits)
    }
}

/// Builds the blocks of a filter from keys in ascending order.
pub(crate) struct Blocks {
    shape: Shape,
    at: usize,
    open: Block,
}

impl Blocks {
    /// Blocks of a filter of this shape.
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, at: 0, open: [0; 8] }
    }

    /// Adds the next key; calls `done` with the blocks that no later key can reach.
    pub(crate) fn push<E>(
        &mut self,
        key: u64,
        mut done: impl FnMut(Block) -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.shape.is_hook(key) {
            return Ok(());
        }
        self.close(self.shape.block_of(key), &mut done)?;
        let bits = bits_of(key);
        self.open.iter_mut().zip(bits).for_each(|(open, bits)| *open |= bits);
        Ok(())
    }

    /// Calls `done` with the remaining blocks.
    pub(crate) fn finish<E>(
        mut self,
        mut done: impl FnMut(Block) -> Result<(), E>,
    ) -> Result<(), E> {
        self.close(self.shape.blocks as usize, &mut done)
    }

    fn close<E>(
        &mut self,
        until: usize,
        done: &mut impl FnMut(Block) -> Result<(), E>,
    ) -> Result<(), E> {
        while self.at < until {
            done(std::mem::take(&mut self.open))?;
            self.at += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use onefold_testkit::SplitMix64;

    use super::*;

    fn filter(keys: &[u64], shape: Shape) -> Filter {
        let (mut blocks, mut all) = (Blocks::new(shape), Vec::new());
        let mut take = |block| -> Result<(), Infallible> {
            all.push(block);
            Ok(())
        };
        let mut sorted = keys.to_vec();
        sorted.sort_unstable();
        sorted.iter().for_each(|key| blocks.push(*key, &mut take).unwrap());
        blocks.finish(&mut take).unwrap();
        Filter::new(shape, all)
    }

    #[test]
    fn no_hook_is_denied_and_few_others_are_admitted() {
        let mut random = SplitMix64::new(1);
        let keys: Vec<u64> = (0..50_000).map(|_| random.next_u64()).collect();
        for limit in [1 << 20, 20_000, 5_000] {
            let shape = Shape::fitting(keys.len() as u64, limit);
            assert!(shape.len() <= limit);
            let filter = filter(&keys, shape);
            let hooks = |key: &u64| shape.is_hook(*key);
            assert!(keys.iter().copied().filter(hooks).all(|key| filter.may_have(key)));
            let others: Vec<u64> = (0..200_000).map(|_| random.next_u64()).filter(hooks).collect();
            let admitted = others.iter().filter(|key| filter.may_have(**key)).count();
            // Ten bits in blocks: a little above one percent.
            assert!(admitted * 40 < others.len(), "{admitted} of {}", others.len());
        }
    }

    #[test]
    fn hooks_are_as_dense_as_the_limit_allows() {
        // 1,000,000 keys of ten bits are 1.25 MB.
        assert_eq!(Shape::fitting(1_000_000, 1_300_000).sparsity, 0);
        assert_eq!(Shape::fitting(1_000_000, 1_200_000).sparsity, 1);
        assert_eq!(Shape::fitting(1_000_000, 160_000).sparsity, 3);
        assert_eq!(Shape::fitting(0, 0), Shape { sparsity: 0, blocks: 1 });
        assert!(Shape::fitting(u64::MAX, 0).len() <= 64);
    }

    #[test]
    fn keys_at_both_ends_and_equal_ones_are_kept() {
        let keys = [0, 0, 1, u64::MAX - 1, u64::MAX, u64::MAX];
        let filter = filter(&keys, Shape { sparsity: 0, blocks: 7 });
        assert!(keys.iter().all(|key| filter.may_have(*key)));
    }
}
