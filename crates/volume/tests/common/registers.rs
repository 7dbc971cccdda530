//! What volumes may be after a power cut: each block, and each size, is what it was at the last flush
//! that was acknowledged, or what something made of it that was begun since.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The bytes of volumes, by their names.
pub(crate) type Contents = BTreeMap<String, Vec<u8>>;

/// What a volume may be.
#[derive(Clone)]
pub(crate) struct Register {
    pub(crate) block_len: u64,
    pub(crate) is_read_only: bool,
    /// Whether it is there for certain: it was made, and no deletion was begun.
    is_sure: bool,
    /// In blocks. The last is what it has if nothing is lost.
    sizes: Vec<u64>,
    /// Of each block; the last likewise.
    blocks: Vec<Vec<Vec<u8>>>,
}

impl Register {
    /// A volume of zeros that is about to be made.
    pub(crate) fn new(block_len: u64, blocks: u64) -> Self {
        let zeros = vec![vec![0; block_len as usize]];
        let blocks_now = vec![zeros; blocks as usize];
        let (is_read_only, is_sure) = (false, false);
        Self { block_len, is_read_only, is_sure, sizes: vec![blocks], blocks: blocks_now }
    }

    /// A volume that is about to be made of this one, as this one is now.
    pub(crate) fn copy(&self, is_read_only: bool) -> Self {
        let mut copy = Self { is_read_only, is_sure: false, ..self.clone() };
        copy.flushed();
        copy
    }

    /// In blocks.
    pub(crate) fn size(&self) -> u64 {
        *self.sizes.last().expect("there is always one")
    }

    /// Bytes are about to be written: in part, of the first and of the last block.
    pub(crate) fn writes(&mut self, mut offset: u64, mut data: &[u8]) {
        while !data.is_empty() {
            let (block, within) = (offset / self.block_len, (offset % self.block_len) as usize);
            let (part, rest) = data.split_at(data.len().min(self.block_len as usize - within));
            let possible = &mut self.blocks[block as usize];
            let mut page = possible.last().expect("there is always one").clone();
            page[within..within + part.len()].copy_from_slice(part);
            possible.push(page);
            (offset, data) = (offset + part.len() as u64, rest);
        }
    }

    /// What a block is after a write that was refused, which may have been done in part.
    pub(crate) fn is_now(&mut self, block: u64, page: &[u8]) {
        let possible = &mut self.blocks[block as usize];
        let at = possible.iter().rposition(|one| one == page).expect("what it was or was to be");
        let now = possible.remove(at);
        possible.push(now);
    }

    /// It is about to be so many blocks long.
    pub(crate) fn begins_to_resize(&mut self, size: u64) {
        self.sizes.push(size);
        if size as usize > self.blocks.len() {
            self.blocks.resize(size as usize, vec![vec![0; self.block_len as usize]]);
        }
    }

    /// All that was done before is durable.
    fn flushed(&mut self) {
        let size = self.size();
        self.sizes = vec![size];
        self.blocks.truncate(size as usize);
        for possible in &mut self.blocks {
            possible.drain(..possible.len() - 1);
        }
    }

    /// Fails unless the volume may be `bytes`.
    fn expect(&self, bytes: &[u8], context: &str) {
        let blocks = bytes.len() as u64 / self.block_len;
        assert!(self.sizes.contains(&blocks), "{context}: {blocks} blocks of {:?}", self.sizes);
        for (at, page) in bytes.chunks(self.block_len as usize).enumerate() {
            let possible = &self.blocks[at];
            let is_possible = possible.iter().any(|one| one == page);
            assert!(is_possible, "{context}: block {at} is none of {}", possible.len());
        }
    }
}

/// What a pool may be.
#[derive(Default)]
pub(crate) struct Registers {
    /// Whether the pool's creation was acknowledged.
    pub(crate) is_made: bool,
    volumes: BTreeMap<String, Register>,
    /// Writes that the quota had no room for.
    pub(crate) refused: u64,
}

impl Registers {
    /// Those that there are if nothing is lost.
    pub(crate) fn names(&self) -> Vec<String> {
        self.volumes.keys().cloned().collect()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.volumes.contains_key(name)
    }

    pub(crate) fn get(&self, name: &str) -> &Register {
        &self.volumes[name]
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> &mut Register {
        self.volumes.get_mut(name).expect("it is there")
    }

    /// All that was done before is durable.
    pub(crate) fn flushed(&mut self) {
        self.volumes.values_mut().for_each(Register::flushed);
    }

    /// A volume is about to be made.
    pub(crate) fn begins(&mut self, name: &str, register: Register) {
        self.volumes.insert(name.into(), register);
    }

    pub(crate) fn is_there(&mut self, name: &str) {
        self.get_mut(name).is_sure = true;
        self.flushed();
    }

    /// A volume is about to be deleted.
    pub(crate) fn goes(&mut self, name: &str) {
        self.get_mut(name).is_sure = false;
    }

    pub(crate) fn is_gone(&mut self, name: &str) {
        self.volumes.remove(name);
        self.flushed();
    }

    /// Fails unless the pool may be what was found.
    pub(crate) fn expect(&self, found: &Contents, context: &str) {
        let sure = self.volumes.iter().filter(|(_, one)| one.is_sure).map(|(name, _)| name);
        let there: BTreeSet<&String> = found.keys().collect();
        assert!(sure.collect::<BTreeSet<_>>().is_subset(&there), "{context}: {there:?}");
        for (name, bytes) in found {
            let register = self.volumes.get(name).unwrap_or_else(|| panic!("{context}: '{name}'"));
            register.expect(bytes, &format!("{context}, '{name}'"));
        }
    }
}

/// The bytes that `range` has of whole blocks.
pub(crate) fn whole(range: Range<u64>, block_len: u64) -> Range<u64> {
    let from = range.start.next_multiple_of(block_len);
    from..(range.end / block_len * block_len).max(from)
}
