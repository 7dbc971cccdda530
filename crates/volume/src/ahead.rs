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
    pub(crate) fn new(log: Box<dyn Log + Sync>) -> Self {
        Self { log, until: 0 }
    }

    /// The log, before it is appended to. On a disk that has no room just now what is left of it is
    /// used, and each time it is asked for more.
    pub(crate) fn log(&mut self) -> &mut (dyn Log + Sync) {
        let len = self.log.len();
        if self.until < len + ROOM / 2 && self.log.reserve(ROOM) {
            self.until = len + ROOM;
        }
        &mut *self.log
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.log.reserve(0);
    }
}
