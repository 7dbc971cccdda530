//! Room ahead of a journal, so that a disk that others fill can be got out of: space comes back only
//! once a batch says what goes.

use onefold_backend::{BackendError, Log, Reserved};
use onefold_seal::Check;

use crate::journal::frame::{self, Owner};

/// So many bytes are kept ahead: several times the records that wait at most before they are
/// written.
const ROOM: u64 = 16 << 20;

/// A log that has room ahead, where the disk keeps any, until it is let go.
pub(crate) struct Ahead {
    log: Box<dyn Log + Sync>,
    /// Up to this length.
    until: u64,
}

impl Ahead {
    /// `log` takes the place of the one `before`. That one has its room until this one has its own, so
    /// that nobody else gets it meanwhile; where there is none for both it is given back to this one.
    pub(crate) fn instead_of(before: Option<Self>, log: Box<dyn Log + Sync>) -> Self {
        let mut ahead = Self { log, until: 0 };
        if !ahead.ask(ROOM) {
            drop(before);
            ahead.ask_anew();
        }
        ahead
    }

    /// Appends a frame; it is durable after the next sync. Returns its check. On a disk that has no
    /// room just now what is left of it is used, and each time it is asked for more.
    pub(crate) fn append(
        &mut self,
        owner: Owner,
        number: u64,
        body: &[u8],
    ) -> Result<Check, BackendError> {
        if self.until < self.log.len() + ROOM / 2 {
            self.ask(ROOM);
        }
        let appended = frame::append(&mut *self.log, owner, number, body);
        if appended.is_err() {
            // what was written of it was cut off, and the room behind it as well
            self.ask_anew();
        }
        appended
    }

    /// The length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.log.len()
    }

    /// Makes durable what was appended before.
    pub(crate) fn sync(&mut self) -> Result<(), BackendError> {
        self.log.sync()
    }

    /// Asks for what was given back just now: for less than it was at first, if others have some of it
    /// or frames do.
    fn ask_anew(&mut self) {
        self.until = 0;
        for room in [ROOM, ROOM / 2, ROOM / 4] {
            if self.ask(room) {
                break;
            }
        }
    }

    /// Asks for so many bytes behind the end; whether they are there. If not, what is there stays.
    fn ask(&mut self, room: u64) -> bool {
        let is_there = self.log.reserve(room) == Reserved::Kept;
        if is_there {
            self.until = self.log.len() + room;
        }
        is_there
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.log.reserve(0);
    }
}
