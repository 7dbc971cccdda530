//! Containers that the pool makes for all shards of a cluster, and registrations that it gives up.
//!
//! A batch announces a container before it is made, and the batch with the first page settles that. So a
//! container must be made before a thread has the [appender](Appender): commits come before it in the order
//! of locks.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, MutexGuard};

use crate::containers::append::Appender;
use crate::containers::files::{PageFile, Shared};
use crate::engine::parts::Engine;
use crate::error::VolumeError;
use crate::ids::SharedName;
use crate::journal::record::{Announced, Record};
use crate::sharing::RegisteredAs;
use crate::state::registrations::Stage;

/// Containers that are announced one after another at most until one is made.
const TRIES: usize = 4;

/// The appender, which a thread lets others have while it makes a container.
pub(crate) struct HeldAppender<'a> {
    engine: &'a Engine,
    guard: Option<MutexGuard<'a, Appender>>,
}

impl<'a> HeldAppender<'a> {
    /// Lets others have it while `f` runs.
    fn without<T>(&mut self, f: impl FnOnce(&'a Engine) -> T) -> T {
        self.guard = None;
        let done = f(self.engine);
        self.guard = Some(self.engine.appender());
        done
    }
}

impl Deref for HeldAppender<'_> {
    type Target = Appender;

    fn deref(&self) -> &Appender {
        self.guard.as_ref().expect("it is held but for a moment")
    }
}

impl DerefMut for HeldAppender<'_> {
    fn deref_mut(&mut self) -> &mut Appender {
        self.guard.as_mut().expect("it is held but for a moment")
    }
}

impl Engine {
    /// The appender, for a thread that may have to make a container.
    pub(crate) fn held_appender(&self) -> HeldAppender<'_> {
        HeldAppender { engine: self, guard: Some(self.appender()) }
    }

    /// Makes sure that a container for all shards can be begun if the next page needs one, whose number must
    /// be above `after`. Nothing is done in a pool that does not share.
    pub(super) fn ensure_ready(
        &self,
        appender: &mut HeldAppender<'_>,
        after: u32,
    ) -> Result<(), VolumeError> {
        if self.sharing().is_none() {
            return Ok(());
        }
        if appender.number().is_some_and(|number| number <= after) {
            self.seal(appender)?;
        }
        while appender.number().is_none() || appender.is_full() {
            // pages move to later containers only
            let after = appender.number().unwrap_or(0).max(after);
            while appender.ready.front().is_some_and(|file| file.number() <= after)
                && let Some(file) = appender.ready.pop_front()
            {
                self.give_up(file);
            }
            if !appender.ready.is_empty() {
                return Ok(());
            }
            // in a full pool with the reserve: what is appended waits in memory until a commit, which has it too
            appender.without(|engine| engine.room.with_reserve(|| engine.make_container()))?;
        }
        Ok(())
    }

    /// Announces a container, makes it, and lets it be begun.
    fn make_container(&self) -> Result<(), VolumeError> {
        let mut failed = None;
        for _ in 0..TRIES {
            let what = Announced::Create(self.shard.writer());
            let (number, name) = self.announce_new(what);
            self.commit().inspect_err(|_| self.give_up_number(number))?;
            let value = RegisteredAs { writer: self.shard.writer(), number };
            match self.sharing().expect("it shares").create(name, value) {
                Ok(log) => {
                    let file = self.files.begun(number, log);
                    let mut appender = self.appender();
                    let place = appender.ready.partition_point(|one| one.number() < number);
                    appender.ready.insert(place, file);
                    return Ok(());
                }
                // a creation is sent once: the next container has another name
                Err(error) => {
                    self.give_up_number(number);
                    if error.is_full() {
                        return Err(error);
                    }
                    failed = Some(error);
                }
            }
        }
        Err(failed.expect("there was a try"))
    }

    /// Queues the announcement of a registration by a new number. Returns the number and the container.
    pub(super) fn announce_new(&self, what: Announced) -> (u32, SharedName) {
        let own = self.files.own_shard().expect("it shares");
        let mut state = self.state();
        let number = state.pages.next;
        state.pages.next += 1;
        let is_new = state.pages.registrations.announce(own, number, what);
        assert!(is_new, "number {number} is new, and the caller looked for the container");
        state.waiting.push(&Record::Announce { container: number, what });
        let one = *state.pages.registrations.get(number).expect("just announced");
        drop(state);
        self.files.name_shared(number, Shared { name: one.name, is_foreign: one.is_foreign });
        (number, one.name)
    }

    /// The registration by `number`, whose answer does not come or which nothing needs, is dropped.
    pub(super) fn give_up_number(&self, number: u32) {
        self.give_up(self.files.closed(number, 0));
    }

    /// The container that `file` is, which was made and has no page, is dropped.
    pub(crate) fn give_up(&self, file: Arc<PageFile>) {
        let mut state = self.state();
        let record = state.pages.give_up_registration(file);
        state.waiting.push(&record);
    }

    /// Drops the registration that `file` stands for, as the journal says, and settles that. Returns `file` if
    /// it must be tried again.
    pub(super) fn drop_registration(&self, file: Arc<PageFile>) -> Option<Arc<PageFile>> {
        let (Some(name), Some(sharing)) = (file.shared(), self.sharing()) else {
            return Some(file);
        };
        // whoever found a page in it goes on to read it
        if Arc::strong_count(&file) > 1 {
            return Some(file);
        }
        let number = file.number();
        let found = self.state().pages.registrations.get(number).copied();
        // one that was settled needs no second try
        let one = found.filter(|one| one.stage == Stage::Dropping)?;
        if sharing.release(name, RegisteredAs { writer: one.writer, number }).is_err() {
            return Some(file);
        }
        let mut state = self.state();
        state.pages.registrations.settle(number, false);
        state.waiting.push(&Record::Settle { container: number, is_registered: false });
        drop(state);
        self.files.forget_shared(number);
        None
    }
}
