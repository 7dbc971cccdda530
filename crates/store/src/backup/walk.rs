//! Walking the sources: which entries there are, in which order, and which are left out.

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
use super::read::Job;
use super::{Options, Stop, Stream, source};
use crate::chunks::ChunkReader;
use crate::repository::read_tree;
use crate::select::Patterns;
use crate::tree::{Entry, Meta, Time, is_component};
use crate::{IssueKind, Progress, StoreError};

/// How a file that marks its directory as a cache begins (bford.info/cachedir).
const CACHE_MARK: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
const CACHE_TAG: &str = "CACHEDIR.TAG";
/// Few enough that the last ones of a source are spread over all readers.
const JOBS_AT_A_TIME: usize = 16;
/// Readers of version 1 refuse directories that are nested deeper than 2,048; the root and one for a
/// named source are left to them.
const MAX_LEVELS: usize = 2046;
/// The files whose patterns are honoured on request.
const IGNORE_FILES: [&str; 3] = [".gitignore", ".ignore", ".onefoldignore"];

/// The sources of a backup, checked.
pub(super) enum Sources<'a> {
    /// One directory: the snapshot's root.
    Directory(PathBuf),
    /// Several sources, or one that is no directory: entries of the snapshot's root, by name.
    Several(Vec<Named>),
    /// What a program writes: the one entry of the snapshot's root.
    Stream(&'a Stream),
}

/// A source that is an entry of the snapshot's root.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    name: Vec<u8>,
    /// What the snapshot says where it was: the path of a device as the user wrote it, because the
    /// links that lead to one are more constant than what they lead to.
    path: PathBuf,
    /// Where it is read.
    real: PathBuf,
    is_device: bool,
}

impl Named {
    /// A path that the user names is followed if it is a link; links found below are not.
    fn path(path: &Path) -> Result<Self, StoreError> {
        let real = path.canonicalize().map_err(StoreError::file("back up", path))?;
        let Some(name) = real.file_name() else {
            return Err(StoreError::Unusable(
                "'/' can only be backed up on its own: name it alone, or name directories in it"
                    .into(),
            ));
        };
        Ok(Self { name: name.as_bytes().to_vec(), path: real.clone(), real, is_device: false })
    }

    fn device(path: &Path) -> Result<Self, StoreError> {
        let error = |source| StoreError::file("back up", path)(source);
        let real = path.canonicalize().map_err(error)?;
        source::expect_contents(&real.metadata().map_err(error)?).map_err(error)?;
        let name = path.file_name().or(real.file_name()).unwrap_or_default().to_owned();
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        let above = above.unwrap_or(Path::new(".")).canonicalize().map_err(error)?;
        let path = above.join(&name);
        Ok(Self { name: name.into_vec(), path, real, is_device: true })
    }
}

impl<'a> Sources<'a> {
    /// Checks that every path can be reached and has a name of its own.
    pub(super) fn new(paths: &[PathBuf], devices: &[PathBuf]) -> Result<Self, StoreError> {
        if let ([path], []) = (paths, devices) {
            let real = path.canonicalize().map_err(StoreError::file("back up", path))?;
            if real.is_dir() {
                return Ok(Self::Directory(real));
            }
        }
        let paths = paths.iter().map(|path| Named::path(path));
        let devices = devices.iter().map(|path| Named::device(path));
        let mut named = paths.chain(devices).collect::<Result<Vec<_>, _>>()?;
        if named.is_empty() {
            return Err(StoreError::Unusable("no path to back up was given".into()));
        }
        named.sort();
        named.dedup();
        if let Some([first, second]) = named.windows(2).find(|pair| pair[0].name == pair[1].name) {
            return Err(StoreError::SameName {
                name: String::from_utf8_lossy(&first.name).into_owned(),
                first: first.path.clone(),
                second: second.path.clone(),
            });
        }
        Ok(Self::Several(named))
    }

    /// Checks that the stream has a name that a file can have.
    pub(super) fn stream(stream: &'a Stream) -> Result<Self, StoreError> {
        if is_component(&stream.name) {
            return Ok(Self::Stream(stream));
        }
        let name = String::from_utf8_lossy(&stream.name);
        Err(StoreError::Unusable(format!(
            "'{name}' is no name of a file: it must be one component"
        )))
    }

    /// The sources' absolute paths; a stream's is its name below the root.
    pub(super) fn paths(&self) -> Vec<Vec<u8>> {
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        match self {
            Self::Directory(path) => vec![bytes(path)],
            Self::Several(named) => named.iter().map(|named| bytes(&named.path)).collect(),
            Self::Stream(stream) => vec![[b"/", &stream.name[..]].concat()],
        }
    }
}

/// Decides what is left out.
struct Selection<'a> {
    options: &'a Options,
    excludes: Patterns,
    /// The ignore files of the directories from the source down to the one at hand.
    ignores: Vec<Patterns>,
    /// The device of the source, if other file systems are left out.
    device: Option<u64>,
    /// How many directories below the source are open.
    depth: usize,
}

impl<'a> Selection<'a> {
    fn new(root: &Path, options: &'a Options) -> Result<Self, StoreError> {
        let excludes = Patterns::new(root, &options.excludes)?;
        let device = match options.one_file_system {
            true => Some(root.metadata().map_err(StoreError::file("stat", root))?.dev()),
            false => None,
        };
        Ok(Self { options, excludes, ignores: Vec::new(), device, depth: 0 })
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
    fn list(&mut self, at: &Path, path: &Path) -> io::Result<Vec<Listed>> {
        let mut entries = Vec::new();
        let is_cache = self.options.exclude_caches && is_cache(at);
        for entry in std::fs::read_dir(at)? {
            let entry = entry?;
            entries.push(listed(entry.file_name(), entry.file_type()));
        }
        if self.options.ignore_files {
            self.push_ignore_files(at, path, &entries);
        }
        entries.retain(|(name, is_directory)| {
            let kept_in_cache = !is_cache || name == CACHE_TAG;
            kept_in_cache && !self.leaves_out(&path.join(name), *is_directory)
        });
        entries.sort_unstable_by(|(a, _), (b, _)| a.as_bytes().cmp(b.as_bytes()));
        Ok(entries)
    }

    fn push_ignore_files(&mut self, at: &Path, path: &Path, entries: &[Listed]) {
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

    /// Whether a directory belongs to another file system than the source and those are left out.
    fn is_elsewhere(&self, device: u64) -> bool {
        self.device.is_some_and(|own| own != device)
    }

    fn is_own_repository(&self, dev: u64, ino: u64) -> bool {
        self.options.own_repository == Some((dev, ino))
    }
}

/// An entry of a directory: its name, and whether it is a directory itself.
type Listed = (OsString, bool);

/// What is known of an entry. Where a listing has no types, an entry may be gone before it tells its
/// own: whoever backs it up meets that again and reports it alone.
fn listed(name: OsString, kind: io::Result<FileType>) -> Listed {
    (name, kind.is_ok_and(|kind| kind.is_dir()))
}

fn is_cache(directory: &Path) -> bool {
    let mut head = [0; CACHE_MARK.len()];
    let read =
        source::open(&directory.join(CACHE_TAG), false).and_then(|mut f| f.read_exact(&mut head));
    read.is_ok() && head == CACHE_MARK
}

/// Sends the readers a job for every entry of the sources.
pub(super) struct Walk<'a> {
    pub(super) options: &'a Options,
    pub(super) chunks: &'a ChunkReader<'a>,
    pub(super) progress: &'a Progress,
    pub(super) stop: &'a Stop<'a>,
    pub(super) jobs: Sender<Vec<Job>>,
    /// Jobs that are not sent yet.
    pub(super) waiting: Vec<Job>,
}

impl Walk<'_> {
    /// Walks `sources`; the snapshot's root will be in `root` when the last job is done.
    pub(super) fn run(
        mut self,
        sources: &Sources<'_>,
        parent: Option<&Entry>,
        time: Time,
        root: &Arc<OnceLock<Entry>>,
    ) -> Result<(), StoreError> {
        let above = Above::Root(Arc::clone(root));
        let pool = Arc::new(Pool::default());
        match sources {
            Sources::Directory(path) => {
                let mut selection = Selection::new(path, self.options)?;
                let error = |error| StoreError::file("list", path)(error);
                let beneath = source::open_directory(path)
                    .and_then(|file| Directory::at(&pool, path, file))
                    .map_err(error)?;
                let held = beneath.hold().map_err(error)?;
                let meta = (held.file().metadata())
                    .and_then(|metadata| source::meta_of_open(held.file(), &metadata))
                    .map_err(StoreError::file("stat", path))?;
                let listing = selection.list(&held.path(), path).map_err(error)?;
                drop(held);
                let open = OpenDirectory::new(Vec::new(), meta, above, listing.len());
                self.entries((path, &beneath), &open, listing, parent, &mut selection)?;
            }
            Sources::Several(named) => {
                let meta = Meta { mode: 0o755, mtime: time, ctime: time, ..Meta::default() };
                let open = OpenDirectory::new(Vec::new(), meta, above, named.len());
                let before = self.entries_before(parent);
                for (slot, Named { name, real: path, is_device, .. }) in named.iter().enumerate() {
                    if *is_device {
                        let (path, name) = (path.clone(), name.clone());
                        let before = find(&before, &name).cloned().map(Box::new);
                        let (directory, is_device) = (Arc::clone(&open), true);
                        self.send(Job::Entry {
                            path,
                            beneath: None,
                            directory,
                            slot,
                            name,
                            before,
                            is_device,
                        })?;
                        continue;
                    }
                    let kind = path.symlink_metadata().map_err(StoreError::file("stat", path))?;
                    let base = path.parent().unwrap_or(path);
                    let mut selection = Selection::new(base, self.options)?;
                    if self.options.one_file_system {
                        selection.device = Some(kind.dev());
                    }
                    let before = find(&before, name);
                    let is_directory = kind.is_dir();
                    let beneath = source::find_directory(base)
                        .and_then(|file| Directory::at(&pool, base, file))
                        .map_err(StoreError::file("open", base))?;
                    self.entry(
                        (path.clone(), &beneath),
                        &open,
                        slot,
                        is_directory,
                        before,
                        &mut selection,
                    )?;
                }
                self.send(Job::Listed(open))?;
            }
            Sources::Stream(_) => {
                let meta = Meta { mode: 0o755, mtime: time, ctime: time, ..Meta::default() };
                let open = OpenDirectory::new(Vec::new(), meta, above, 1);
                self.send(Job::Stream(Arc::clone(&open), time))?;
                self.send(Job::Listed(open))?;
            }
        }
        self.flush()
    }

    /// Sends jobs for the listed entries of an open directory.
    fn entries(
        &mut self,
        (path, beneath): (&Path, &Arc<Directory>),
        open: &Arc<OpenDirectory>,
        listing: Vec<Listed>,
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
            if !selection.is_elsewhere(metadata.dev()) {
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
                Some((directory, held)) if !selection.is_elsewhere(metadata.dev()) => {
                    let listed = selection.list(&held.path(), &path);
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
    let mut count_below = |root: &Path, base: &Path| -> Result<(), StoreError> {
        let mut selection = Selection::new(base, options)?;
        let mut open = vec![(root.to_owned(), 0)];
        while let Some((path, depth)) = open.pop() {
            stop.check()?;
            selection.ignores.truncate(depth);
            let Ok(metadata) = path.symlink_metadata() else { continue };
            if metadata.is_file() {
                files += 1;
                bytes += metadata.len();
            }
            let is_left_out = selection.is_own_repository(metadata.dev(), metadata.ino())
                || selection.is_elsewhere(metadata.dev());
            if metadata.is_dir() && !is_left_out {
                let listing = selection.list(&path, &path).unwrap_or_default();
                let depth = selection.ignores.len();
                open.extend(listing.into_iter().map(|(name, _)| (path.join(name), depth)));
            }
        }
        Ok(())
    };
    let mut device_bytes = 0;
    match sources {
        Sources::Directory(path) => count_below(path, path)?,
        Sources::Several(named) => {
            for Named { real: path, is_device, .. } in named {
                match is_device {
                    true => {
                        device_bytes += source::open(path, true)
                            .and_then(|file| source::content_len(&file, &file.metadata()?))
                            .unwrap_or_default()
                    }
                    false => count_below(path, path.parent().unwrap_or(path))?,
                }
            }
        }
        // Nobody knows how much will come.
        Sources::Stream(_) => return Ok(()),
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
