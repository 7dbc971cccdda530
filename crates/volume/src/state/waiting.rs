//! Records that are queued until a commit makes them durable.

use crate::journal::metadata::MAX_BATCH;
use crate::journal::record::Record;
use crate::seeded::fault;

/// Records that are not known to be durable yet, in the bodies of batches.
#[derive(Default)]
pub(crate) struct Waiting {
    /// Those that were handed over and not acknowledged, and others behind them. They are handed over
    /// again as they are: the first may be there, and of what is added to it nothing would be.
    unacknowledged: Vec<Vec<u8>>,
    bodies: Vec<Vec<u8>>,
    /// Of all of them.
    bytes: usize,
    /// How often records came since the pool was opened.
    came: u64,
}

impl Waiting {
    /// How many bytes wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How often records came since the pool was opened.
    pub(crate) fn came(&self) -> u64 {
        self.came
    }

    pub(crate) fn push(&mut self, record: &Record) {
        self.push_together(std::slice::from_ref(record));
    }

    /// Adds few records that are durable together or not at all: they are in one batch.
    pub(crate) fn push_together(&mut self, records: &[Record]) {
        if self.bodies.last().is_none_or(|body| body.len() > MAX_BATCH / 2) {
            self.bodies.push(Vec::new());
        }
        let body = self.bodies.last_mut().expect("there is one now");
        let before = body.len();
        records.iter().for_each(|record| record.encode(body));
        self.bytes += body.len() - before;
        self.came += 1;
    }

    /// Puts back what was not acknowledged, before what came since.
    pub(crate) fn put_back(&mut self, bodies: Vec<Vec<u8>>) {
        self.bytes += bodies.iter().map(Vec::len).sum::<usize>();
        fault!(RetryGrown => return drop(self.bodies.splice(..0, bodies)));
        self.unacknowledged = bodies;
    }

    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        self.bytes = 0;
        let mut bodies = std::mem::take(&mut self.unacknowledged);
        bodies.append(&mut self.bodies);
        bodies
    }
}
