//! Removing from the target what the snapshot does not have.
//!
//! Only names below a directory of the snapshot that the snapshot does not have are removed, with all
//! that is below them. Directories are opened as everywhere in a restore: beneath the one above,
//! never through a symbolic link, and here never across a mount.

use std::io;
use std::sync::Arc;

use rustix::fs::{FileType, Stat};

use super::context::Context;
use super::report::Counts;
use super::selection::Selection;
use super::target::{Components, Target};
use crate::{Act, StoreError};
use crate::{system, tree};

/// A name in the target that the snapshot does not have.
pub(super) struct Extra {
    pub(super) directory: Arc<Components>,
    pub(super) name: Arc<[u8]>,
}

/// Removes what may be removed.
pub(super) struct Deleting<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) selection: &'a Selection,
}

impl Deleting<'_> {
    /// Removes each of `extras`. What cannot be removed is reported and stays.
    pub(super) fn delete(&self, root: &Target, extras: &[Extra]) -> Result<(), StoreError> {
        for Extra { directory, name } in extras {
            let mut path = Components::clone(directory);
            match root.find_unmounted(&path) {
                Ok(Some(target)) => drop(self.remove(&target, &mut path, name)?),
                Ok(None) => {
                    let reason = "something else took its place while it was restored";
                    self.context.failed(directory, reason.into());
                }
                Err(error) => self.context.failed(directory, error.to_string()),
            }
        }
        Ok(())
    }

    /// Removes `name` in the directory `target` at `above`; whether it is gone then, or would be.
    fn remove(
        &self,
        target: &Target,
        above: &mut Components,
        name: &Arc<[u8]>,
    ) -> Result<bool, StoreError> {
        self.context.go_on()?;
        let result = self.try_remove(target, above, name);
        result.unwrap_or_else(|error| {
            above.push(Arc::clone(name));
            self.context.failed(above, format!("it could not be deleted: {error}"));
            above.pop();
            Ok(false)
        })
    }

    /// As [`remove`](Self::remove): the outer error is of this name, the inner one ends the restore.
    fn try_remove(
        &self,
        target: &Target,
        above: &mut Components,
        name: &Arc<[u8]>,
    ) -> io::Result<Result<bool, StoreError>> {
        let Some(stat) = target.stat(name)? else { return Ok(Ok(true)) };
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if self.selection.leaves_out(above, name, is_directory) || self.is_repository(&stat) {
            return Ok(Ok(false));
        }
        if is_directory {
            tree::check_depth(above.len() + 1).map_err(io::Error::other)?;
            let directory = target.directory_to_empty(name)?;
            above.push(Arc::clone(name));
            let emptied = self.empty(&directory, above);
            above.pop();
            match emptied? {
                Ok(true) => {}
                other => return Ok(other),
            }
        }
        if !self.selection.picks(above, name, is_directory) {
            return Ok(Ok(false));
        }
        let context = self.context;
        if !context.options.dry_run {
            target.remove_any(name, is_directory)?;
        }
        context.act(Act::Delete, above, name);
        Counts::add(&context.counts.deleted, 1);
        Ok(Ok(true))
    }

    /// Removes what `directory` at `path` holds; whether it is empty then.
    fn empty(
        &self,
        directory: &Target,
        path: &mut Components,
    ) -> io::Result<Result<bool, StoreError>> {
        let mut is_empty = true;
        for name in directory.names()? {
            match self.remove(directory, path, &Arc::from(name)) {
                Ok(is_gone) => is_empty &= is_gone,
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(is_empty))
    }

    fn is_repository(&self, stat: &Stat) -> bool {
        self.context.options.own_repository == Some(system::identity(stat))
    }
}
