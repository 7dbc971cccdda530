//! What becomes of the backups that gave notice of themselves.

use onefold_seal::{Envelope, ObjectId};

use super::Prune;
use super::report::Waiting;
use crate::StoreError;
use crate::history::fence::{self, Fate};
use crate::objects::intent::{self, Intent, intent_id, intent_name};
use crate::tree::Time;
use crate::writing::alive::Dead;

impl Prune<'_> {
    /// The backups that may still commit. Those that have, that have ended otherwise or that are
    /// taken for dead cannot any more, and their intents are deleted. Dead is what began long ago, and
    /// what is known to be by a [lock](crate::writing::alive).
    pub(super) fn resolve_intents(&mut self) -> Result<Vec<(ObjectId, Intent)>, StoreError> {
        let dead = Dead::find(self.repository);
        let mut running = Vec::new();
        let names = self.objects().list_names(intent::PREFIX)?;
        for id in names.iter().filter_map(|name| intent_id(name)) {
            // By its name, not by a listing: listings may lag behind.
            let mut fate = fence::fate(self.repository, id)?;
            if fate == Fate::Open {
                let read = |envelope: &Envelope| Intent::read(self.objects(), envelope, id);
                let intent = match self.repository.with_later_epoch(read) {
                    Ok((intent, client)) => Some((intent, self.is_removed(client)?)),
                    // It ended meanwhile: without a snapshot, or with one that a listing shows.
                    Err(error) if error.is_not_found() => continue,
                    Err(error) if error.is_unknown_version() => {
                        let client = self.repository.claimed_client(&intent_name(id))?;
                        if !self.is_removed(client)? {
                            return Err(error);
                        }
                        None
                    }
                    // Nobody knows when it began. A fence is always safe.
                    Err(StoreError::Envelope { .. } | StoreError::Malformed { .. }) => None,
                    Err(error) => return Err(error),
                };
                match intent {
                    // What a client whose key was taken back commits counts for nothing.
                    Some((intent, false)) if !self.is_old(intent.time) && !dead.has(id) => {
                        running.push((id, intent));
                    }
                    intent => {
                        let intent = intent.map(|(intent, _)| intent);
                        self.report.fenced.push(Waiting::new(id, intent.as_ref()));
                        if !self.options.dry_run {
                            fate = fence::put(self.repository, id)?;
                        }
                    }
                }
            }
            if fate != Fate::Open && !self.options.dry_run {
                self.objects().delete(&intent_name(id))?;
            }
        }
        if !self.options.dry_run {
            dead.clear(self.repository);
        }
        Ok(running)
    }

    /// Whether the key of the write-only client that sealed an intent was taken back.
    fn is_removed(&self, client: Option<u32>) -> Result<bool, StoreError> {
        let Some(client) = client else { return Ok(false) };
        Ok(self.repository.kept_of(client)?.is_some())
    }

    /// Whether a backup that began at `time` is taken for dead. A time as far in the future comes
    /// from a clock that is wrong, and would never grow old.
    fn is_old(&self, time: Time) -> bool {
        time.secs.abs_diff(Time::now().secs) >= self.options.fence_after.as_secs()
    }
}
