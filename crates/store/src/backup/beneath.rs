//! Directories held by descriptors: what is below a source is reached from its own directory, so
//! that a directory that is swapped for a link leads nowhere.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use super::source;
use crate::system;

/// Directories that stay open, far below the 1,024 descriptors that a process usually may have.
const MAX_OPEN: usize = 256;

/// The directories that are open, the oldest first.
#[derive(Default)]
pub(super) struct Pool(Mutex<VecDeque<Weak<Directory>>>);

/// A directory of a source. It may be closed whenever nobody uses it, and is then opened again
/// where it was, if it is still there.
pub(super) struct Directory {
    pool: Arc<Pool>,
    above: Option<Arc<Directory>>,
    /// Its name in the one above, or the path of the topmost one.
    name: OsString,
    id: (u64, u64),
    file: Mutex<Option<Arc<File>>>,
}

impl Directory {
    /// The directory at the path that a source was resolved to, which is open as `file`.
    pub(super) fn at(pool: &Arc<Pool>, path: &Path, file: File) -> io::Result<Arc<Self>> {
        Self::new(pool, None, path.as_os_str(), file)
    }

    /// The directory `name` in this one; a link is none.
    pub(super) fn open(self: &Arc<Self>, name: &OsStr) -> io::Result<Arc<Self>> {
        let file = source::open_directory(&self.hold()?.path_of(name))?;
        Self::new(&self.pool, Some(Arc::clone(self)), name, file)
    }

    fn new(
        pool: &Arc<Pool>,
        above: Option<Arc<Self>>,
        name: &OsStr,
        file: File,
    ) -> io::Result<Arc<Self>> {
        let id = id_of(&file)?;
        let file = Mutex::new(Some(Arc::new(file)));
        let directory =
            Arc::new(Self { pool: Arc::clone(pool), above, name: name.to_owned(), id, file });
        directory.note();
        Ok(directory)
    }

    /// Keeps it open as long as what this gives lives.
    pub(super) fn hold(self: &Arc<Self>) -> io::Result<Held> {
        if let Some(file) = &*self.file.lock().expect("nothing panics with it locked") {
            return Ok(Held(Arc::clone(file)));
        }
        let file = Arc::new(match &self.above {
            None => source::find_directory(Path::new(&self.name))?,
            Some(above) => source::open_directory(&above.hold()?.path_of(&self.name))?,
        });
        if id_of(&file)? != self.id {
            return Err(io::Error::other("another directory took its place meanwhile"));
        }
        *self.file.lock().expect("nothing panics with it locked") = Some(Arc::clone(&file));
        self.note();
        Ok(Held(file))
    }

    /// Notes that it is open, and closes another one if there are many. No lock is held meanwhile
    /// that another directory could wait for.
    fn note(self: &Arc<Self>) {
        let oldest = {
            let mut open = self.pool.0.lock().expect("nothing panics with it locked");
            open.push_back(Arc::downgrade(self));
            if open.len() > MAX_OPEN { open.pop_front() } else { None }
        };
        if let Some(oldest) = oldest.and_then(|oldest| oldest.upgrade()) {
            oldest.file.lock().expect("nothing panics with it locked").take();
        }
    }
}

fn id_of(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// A directory that is open.
pub(super) struct Held(Arc<File>);

impl Held {
    pub(super) fn file(&self) -> &File {
        &self.0
    }

    /// Where the directory itself can be read, however it is called now.
    pub(super) fn path(&self) -> PathBuf {
        system::path_of(&*self.0)
    }

    /// Where its entry `name` is, however the directory is called now.
    pub(super) fn path_of(&self, name: &OsStr) -> PathBuf {
        self.path().join(name)
    }
}
