//! What a client keeps in a folder of its own, so that a crash leaves it as it was before or after.
//!
//! It is written whole into one of two logs in turn, with a number and a check.

use std::thread;
use std::time::Duration;

use onefold_backend::{BackendError, Folder, Log};
use onefold_seal::wire::{Put, Reader};
use onefold_seal::{CHECK_LEN, Check, ObjectId};

use crate::seeded::fault;

const NAMES: [&str; 2] = ["seen-1", "seen-2"];

/// More than this was not written by a client.
const MAX_LEN: u64 = 64 << 20;

/// So often it is tried to have what another process has.
const TRIES: u32 = 100;
/// So long is waited in between.
const PAUSE: Duration = Duration::from_millis(50);

/// The two logs, held by one process at a time.
pub(crate) struct Slots {
    /// What is kept is about this.
    about: ObjectId,
    logs: [Box<dyn Log + Sync>; 2],
    /// Which of the two was written last, and for the how manieth time.
    newest: Option<(usize, u64)>,
}

impl Slots {
    /// Opens what is kept in `folder` about `about`, with the newest that `decode` can read.
    pub(crate) fn open<T>(
        folder: &dyn Folder,
        about: ObjectId,
        decode: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<(Self, Option<T>), BackendError> {
        let first = patiently(|| folder.log(NAMES[0]))?;
        let logs = [first, patiently(|| folder.log(NAMES[1]))?];
        let mut slots = Self { about, logs, newest: None };
        let mut found = None;
        for number in 0..2 {
            let bytes = slots.read(number)?;
            let Some((generation, kept)) = slots.unwrap(&bytes) else { continue };
            let Some(kept) = decode(kept) else { continue };
            if slots.newest.is_none_or(|(_, newest)| generation > newest) {
                slots.newest = Some((number, generation));
                found = Some(kept);
            }
        }
        Ok((slots, found))
    }

    /// Whether there was something that nobody can read.
    pub(crate) fn is_lost(&self) -> bool {
        self.newest.is_none() && self.logs.iter().any(|log| !log.is_empty())
    }

    fn read(&self, number: usize) -> Result<Vec<u8>, BackendError> {
        let log = &self.logs[number];
        if log.len() > MAX_LEN {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; log.len() as usize];
        log.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Number and content of what one of the logs holds, if it is whole.
    fn unwrap<'a>(&self, bytes: &'a [u8]) -> Option<(u64, &'a [u8])> {
        let (covered, check) = bytes.split_last_chunk::<CHECK_LEN>()?;
        Check::from_bytes(*check).verify(&[covered]).ok()?;
        let mut reader = Reader::new(covered);
        if reader.array("what it is about").ok()? != *self.about.as_bytes() {
            return None;
        }
        let generation = reader.u64("a number").ok()?;
        Some((generation, reader.take(reader.remaining(), "what is kept").ok()?))
    }

    /// Keeps `content` from now on; durable when this returns.
    pub(crate) fn keep(&mut self, content: &[u8]) -> Result<(), BackendError> {
        let (number, generation) = match self.newest {
            None => (0, 0),
            Some((newest, generation)) => (1 - newest, generation + 1),
        };
        let number = match fault!(MemoryOverwritten) {
            false => number,
            true => self.newest.map_or(0, |(newest, _)| newest),
        };
        let mut bytes = self.about.as_bytes().to_vec();
        bytes.put_u64(generation);
        bytes.extend_from_slice(content);
        let check = Check::of(&[&bytes]);
        bytes.extend_from_slice(check.as_bytes());
        let log = &mut self.logs[number];
        log.truncate(0)?;
        log.append(&bytes)?;
        log.sync()?;
        self.newest = Some((number, generation));
        Ok(())
    }
}

/// Waits for a while for what another process uses.
pub(crate) fn patiently<T>(
    mut open: impl FnMut() -> Result<T, BackendError>,
) -> Result<T, BackendError> {
    for _ in 1..TRIES {
        match open() {
            Err(BackendError::InUse { .. }) => thread::sleep(PAUSE),
            result => return result,
        }
    }
    open()
}
