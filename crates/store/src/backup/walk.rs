//! Walking the sources: which entries there are, in which order, and which are left out.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::FileType;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use crossbeam_channel::Sender;

use super::assemble::{Above, OpenDirectory};
use super::beneath::{Directory, Pool};
use super::options::{Marker, Options};
use super::read::Job;
use super::source;
use super::sources::{Branch, Shape, Source, Sources};
use super::stop::Stop;
use crate::chunks::reader::ChunkReader;
use crate::patterns::select::{Excludes, Patterns, is_pattern};
use crate::reading::walk::read_tree;
use crate::tree::{Entry, Meta, Time};
use crate::{IssueKind, Progress, StoreError};

/// Few enough that the last ones of a source are spread over all readers.
const JOBS_AT_A_TIME: usize = 16;
/// Readers of version 1 refuse directories that are nested deeper than 2,048; the root and one for a
/// named source are left to them.
const MAX_LEVELS: usize = 2046;
/// The files whose patterns are honoured on request.
const IGNORE_FILES: [&str; 3] = [".gitignore", ".ignore", ".onefoldignore"];

/// Decides what is left out.
struct Selection<'a> {
    options: &'a Options,
    excludes: Excludes<'a>,
    /// The ignore files of the directories from the source down to the one at hand.
    ignores: Vec<Patterns>,
    /// The file system of the source, if others are left out.
    device: Option<u64>,
    /// The sources below this one, each with its file system. Nothing leaves them out.
    nested: Vec<(&'a Path, u64)>,
    /// Directories that are left out but for the ways through them to sources in `nested`.
    ways: Vec<PathBuf>,
    /// How many directories below the source are open.
    depth: usize,
}

impl<'a> Selection<'a> {
    fn new(
        source: &Source,
        nested: &'a [PathBuf],
        options: &'a Options,
    ) -> Result<Self, StoreError> {
        let root = &source.real;
        let patterns = options.excludes.iter().map(String::as_str);
        let excludes = Excludes::new(root, &source.prefixes(), patterns)?;
        let mut selection = Self {
            options,
            excludes,
            ignores: Vec::new(),
            device: None,
            nested: Vec::new(),
            ways: Vec::new(),
            depth: 0,
        };
        let below = nested.iter().filter(|path| path.starts_with(root));
        let with_device = below.filter_map(|path| Some((&**path, path.metadata().ok()?.dev())));
        selection.nested = with_device.collect();
        if options.one_file_system {
            let metadata = root.symlink_metadata().map_err(StoreError::file("stat", root))?;
            selection.device = Some(metadata.dev());
        }
        Ok(selection)
    }

    /// Whether the user's patterns or the ignore files leave `path` out.
    fn leaves_out(&self, path: &Path, is_directory: bool) -> bool {
        let by_ignore_files =
            || self.ignores.iter().rev().find_map(|ignore| ignore.verdict(path, is_directory));
        let verdict = self.excludes.verdict(path, is_directory).or_else(by_ignore_files);
        verdict.unwrap_or(false)
    }

    /// The entries of the directory at `path` that are backed up, in ascending order of names.
    /// It is read `at` another path that leads to it.
    fn list(&mut self, at: &Path, path: &Path, device: u64) -> io::Result<Vec<ListedEntry>> {
        let mut entries = Vec::new();
        let marked = self.options.exclude_if_present.iter().find(|marker| marker.marks(at));
        let is_only_a_way = self.is_only_a_way(path, device);
        let mut ways = Vec::new();
        for entry in std::fs::read_dir(at)? {
            let entry = entry?;
            entries.push(listed(entry.file_name(), entry.file_type()));
        }
        if self.options.ignore_files {
            self.push_ignore_files(at, path, &entries);
        }
        entries.retain(|(name, is_directory)| {
            let is_marked = marked.is_some_and(|marker| *marker.name != **name);
            let path = path.join(name);
            let is_left_out = is_only_a_way || is_marked || self.leaves_out(&path, *is_directory);
            if !is_left_out {
                return true;
            }
            let is_way = self.is_way(&path);
            if is_way && !is_only_a_way {
                ways.push(path);
            }
            is_way
        });
        self.ways.append(&mut ways);
        entries.sort_unstable_by(|(a, _), (b, _)| a.as_bytes().cmp(b.as_bytes()));
        Ok(entries)
    }

    fn push_ignore_files(&mut self, at: &Path, path: &Path, entries: &[ListedEntry]) {
        for name in IGNORE_FILES {
            if entries.iter().any(|(entry, _)| entry == name) {
                let mut text = Vec::new();
                let read = source::open(&at.join(name), false)
                    .and_then(|mut file| file.read_to_end(&mut text));
                if read.is_err() {
                    continue;
                }
                let patterns = Patterns::of_text(path, &String::from_utf8_lossy(&text));
                if !patterns.is_empty() {
                    self.ignores.push(patterns);
                }
            }
        }
    }

    /// Whether other file systems than the source's are left out and `device` is one.
    fn is_elsewhere(&self, device: u64) -> bool {
        self.device.is_some_and(|own| own != device)
    }

    /// Whether the directory at `path` is left out because of its file system.
    fn leaves_out_device(&self, path: &Path, device: u64) -> bool {
        self.is_elsewhere(device) && !self.is_in_nested(path, device) && !self.is_way(path)
    }

    /// Whether `path` lies in another source, on that one's file system.
    fn is_in_nested(&self, path: &Path, device: u64) -> bool {
        self.nested.iter().any(|(source, own)| *own == device && path.starts_with(source))
    }

    /// Whether the directory at `path` would be left out if it did not lead to another source.
    fn is_only_a_way(&self, path: &Path, device: u64) -> bool {
        let is_in_source_below = |way: &PathBuf| {
            let mut below = self.nested.iter().filter(|(source, _)| source.starts_with(way));
            below.any(|(source, _)| path.starts_with(source))
        };
        (self.is_elsewhere(device) && !self.is_in_nested(path, device))
            || self.ways.iter().any(|way| path.starts_with(way) && !is_in_source_below(way))
    }

    /// Whether `path` leads to another source.
    fn is_way(&self, path: &Path) -> bool {
        self.nested.iter().any(|(source, _)| source.starts_with(path))
    }

    fn is_own_repository(&self, dev: u64, ino: u64) -> bool {
        self.options.own_repository == Some((dev, ino))
    }
}

/// An entry of a directory: its name, and whether it is a directory itself.
type ListedEntry = (OsString, bool);

/// What is known of an entry. Where a listing has no types, an entry may be gone before it tells its
/// own: whoever backs it up meets that again and reports it alone.
fn listed(name: OsString, kind: io::Result<FileType>) -> ListedEntry {
    (name, kind.is_ok_and(|kind| kind.is_dir()))
}

impl Marker {
    /// Whether `directory` holds such a file.
    fn marks(&self, directory: &Path) -> bool {
        let path = directory.join(&self.name);
        if self.head.is_empty() {
            return path.symlink_metadata().is_ok();
        }
        let mut head = vec![0; self.head.len()];
        let read = source::open(&path, false).and_then(|mut file| file.read_exact(&mut head));
        read.is_ok() && head == self.head
    }
}

/// Sends the readers a job for every entry of the sources.
pub(super) struct Walk<'a> {
    options: &'a Options,
    chunks: &'a ChunkReader<'a>,
    progress: &'a Progress,
    stop: &'a Stop<'a>,
    jobs: Sender<Vec<Job>>,
    /// Jobs that are not sent yet.
    waiting: Vec<Job>,
    pool: Arc<Pool>,
    /// Sources below others.
    nested: &'a [PathBuf],
    /// The user's patterns that fitted something so far.
    fitted: HashSet<&'a str>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        options: &'a Options,
        chunks: &'a ChunkReader<'a>,
        progress: &'a Progress,
        stop: &'a Stop<'a>,
        jobs: Sender<Vec<Job>>,
    ) -> Self {
        let (waiting, pool) = (Vec::new(), Arc::default());
        Self {
            options,
            chunks,
            progress,
            stop,
            jobs,
            waiting,
            pool,
            nested: &[],
            fitted: HashSet::new(),
        }
    }

    /// Walks `sources`; the snapshot's root will be in `root` when the last job is done.
    pub(super) fn run(
        mut self,
        sources: &'a Sources<'a>,
        parent: Option<&Entry>,
        time: Time,
        root: &Arc<OnceLock<Entry>>,
    ) -> Result<(), StoreError> {
        let above = Above::Root(Arc::clone(root));
        self.nested = &sources.nested;
        // What a root is given that stands for no directory.
        let made_up = Meta { mode: 0o755, mtime: time, ctime: time, ..Meta::default() };
        match &sources.shape {
            Shape::Directory(source) => self.directory(source, above, parent)?,
            Shape::Branches(branches) => {
                let open = OpenDirectory::new(Vec::new(), made_up, above, branches.len());
                self.branches(branches, &open, parent)?;
            }
            Shape::Stream(_) => {
                let open = OpenDirectory::new(Vec::new(), made_up, above, 1);
                self.send(Job::Stream(Arc::clone(&open), time))?;
                self.send(Job::Listed(open))?;
            }
        }
        self.flush()?;
        let unused = self.options.excludes.iter().map(String::as_str);
        let unused = unused.filter(|pattern| is_pattern(pattern) && !self.fitted.contains(pattern));
        let unused = unused.map(str::to_owned).collect();
        self.progress.unused_excludes.set(unused).expect("sources are walked once");
        Ok(())
    }

    /// Walks the one directory that is the snapshot's root.
    fn directory(
        &mut self,
        source: &Source,
        above: Above,
        parent: Option<&Entry>,
    ) -> Result<(), StoreError> {
        let path = &source.real;
        let mut selection = Selection::new(source, self.nested, self.options)?;
        let error = |error| StoreError::file("list", path)(error);
        let beneath = source::open_directory(path)
            .and_then(|file| Directory::at(&self.pool, path, file))
            .map_err(error)?;
        let held = beneath.hold().map_err(error)?;
        let metadata = held.file().metadata().map_err(StoreError::file("stat", path))?;
        let meta =
            source::meta_of_open(held.file(), &metadata).map_err(StoreError::file("stat", path))?;
        let listing = selection.list(&held.path(), path, metadata.dev()).map_err(error)?;
        drop(held);
        let open = OpenDirectory::new(Vec::new(), meta, above, listing.len());
        self.entries((path, &beneath), &open, listing, parent, &mut selection)?;
        self.fitted.extend(selection.excludes.into_fitted());
        Ok(())
    }

    /// Sends jobs for `branches`, which are the entries of an open directory. One that cannot be
    /// reached any more is reported and left out.
    fn branches(
        &mut self,
        branches: &[Branch],
        open: &Arc<OpenDirectory>,
        before: Option<&Entry>,
    ) -> Result<(), StoreError> {
        let before = self.entries_before(before);
        for (slot, branch) in branches.iter().enumerate() {
            let name = branch.name().to_vec();
            let before = find(&before, &name);
            let directory = Arc::clone(open);
            let (path, failed) = match branch {
                Branch::Source(Source { real, is_device: true, .. }) => {
                    let (path, before) = (real.clone(), before.cloned().map(Box::new));
                    let (beneath, is_device) = (None, true);
                    let job =
                        Job::Entry { path, beneath, directory, slot, name, before, is_device };
                    self.send(job)?;
                    continue;
                }
                Branch::Source(source) => (&source.real, self.source(source, open, slot, before)?),
                Branch::Above { path, branches } => match self.meta_above(path) {
                    Ok(meta) => {
                        let above = Above::Directory(directory, slot);
                        let open = OpenDirectory::new(name, meta, above, branches.len());
                        self.branches(branches, &open, before)?;
                        continue;
                    }
                    Err(source) => (path, Some(("stat", source))),
                },
            };
            if let Some((action, source)) = failed {
                self.progress.issue(path, IssueKind::Unreadable { action, source });
                self.send(Job::Dropped(Arc::clone(open), slot))?;
            }
        }
        self.send(Job::Listed(Arc::clone(open)))
    }

    /// Walks a source that is an entry of a directory; gives what was attempted and failed if it
    /// cannot be reached.
    fn source(
        &mut self,
        source: &Source,
        open: &Arc<OpenDirectory>,
        slot: usize,
        before: Option<&Entry>,
    ) -> Result<Option<(&'static str, io::Error)>, StoreError> {
        let path = &source.real;
        let base = path.parent().unwrap_or(path);
        let is_directory = match path.symlink_metadata() {
            Ok(metadata) => metadata.is_dir(),
            Err(error) => return Ok(Some(("stat", error))),
        };
        let beneath =
            source::find_directory(base).and_then(|file| Directory::at(&self.pool, base, file));
        let beneath = match beneath {
            Ok(beneath) => beneath,
            Err(error) => return Ok(Some(("open the directory of", error))),
        };
        let mut selection = Selection::new(source, self.nested, self.options)?;
        let at = (path.clone(), &beneath);
        self.entry(at, open, slot, is_directory, before, &mut selection)?;
        self.fitted.extend(selection.excludes.into_fitted());
        Ok(None)
    }

    /// The metadata of a directory above sources. Attributes that cannot be read are reported; they
    /// are no reason to leave the sources out.
    fn meta_above(&self, path: &Path) -> io::Result<Meta> {
        let metadata = path.symlink_metadata()?;
        if !metadata.is_dir() {
            return Err(io::Error::other("it is no longer a directory"));
        }
        Ok(source::meta_of(path, &metadata).unwrap_or_else(|source| {
            self.progress.issue(path, IssueKind::NoAttributes { source });
            source::meta_without_xattrs(&metadata)
        }))
    }

    /// Sends jobs for the listed entries of an open directory.
    fn entries(
        &mut self,
        (path, beneath): (&Path, &Arc<Directory>),
        open: &Arc<OpenDirectory>,
        listing: Vec<ListedEntry>,
        before: Option<&Entry>,
        selection: &mut Selection<'_>,
    ) -> Result<(), StoreError> {
        let before = self.entries_before(before);
        for (slot, (name, is_directory)) in listing.into_iter().enumerate() {
            let before = find(&before, name.as_bytes());
            let at = (path.join(name), beneath);
            self.entry(at, open, slot, is_directory, before, selection)?;
        }
        self.send(Job::Listed(Arc::clone(open)))
    }

    fn entry(
        &mut self,
        (path, beneath): (PathBuf, &Arc<Directory>),
        above: &Arc<OpenDirectory>,
        slot: usize,
        is_directory: bool,
        before: Option<&Entry>,
        selection: &mut Selection<'_>,
    ) -> Result<(), StoreError> {
        self.stop.check()?;
        let name = path.file_name().map(|name| name.to_os_string().into_vec()).unwrap_or_default();
        let directory = Arc::clone(above);
        if !is_directory {
            let before = before.cloned().map(Box::new);
            let beneath = Some(Arc::clone(beneath));
            let is_device = false;
            let job = Job::Entry { path, beneath, directory, slot, name, before, is_device };
            return self.send(job);
        }
        let depth = selection.ignores.len();
        let opened = || -> Result<_, (&'static str, io::Error)> {
            let own = OsStr::from_bytes(&name);
            let above = beneath.hold().map_err(|error| ("stat", error))?;
            let at = above.path_of(own);
            let mut metadata = at.symlink_metadata().map_err(|error| ("stat", error))?;
            let mut opened = None;
            if selection.depth >= MAX_LEVELS {
                let too_deep = format!("it lies more than {MAX_LEVELS} directories deep");
                return Err(("back up", io::Error::other(too_deep)));
            }
            if !selection.leaves_out_device(&path, metadata.dev()) {
                let directory = beneath.open(own).map_err(|error| ("list", error))?;
                let held = directory.hold().map_err(|error| ("list", error))?;
                // It may be another one than a moment ago: a file system may be mounted by need.
                metadata = held.file().metadata().map_err(|error| ("stat", error))?;
                opened = Some((directory, held));
            }
            if selection.is_own_repository(metadata.dev(), metadata.ino()) {
                self.progress.issue(&path, IssueKind::OwnRepository);
                return Ok(None);
            }
            let meta = match &opened {
                Some((_, held)) => source::meta_of_open(held.file(), &metadata),
                None => source::meta_of(&at, &metadata),
            };
            let meta = meta.map_err(|error| ("stat", error))?;
            let (directory, listing) = match opened {
                Some((directory, held)) if !selection.leaves_out_device(&path, metadata.dev()) => {
                    let listed = selection.list(&held.path(), &path, metadata.dev());
                    (directory, listed.map_err(|error| ("list", error))?)
                }
                // The mount point stays, as an empty directory.
                _ => (Arc::clone(beneath), Vec::new()),
            };
            Ok(Some((meta, directory, listing)))
        }();
        let result = match opened {
            Ok(Some((meta, beneath, listing))) => {
                let above = Above::Directory(directory, slot);
                let open = OpenDirectory::new(name, meta, above, listing.len());
                selection.depth += 1;
                let done = self.entries((&path, &beneath), &open, listing, before, selection);
                selection.depth -= 1;
                done
            }
            Ok(None) => self.send(Job::Dropped(directory, slot)),
            Err((action, source)) => {
                self.progress.issue(&path, IssueKind::Unreadable { action, source });
                self.send(Job::Dropped(directory, slot))
            }
        };
        selection.ignores.truncate(depth);
        result
    }

    /// What the parent snapshot has in a directory, by name. A tree that cannot be read counts as
    /// empty: its files are then read again.
    fn entries_before(&self, directory: Option<&Entry>) -> Vec<Entry> {
        let tree = directory.and_then(|entry| read_tree(self.chunks, entry).ok());
        tree.flatten().unwrap_or_default()
    }

    /// Sends a job, several at a time: waking a reader for each small file costs more than the file.
    fn send(&mut self, job: Job) -> Result<(), StoreError> {
        self.waiting.push(job);
        match self.waiting.len() < JOBS_AT_A_TIME {
            true => Ok(()),
            false => self.flush(),
        }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let jobs = std::mem::take(&mut self.waiting);
        self.jobs.send(jobs).map_err(|_| StoreError::Stopped)
    }
}

fn find<'a>(entries: &'a [Entry], name: &[u8]) -> Option<&'a Entry> {
    let at = entries.binary_search_by(|entry| entry.name.as_slice().cmp(name)).ok()?;
    entries.get(at)
}

/// Counts the files and bytes of `sources`, for a progress bar, until done or stopped.
///
/// Errors are passed over here: the backup itself meets them again and reports them.
pub(super) fn count(
    sources: &Sources<'_>,
    options: &Options,
    progress: &Progress,
    stop: &Stop<'_>,
) -> Result<(), StoreError> {
    let (mut files, mut bytes) = (0, 0);
    let mut count_below = |source: &Source| -> Result<(), StoreError> {
        let mut selection = Selection::new(source, &sources.nested, options)?;
        let mut open = vec![(source.real.clone(), 0)];
        while let Some((path, depth)) = open.pop() {
            stop.check()?;
            selection.ignores.truncate(depth);
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if metadata.is_file() {
                files += 1;
                bytes += metadata.len();
            }
            let is_left_out = selection.is_own_repository(metadata.dev(), metadata.ino())
                || selection.leaves_out_device(&path, metadata.dev());
            if metadata.is_dir() && !is_left_out {
                let listing = selection.list(&path, &path, metadata.dev()).unwrap_or_default();
                let depth = selection.ignores.len();
                open.extend(listing.into_iter().map(|(name, _)| (path.join(name), depth)));
            }
        }
        Ok(())
    };
    let mut device_bytes = 0;
    // Of a stream it is not known how much will come.
    if let Shape::Stream(_) = sources.shape {
        return Ok(());
    }
    for source in sources.all() {
        match source.is_device {
            true => {
                device_bytes += source::open(&source.real, true)
                    .and_then(|file| source::content_len(&file, &file.metadata()?))
                    .unwrap_or_default()
            }
            false => count_below(source)?,
        }
    }
    bytes += device_bytes;
    progress.total_files.store(files, Ordering::Relaxed);
    progress.total_bytes.store(bytes, Ordering::Relaxed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_gone_before_it_tells_its_type_spoils_no_listing() {
        let gone = Err(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(listed("gone".into(), gone), ("gone".into(), false));
        let kind = Path::new("/").metadata().unwrap().file_type();
        assert_eq!(listed("there".into(), Ok(kind)), ("there".into(), true));
    }
}
