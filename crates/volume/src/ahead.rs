//! Room ahead of a journal, so that a disk that others fill can be got out of: space comes back only
//! once a batch says what goes.

use onefold_backend::Log;

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
            // the bytes of the one before go later, so that there may be less than it had at first
            for room in [ROOM, ROOM / 2, ROOM / 4] {
                if ahead.ask(room) {
                    break;
                }
            }
        }
        ahead
    }

    /// The log, before it is appended to. On a disk that has no room just now what is left of it is
    /// used, and each time it is asked for more.
    pub(crate) fn log(&mut self) -> &mut (dyn Log + Sync) {
        if self.until < self.log.len() + ROOM / 2 {
            self.ask(ROOM);
        }
        &mut *self.log
    }

    /// Asks for so many bytes behind the end; whether they are there. If not, what is there stays.
    fn ask(&mut self, room: u64) -> bool {
        let is_there = self.log.reserve(room);
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
