//! The contract of a local directory of logs and files of pages.

use std::sync::Arc;

use crate::{BackendError, Log, LogReader, Pages};

/// Logs and files of pages in one local directory, under names of one part.
///
/// Opening a name that does not exist creates it, empty. A name is either a log or pages, as it was
/// created.
pub trait Folder: Send + Sync {
    /// Opens a log. Name and content are durable on return.
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError>;

    /// Opens an existing log for reading. A log may have any number of readers in addition to its owner.
    ///
    /// Nothing is created or synced. If there is no log of this name, the error is
    /// [`is_not_found`](BackendError::is_not_found). A symbolic link is not followed.
    fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError>;

    /// Opens pages of `page_size` bytes. Name and content are durable on return.
    ///
    /// # Panics
    ///
    /// If `page_size` is zero.
    fn pages(&self, name: &str, page_size: usize) -> Result<Box<dyn Pages + Sync>, BackendError>;

    /// The existing names, sorted.
    fn names(&self) -> Result<Vec<String>, BackendError>;

    /// Removes a name; succeeds if it does not exist. Open handles of it stay usable.
    ///
    /// The removal is not durable: after a crash the name may exist again, with all or part of its bytes.
    fn remove(&self, name: &str) -> Result<(), BackendError>;

    /// Gives the file `from` the name `to`, in place of the file that has it, if any.
    ///
    /// Open handles of either file stay usable, and what they own stays theirs: a handle follows its file,
    /// not the name. Opening `to` gives one of the two files at any moment. The names are durable on
    /// return; the content of `from` is as durable as it was before. After a crash in between, `to` is
    /// either file, and `from` may exist or not.
    ///
    /// # Errors
    /// [`is_not_found`](BackendError::is_not_found) if there is no file `from`. After any other error the
    /// names are as before or as wanted, and perhaps not durable.
    fn rename(&self, from: &str, to: &str) -> Result<(), BackendError>;

    /// The free space for logs in bytes, if known; other programs may use it first.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// The mount of the folder's file system, or `None` if the system cannot distinguish mounts.
    ///
    /// While the mount is the same, no power cut has happened: files have all written bytes, synced or not,
    /// unless the storage lost or changed them.
    fn mount(&self) -> Option<MountId> {
        None
    }
}

/// One mount of a file system, within one boot of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountId {
    /// The kernel's id of the boot; not zero.
    pub boot: [u8; 16],
    /// The number of the mount, which the kernel never reuses within a boot.
    pub number: u64,
}

macro_rules! forward_folder {
    ($pointer:ty) => {
        impl<T: Folder + ?Sized> Folder for $pointer {
            fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError> {
                (**self).log(name)
            }

            fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError> {
                (**self).reader(name)
            }

            fn pages(
                &self,
                name: &str,
                page_size: usize,
            ) -> Result<Box<dyn Pages + Sync>, BackendError> {
                (**self).pages(name, page_size)
            }

            fn names(&self) -> Result<Vec<String>, BackendError> {
                (**self).names()
            }

            fn remove(&self, name: &str) -> Result<(), BackendError> {
                (**self).remove(name)
            }

            fn rename(&self, from: &str, to: &str) -> Result<(), BackendError> {
                (**self).rename(from, to)
            }

            fn free_bytes(&self) -> Option<u64> {
                (**self).free_bytes()
            }

            fn mount(&self) -> Option<MountId> {
                (**self).mount()
            }
        }
    };
}

forward_folder!(&T);
forward_folder!(Box<T>);
forward_folder!(Arc<T>);
