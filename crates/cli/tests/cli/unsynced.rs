//! A file system that forgets what was not synced, for programs that are killed as the power goes.
//!
//! Everything is in memory, twice: as programs see it, and as it is durable. A sync of a file makes
//! its bytes durable, not its name; a sync of a directory makes its names durable, not their bytes.
//! That is the model of `onefold_backend::crash`, here below a real kernel and the real binary.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use onefold_testkit::SplitMix64;
use rustix::process::{Pid, Signal, kill_process};

const ROOT: u64 = 1;
/// Nothing may be remembered by the kernel: after a power cut it would be wrong.
const TTL: Duration = Duration::ZERO;
/// What a disk writes at once, or not at all.
const SECTOR: usize = 512;

#[derive(Clone)]
enum Content {
    File(Vec<u8>),
    Directory(BTreeMap<OsString, u64>),
}

/// The seed by which a power cut leaves nothing of what was not synced.
pub(crate) const NOTHING_KEPT: u64 = 0;

/// A file or directory, as it is seen and as it is durable.
#[derive(Clone)]
struct Node {
    seen: Content,
    durable: Content,
    mode: u32,
}

/// What is on the disk, and when the power goes.
#[derive(Clone)]
pub(crate) struct Disk {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    /// Changes and syncs so far.
    steps: u64,
    /// After so many steps the program `killed` is killed, and nothing is done any more.
    stop: Option<(u64, Pid)>,
    has_stopped: bool,
    /// Whether syncs are answered and not done: an error that tests have to notice.
    pub(crate) ignores_syncs: bool,
    /// The step at hand: what it does and to which name, as far as that is known.
    last: String,
}

/// The same disk, for the kernel and for the test.
#[derive(Clone)]
pub(crate) struct Unsynced(Arc<Mutex<Disk>>);

impl Disk {
    pub(crate) fn new() -> Self {
        let empty = || Content::Directory(BTreeMap::new());
        let root = Node { seen: empty(), durable: empty(), mode: 0o755 };
        let nodes = BTreeMap::from([(ROOT, root)]);
        Self {
            nodes,
            next: ROOT + 1,
            steps: 0,
            stop: None,
            has_stopped: false,
            ignores_syncs: false,
            last: String::new(),
        }
    }

    /// What the power leaves: all that is durable, and of the rest what `seed` draws.
    pub(crate) fn after_power_cut(&self, seed: u64) -> Self {
        let mut numbers = SplitMix64::new(seed);
        // All of it, nothing, or each for itself.
        let fate = if seed == NOTHING_KEPT { 0 } else { numbers.below(3) };
        let is_kept = |numbers: &mut SplitMix64| match fate {
            0 => false,
            1 => true,
            _ => numbers.below(2) == 0,
        };
        let mut left = Self { stop: None, has_stopped: false, steps: 0, ..self.clone() };
        for node in left.nodes.values_mut() {
            let drawn = match (&node.seen, &node.durable) {
                (Content::File(seen), Content::File(durable)) => {
                    Content::File(torn(seen, durable, || is_kept(&mut numbers)))
                }
                (Content::Directory(seen), Content::Directory(durable)) => {
                    let mut names = durable.clone();
                    for name in seen.keys().chain(durable.keys()) {
                        if seen.get(name) != durable.get(name) && is_kept(&mut numbers) {
                            match seen.get(name) {
                                Some(number) => drop(names.insert(name.clone(), *number)),
                                None => drop(names.remove(name)),
                            }
                        }
                    }
                    Content::Directory(names)
                }
                _ => unreachable!("a node stays what it is"),
            };
            (node.seen, node.durable) = (drawn.clone(), drawn);
        }
        left
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// What the last step did before the stop.
    pub(crate) fn last(&self) -> &str {
        &self.last
    }

    fn node(&self, number: INodeNo) -> Result<&Node, Errno> {
        self.nodes.get(&number.0).ok_or(Errno::ENOENT)
    }

    fn names(&self, directory: INodeNo) -> Result<&BTreeMap<OsString, u64>, Errno> {
        match &self.node(directory)?.seen {
            Content::Directory(names) => Ok(names),
            Content::File(_) => Err(Errno::ENOTDIR),
        }
    }

    fn names_mut(&mut self, directory: INodeNo) -> Result<&mut BTreeMap<OsString, u64>, Errno> {
        match self.nodes.get_mut(&directory.0).map(|node| &mut node.seen) {
            Some(Content::Directory(names)) => Ok(names),
            Some(Content::File(_)) => Err(Errno::ENOTDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn bytes_mut(&mut self, file: INodeNo) -> Result<&mut Vec<u8>, Errno> {
        match self.nodes.get_mut(&file.0).map(|node| &mut node.seen) {
            Some(Content::File(bytes)) => Ok(bytes),
            Some(Content::Directory(_)) => Err(Errno::EISDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> Result<u64, Errno> {
        self.names(parent)?.get(name).copied().ok_or(Errno::ENOENT)
    }

    /// Counts a step. At the one that is to be the last the program is killed, and neither this
    /// step nor any later one is done.
    fn step(&mut self, what: &str, name: &OsStr) -> Result<(), Errno> {
        if let Some((stop, killed)) = self.stop
            && self.steps >= stop
        {
            if !self.has_stopped {
                // It may have ended by itself just now.
                let _ = kill_process(killed, Signal::KILL);
            }
            self.has_stopped = true;
            return Err(Errno::EIO);
        }
        self.steps += 1;
        self.last = format!("{what} {}", name.display());
        Ok(())
    }

    /// Makes a file or directory, which is a step called `what`.
    fn make(
        &mut self,
        what: &str,
        parent: INodeNo,
        name: &OsStr,
        seen: Content,
        mode: u32,
    ) -> Result<FileAttr, Errno> {
        self.step(what, name)?;
        if self.names(parent)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let durable = match &seen {
            Content::File(_) => Content::File(Vec::new()),
            Content::Directory(_) => Content::Directory(BTreeMap::new()),
        };
        let number = self.next;
        self.next += 1;
        self.nodes.insert(number, Node { seen, durable, mode });
        self.names_mut(parent)?.insert(name.to_owned(), number);
        self.attributes(number)
    }

    fn attributes(&self, number: u64) -> Result<FileAttr, Errno> {
        let node = self.node(INodeNo(number))?;
        let (kind, size) = match &node.seen {
            Content::File(bytes) => (FileType::RegularFile, bytes.len() as u64),
            Content::Directory(_) => (FileType::Directory, 0),
        };
        Ok(FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: (node.mode & 0o7777) as u16,
            nlink: 1,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

/// Bytes of which some sectors are as they were seen, and some as they were durable.
fn torn(seen: &[u8], durable: &[u8], mut is_kept: impl FnMut() -> bool) -> Vec<u8> {
    let len = if is_kept() { seen.len() } else { durable.len() };
    let mut bytes = vec![0; len];
    for (at, sector) in bytes.chunks_mut(SECTOR).enumerate() {
        let from = if is_kept() { seen } else { durable };
        let from = from.get(at * SECTOR..).unwrap_or_default();
        let common = sector.len().min(from.len());
        sector[..common].copy_from_slice(&from[..common]);
    }
    bytes
}

impl Unsynced {
    pub(crate) fn new(disk: Disk) -> Self {
        Self(Arc::new(Mutex::new(disk)))
    }

    /// The disk; whoever panicked left it whole.
    pub(crate) fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills `program` after so many more steps, and does nothing from then on.
    pub(crate) fn stop_after(&self, steps: u64, program: Pid) {
        let mut disk = self.disk();
        disk.stop = Some((disk.steps + steps, program));
    }
}

macro_rules! answer {
    ($result:expr, $reply:ident, $value:pat => $done:expr) => {
        match $result {
            Ok($value) => $done,
            Err(error) => $reply.error(error),
        }
    };
}

impl Filesystem for Unsynced {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let disk = self.disk();
        let found = disk.child(parent, name).and_then(|number| disk.attributes(number));
        answer!(found, reply, attr => reply.entry(&TTL, &attr, Generation(0)));
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        answer!(self.disk().attributes(number.0), reply, attr => reply.attr(&TTL, &attr));
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut disk = self.disk();
        let mut set = || {
            if let Some(size) = size {
                disk.step("resize", OsStr::new(""))?;
                disk.bytes_mut(number)?.resize(size as usize, 0);
            }
            if let (Some(mode), Some(node)) = (mode, disk.nodes.get_mut(&number.0)) {
                node.mode = mode;
            }
            disk.attributes(number.0)
        };
        answer!(set(), reply, attr => reply.attr(&TTL, &attr));
    }

    fn mkdir(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let made =
            self.disk().make("make", parent, name, Content::Directory(BTreeMap::new()), mode);
        answer!(made, reply, attr => reply.entry(&TTL, &attr, Generation(0)));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let made = self.disk().make("create", parent, name, Content::File(Vec::new()), mode);
        answer!(made, reply, attr => reply.created(
            &TTL, &attr, Generation(0), FileHandle(0), FopenFlags::empty()
        ));
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
        let mut disk = self.disk();
        let bytes = disk.bytes_mut(number).map(|bytes| {
            let from = bytes.get(offset as usize..).unwrap_or_default();
            from[..from.len().min(len as usize)].to_vec()
        });
        answer!(bytes, reply, bytes => reply.data(&bytes));
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut disk = self.disk();
        let mut written = || {
            disk.step("write", OsStr::new(""))?;
            let (bytes, start) = (disk.bytes_mut(number)?, offset as usize);
            let len = bytes.len().max(start + data.len());
            bytes.resize(len, 0);
            bytes[start..start + data.len()].copy_from_slice(data);
            Ok(())
        };
        answer!(written(), reply, () => reply.written(data.len() as u32));
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut disk = self.disk();
        let mut link = || {
            disk.step("link", name)?;
            if disk.names(parent)?.contains_key(name) {
                return Err(Errno::EEXIST);
            }
            disk.names_mut(parent)?.insert(name.to_owned(), number.0);
            disk.attributes(number.0)
        };
        answer!(link(), reply, attr => reply.entry(&TTL, &attr, Generation(0)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut disk = self.disk();
        let mut unlink = || {
            disk.step("unlink", name)?;
            disk.names_mut(parent)?.remove(name).ok_or(Errno::ENOENT)
        };
        answer!(unlink(), reply, _ => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut disk = self.disk();
        let mut remove = || {
            let number = disk.child(parent, name)?;
            if !disk.names(INodeNo(number))?.is_empty() {
                return Err(Errno::ENOTEMPTY);
            }
            disk.step("remove", name)?;
            disk.names_mut(parent)?.remove(name).ok_or(Errno::ENOENT)
        };
        answer!(remove(), reply, _ => reply.ok());
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut disk = self.disk();
        let mut rename = || {
            disk.step("rename", new_name)?;
            let number = disk.names_mut(parent)?.remove(name).ok_or(Errno::ENOENT)?;
            disk.names_mut(new_parent)?.insert(new_name.to_owned(), number);
            Ok(())
        };
        answer!(rename(), reply, () => reply.ok());
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let mut disk = self.disk();
        answer!(sync(&mut disk, number), reply, () => reply.ok());
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let mut disk = self.disk();
        answer!(sync(&mut disk, number), reply, () => reply.ok());
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let disk = self.disk();
        let names = match disk.names(number) {
            Ok(names) => names,
            Err(error) => return reply.error(error),
        };
        let kind = |number: &u64| match disk.nodes.get(number).map(|node| &node.seen) {
            Some(Content::Directory(_)) => FileType::Directory,
            _ => FileType::RegularFile,
        };
        let dots = [(number.0, ".".into()), (number.0, "..".into())];
        let dots = dots.map(|(number, name): (u64, OsString)| (number, FileType::Directory, name));
        let listed = names.iter().map(|(name, number)| (*number, kind(number), name.clone()));
        let after = (1_u64..).zip(dots.into_iter().chain(listed)).skip(offset as usize);
        for (next, (number, kind, name)) in after {
            if reply.add(INodeNo(number), next, kind, &name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096);
    }
}

fn sync(disk: &mut Disk, number: INodeNo) -> Result<(), Errno> {
    disk.step("sync", OsStr::new(""))?;
    if disk.ignores_syncs {
        return Ok(());
    }
    let node = disk.nodes.get_mut(&number.0).ok_or(Errno::ENOENT)?;
    node.durable = node.seen.clone();
    Ok(())
}
