//! Maps that no volume has any more: of volumes that were deleted, and of what lay beyond the end of
//! one that became shorter. What they refer to is let go some segments at a time.
//!
//! The record of the deletion, or of the new size, waits before the first of these steps, so that
//! no batch tells of a container that a step made dead before it tells why. After a crash the volume is
//! there whole or nothing of it is: references are counted by the volumes that there are then.
//!
//! Until then such a map is one like any other: a compaction forwards it, a check counts it, and a
//! segment that a volume shares with it is shared. A checkpoint does not tell of it.

use crate::engine::hook::Between;
use crate::engine::parts::Engine;
use crate::error::VolumeError;
use crate::seeded::fault;
use crate::state::State;

impl Engine {
    /// Makes durable that the map `dead` is no volume's any more, lets go of what it refers to, and
    /// gives back the space of what is dead then. Without such a map it is a commit.
    pub(crate) fn settle(&self, dead: Option<u64>) -> Result<(), VolumeError> {
        let Some(number) = dead else { return self.commit() };
        let untold = fault!(ReleasedUntold).then(|| self.state().waiting.take());
        let told = self.commit();
        // whether that could be told or not: nobody can get at the map any more
        let released = self.release(number);
        fault!(ReleasedUntold => self.state().waiting.put_back(untold.unwrap_or_default()));
        told.and(released)?;
        self.commit()
    }

    /// Lets go of all that map `number` refers to; others have their turns meanwhile.
    fn release(&self, number: u64) -> Result<(), VolumeError> {
        self.between(Between::Releases);
        while self.release_some(number)? {
            self.let_others();
            self.between(Between::Releases);
        }
        Ok(())
    }

    /// The same of all maps that are dying, whoever else is at it.
    pub(crate) fn release_all(&self) -> Result<(), VolumeError> {
        loop {
            let Some(number) = self.state().dying.from(0).next().map(|(number, ..)| number) else {
                return Ok(());
            };
            while self.release_some(number)? {
                self.let_others();
            }
        }
    }

    fn release_some(&self, number: u64) -> Result<bool, VolumeError> {
        self.paged(|State { dying, pages, .. }| dying.release_some(number, pages))
    }
}
