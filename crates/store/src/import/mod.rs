//! Snapshots of what other programs stored: from archives, with the times, hosts and tags of theirs.
//!
//! The data of files are stored as they come; the directories, about 300 bytes for each entry, wait in memory
//! until the archive has ended, because its entries come in any order. To the repository an import is a
//! backup: it gives notice before it looks at what is there, and the snapshot comes last.

mod tar;

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use onefold_container::Content;
use onefold_seal::ObjectId;

pub use self::tar::{Archive, Kind, TarEntry};
use crate::chunks::place::Used;
pub use crate::error::TarError;
use crate::system;
use crate::tree::recipe::Joiner;
use crate::tree::{self, Entry, Meta, Node, Time, Tree};
use crate::writing::alive::Alive;
use crate::writing::chunk_writer::{ChunkWriter, NewTree};
use crate::writing::commit::{Announced, Author};
use crate::{Cancel, IssueKind, Progress, Recipe, Repository, Snapshot, StoreError, Summary};

/// Bytes of a file that are read at a time.
const WINDOW: usize = 1 << 20;

/// The most bytes of an entry's attribute names together, as trees take them.
const MAX_ATTRIBUTE_NAMES: usize = 64 << 10;

/// What the snapshot says of itself.
#[derive(Debug, Clone)]
pub struct Described {
    /// When it was made.
    pub time: Time,
    /// On which host.
    pub host: String,
    /// By which user.
    pub user: String,
    /// What was backed up.
    pub paths: Vec<Vec<u8>>,
    /// Its tags.
    pub tags: Vec<String>,
    /// The program that made it.
    pub program: String,
}

/// Makes a snapshot of a tar archive.
///
/// What an archive has and a snapshot cannot hold is reported to `progress`, and left out.
///
/// # Errors
/// [`StoreError::Archive`] if the archive is malformed or ends early. Then, as after every other error but
/// [`StoreError::Unacknowledged`], no snapshot was made, and what was stored stays for the next import.
pub fn import_tar(
    repository: &Repository,
    source: impl Read,
    described: &Described,
    container_len: usize,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<(ObjectId, Snapshot), StoreError> {
    let begun = Instant::now();
    let Described { host, user, program, .. } = described;
    let author = Author { host, user, program };
    let announced = Announced::new(repository, author, Time::now(), &Alive::begin(repository))?;
    let imported = store(repository, source, described, container_len, (progress, cancel));
    let (loaded, used, root, counts, stored) = match imported {
        Ok(imported) => imported,
        Err(error) => {
            announced.withdraw();
            return Err(error);
        }
    };
    let snapshot = Snapshot {
        time: described.time,
        host: host.clone(),
        user: user.clone(),
        paths: described.paths.clone(),
        tags: described.tags.clone(),
        parent: None,
        program: program.clone(),
        summary: Summary {
            new_bytes: stored.new_bytes,
            stored_bytes: stored.bytes,
            unreadable: progress.losses.load(Ordering::Relaxed),
            milliseconds: begun.elapsed().as_millis() as u64,
            ..counts
        },
        root,
        is_from_client: repository.is_write_only(),
    };
    let id = announced.commit(&snapshot, &loaded, &used)?;
    Ok((id, snapshot))
}

/// What an import added.
struct StoredBytes {
    new_bytes: u64,
    bytes: u64,
}

type Imported = (crate::chunks::loaded::Loaded, Used, Entry, Summary, StoredBytes);

/// Stores all of the archive; all of it is durable on success.
fn store(
    repository: &Repository,
    source: impl Read,
    described: &Described,
    container_len: usize,
    (progress, cancel): (&Progress, &Cancel),
) -> Result<Imported, StoreError> {
    let loaded = repository.load_index()?;
    loaded.marks.expect_whole()?;
    let used = Used::of(&loaded.containers);
    let mut writer = ChunkWriter::new(repository, &loaded, &used, container_len)?;
    let mut import = Import {
        root: Directory::default(),
        next_inode: 1,
        names: BTreeMap::new(),
        time: described.time,
        counts: Summary::default(),
        progress,
    };
    let mut archive = Archive::new(source);
    let read = import.read(&mut archive, &mut writer, cancel);
    // What came is kept for the next import, if this one failed.
    let root = match read {
        Ok(()) => import.finish(&mut writer)?,
        Err(error) => {
            if !error.is_no_answer() {
                writer.finish()?;
            }
            return Err(error);
        }
    };
    writer.finish()?;
    let stored = StoredBytes { new_bytes: writer.new_bytes, bytes: writer.stored_bytes() };
    progress.new_bytes.store(stored.new_bytes, Ordering::Relaxed);
    progress.stored_bytes.store(stored.bytes, Ordering::Relaxed);
    let counts = import.counts;
    drop(writer);
    Ok((loaded, used, root, counts, stored))
}

/// A directory whose entries are still coming.
#[derive(Default)]
struct Directory {
    meta: Option<Meta>,
    items: BTreeMap<Vec<u8>, Item>,
}

enum Item {
    Directory(Directory),
    Other(Meta, Node),
}

struct Import<'a> {
    root: Directory,
    next_inode: u64,
    /// Inodes that have several names, and how many.
    names: BTreeMap<u64, u64>,
    time: Time,
    counts: Summary,
    progress: &'a Progress,
}

impl Import<'_> {
    fn read<R: Read>(
        &mut self,
        archive: &mut Archive<R>,
        writer: &mut ChunkWriter<'_>,
        cancel: &Cancel,
    ) -> Result<(), StoreError> {
        while let Some(entry) = archive.next_entry()? {
            cancel.check()?;
            self.take(entry, archive, writer, cancel)?;
        }
        Ok(())
    }

    fn take<R: Read>(
        &mut self,
        entry: TarEntry,
        archive: &mut Archive<R>,
        writer: &mut ChunkWriter<'_>,
        cancel: &Cancel,
    ) -> Result<(), StoreError> {
        let Some(path) = components(&entry.path) else {
            self.lose(&entry.path, "its path leads out of the archive");
            return Ok(());
        };
        tree::check_depth(path.len())?;
        let meta = self.meta(&entry);
        let node = match entry.kind {
            Kind::Directory => return self.directory(&path, meta, &entry.path),
            Kind::File { size, extents } => {
                let content = self.content(archive, writer, cancel)?;
                self.progress.files.fetch_add(1, Ordering::Relaxed);
                Node::File { size, content, extents }
            }
            Kind::HardLink { target } => return self.hard_link(&path, &target, &entry.path),
            Kind::Symlink { target } if target.is_empty() || target.contains(&0) => {
                self.lose(&entry.path, "its link has no target");
                return Ok(());
            }
            Kind::Symlink { target } => Node::Symlink { target },
            Kind::Fifo => Node::Fifo,
            Kind::CharDevice { numbers: (major, minor) } => {
                Node::CharDevice { rdev: system::device(major, minor) }
            }
            Kind::BlockDevice { numbers: (major, minor) } => {
                Node::BlockDevice { rdev: system::device(major, minor) }
            }
            Kind::Unknown(kind) => {
                let kind = char::from(kind).escape_default();
                self.lose(&entry.path, &format!("entries of type '{kind}' are not known"));
                return Ok(());
            }
        };
        self.insert(&path, Item::Other(meta, node), &entry.path);
        Ok(())
    }

    /// Stores the data of the entry at hand.
    fn content<R: Read>(
        &self,
        archive: &mut Archive<R>,
        writer: &mut ChunkWriter<'_>,
        cancel: &Cancel,
    ) -> Result<Recipe, StoreError> {
        let (mut recipe, mut bytes) = (Joiner::default(), Vec::new());
        loop {
            let start = bytes.len();
            bytes.resize(start + WINDOW, 0);
            let mut filled = start;
            let mut has_ended = false;
            while filled < bytes.len() && !has_ended {
                let count = archive.read_data(&mut bytes[filled..])?;
                has_ended = count == 0;
                filled += count;
            }
            bytes.truncate(filled);
            self.progress.bytes.fetch_add((filled - start) as u64, Ordering::Relaxed);
            cancel.check()?;
            writer.cut(Content::Data, &mut bytes, has_ended, &mut recipe)?;
            if has_ended {
                return recipe.finish(&mut |node| writer.node(node));
            }
        }
    }

    fn meta(&mut self, entry: &TarEntry) -> Meta {
        for record in &entry.ignored {
            self.note(&entry.path, format!("'{record}' is not taken over"));
        }
        let mut xattrs: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut names_len = 0;
        for (name, value) in &entry.xattrs {
            names_len += name.len();
            if name.is_empty() || name.contains(&0) || names_len > MAX_ATTRIBUTE_NAMES {
                self.note(&entry.path, "an attribute has no name that can be stored".into());
                continue;
            }
            xattrs.insert(name.clone(), value.clone());
        }
        let ino = self.next_inode;
        self.next_inode += 1;
        Meta {
            mode: entry.mode,
            uid: entry.uid,
            gid: entry.gid,
            mtime: entry.mtime,
            ctime: entry.ctime.unwrap_or(entry.mtime),
            dev: 0,
            ino,
            links: 1,
            xattrs: xattrs.into_iter().collect(),
        }
    }

    fn directory(&mut self, path: &[&[u8]], meta: Meta, shown: &[u8]) -> Result<(), StoreError> {
        match self.parent_of(path) {
            None => self.lose(shown, "it lies below what is no directory"),
            Some((directory, None)) => directory.meta = Some(meta),
            Some((directory, Some(name))) => match directory.items.entry(name.to_vec()) {
                btree_map::Entry::Occupied(mut there) => match there.get_mut() {
                    Item::Directory(directory) => directory.meta = Some(meta),
                    other => {
                        *other =
                            Item::Directory(Directory { meta: Some(meta), ..Directory::default() })
                    }
                },
                btree_map::Entry::Vacant(free) => {
                    free.insert(Item::Directory(Directory {
                        meta: Some(meta),
                        ..Directory::default()
                    }));
                }
            },
        }
        Ok(())
    }

    fn hard_link(&mut self, path: &[&[u8]], target: &[u8], shown: &[u8]) -> Result<(), StoreError> {
        let Some((meta, node)) = components(target).and_then(|target| self.find(&target)) else {
            let target = String::from_utf8_lossy(target);
            self.lose(shown, &format!("'{target}', which it links to, is not before it"));
            return Ok(());
        };
        self.names.entry(meta.ino).and_modify(|names| *names += 1).or_insert(2);
        self.insert(path, Item::Other(meta, node), shown);
        Ok(())
    }

    /// What is no directory at `path`.
    fn find(&mut self, path: &[&[u8]]) -> Option<(Meta, Node)> {
        match self.parent_of(path)? {
            (directory, Some(name)) => match directory.items.get(name)? {
                Item::Other(meta, node) => Some((meta.clone(), node.clone())),
                Item::Directory(_) => None,
            },
            _ => None,
        }
    }

    fn insert(&mut self, path: &[&[u8]], item: Item, shown: &[u8]) {
        match self.parent_of(path) {
            // As tar does, a later entry takes the place of an earlier one.
            Some((directory, Some(name))) => drop(directory.items.insert(name.to_vec(), item)),
            Some((_, None)) => self.lose(shown, "the root is a directory"),
            None => self.lose(shown, "it lies below what is no directory"),
        }
    }

    /// The directory that holds the last component of `path`, made if it is missing, and that component.
    fn parent_of<'p>(&mut self, path: &[&'p [u8]]) -> Option<(&mut Directory, Option<&'p [u8]>)> {
        let Some((last, above)) = path.split_last() else { return Some((&mut self.root, None)) };
        let mut directory = &mut self.root;
        for name in above {
            let item = directory.items.entry(name.to_vec());
            match item.or_insert_with(|| Item::Directory(Directory::default())) {
                Item::Directory(next) => directory = next,
                Item::Other(..) => return None,
            }
        }
        Some((directory, Some(last)))
    }

    /// Stores the trees; gives the root.
    fn finish(&mut self, writer: &mut ChunkWriter<'_>) -> Result<Entry, StoreError> {
        let root = std::mem::take(&mut self.root);
        self.entry(Vec::new(), root, writer)
    }

    fn entry(
        &mut self,
        name: Vec<u8>,
        directory: Directory,
        writer: &mut ChunkWriter<'_>,
    ) -> Result<Entry, StoreError> {
        let is_root = name.is_empty();
        self.counts.directories += 1;
        let mut tree = NewTree::default();
        for (name, item) in directory.items {
            let entry = match item {
                Item::Directory(below) => self.entry(name, below, writer)?,
                Item::Other(mut meta, node) => {
                    meta.links = self.names.get(&meta.ino).copied().unwrap_or(1);
                    match &node {
                        Node::File { content, .. } => {
                            self.counts.files += 1;
                            self.counts.bytes += content.len;
                        }
                        _ => self.counts.others += 1,
                    }
                    Entry { name, meta, node }
                }
            };
            tree.push(&entry, writer)?;
        }
        // A directory that no entry of the archive described.
        let missing = || Meta {
            mode: 0o755,
            mtime: self.time,
            ctime: self.time,
            links: 1,
            ..Meta::default()
        };
        let meta = match directory.meta {
            Some(meta) => meta,
            // What stands for no directory has no links.
            None if is_root => Meta { links: 0, ..missing() },
            None => missing(),
        };
        let tree: Tree = tree.finish(is_root, writer)?;
        Ok(Entry { name, meta, node: Node::Directory { tree } })
    }

    fn lose(&self, path: &[u8], reason: &str) {
        let kind = IssueKind::NotImported { reason: reason.to_owned() };
        self.progress.issue(shown(path), kind);
    }

    fn note(&self, path: &[u8], reason: String) {
        self.progress.issue(shown(path), IssueKind::ImportedWithout { reason });
    }
}

fn shown(path: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(path)).to_owned()
}

/// The parts of an archive's path, from the root of the snapshot down; `None` if it leads elsewhere.
fn components(path: &[u8]) -> Option<Vec<&[u8]>> {
    let parts = path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    parts.map(|part| tree::is_component(part).then_some(part)).collect()
}
