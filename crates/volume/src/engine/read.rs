//! Reads: which page a block is and where it lies, and what a container holds.

use std::ops::Range;

use onefold_container::Directory;

use crate::containers::located::Located;
use crate::engine::parts::Engine;
use crate::error::VolumeError;
use crate::ids::{VolumeId, container_name};

impl Engine {
    /// How many blocks from the first of `blocks` on are holes alike, or are none alike; and whether
    /// they are holes.
    pub(crate) fn alike(
        &self,
        volume: VolumeId,
        blocks: Range<u64>,
    ) -> Result<(u64, bool), VolumeError> {
        let state = self.state();
        // one that is gone would be all holes
        Ok(state.volumes.get(&volume).ok_or(VolumeError::Deleted)?.map.alike(blocks))
    }

    /// Where the pages of `blocks` are; holes are `None`.
    pub(crate) fn locate(
        &self,
        volume: VolumeId,
        blocks: impl Iterator<Item = u64>,
    ) -> Result<Vec<Option<Located>>, VolumeError> {
        let state = self.state();
        // one that is gone would be all holes
        let map = &state.volumes.get(&volume).ok_or(VolumeError::Deleted)?.map;
        let locate = |block: u64| match map.get(block) {
            page if page.is_hole() => Ok(None),
            page => match state.pages.locate(page) {
                Some(located) => Ok(Some(located)),
                None => Err(VolumeError::Damaged {
                    object: container_name(page.container()),
                    at: 0,
                    problem: format!("block {block} is in it, and it cannot be read"),
                }),
            },
        };
        blocks.map(locate).collect()
    }

    /// What container `number` holds, unless it is gone.
    pub(crate) fn directory(&self, number: u32) -> Result<Option<Directory>, VolumeError> {
        {
            let appender = self.appender();
            if appender.number() == Some(number) {
                return Ok(appender.directory().cloned());
            }
        }
        let file = self.state().pages.file(number);
        file.map(|file| file.directory(&self.envelope())).transpose()
    }
}
