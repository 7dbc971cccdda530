//! The contract of a local directory of logs and files of pages.

use std::sync::Arc;

use crate::{BackendError, Log, LogReader, Pages};

/// Logs and files of pages in one local directory, under names of one part.
///
/// What is opened does not have to exist: it is then made, empty. A name is a log or pages, and
/// stays what it was made as.
pub trait Folder: Send + Sync {
    /// Opens a log. Name and content are durable on return.
    fn log(&self, name: &str) -> Result<Box<dyn Log + Sync>, BackendError>;

    /// Opens a log that is there, to read it: any number at a time, beside who owns it.
    ///
    /// Nothing is made or synced. Without a log of this name the error is
    /// [`is_not_found`](BackendError::is_not_found). What the name leads to by a symbolic link is not
    /// opened.
    fn reader(&self, name: &str) -> Result<Box<dyn LogReader>, BackendError>;

    /// Opens pages of `page_size` bytes. Name and content are durable on return.
    ///
    /// # Panics
    ///
    /// If `page_size` is zero.
    fn pages(&self, name: &str, page_size: usize) -> Result<Box<dyn Pages + Sync>, BackendError>;

    /// The names that there are, sorted.
    fn names(&self) -> Result<Vec<String>, BackendError>;

    /// Removes a name; succeeds if there is none. Whoever has it open may go on with it.
    ///
    /// Never durable for sure: after a crash the name may be back, with all or part of its bytes.
    fn remove(&self, name: &str) -> Result<(), BackendError>;

    /// Bytes that logs may still take, as far as that is known; others may take them first.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// The mount of the folder's file system, or `None` if the system cannot tell mounts apart.
    ///
    /// As long as it is the same, no power cut came between: files hold all that was written, synced
    /// or not, unless the storage lost or changed it.
    fn mount(&self) -> Option<MountId> {
        None
    }
}

/// One mount of a file system, within one boot of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountId {
    /// The kernel's id of the boot; not zero.
    pub boot: [u8; 16],
    /// The number of the mount, which the kernel gives out once in a boot.
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
