use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry, ReplyOpen, ReplyXattr, Request,
};
use onefold_store::tree::{Entry, Node, Time};
use onefold_store::{StoreError, View};

use super::inodes::{Inodes, ROOT};
use super::shelf::{Item, Shelf};
use crate::console::Console;

/// How long the kernel may cache an answer: nothing ever changes.
const VALID: Duration = Duration::from_secs(3600);

/// In listings, for entries without a number: FUSE's `FUSE_UNKNOWN_INO`.
const UNNUMBERED: INodeNo = INodeNo(0xffff_ffff);

/// The first error that says that the repository cannot be reached.
#[derive(Default)]
pub(crate) struct Outage(Mutex<Option<StoreError>>);

impl Outage {
    fn note(&self, error: StoreError) {
        self.error().get_or_insert(error);
    }

    pub(crate) fn has_come(&self) -> bool {
        self.error().is_some()
    }

    pub(crate) fn take(&self) -> Option<StoreError> {
        self.error().take()
    }

    fn error(&self) -> MutexGuard<'_, Option<StoreError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers the kernel from snapshots.
pub(crate) struct Files {
    view: View<'static>,
    console: Console,
    inodes: Mutex<Inodes>,
    outage: Arc<Outage>,
    /// Owner of directories that are in no snapshot.
    owner: (u32, u32),
}

impl Files {
    pub(crate) fn new(view: View<'static>, root: Shelf, console: Console) -> Self {
        let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let inodes = Mutex::new(Inodes::new(Item::Shelf(Arc::new(root))));
        Self { view, console, inodes, outage: Arc::default(), owner }
    }

    /// The first error that ended the mount.
    pub(crate) fn outage(&self) -> Arc<Outage> {
        Arc::clone(&self.outage)
    }

    /// A panic cannot leave the table inconsistent.
    fn inodes(&self) -> MutexGuard<'_, Inodes> {
        self.inodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn item(&self, number: INodeNo) -> Result<Item, Errno> {
        self.inodes().get(number.0).cloned().ok_or(Errno::ENOENT)
    }

    /// An unreadable entry is reported once to the user, and is an error to the reading program.
    fn readable<T>(&self, result: Result<T, StoreError>) -> Result<T, Errno> {
        result.map_err(|error| {
            match error.is_unreachable() {
                true => self.outage.note(error),
                false => self.console.warn(error),
            }
            Errno::EIO
        })
    }

    fn child(&self, parent: &Item, name: &[u8]) -> Result<Item, Errno> {
        match parent {
            Item::Shelf(shelf) => shelf.items.get(name).cloned(),
            Item::Link(_) => None,
            Item::Entry(entry) => {
                let entries = self.readable(self.view.entries(entry))?;
                let place = entries.binary_search_by(|entry| entry.name.as_slice().cmp(name));
                place.ok().map(|place| Item::Entry(Arc::new(entries[place].clone())))
            }
        }
        .ok_or(Errno::ENOENT)
    }

    /// Names and kinds of a directory's entries, in a stable order.
    fn listing(&self, item: &Item) -> Result<Vec<(OsString, FileType)>, Errno> {
        let named = |name: &[u8], kind| (OsString::from_vec(name.to_vec()), kind);
        Ok(match item {
            Item::Shelf(shelf) => {
                shelf.items.iter().map(|(name, item)| named(name, kind(item))).collect()
            }
            Item::Link(_) => return Err(Errno::ENOTDIR),
            Item::Entry(entry) => {
                let entries = self.readable(self.view.entries(entry))?;
                entries.iter().map(|entry| named(&entry.name, kind_of(&entry.node))).collect()
            }
        })
    }

    fn attributes(&self, number: u64, item: &Item) -> FileAttr {
        let ours = |time, perm, size| FileAttr {
            ino: INodeNo(number),
            size,
            blocks: 0,
            atime: system_time(time),
            mtime: system_time(time),
            ctime: system_time(time),
            crtime: system_time(time),
            kind: kind(item),
            perm,
            nlink: 1,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: 128 << 10,
            flags: 0,
        };
        match item {
            Item::Shelf(shelf) => ours(shelf.time, 0o555, 0),
            Item::Link(target) => ours(Time::default(), 0o777, target.len() as u64),
            Item::Entry(entry) => {
                let meta = &entry.meta;
                let size = match &entry.node {
                    Node::Symlink { target } => target.len() as u64,
                    _ => entry.size(),
                };
                FileAttr {
                    blocks: size.div_ceil(512),
                    ctime: system_time(meta.ctime),
                    nlink: u32::try_from(meta.links).unwrap_or(u32::MAX),
                    uid: meta.uid,
                    gid: meta.gid,
                    rdev: match entry.node {
                        // Linux packs both numbers into the same 32 bits for FUSE
                        Node::CharDevice { rdev } | Node::BlockDevice { rdev } => rdev as u32,
                        _ => 0,
                    },
                    ..ours(meta.mtime, meta.mode as u16 & 0o7777, size)
                }
            }
        }
    }
}

fn kind(item: &Item) -> FileType {
    match item {
        Item::Shelf(_) => FileType::Directory,
        Item::Link(_) => FileType::Symlink,
        Item::Entry(entry) => kind_of(&entry.node),
    }
}

const fn kind_of(node: &Node) -> FileType {
    match node {
        Node::File { .. } => FileType::RegularFile,
        Node::Directory { .. } => FileType::Directory,
        Node::Symlink { .. } => FileType::Symlink,
        Node::Fifo => FileType::NamedPipe,
        Node::Socket => FileType::Socket,
        Node::CharDevice { .. } => FileType::CharDevice,
        Node::BlockDevice { .. } => FileType::BlockDevice,
    }
}

/// `time`, or 1970 where the system's clock cannot show it.
fn system_time(time: Time) -> SystemTime {
    let seconds = Duration::from_secs(time.secs.unsigned_abs());
    let whole = match time.secs {
        0.. => UNIX_EPOCH.checked_add(seconds),
        _ => UNIX_EPOCH.checked_sub(seconds),
    };
    let nanos = Duration::from_nanos(time.nanos.into());
    whole.and_then(|whole| whole.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

/// An extended attribute, or their names, as the kernel asks for them: first for the length.
fn reply_in_two_steps(bytes: &[u8], room: u32, reply: ReplyXattr) {
    match room {
        0 => reply.size(bytes.len() as u32),
        _ if bytes.len() > room as usize => reply.error(Errno::ERANGE),
        _ => reply.data(bytes),
    }
}

/// The extended attributes of an item.
fn xattrs(item: &Item) -> &[(Vec<u8>, Vec<u8>)] {
    match item {
        Item::Entry(entry) => &entry.meta.xattrs,
        _ => &[],
    }
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = name.as_bytes();
        match self.item(parent).and_then(|parent| self.child(&parent, name)) {
            Ok(item) => {
                let number = self.inodes().tell(parent.0, name, item.clone());
                reply.entry(&VALID, &self.attributes(number, &item), Generation(0));
            }
            Err(error) => reply.error(error),
        }
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.inodes().forget(number.0, lookups);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.item(number) {
            Ok(item) => reply.attr(&VALID, &self.attributes(number.0, &item)),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.item(number) {
            Ok(Item::Link(target)) => reply.data(target.as_bytes()),
            Ok(Item::Entry(entry)) => match &entry.node {
                Node::Symlink { target } => reply.data(target),
                _ => reply.error(Errno::EINVAL),
            },
            Ok(Item::Shelf(_)) => reply.error(Errno::EINVAL),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // what the kernel has read of a file stays true
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = |entry: Arc<Entry>| self.readable(self.view.read(&entry, offset, len as usize));
        let bytes = self.item(number).and_then(|item| match item {
            Item::Entry(entry) => read(entry),
            _ => Err(Errno::EISDIR),
        });
        match bytes {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listing = match self.item(number).and_then(|item| self.listing(&item)) {
            Ok(listing) => listing,
            Err(error) => return reply.error(error),
        };
        let parent = if number.0 == ROOT { number } else { UNNUMBERED };
        let dots = [(number, "."), (parent, "..")];
        let dots = dots.map(|(number, name)| (number, FileType::Directory, OsString::from(name)));
        let items = listing.into_iter().map(|(name, kind)| (UNNUMBERED, kind, name));
        let after = (1_u64..).zip(dots.into_iter().chain(items));
        for (next, (number, kind, name)) in
            after.skip(usize::try_from(offset).unwrap_or(usize::MAX))
        {
            if reply.add(number, next, kind, &name) {
                break;
            }
        }
        reply.ok();
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, room: u32, reply: ReplyXattr) {
        let item = match self.item(number) {
            Ok(item) => item,
            Err(error) => return reply.error(error),
        };
        let found = xattrs(&item).iter().find(|(found, _)| found == name.as_bytes());
        match found {
            Some((_, value)) => reply_in_two_steps(value, room, reply),
            None => reply.error(Errno::ENODATA),
        }
    }

    fn listxattr(&self, _: &Request, number: INodeNo, room: u32, reply: ReplyXattr) {
        match self.item(number) {
            Ok(item) => {
                let names = xattrs(&item).iter().flat_map(|(name, _)| [name.as_slice(), b"\0"]);
                reply_in_two_steps(&names.collect::<Vec<_>>().concat(), room, reply);
            }
            Err(error) => reply.error(error),
        }
    }
}
