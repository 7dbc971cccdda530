//! Commits: queued records become durable, then files of dropped containers are deleted.

use std::sync::{Arc, MutexGuard};

use onefold_fingerprint::Fingerprint;

use crate::containers::files::PageFile;
use crate::engine::counters::count;
use crate::engine::parts::Engine;
use crate::engine::shard::Batches;
use crate::error::VolumeError;
use crate::ids::{Handle, VolumeId};
use crate::seeded::fault;
use crate::sharing::PageHint;
use crate::state::State;

/// While a commit is in flight, at most this many times the commit threshold may queue.
const MOST_WAITING: usize = 4;

impl Engine {
    /// Fails unless `volume` can be changed. If much waits it is written first; if somebody does that
    /// already, nobody else waits for the disk until several times as much is waiting. So what waits is
    /// bounded, also while the disk is full.
    pub(crate) fn ensure_room(&self, volume: VolumeId) -> Result<(), VolumeError> {
        self.shard.ensure_running()?;
        let waiting = {
            let state = self.state();
            if !state.volumes.contains_key(&volume) {
                return Err(VolumeError::Deleted);
            }
            state.waiting.bytes()
        };
        if waiting < self.options.commit_len {
            return Ok(());
        }
        match self.shard.try_batches() {
            Some(batches) => self.commit_holding(batches),
            None if waiting < MOST_WAITING * self.options.commit_len => Ok(()),
            None => self.commit(),
        }
    }

    /// Makes durable what was done before. A thread that has to wait for a commit of another thread is
    /// done if that commit had all of it.
    pub(crate) fn flush(&self) -> Result<(), VolumeError> {
        let came = self.state().waiting.came();
        let batches = self.shard.try_batches().or_else(|| {
            let batches = self.shard.batches();
            (batches.durable < came).then_some(batches)
        });
        let Some(batches) = batches else { return self.shard.ensure_running() };
        self.commit_holding(batches)
    }

    /// Makes durable what was done before, and removes the files of containers that are dead then. On a
    /// full disk it takes the reserve: what is erased or deleted gives room back by a commit.
    pub(crate) fn commit(&self) -> Result<(), VolumeError> {
        self.commit_holding(self.shard.batches())
    }

    /// Commits with `batches` locked. A second try, which has the reserve, locks them again.
    fn commit_holding(&self, batches: MutexGuard<'_, Batches>) -> Result<(), VolumeError> {
        let mut held = Some(batches);
        self.room.with_reserve(|| {
            let batches = held.take().unwrap_or_else(|| self.shard.batches());
            self.commit_to(batches)
        })
    }

    fn commit_to(&self, mut batches: MutexGuard<'_, Batches>) -> Result<(), VolumeError> {
        self.shard.ensure_running()?;
        self.settle_pending()?;
        let (bodies, came, files, added) = {
            let mut state = self.state();
            let State { pages, waiting, .. } = &mut *state;
            pages.doom_dead(|record| waiting.push(record));
            (waiting.take(), waiting.came(), pages.take_unsynced(), pages.take_added())
        };
        fault!(RemovedBeforeDropped => self.remove_files(self.take_doomed()));
        self.write(&mut batches, bodies, &files).map_err(|error| self.room.note_refused(error))?;
        batches.durable = came;
        self.tell(&added);
        // before the next commit dooms others, of which no batch says so yet
        let doomed = self.take_doomed();
        drop(batches);
        self.remove_files(doomed);
        Ok(())
    }

    /// Syncs `files`, then adds `bodies` as batches.
    pub(super) fn write(
        &self,
        batches: &mut Batches,
        bodies: Vec<Vec<u8>>,
        files: &[Arc<PageFile>],
    ) -> Result<(), VolumeError> {
        if bodies.is_empty() {
            return Ok(());
        }
        for file in files.iter().filter(|_| !fault!(ContainersUnsynced)) {
            // asked before: a footer that comes meanwhile may not be durable yet
            let is_complete = file.is_complete();
            if let Err(error) = file.sync() {
                if !error.may_sync_again() {
                    return Err(self.shard.stop(&file.name, error));
                }
                // the file keeps what it has; the next commit syncs all of them again
                let mut state = self.state();
                state.waiting.put_back(bodies);
                state.pages.put_back_unsynced(files);
                return Err(error.into());
            }
            if is_complete {
                file.let_close();
            }
        }
        let mut left = bodies.into_iter();
        while let Some(body) = left.next() {
            if let Err(error) = self.shard.apply(batches, &body) {
                let again = std::iter::once(body).chain(left).collect();
                self.state().waiting.put_back(again);
                return Err(error);
            }
            count(&self.counters.journal_bytes, body.len());
        }
        count(&self.counters.commits, 1);
        Ok(())
    }

    /// Tells the other shards of pages that are durable.
    pub(super) fn tell(&self, added: &[(Fingerprint, PageHint)]) {
        if let Some(sharing) = self.sharing().filter(|_| !added.is_empty()) {
            sharing.add(added);
        }
    }

    fn take_doomed(&self) -> Vec<Arc<PageFile>> {
        self.state().pages.take_doomed()
    }

    /// Removes the files of containers of which the journal says that they are gone.
    fn remove_files(&self, doomed: Vec<Arc<PageFile>>) {
        if doomed.is_empty() {
            return;
        }
        let table = self.table.get();
        let mut left = Vec::new();
        for file in doomed {
            if file.is_foreign() {
                left.extend(self.drop_registration(file));
                continue;
            }
            // Who found a page in it before goes on to read it, though its name is gone.
            // One that is shared is not removed before that is done.
            let is_shared = file.shared().is_some();
            if !is_shared && file.keep_open().is_err_and(|error| !error.is_not_found()) {
                left.push(file);
                continue;
            }
            // What cannot be read stays in the table, where nobody believes it.
            if let Ok(directory) = file.directory() {
                for (slot, chunk) in (0..).zip(&directory.chunks) {
                    let page = Handle::new(file.number(), slot);
                    if table.get(&chunk.fingerprint) == Some(page.to_u64()) {
                        table.remove(&chunk.fingerprint);
                    }
                }
            }
            self.neighbours.forget(file.number());
            if is_shared {
                match self.drop_registration(file) {
                    None => self.room.note_made(),
                    Some(file) => left.push(file),
                }
                continue;
            }
            // What was done is durable; the file goes with a later commit, or when the pool is opened.
            match self.folder.remove(&file.name) {
                Ok(()) => self.room.note_made(),
                Err(_) => {
                    file.let_close();
                    left.push(file);
                }
            }
        }
        self.state().pages.put_back_doomed(left);
    }
}
