//! Repair of a pool that cannot be opened, or that lost a footer.
//!
//! A repair restores the checkpoint and all whole frames behind it, up to the first that is missing or
//! damaged. It invents no address: a page whose record is lost belongs to no block. The files that
//! still have such pages and records are copied first, under names that no pool gives out, because the
//! next opening cuts the originals off or removes them.
//!
//! One write of the mark is what counts: it cuts all frames off that are given up. A repair that was
//! stopped before can begin again, and after it nothing is left to do.

use std::collections::BTreeMap;
use std::sync::Arc;

use onefold_backend::{BackendError, Folder};
use onefold_seal::{Envelope, ObjectId};

use crate::containers::append::Appender;
use crate::containers::entry::ContainerImage;
use crate::containers::files::Files;
use crate::engine::options::Options;
use crate::error::VolumeError;
use crate::ids::{Version, Writer, container_name, container_of};
use crate::journal::journals::{Found, Journals, kept_name};
use crate::journal::mark::{self, Mark};
use crate::pool::head::{is_head_lost, open_head, write_head};
use crate::pool::open::Pool;
use crate::recovery::replay::Replayed;
use crate::upkeep::find_head::find_head;

/// Bytes that are copied at a time.
const PIECE: u64 = 1 << 20;

/// What a repair did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// What was wrong and is settled, a text each.
    pub settled: Vec<String>,
    /// Files in the pool's folder with copies of what was given up.
    pub kept: Vec<String>,
}

impl Pool {
    /// Makes a damaged pool in `folder` one that can be opened, as far as its files tell. A pool with
    /// nothing wrong stays as it is.
    ///
    /// # Errors
    /// [`VolumeError::Damaged`] if no checkpoint is whole, and [`VolumeError::Malformed`] if a whole
    /// frame has records that are none: then nothing can be restored. After any error the call can be
    /// repeated.
    pub fn repair(folder: &Arc<dyn Folder>) -> Result<Repaired, VolumeError> {
        let mut done = Repaired::default();
        let (_own, head) = match open_head(&**folder) {
            Err(error) if is_head_lost(&error) => {
                let head = find_head(folder)?;
                write_head(&**folder, &head)?;
                done.settled.push("made 'pool' anew".into());
                open_head(&**folder)?
            }
            opened => opened?,
        };
        Repair { folder, pool: head.id, version: head.version, done }.run()
    }
}

struct Repair<'a> {
    folder: &'a Arc<dyn Folder>,
    pool: ObjectId,
    version: Version,
    done: Repaired,
}

impl Repair<'_> {
    fn run(mut self) -> Result<Repaired, VolumeError> {
        let journals = Journals::new(Arc::clone(self.folder), self.pool);
        if Mark::is_lost(&**self.folder, self.pool)? {
            journals.rebuild_mark()?;
            self.done.settled.push(format!("made '{}' anew", mark::NAME));
        }
        let mut mark = Mark::claim(&**self.folder, self.pool)?;
        let mut replayed = Replayed::of_version(self.version, self.folder, self.pool);
        let found = journals.read(&mark, &mut |known| replayed.take(known))?;
        if let Some(problem) = &found.problem {
            self.keep(&found, mark.writer(), &replayed.known_containers())?;
            journals.settle_for(&found, &mut mark)?;
            let next = found.next;
            self.done.settled.push(format!("gave up changes from frame {next} on: {problem}"));
        }
        self.rebuild_footers(&replayed.known_containers())?;
        Ok(self.done)
    }

    /// Copies the journals that have more than what was `found`, and containers with pages that are not
    /// `named`.
    fn keep(
        &mut self,
        found: &Found,
        writer: Writer,
        named: &BTreeMap<u32, ContainerImage>,
    ) -> Result<(), VolumeError> {
        let names = self.folder.names()?;
        let left = found.left.iter().filter(|name| names.contains(name));
        for name in left {
            self.copy(name, writer)?;
        }
        for name in &names {
            let Some(number) = container_of(name) else { continue };
            let is_all_named = match named.get(&number) {
                Some(image) if image.is_sealed => true,
                Some(image) => self.folder.reader(name)?.len() <= image.end(),
                None => false,
            };
            if !is_all_named {
                self.copy(name, writer)?;
            }
            if found.next == 0 {
                // A pool of which nothing is known is opened without containers only.
                self.folder.remove(name)?;
            }
        }
        Ok(())
    }

    /// Copies a file durably, by a name that no other repair has: each is a writer of its own. What a
    /// repair copied that was cut off stays.
    fn copy(&mut self, name: &str, writer: Writer) -> Result<(), BackendError> {
        let kept = kept_name(writer, name);
        let from = self.folder.reader(name)?;
        let mut to = self.folder.log(&kept)?;
        to.truncate(0)?;
        let mut piece = Vec::new();
        while to.len() < from.len() {
            piece.resize((from.len() - to.len()).min(PIECE) as usize, 0);
            from.read(to.len(), &mut piece)?;
            to.append(&piece)?;
        }
        to.sync()?;
        self.done.kept.push(kept);
        Ok(())
    }

    /// Gives containers that lost their footer another one, where records tell of all of their pages.
    fn rebuild_footers(
        &mut self,
        named: &BTreeMap<u32, ContainerImage>,
    ) -> Result<(), VolumeError> {
        let envelope = Envelope::plain(self.pool);
        let open_files = Options::default().open_files;
        let files = Files::new(Arc::clone(self.folder), envelope.clone(), open_files);
        for (number, image) in named.iter().filter(|(_, image)| image.is_sealed) {
            let (file, missing) = files.open_sealed(*number)?;
            if let Some(missing) = missing {
                let name = container_name(*number);
                self.done.settled.push(format!(
                    "did without '{name}', which a compaction may have removed since; `onefold \
                     volume scrub` names the blocks that are lost with it: {missing}"
                ));
                continue;
            }
            if image.pages.is_empty() {
                // it had its footer before the checkpoint, and no record tells of its pages
                continue;
            }
            match file.directory(&envelope) {
                Ok(_) => continue,
                Err(error) if error.may_pass() => return Err(error),
                Err(_) => drop(file),
            }
            let name = container_name(*number);
            let mut appender = Appender::new(Arc::clone(&files), envelope.clone(), 0);
            let file = files.open(*number)?;
            let rebuilt = appender.go_on(&file, image).and_then(|()| appender.seal());
            match rebuilt {
                Ok(_) => {
                    file.sync()?;
                    self.done.settled.push(format!("made the footer of '{name}' anew"));
                }
                // its pages stay lost, and the others are not
                Err(error @ VolumeError::Damaged { .. }) => {
                    self.done.settled.push(format!("left '{name}' without a footer: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
