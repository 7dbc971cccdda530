//! Reads: which page a block is and where it lies, and what a container holds.

use std::ops::Range;

use onefold_container::Directory;

use crate::containers::located::Located;
use crate::engine::counters::count;
use crate::engine::parts::Engine;
use crate::error::VolumeError;
use crate::ids::{VolumeId, container_name};
use crate::state::State;
use crate::state::nodes::Missing;

impl Engine {
    /// How many blocks from the first of `blocks` on are holes alike, or are none alike; and whether
    /// they are holes.
    pub(crate) fn alike(
        &self,
        volume: VolumeId,
        blocks: Range<u64>,
    ) -> Result<(u64, bool), VolumeError> {
        let alike = self.paged(|state| {
            // one that is gone would be all holes
            let Some(one) = state.volumes.get(&volume) else { return Ok(None) };
            one.map.alike(blocks.clone(), &state.pages.nodes).map(Some)
        })?;
        alike.ok_or(VolumeError::Deleted)
    }

    /// Where the pages of `blocks` are; holes are `None`. Nodes that are missing are read, and with them
    /// those of `ahead`.
    pub(crate) fn locate(
        &self,
        volume: VolumeId,
        blocks: Range<u64>,
        ahead: &Range<u64>,
    ) -> Result<Vec<Option<Located>>, VolumeError> {
        self.bring_segments(volume, &blocks, ahead)?;
        let mut located = Vec::with_capacity((blocks.end - blocks.start) as usize);
        for misses in 0.. {
            // those before a node that was missing are located
            let rest = blocks.start + located.len() as u64..blocks.end;
            // the state is let go before a node is brought in
            let step = self.state().locate(volume, rest.clone(), &mut located);
            match step {
                Ok(found) => {
                    count(&self.counters.node_hits, usize::from(misses == 0));
                    return found.map(|()| located);
                }
                Err(missing) => self.bring_places(volume, rest, ahead, missing, misses)?,
            }
        }
        unreachable!("it does not end but by what it returns")
    }

    /// What container `number` holds, by slot, unless it is gone; or another shard has not sealed it yet.
    pub(crate) fn directory(&self, number: u32) -> Result<Option<Directory>, VolumeError> {
        {
            let appender = self.appender();
            if appender.number() == Some(number) {
                return Ok(appender.directory().cloned());
            }
        }
        let file = self.state().pages.file(number);
        match file {
            Some(file) if file.is_foreign() => self.foreign_directory(&file),
            file => file.map(|file| file.directory()).transpose(),
        }
    }
}

impl State {
    /// Adds where the pages of `blocks` are to `located`.
    fn locate(
        &self,
        volume: VolumeId,
        blocks: Range<u64>,
        located: &mut Vec<Option<Located>>,
    ) -> Result<Result<(), VolumeError>, Missing> {
        // one that is gone would be all holes
        let Some(one) = self.volumes.get(&volume) else { return Ok(Err(VolumeError::Deleted)) };
        for block in blocks {
            let page = one.map.get(block, &self.pages.nodes)?;
            if page.is_hole() {
                located.push(None);
                continue;
            }
            let Some(found) = self.pages.locate(page)? else {
                return Ok(Err(VolumeError::Damaged {
                    object: container_name(page.container()),
                    at: 0,
                    problem: format!("block {block} is in it, and it cannot be read"),
                }));
            };
            located.push(Some(found));
        }
        Ok(Ok(()))
    }
}
