//! Registrations that a shard counts on and does not have.

use onefold_backend::Operation;
use onefold_volume::{Pool, Repaired, VolumeError, Writer};

use super::guard::{Registered, Value};
use super::shared::{SharedContainers, name_of, value_of};
use crate::error::failed;
use crate::hints::ContainerName;

/// What became of a registration that a shard counts on.
enum Protected {
    /// The guard has it.
    Before,
    /// The guard has it again.
    Again,
    /// The guard takes no registrations any more.
    Refused,
}

impl SharedContainers {
    /// Registers the shard again where `pool`, its open pool, counts as registered and is not: a repair may give up a
    /// batch that announced a drop after the guard dropped the registration. From a container that takes no
    /// registrations, pages are moved to others. `done` gets what was settled, and what is still wrong.
    ///
    /// The mark that keeps `pool` from mapping further pages of such a container is in memory alone, so it ends when
    /// the shard is opened again, also if pages could not be moved. A journal does not keep it: that the mark was set
    /// follows from the guard, which may change later. The next gateway finds it out by an `fsck`, at most
    /// `serve --check-every` later, sets the mark again and moves what can be read by then. A sweep does not find it,
    /// because the guard does not have the shard. Until then a new block may map a page that stayed there; it is
    /// protected as little as the blocks that have the page already, and is named with them.
    ///
    /// # Errors
    /// [`VolumeError::Superseded`], or if a pool of RADOS refuses something or gives no answer. The call can be
    /// repeated.
    pub(crate) fn protect(&self, pool: &Pool, done: &mut Repaired) -> Result<(), VolumeError> {
        let mut refused = Vec::new();
        for one in pool.uses().into_iter().filter(|one| one.is_registered) {
            let name = name_of(&one.container);
            match self.register_again(pool, &name, value_of(one.registered))? {
                Protected::Before => {}
                Protected::Again => {
                    done.settled.push(format!("registered again in {name}"));
                }
                Protected::Refused => {
                    // before anything is written: a new block must not map pages there
                    pool.note_closing(&one.container);
                    refused.push(one.container);
                }
            }
        }
        if refused.is_empty() {
            return Ok(());
        }
        pool.maintain()?;
        pool.drop_unused()?;
        for name in refused {
            match pool.use_of(&name).is_some_and(|one| one.is_registered) {
                false => done.settled.push(format!(
                    "moved the pages in use out of {name}, which takes no registrations"
                )),
                true => done.left.push(format!(
                    "{name} takes no registrations and has pages that could not be moved out of it: \
                     `onefold cluster fsck` says whether it is lost"
                )),
            }
        }
        Ok(())
    }

    /// Registers by `value`, by which the shard counts as registered, if the guard does not have that.
    fn register_again(
        &self,
        pool: &Pool,
        name: &ContainerName,
        value: Value,
    ) -> Result<Protected, VolumeError> {
        let guard = self.guards.read(name).map_err(|error| failed(Operation::Read, error))?;
        match guard.and_then(|guard| guard.users.get(&self.guards.own()).copied()) {
            Some(found) if found == value => return Ok(Protected::Before),
            Some(found) if found.writer > pool.writer().0 => {
                return Err(VolumeError::Superseded {
                    writer: pool.writer(),
                    by: Writer(found.writer),
                });
            }
            // one of which a batch knew that was given up
            Some(found) => self.guards.drop(name, found),
            None => Ok(()),
        }
        .map_err(|error| failed(Operation::Write, error))?;
        let registered = self.guards.register(name, value);
        match registered.map_err(|error| failed(Operation::Write, error))? {
            Registered::Done => Ok(Protected::Again),
            Registered::Refused => Ok(Protected::Refused),
            Registered::Superseded { by } => {
                Err(VolumeError::Superseded { writer: pool.writer(), by: Writer(by) })
            }
        }
    }
}
