//! The nodes that a thread needs, brought into memory without the pool's lock.

use std::sync::MutexGuard;

use crate::engine::counters::count;
use crate::engine::parts::Engine;
use crate::error::VolumeError;
use crate::ids::VolumeId;
use crate::nodes::table::NodeAddress;
use crate::state::State;
use crate::state::nodes::{Missing, NodeId};
use crate::state::paging::{PATIENCE, STORED};

/// Nodes that are read together.
const TOGETHER: usize = 1024;

/// Once there is no room for a node, it is made for this share of all that may be in memory.
const ROOM: usize = 64;

/// References that may be pending for each node that memory may hold: they take an eighth of its bytes.
const PENDING: usize = 64;

impl Engine {
    /// Calls `f` with the state until it misses no node, and brings in what it misses. What it did before
    /// it missed one is done.
    pub(crate) fn paged<T>(
        &self,
        mut f: impl FnMut(&mut State) -> Result<T, Missing>,
    ) -> Result<T, VolumeError> {
        for misses in 0.. {
            let missing = match f(&mut self.state()) {
                Ok(done) => {
                    count(&self.counters.node_hits, usize::from(misses == 0));
                    return Ok(done);
                }
                Err(Missing(node)) => node,
            };
            self.bring_again(&[missing], misses)?;
        }
        unreachable!("it does not end but by what it returns")
    }

    /// The state, once `ensure` fails for no node that is missing.
    pub(crate) fn state_with(
        &self,
        mut ensure: impl FnMut(&State) -> Result<(), Missing>,
    ) -> Result<MutexGuard<'_, State>, VolumeError> {
        for misses in 0.. {
            let state = self.state();
            let Err(Missing(node)) = ensure(&state) else {
                count(&self.counters.node_hits, usize::from(misses == 0));
                return Ok(state);
            };
            drop(state);
            self.bring_again(&[node], misses)?;
        }
        unreachable!("it does not end but by what it returns")
    }

    /// The state, once the segments of all of `blocks` are in memory. Those that are missing are brought
    /// in together.
    pub(crate) fn state_for<I: Iterator<Item = u64>>(
        &self,
        volume: VolumeId,
        blocks: impl Fn() -> I,
    ) -> Result<MutexGuard<'_, State>, VolumeError> {
        for misses in 0.. {
            let missing = {
                let state = self.state();
                if state.ensure_here(volume, blocks()).is_ok() {
                    count(&self.counters.node_hits, usize::from(misses == 0));
                    return Ok(state);
                }
                state.missing_segments(volume, blocks())
            };
            self.bring_again(&missing, misses)?;
        }
        unreachable!("it does not end but by what it returns")
    }

    /// Brings in nodes that are stored, for a step that missed nodes `misses` times before. It makes room
    /// for them first, unless the step has missed many: it may need more than there is room for, which
    /// the next one makes again.
    pub(crate) fn bring_again(&self, nodes: &[NodeId], misses: u32) -> Result<(), VolumeError> {
        if misses < PATIENCE {
            self.trim()?;
        }
        self.bring(nodes)
    }

    /// Brings in nodes that are stored. Those that are here by now, or gone, are left alone.
    fn bring(&self, nodes: &[NodeId]) -> Result<(), VolumeError> {
        let paging = self.paging.as_ref().expect("only a paged pool misses nodes");
        for nodes in nodes.chunks(TOGETHER) {
            let mut wanted: Vec<(NodeId, NodeAddress)> = {
                let state = self.state();
                let to_read = |node: &NodeId| Some((*node, state.pages.nodes.to_read(*node)?));
                nodes.iter().filter_map(to_read).collect()
            };
            wanted.sort_unstable();
            wanted.dedup();
            let (read, error) = paging.read(&wanted);
            let mut state = self.state();
            for ((node, address), content) in wanted.into_iter().zip(read) {
                state.pages.nodes.bring(node, address, content);
            }
            drop(state);
            if let Some(error) = error {
                // who has the pool by now may have removed the file
                self.shard.ensure_current()?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Brings in nodes as far as they can be read. Returns the others, where each is stored, and why it
    /// cannot be read.
    ///
    /// # Errors
    /// That another process has the pool.
    pub(crate) fn bring_each(
        &self,
        nodes: &[NodeId],
    ) -> Result<Vec<(NodeId, NodeAddress, VolumeError)>, VolumeError> {
        let mut unread = Vec::new();
        for node in nodes {
            let Some(address) = self.state().pages.nodes.to_read(*node) else { continue };
            match self.bring(&[*node]) {
                Ok(()) => {}
                Err(error @ (VolumeError::Superseded { .. } | VolumeError::Stopped { .. })) => {
                    return Err(error);
                }
                Err(error) => unread.push((*node, address, error)),
            }
        }
        Ok(unread)
    }

    /// What is wrong with those of `nodes` that are not in memory, without bringing them in.
    ///
    /// # Errors
    /// That another process has the pool.
    pub(crate) fn verify_nodes<T: Copy>(
        &self,
        nodes: &[(T, NodeId)],
    ) -> Result<Vec<(T, VolumeError)>, VolumeError> {
        let Some(paging) = &self.paging else { return Ok(Vec::new()) };
        let mut wrong = Vec::new();
        for nodes in nodes.chunks(STORED) {
            let stored: Vec<(T, NodeId, NodeAddress)> = {
                let state = self.state();
                let to_read = |id: NodeId| state.pages.nodes.to_read(id);
                nodes.iter().filter_map(|(of, id)| Some((*of, *id, to_read(*id)?))).collect()
            };
            let addresses: Vec<NodeAddress> = stored.iter().map(|(.., address)| *address).collect();
            for ((of, id, address), read) in stored.iter().zip(paging.files.read_many(&addresses)) {
                let Err(error) = read else { continue };
                self.shard.ensure_current()?;
                // one that was stored elsewhere since, or went, says nothing
                if self.state().pages.nodes.to_read(*id) == Some(*address) {
                    wrong.push((*of, error));
                }
            }
        }
        Ok(wrong)
    }

    /// Lets go of nodes, and stores some, until no more are in memory than may be.
    pub(crate) fn trim(&self) -> Result<(), VolumeError> {
        let Some(paging) = &self.paging else { return Ok(()) };
        let is_too_much = {
            let state = self.state();
            let nodes = &state.pages.nodes;
            nodes.resident() > paging.most(nodes.len())
        };
        if !is_too_much {
            return Ok(());
        }
        let _storing = paging.storing();
        loop {
            let taken = {
                let mut state = self.state();
                let most = paging.most(state.pages.nodes.len());
                // some more, so that the next nodes find room
                state.pages.nodes.evict(most - most / ROOM, STORED)
            };
            if taken.is_empty() {
                return Ok(());
            }
            let stored = match paging.store(&taken) {
                // a pool on a full disk takes more memory rather than fail to make room
                Err(error) if error.is_full() => return Ok(()),
                stored => stored?,
            };
            let mut state = self.state();
            for (one, address) in taken.iter().zip(stored) {
                state.pages.nodes.note_stored(one, address);
            }
        }
    }

    /// Adds to references what is pending and makes a container dead, perhaps, or is too much.
    pub(crate) fn settle_pending(&self) -> Result<(), VolumeError> {
        match &self.paging {
            Some(paging) => {
                let count = self.state().pages.nodes.len();
                self.settle_to(paging.most(count).saturating_mul(PENDING))
            }
            None => Ok(()),
        }
    }

    /// Adds to references all that is pending.
    pub(crate) fn settle_all(&self) -> Result<(), VolumeError> {
        self.settle_to(0)
    }

    /// Adds to references what is pending until it is at most `most` in all.
    fn settle_to(&self, most: usize) -> Result<(), VolumeError> {
        loop {
            let Some(number) = self.state().pages.to_settle(most) else { return Ok(()) };
            if let Err(error) = self.paged(|state| state.pages.settle(number)) {
                match error {
                    VolumeError::Damaged { .. } => self.state().pages.give_up(number),
                    error => return Err(error),
                }
            }
        }
    }
}
