//! A volume written into a stream, and made from one: all of it, or what changed since a base.

use std::io::{Read, Write};
use std::ops::Range;

use onefold_block::{BlockDevice, BlockError, BlockSize, Durability};

use crate::device::Volume;
use crate::error::VolumeError;
use crate::journal::record::SEGMENT;
use crate::limits::{MAX_NAME, check_name};
use crate::pool::open::Pool;
use crate::pool::volumes::find;
use crate::state::map::Map;
use crate::state::nodes::Missing;
use crate::state::pages::Pages;
use crate::transfer::stream::{Decoder, Digest, Encoder, MAX_BLOCKS, Part, StreamHead};

/// What is called so behind its name is being imported, or was when its import was killed.
const UNFINISHED: &str = ".importing";

/// A volume that is imported has no longer name, in bytes: beside it goes what stands behind its name
/// meanwhile.
const MAX_IMPORTED_NAME: usize = 245;
const _: () = assert!(MAX_IMPORTED_NAME + UNFINISHED.len() == MAX_NAME);

/// What was written into a stream, or read from one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Blocks whose bytes are in the stream.
    pub data_blocks: u64,
    /// Blocks that became holes since the base.
    pub hole_blocks: u64,
}

/// Blocks, at most [`MAX_BLOCKS`], that are not what they are in the base.
struct Change {
    blocks: Range<u64>,
    are_holes: bool,
}

impl Pool {
    /// Writes the volume `name` into a stream: all that is no hole, or with `base` what is not as in
    /// that volume, whose digest the stream has. Both are read as they are now: export what nobody
    /// writes to, a snapshot for one. With `base`, all of that is read once more for its digest.
    ///
    /// # Errors
    ///
    /// [`VolumeError::NoVolume`], [`VolumeError::OtherBlocks`] if the base has blocks of another size,
    /// and what cannot be read or written.
    pub fn export_volume(
        &self,
        name: &str,
        base: Option<&str>,
        into: impl Write,
    ) -> Result<Transferred, VolumeError> {
        let volume = self.volume(name)?;
        let digest = base.map(|base| self.digest_of_base(base, volume.block_size())).transpose()?;
        let mut encoder = Encoder::begin(
            into,
            StreamHead {
                size: volume.size(),
                block_size: volume.block_size(),
                is_snapshot: self.is_snapshot(name)?,
                base: digest,
            },
        )?;
        let mut transferred = Transferred::default();
        self.for_each_change(name, base, &volume, |change, bytes| {
            let Range { start: first, end } = change.blocks;
            let count = end - first;
            match change.are_holes {
                true => transferred.hole_blocks += count,
                false => transferred.data_blocks += count,
            }
            encoder.put(&match change.are_holes {
                true => Part::Holes { first, count },
                false => Part::Data { first, bytes },
            })?;
            Ok(())
        })?;
        encoder.finish()?;
        Ok(transferred)
    }

    /// Makes the volume `name` from a stream: anew, or as `base` is with what the stream changes.
    /// It has its name, of at most 245 bytes, once all of the stream came and is durable. After an
    /// error nothing of it is there, unless that is [`VolumeError::NotDurable`]. A process that is
    /// killed leaves a volume called `name` with `.importing` behind it.
    ///
    /// # Errors
    ///
    /// [`VolumeError::Stream`], [`VolumeError::OtherBase`] if the content of the base is not that which
    /// the stream changes, [`VolumeError::NoBase`] and [`VolumeError::NeedlessBase`] if one was not
    /// given or was, and those of a new volume.
    pub fn import_volume(
        &self,
        name: &str,
        base: Option<&str>,
        from: impl Read,
    ) -> Result<Transferred, VolumeError> {
        let mut decoder = Decoder::begin(from)?;
        let head = decoder.head().clone();
        check_imported_name(name)?;
        if find(&self.0.state().volumes, name).is_ok() {
            return Err(VolumeError::VolumeExists { name: name.to_owned() });
        }
        let unfinished = format!("{name}{UNFINISHED}");
        let begun = match (base, head.base) {
            (None, None) => self.create_volume(&unfinished, head.size, head.block_size),
            (Some(base), Some(_)) => self.clone_volume(base, &unfinished, false),
            (None, Some(_)) => Err(VolumeError::NoBase),
            (Some(_), None) => Err(VolumeError::NeedlessBase),
        };
        if let Err(error @ VolumeError::VolumeExists { .. }) = begun {
            // another import has it, or had it
            return Err(error);
        }
        let imported = begun
            .and_then(|()| self.fill(&unfinished, base, &head, &mut decoder))
            .and_then(|filled| self.name_imported(&unfinished, name, &head).map(|()| filled));
        if imported.is_err() && find(&self.0.state().volumes, &unfinished).is_ok() {
            // why it failed is what is told; what could not be deleted has a name that says what it is
            let _ = self.delete_volume(&unfinished);
        }
        imported
    }

    /// The digest of what a volume holds: BLAKE3 over its size and block size, and number and bytes
    /// of each block that is no hole.
    pub fn content_digest(&self, name: &str) -> Result<[u8; 32], VolumeError> {
        let volume = self.volume(name)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&volume.size().to_le_bytes());
        hasher.update(&volume.block_size().bytes().to_le_bytes());
        let block_len = volume.block_size().bytes() as usize;
        self.for_each_change(name, None, &volume, |change, bytes| {
            for (block, bytes) in change.blocks.zip(bytes.chunks_exact(block_len)) {
                hasher.update(&block.to_le_bytes());
                hasher.update(bytes);
            }
            Ok(())
        })?;
        Ok(*hasher.finalize().as_bytes())
    }

    fn digest_of_base(&self, base: &str, expected: BlockSize) -> Result<Digest, VolumeError> {
        let found = self.volume(base)?.block_size();
        if found != expected {
            let (found, expected) = (found.bytes(), expected.bytes());
            return Err(VolumeError::OtherBlocks { found, expected });
        }
        self.content_digest(base)
    }

    fn is_snapshot(&self, name: &str) -> Result<bool, VolumeError> {
        Ok(find(&self.0.state().volumes, name)?.1.is_read_only)
    }

    /// Gives all changes of `volume`, which is called `name`, to `take`, in order and with their
    /// bytes; holes have none.
    fn for_each_change(
        &self,
        name: &str,
        base: Option<&str>,
        volume: &Volume,
        mut take: impl FnMut(Change, &[u8]) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let block_len = u64::from(volume.block_size().bytes());
        let (mut at, mut bytes) = (0, Vec::new());
        while let Some(change) = self.next_change(name, base, at)? {
            at = change.blocks.end;
            let count = if change.are_holes { 0 } else { at - change.blocks.start };
            bytes.resize((count * block_len) as usize, 0);
            volume
                .read(change.blocks.start * block_len, &mut bytes)
                .map_err(|source| of_volume(name, source))?;
            take(change, &bytes)?;
        }
        Ok(())
    }

    /// The first change from block `from` on.
    fn next_change(
        &self,
        name: &str,
        base: Option<&str>,
        from: u64,
    ) -> Result<Option<Change>, VolumeError> {
        self.0.paged(|state| {
            let one = match find(&state.volumes, name) {
                Ok((_, one)) => one,
                Err(error) => return Ok(Err(error)),
            };
            let empty = Map::default();
            let base = match base.map(|base| find(&state.volumes, base)) {
                Some(Ok((_, base))) => &base.map,
                Some(Err(error)) => return Ok(Err(error)),
                None => &empty,
            };
            let blocks = from..one.size.get() / u64::from(one.block_size.bytes());
            first_change(&one.map, base, blocks, &state.pages).map(Ok)
        })?
    }

    /// Changes `unfinished`, which is a copy of `base` or empty, as the stream says.
    fn fill(
        &self,
        unfinished: &str,
        base: Option<&str>,
        head: &StreamHead,
        decoder: &mut Decoder<impl Read>,
    ) -> Result<Transferred, VolumeError> {
        let volume = self.volume(unfinished)?;
        if let Some(base) = base {
            // its size is that of the base, until here
            let has_blocks = volume.block_size() == head.block_size;
            if !has_blocks || Some(self.content_digest(unfinished)?) != head.base {
                return Err(VolumeError::OtherBase { name: base.to_owned() });
            }
        }
        let failed = |source| of_volume(unfinished, source);
        if volume.size() != head.size {
            volume.resize(head.size).map_err(failed)?;
        }
        let block_len = u64::from(head.block_size.bytes());
        let mut transferred = Transferred::default();
        loop {
            match decoder.next()? {
                Part::Data { first, bytes } => {
                    let written = volume.write(first * block_len, bytes, Durability::OnFlush);
                    written.map_err(failed)?;
                    transferred.data_blocks += bytes.len() as u64 / block_len;
                }
                Part::Holes { first, count } => {
                    let range = first * block_len..(first + count) * block_len;
                    volume.erase(range, Durability::OnFlush).map_err(failed)?;
                    transferred.hole_blocks += count;
                }
                Part::End { .. } => break,
                Part::Head(_) => unreachable!("the decoder gives one head, at the beginning"),
            }
        }
        self.flush()?;
        Ok(transferred)
    }

    /// Gives what was imported its name.
    fn name_imported(
        &self,
        unfinished: &str,
        name: &str,
        head: &StreamHead,
    ) -> Result<(), VolumeError> {
        let named = match head.is_snapshot {
            false => self.rename_volume(unfinished, name),
            true => self
                .clone_volume(unfinished, name, true)
                .and_then(|()| self.delete_volume(unfinished)),
        };
        named.map_err(|error| match error {
            VolumeError::VolumeExists { .. } => error,
            error if find(&self.0.state().volumes, name).is_ok() => {
                VolumeError::NotDurable { name: name.to_owned(), source: Box::new(error) }
            }
            error => error,
        })
    }
}

fn check_imported_name(name: &str) -> Result<(), VolumeError> {
    if name.len() > MAX_IMPORTED_NAME {
        let expected = "1 to 245 bytes for one that is imported";
        return Err(VolumeError::BadName { name: name.to_owned(), expected });
    }
    check_name(name)
}

fn of_volume(name: &str, source: BlockError) -> VolumeError {
    VolumeError::Volume { name: name.to_owned(), source }
}

/// The first of `blocks` whose pages are others in `map` than in `base`, with those behind them that
/// changed alike.
fn first_change(
    map: &Map,
    base: &Map,
    blocks: Range<u64>,
    pages: &Pages,
) -> Result<Option<Change>, Missing> {
    let mut at = blocks.start;
    while at < blocks.end {
        let index = (at / SEGMENT as u64) as u32;
        let next = [map, base].iter().filter_map(|map| map.next_index(index)).min();
        let Some(next) = next else { return Ok(None) };
        at = at.max(u64::from(next) * SEGMENT as u64);
        let end = blocks.end.min((u64::from(next) + 1) * SEGMENT as u64);
        if map.segment(next) != base.segment(next) {
            let nodes = &pages.nodes;
            map.ensure_here(at, nodes)?;
            base.ensure_here(at, nodes)?;
            // a page may have another name in a map that was not told yet where it is
            let page = |map: &Map, block| pages.resolve(map.get(block, nodes).expect("it is here"));
            let changed = |block: u64| page(map, block) != page(base, block);
            if let Some(first) = (at..end).find(|block| changed(*block)) {
                let are_holes = page(map, first).is_hole();
                let is_alike =
                    |block: &u64| changed(*block) && page(map, *block).is_hole() == are_holes;
                let count = (first..end.min(first + MAX_BLOCKS)).take_while(is_alike).count();
                return Ok(Some(Change { blocks: first..first + count as u64, are_holes }));
            }
        }
        at = end;
    }
    Ok(None)
}
