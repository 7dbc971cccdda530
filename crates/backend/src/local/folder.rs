//! Logs and pages in a directory of this machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::log::LocalReader;
use super::objects::make_durably;
use super::{LocalLog, LocalPages};
use crate::name::check_part;
use crate::{BackendError, Folder, Log, LogReader, Operation, Pages};

/// Logs and files of pages in a local directory.
#[derive(Debug)]
pub struct LocalFolder {
    root: PathBuf,
}

impl LocalFolder {
    /// The folder at `root`, made durably, for nobody but its owner, with the directories above it
    /// where they are missing. One that exists is taken as it is.
    pub fn create(root: &Path) -> Result<Self, BackendError> {
        make_durably(root).map_err(|cause| BackendError::BadRoot {
            root: root.to_owned(),
            reason: "it cannot be made",
            source: Some(cause),
        })?;
        Ok(Self { root: root.to_owned() })
    }

    fn path(&self, name: &str) -> Result<PathBuf, BackendError> {
        check_part(name)?;
        Ok(self.root.join(name))
    }
}

impl Folder for LocalFolder {
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
        Ok(Box::new(LocalLog::open(&self.path(name)?)?))
    }

    fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError> {
        Ok(Box::new(LocalReader::open(&self.path(name)?)?))
    }

    fn pages(&self, name: &str, page_size: usize) -> Result<Box<dyn Pages + Sync>, BackendError> {
        Ok(Box::new(LocalPages::open(&self.path(name)?, page_size)?))
    }

    fn names(&self) -> Result<Vec<String>, BackendError> {
        let list = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.root)? {
                let entry = entry?;
                let name = entry.file_name().into_string().ok();
                // What has no name of ours is not ours.
                let name = name.filter(|name| check_part(name).is_ok());
                if entry.file_type()?.is_file() {
                    names.extend(name);
                }
            }
            names.sort_unstable();
            Ok(names)
        };
        list().map_err(|cause| BackendError::from_file(Operation::List, &self.root, cause))
    }

    fn remove(&self, name: &str) -> Result<(), BackendError> {
        let path = self.path(name)?;
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(BackendError::from_file(Operation::Delete, &path, cause))
            }
            _ => Ok(()),
        }
    }
}
