//! Repair of a pool that cannot be opened, or that lost a footer.
//!
//! A repair restores the checkpoint and all whole frames behind it, up to the first that is missing or
//! damaged. It invents no address: a page whose record is lost belongs to no block. The files that
//! still have such pages and records are copied first, under names that no pool gives out, because the
//! next opening cuts the originals off or removes them.
//!
//! One write of the mark is what counts: it cuts all frames off that are given up. A repair that was
//! stopped before can begin again, and after it nothing is left to do.
//!
//! Then, if nodes of maps or tables cannot be read, what only they knew is given up ([mend](crate::recovery::mend)),
//! references are counted anew, and a checkpoint tells of that. That checkpoint is what counts: until it
//! is durable the pool is as it was.

use std::collections::BTreeMap;
use std::sync::Arc;

use onefold_backend::{BackendError, Folder, Log};
use onefold_seal::{Envelope, ObjectId};

use crate::containers::append::Appender;
use crate::containers::entry::ContainerImage;
use crate::containers::files::Files;
use crate::engine::options::{IndexLayout, Options};
use crate::error::VolumeError;
use crate::ids::{Version, Writer, container_name, container_of};
use crate::journal::journals::{Found, Journals, kept_name};
use crate::journal::mark::{self, Mark};
use crate::journal::metadata::Metadata;
use crate::pool::head::{Head, is_head_lost, open_head, write_head};
use crate::pool::open::{Begun, Pool, SMALL_TABLE, begin};
use crate::recovery::mend::Mending;
use crate::recovery::recover::CHECKPOINT;
use crate::recovery::replay::Replayed;
use crate::upkeep::find_head::find_head;

/// Bytes that are copied at a time.
const PIECE: u64 = 1 << 20;

/// What a repair did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// What was wrong and is settled, a text each.
    pub settled: Vec<String>,
    /// What is still wrong, a text each. Nothing of it is kept in the pool: a later check finds it again.
    pub left: Vec<String>,
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
        Self::repair_with(folder, Options::default())
    }

    /// The same within the memory that `options` have for nodes.
    ///
    /// # Errors
    /// As of [`repair`](Self::repair).
    pub fn repair_with(
        folder: &Arc<dyn Folder>,
        options: Options,
    ) -> Result<Repaired, VolumeError> {
        let mut done = Repaired::default();
        let (own, head) = match open_head(&**folder) {
            Err(error) if is_head_lost(&error) => {
                let head = find_head(folder)?;
                write_head(&**folder, &head)?;
                done.settled.push("made 'pool' anew".into());
                open_head(&**folder)?
            }
            opened => opened?,
        };
        let mut repair = Repair { folder, pool: head.id, version: head.version, done };
        if let Some(mending) = repair.run()? {
            repair.mend(own, head, options, mending)?;
        }
        Ok(repair.done)
    }
}

struct Repair<'a> {
    folder: &'a Arc<dyn Folder>,
    pool: ObjectId,
    version: Version,
    done: Repaired,
}

/// Copies a file of `folder` durably, by a name that no other repair has: each is a writer of its own. What a
/// repair copied that was cut off stays. Returns the name of the copy.
pub(super) fn copy(
    folder: &dyn Folder,
    name: &str,
    writer: Writer,
) -> Result<String, BackendError> {
    let kept = kept_name(writer, name);
    let from = folder.reader(name)?;
    let mut to = folder.log(&kept)?;
    to.truncate(0)?;
    let mut piece = Vec::new();
    while to.len() < from.len() {
        piece.resize((from.len() - to.len()).min(PIECE) as usize, 0);
        from.read(to.len(), &mut piece)?;
        to.append(&piece)?;
    }
    to.sync()?;
    Ok(kept)
}

/// Counts the references of a pool anew whose nodes were given up by `mending`, and tells of that by a checkpoint.
/// Returns what was settled.
pub(super) fn end_mending(begun: Begun) -> Result<Vec<String>, VolumeError> {
    let Begun { engine, mending, .. } = begun;
    engine.recount()?;
    engine.checkpoint()?;
    Ok(mending.map(Mending::into_settled).unwrap_or_default())
}

impl Repair<'_> {
    /// Repairs what keeps the pool's records from being read, and footers. Returns how nodes are to be
    /// repaired that cannot be read, if there are any, of which copies are kept.
    fn run(&mut self) -> Result<Option<Mending>, VolumeError> {
        let journals = Journals::new(Arc::clone(self.folder), self.pool);
        if Mark::is_lost(&**self.folder, self.pool)? {
            journals.rebuild_mark()?;
            self.done.settled.push(format!("made '{}' anew", mark::NAME));
        }
        let mut mark = Mark::claim(&**self.folder, self.pool)?;
        let mut replayed = Replayed::of_version(self.version, self.folder, self.pool);
        let read = journals.read(&mark, &mut |known| replayed.take(known));
        let ended = match &read {
            Ok(_) => replayed.end_checkpoint(),
            Err(_) => Ok(()),
        };
        // what could not be read is no fault of the journal that names it
        if let Some(error) = replayed.failed.take() {
            return Err(error);
        }
        let found = read?;
        ended.map_err(|source| VolumeError::Malformed { object: CHECKPOINT.to_owned(), source })?;
        if let Some(problem) = &found.problem {
            self.keep(&found, mark.writer(), &replayed.known_containers())?;
            journals.settle_for(&found, &mut mark)?;
            let next = found.next;
            self.done.settled.push(format!("gave up changes from frame {next} on: {problem}"));
        }
        self.rebuild_footers(&replayed.known_containers())?;
        let next = replayed.next_container();
        let Some(mending) = replayed.mending.filter(Mending::is_needed) else { return Ok(None) };
        let names = self.folder.names()?;
        for name in mending.files().filter(|name| names.contains(name)) {
            self.copy(&name, mark.writer())?;
        }
        Ok(Some(Mending::new(next, names.iter().filter_map(|name| container_of(name)).collect())))
    }

    /// Gives up what nodes knew that cannot be read.
    fn mend(
        &mut self,
        own: Box<dyn Log + Sync>,
        head: Head,
        options: Options,
        mending: Mending,
    ) -> Result<(), VolumeError> {
        // nobody looks pages up by their fingerprints
        let options = Options { table_bytes: SMALL_TABLE, index: IndexLayout::Chained, ..options };
        let folder = Arc::clone(self.folder);
        let journals = Arc::new(Journals::new(Arc::clone(&folder), self.pool));
        let metadata = Arc::<Journals>::clone(&journals) as Arc<dyn Metadata>;
        let begun = begin(folder, own, head, metadata, options, false, Some(mending))?;
        journals.outdate_checkpoint();
        self.done.settled.extend(end_mending(begun)?);
        Ok(())
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

    fn copy(&mut self, name: &str, writer: Writer) -> Result<(), BackendError> {
        self.done.kept.push(copy(&**self.folder, name, writer)?);
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
            match file.directory() {
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
