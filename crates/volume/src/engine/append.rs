//! New pages: appended to containers and entered into the table of fingerprints.

use onefold_index::Table;

use crate::containers::append::Appender;
use crate::containers::new_pages::{NewPage, NewPages};
use crate::engine::parts::Engine;
use crate::engine::room::Purpose;
use crate::engine::shared::HeldAppender;
use crate::error::VolumeError;
use crate::ids::Handle;
use crate::journal::record::Record;
use crate::sharing::SharedRoom;
use crate::state::State;
use crate::state::nodes::Missing;

impl Engine {
    /// Appends `new` to containers, as far as there is room for `purpose`, and inserts it into
    /// `table`. `settle` gets each page's handle and must take its first reference, in the
    /// state-lock section that adds the page; `here` fails for a node that it needs and that is not in
    /// memory.
    ///
    /// On error all of this is done for a prefix of `new`.
    pub(crate) fn append<T>(
        &self,
        appender: &mut HeldAppender<'_>,
        new: &NewPages<T>,
        purpose: Purpose,
        table: &dyn Table,
        here: impl Fn(&State, &NewPage<T>) -> Result<(), Missing>,
        mut settle: impl FnMut(&mut State, Handle, &NewPage<T>),
    ) -> Result<(), VolumeError> {
        let quota = self.options.quota.filter(|_| purpose == Purpose::Write);
        let after = match purpose {
            Purpose::Write => 0,
            Purpose::Move { from } => from,
        };
        let mut rest = new.all();
        let mut entered = Vec::with_capacity(rest.pages.len());
        while let Some(next) = rest.pages.first() {
            self.room.ensure_reserve(purpose)?;
            self.ensure_quota(appender, next.stored_len as usize, quota)?;
            self.ensure_shared_quota(appender, next.stored_len as usize, purpose)?;
            // containers that shards share refuse a superseded writer by themselves
            if self.sharing().is_none() {
                self.shard.ensure_current()?;
            }
            self.ensure_ready(appender, after)?;
            let mut append = || {
                let number = self.open_container(appender)?;
                let room = quota.map_or(u64::MAX, |quota| self.state().pages.room(quota));
                let shared = self.shared_room(purpose).map_or(u64::MAX, |room| room.bytes);
                Ok::<_, VolumeError>((number, appender.append(&rest, room.min(shared))?))
            };
            let (number, appended) = match purpose {
                Purpose::Write => append()?,
                Purpose::Move { .. } => self.room.with_reserve(append)?,
            };
            entered.clear();
            if let Some(sharing) = self.sharing() {
                sharing.note_stored(appended.iter().map(|one| u64::from(one.stored_len)).sum());
            }
            {
                let now = &rest.pages[..appended.len()];
                let mut state =
                    self.state_with(|state| now.iter().try_for_each(|one| here(state, one)))?;
                for (entry, one) in appended.into_iter().zip(now) {
                    let page = state.pages.push(number, &entry);
                    entered.push((entry.fingerprint, page.to_u64()));
                    state.waiting.push(&Record::Page { container: number, page: entry });
                    settle(&mut state, page, one);
                }
            }
            rest.skip(entered.len());
            self.enter(table, &entered);
        }
        Ok(())
    }

    /// The number of the open container, of a new one if there is none or it is full.
    fn open_container(&self, appender: &mut Appender) -> Result<u32, VolumeError> {
        if appender.is_full() {
            self.seal(appender)?;
        }
        if let Some(number) = appender.number() {
            return Ok(number);
        }
        let (file, len) = match appender.ready.pop_front() {
            Some(file) => appender.begin_in(file)?,
            None => {
                let number = self.state().pages.next;
                appender.begin(number)?
            }
        };
        let number = file.number();
        let taken = {
            let mut state = self.state();
            if file.shared().is_some() {
                state.pages.registrations.settle(number, true);
                state.waiting.push(&Record::Settle { container: number, is_registered: true });
            }
            state.pages.begin(file, len);
            state.pages.bytes()
        };
        self.room.look(taken);
        Ok(number)
    }

    /// Gives the open container its footer.
    pub(crate) fn seal(&self, appender: &mut Appender) -> Result<(), VolumeError> {
        let (container, len) = appender.seal()?;
        let mut state = self.state();
        state.pages.seal(container, len);
        state.waiting.push(&Record::Sealed { container });
        Ok(())
    }

    /// Fails if a page of so many stored bytes is too much for the quota.
    fn ensure_quota(
        &self,
        appender: &Appender,
        stored_len: usize,
        quota: Option<u64>,
    ) -> Result<(), VolumeError> {
        let Some(quota) = quota else { return Ok(()) };
        let bytes = self.state().pages.bytes();
        if appender.needed(stored_len) <= quota.saturating_sub(bytes) {
            return Ok(());
        }
        Err(VolumeError::Quota { bytes, quota })
    }

    /// The room that a quota of all shards leaves for `purpose`.
    fn shared_room(&self, purpose: Purpose) -> Option<SharedRoom> {
        self.sharing().filter(|_| purpose == Purpose::Write)?.room()
    }

    /// Fails if a page of so many stored bytes is too much for a quota of all shards.
    fn ensure_shared_quota(
        &self,
        appender: &Appender,
        stored_len: usize,
        purpose: Purpose,
    ) -> Result<(), VolumeError> {
        let Some(SharedRoom { bytes, stored, quota }) = self.shared_room(purpose) else {
            return Ok(());
        };
        let needed = appender.needed(stored_len);
        if needed <= bytes {
            Ok(())
        } else {
            Err(VolumeError::SharedQuota { needed, stored, quota })
        }
    }
}
