//! The volumes of a pool: making, renaming, rolling back and deleting them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use onefold_block::BlockSize;

use crate::device::Volume;
use crate::error::VolumeError;
use crate::ids::VolumeId;
use crate::journal::record::Record;
use crate::limits::{check_name, check_size};
use crate::pool::open::Pool;
use crate::state::map::Map;
use crate::state::volume::{Size, VolumeState};

/// What is known of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeInfo {
    /// Its name.
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// In bytes.
    pub block_size: u32,
    /// Whether it is a snapshot.
    pub is_read_only: bool,
    /// Blocks that are no holes.
    pub mapped_blocks: u64,
    /// When it was made, in seconds since 1970; 0 if the clock did not tell.
    pub made: u64,
}

impl Pool {
    /// Whether an empty volume of this name and size, in bytes, can be made in some pool: an error says
    /// what is wrong with them.
    pub fn check_new(name: &str, size: u64, block_size: BlockSize) -> Result<(), VolumeError> {
        check_name(name)?;
        check_size(size, block_size)
    }

    /// Makes an empty volume of `size` bytes. A name that is taken is [`VolumeError::VolumeExists`];
    /// which names and sizes there are says [`check_new`](Self::check_new).
    pub fn create_volume(
        &self,
        name: &str,
        size: u64,
        block_size: BlockSize,
    ) -> Result<(), VolumeError> {
        check_size(size, block_size)?;
        self.add(name, New::Empty { size, block_size })
    }

    /// Makes a volume as `source` is now: one that can be written, or a snapshot that cannot. Costs
    /// neither space nor time to speak of. Errors are those of a new volume, and
    /// [`VolumeError::NoVolume`] if there is no `source`.
    pub fn clone_volume(
        &self,
        source: &str,
        name: &str,
        is_read_only: bool,
    ) -> Result<(), VolumeError> {
        self.add(name, New::Copy { of: source, is_read_only })
    }

    fn add(&self, name: &str, new: New<'_>) -> Result<(), VolumeError> {
        check_name(name)?;
        self.0.shard.ensure_running()?;
        // a clock before 1970 tells nothing
        let made = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        {
            let mut state = self.0.state();
            let state = &mut *state;
            if find(&state.volumes, name).is_ok() {
                return Err(VolumeError::VolumeExists { name: name.to_owned() });
            }
            let name = name.to_owned();
            let one = match new {
                New::Empty { size, block_size } => VolumeState {
                    name,
                    size: Size::new(size),
                    block_size,
                    is_read_only: false,
                    source: None,
                    made,
                    map: Map::default(),
                },
                New::Copy { of, is_read_only } => {
                    let (source, one) = find(&state.volumes, of)?;
                    VolumeState {
                        name,
                        size: Size::new(one.size.get()),
                        block_size: one.block_size,
                        is_read_only,
                        source: Some(source),
                        made,
                        map: one.map.share(&mut state.pages.nodes),
                    }
                }
            };
            let volume = VolumeId(state.next_volume);
            state.next_volume += 1;
            let record = one.create_record(volume, one.source);
            state.waiting.push(&record);
            state.volumes.insert(volume, one);
        }
        self.0.commit()
    }

    /// Deletes a volume. Its pages go, as far as no other volume has them; others use the pool while
    /// they do.
    ///
    /// The deletion is durable before they go. After an error of the disk a volume that is not
    /// there any more is gone for good, or goes with the next commit.
    pub fn delete_volume(&self, name: &str) -> Result<(), VolumeError> {
        self.0.shard.ensure_running()?;
        let deleted = {
            let mut state = self.0.state();
            let (volume, _) = find(&state.volumes, name)?;
            let one = state.volumes.remove(&volume).expect("just found");
            one.size.set(0);
            state.let_die(volume, one.map, &[Record::Delete { volume }])
        };
        self.0.settle(deleted)
    }

    /// Calls the volume `name` by `to` from now on. Who uses it goes on. It no longer tells as which
    /// volume it was made. Errors are those of a new volume, and [`VolumeError::NoVolume`].
    pub fn rename_volume(&self, name: &str, to: &str) -> Result<(), VolumeError> {
        check_name(to)?;
        self.0.shard.ensure_running()?;
        {
            let mut state = self.0.state();
            let (volume, _) = find(&state.volumes, name)?;
            if find(&state.volumes, to).is_ok() {
                return Err(VolumeError::VolumeExists { name: to.to_owned() });
            }
            // No record changes a name. So another volume takes the map over while this one is made
            // anew under the same number, by which its copies know it.
            let other = VolumeId(state.next_volume);
            state.next_volume += 1;
            let one = state.volumes.get_mut(&volume).expect("just found");
            one.name = to.to_owned();
            let handed_over = one.create_record(other, Some(volume));
            one.source = Some(other);
            let taken_back = one.create_record(volume, one.source);
            state.waiting.push_together(&[
                handed_over,
                Record::Delete { volume },
                taken_back,
                Record::Delete { volume: other },
            ]);
        }
        self.0.commit()
    }

    /// Lets the volume `name` be as `snapshot` is, in content and size; what was written to it since is
    /// lost. It was made as `snapshot` then. Whoever uses it opens it again: to what was opened before
    /// it is as a deleted volume, so that no write that was under way lands in what the snapshot had.
    ///
    /// Durable when this returns; after a crash meanwhile the volume is as before, or as the
    /// snapshot.
    ///
    /// # Errors
    ///
    /// [`VolumeError::NoVolume`], [`VolumeError::NotASnapshot`] unless `snapshot` is one,
    /// [`VolumeError::ReadOnly`] if `name` is one as well, and [`VolumeError::OtherBlocks`] if their
    /// blocks have other sizes.
    pub fn roll_back_volume(&self, name: &str, snapshot: &str) -> Result<(), VolumeError> {
        self.0.shard.ensure_running()?;
        let id = find(&self.0.state().volumes, name)?.0;
        let replaced = {
            // nobody writes meanwhile
            let _blocks = self.0.blocks.lock(id, [], std::iter::once(0..u64::MAX));
            let mut state = self.0.state();
            let state = &mut *state;
            // it may have been deleted before it was locked
            let (volume, one) = find(&state.volumes, name)?;
            let (source, of) = find(&state.volumes, snapshot)?;
            if !of.is_read_only {
                return Err(VolumeError::NotASnapshot { name: snapshot.to_owned() });
            }
            one.ensure_like(of.block_size)?;
            let (size, map) = (of.size.get(), of.map.share(&mut state.pages.nodes));
            let one = state.volumes.get_mut(&volume).expect("just found");
            // those who have the former size change nothing any more
            std::mem::replace(&mut one.size, Size::new(size)).set(0);
            one.source = Some(source);
            let before = std::mem::replace(&mut one.map, map);
            let made_anew = one.create_record(volume, one.source);
            state.let_die(volume, before, &[Record::Delete { volume }, made_anew])
        };
        self.0.settle(replaced)
    }

    /// The volume `name` as a block device, or [`VolumeError::NoVolume`].
    pub fn volume(&self, name: &str) -> Result<Volume, VolumeError> {
        let state = self.0.state();
        let (id, one) = find(&state.volumes, name)?;
        let (size, block_size, is_read_only) = (one.size.clone(), one.block_size, one.is_read_only);
        drop(state);
        let is_read_only = is_read_only || self.0.shard.is_read_only();
        Ok(Volume::new(Arc::clone(&self.0), id, size, block_size, is_read_only))
    }

    /// The volumes, by name.
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        let state = self.0.state();
        let mut all: Vec<VolumeInfo> = state.volumes.values().map(info).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

/// What a volume is when it is made.
enum New<'a> {
    /// Holes alone; a size in bytes.
    Empty { size: u64, block_size: BlockSize },
    /// What another one is at that moment.
    Copy { of: &'a str, is_read_only: bool },
}

pub(crate) fn info(one: &VolumeState) -> VolumeInfo {
    VolumeInfo {
        name: one.name.clone(),
        size: one.size.get(),
        block_size: one.block_size.bytes(),
        is_read_only: one.is_read_only,
        mapped_blocks: one.map.mapped(),
        made: one.made,
    }
}

pub(crate) fn find<'a>(
    volumes: &'a BTreeMap<VolumeId, VolumeState>,
    name: &str,
) -> Result<(VolumeId, &'a VolumeState), VolumeError> {
    let found = volumes.iter().find(|(_, one)| one.name == name);
    let (id, one) = found.ok_or_else(|| VolumeError::NoVolume { name: name.to_owned() })?;
    Ok((*id, one))
}
