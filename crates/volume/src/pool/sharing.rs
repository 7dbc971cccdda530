//! What a pool that shares containers tells those who sweep them.

use crate::engine::parts::Engine;
use crate::error::VolumeError;
use crate::ids::{SharedName, Writer};
use crate::pool::open::Pool;
use crate::sharing::RegisteredAs;
use crate::state::registrations::Stage;

/// How a pool uses a container that shards share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// The container.
    pub container: SharedName,
    /// By what the pool is registered there, or was announced to be.
    pub registered: RegisteredAs,
    /// Whether the registration counts, and is not about to be dropped.
    pub is_registered: bool,
    /// Stored bytes of the pages there that the pool refers to.
    pub live_bytes: u64,
}

impl Pool {
    /// The writer that has the pool open.
    pub fn writer(&self) -> Writer {
        self.0.shard.writer()
    }

    /// How the pool uses container `name`; nothing if it was never announced, or is settled as gone.
    pub fn use_of(&self, name: &SharedName) -> Option<Use> {
        let state = self.0.state();
        let number = state.pages.registrations.of(name)?.0;
        drop(state);
        self.0.use_by(number)
    }

    /// All containers that shards share and that the pool uses or announced.
    pub fn uses(&self) -> Vec<Use> {
        let numbers: Vec<u32> =
            self.0.state().pages.registrations.iter().map(|(number, _)| number).collect();
        numbers.into_iter().filter_map(|number| self.0.use_by(number)).collect()
    }

    /// Container `name` is closing: its pages are written again and it is dropped by the next
    /// [`maintain`](Self::maintain). Whether the pool has it.
    pub fn note_closing(&self, name: &SharedName) -> bool {
        self.0.state().pages.note_closing(name).is_some()
    }

    /// Drops registrations that nothing needs, and removes containers of which this was the last one. What has
    /// no answer is tried again by the next commit.
    ///
    /// # Errors
    /// If the announcements cannot be made durable.
    pub fn drop_unused(&self) -> Result<(), VolumeError> {
        // the first announces, the second settles
        self.0.commit()?;
        self.0.commit()
    }
}

impl Engine {
    fn use_by(&self, number: u32) -> Option<Use> {
        let state = self.state();
        let one = state.pages.registrations.get(number)?;
        Some(Use {
            container: one.name,
            registered: RegisteredAs { writer: one.writer, number },
            is_registered: one.stage == Stage::Registered,
            live_bytes: state.pages.all.get(number).map_or(0, |container| container.live_bytes),
        })
    }
}
