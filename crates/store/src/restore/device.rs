//! Restoring one file onto a block device, or onto a file in its place.
//!
//! The device may hold an older version. What lies where it belongs is kept; what lies elsewhere is
//! moved, each place read before something is written there; then seeds are asked; the rest is fetched.
//! Each chunk is verified before it is written. A restore that is killed leaves a mixture of both
//! versions: the next one compares again, and fetches what the first had read and not yet written.

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZero;
use std::ops::{ControlFlow, Range};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use onefold_cdc::Chunker;
use onefold_container::MAX_GROUP_LEN;
use rustix::fs::{FlockOperation, Mode, OFlags};

use super::moves::{self, Move, Mover};
use super::seed::{self, Seeds};
use super::standing::Sought;
use super::wanted::{FileNumber, WantedChunk};
use crate::chunks::reader::ChunkReader;
use crate::finding::describe;
use crate::reading::bring::Bring;
use crate::reading::fetch::{Keep, SHORTEST};
use crate::system;
use crate::threads::{cores, each};
use crate::tree::layout::Layout;
use crate::tree::{Entry, Node};
use crate::{Cancel, IssueKind, Progress, Recipe, Repository, StoreError};

/// Chunks that differ and are settled together: moves are found among them.
const MAX_WANTED: usize = 1 << 19;
/// Chunks that are compared together.
const BATCH: usize = 1 << 12;
/// Bytes of holes that are looked at together.
const HOLE_STEP: u64 = 1 << 20;

/// How a device is restored.
#[derive(Debug, Clone, Default)]
pub struct DeviceOptions {
    /// Files, devices, and directories of files that may hold chunks that then need not come from the
    /// repository.
    pub seeds: Vec<PathBuf>,
    /// Whether all is read again and compared with the snapshot.
    pub verify: bool,
    /// Writing threads; as many as there are cores if `None`.
    pub threads: Option<NonZero<usize>>,
}

/// What the restore of a device did, in bytes of the file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceReport {
    /// All that the file has, holes left out.
    pub bytes: u64,
    /// What lay where it belongs.
    pub kept: u64,
    /// What lay elsewhere on the device.
    pub moved: u64,
    /// What seeds had.
    pub seeded: u64,
    /// What came from the repository.
    pub fetched: u64,
    /// What was written, zeros in place of holes included.
    pub written: u64,
    /// What could not be restored: issues say why.
    pub failed: u64,
}

/// What is restored onto.
pub trait Disk: Sync {
    /// Reads bytes that lie within it.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes bytes within it.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes durable what was written. What is read afterwards comes from the disk, not from memory.
    fn sync(&self) -> io::Result<()>;

    /// Whether nothing was ever written to it, so that there is nothing to compare.
    fn is_blank(&self) -> bool {
        false
    }
}

/// Restores the file `entry` onto the block device or file `path`, which is made if it is missing. A
/// block device must be as long as the file, and keeps what lies behind it.
///
/// # Errors
///
/// What ends the restore: the device cannot be written, the repository cannot be reached, the user
/// asked. Of chunks that cannot be had, `progress` hears, and the rest is restored.
pub fn restore_device(
    repository: &Repository,
    entry: &Entry,
    path: &Path,
    options: &DeviceOptions,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<DeviceReport, StoreError> {
    let len = entry.size();
    let device = Device::open(path, len).map_err(StoreError::file("open to restore", path))?;
    let report = restore_disk(repository, entry, (&device, path), options, progress, cancel)?;
    device.cut_to(len).map_err(StoreError::file("truncate", path))?;
    Ok(report)
}

/// As [`restore_device`], onto anything of at least the file's size, which messages call by a name.
///
/// # Errors
///
/// As those of [`restore_device`].
pub fn restore_disk(
    repository: &Repository,
    entry: &Entry,
    (disk, name): (&dyn Disk, &Path),
    options: &DeviceOptions,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<DeviceReport, StoreError> {
    let Node::File { size, content, extents } = &entry.node else {
        let source = io::Error::other("what is restored is no file");
        return Err(StoreError::file("restore", name)(source));
    };
    let chunks = repository.reader()?;
    let chunker = Chunker::new(&repository.config().params)?;
    let threads = options.threads.map_or_else(cores, NonZero::get);
    let seeds = Seeds::read(&options.seeds, &chunker, &chunks, threads, (progress, cancel))?;
    let image = Image { disk, layout: Layout::new(extents.as_deref()), len: content.len };
    let onto = Onto {
        chunks: &chunks,
        chunker,
        seeds,
        image,
        name,
        threads,
        progress,
        cancel,
        counts: Counts::default(),
        stopped: OnceLock::new(),
    };
    if let Err(error) = onto.restore(content).and_then(|()| onto.clear_holes(*size)) {
        return Err(onto.stopped.into_inner().unwrap_or(error));
    }
    disk.sync().map_err(StoreError::file("sync", name))?;
    if options.verify {
        onto.verify(content)?;
    }
    Progress::add(&progress.files, 1);
    Ok(onto.counts.report(content.len))
}

/// A block device, or a file in place of one.
struct Device {
    file: File,
    is_block_device: bool,
    is_blank: bool,
}

impl Device {
    /// Opens what is restored onto, or makes it, with `len` bytes at least. Nobody else may use it.
    #[expect(clippy::disallowed_methods, reason = "the target of a restore")]
    fn open(path: &Path, len: u64) -> io::Result<Self> {
        let kind = match std::fs::metadata(path) {
            Ok(metadata) => Some(metadata.file_type()),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_for_devices(path)? => None,
            Err(error) => return Err(error),
        };
        let is_block_device = kind.is_some_and(|kind| kind.is_block_device());
        let flags = match kind {
            // A link that leads nowhere is no place for a file.
            None => OFlags::CREATE | OFlags::EXCL,
            // One that is mounted is refused.
            Some(_) if is_block_device => OFlags::EXCL,
            Some(kind) if kind.is_file() => OFlags::empty(),
            Some(_) => return Err(io::Error::other("it is neither a block device nor a file")),
        };
        let flags = flags | OFlags::RDWR | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
        let opened = file.metadata()?.file_type();
        if opened.is_block_device() != is_block_device || !(is_block_device || opened.is_file()) {
            return Err(io::Error::other("another file took its place while it was opened"));
        }
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| io::Error::other(format!("another process has locked it: {error}")))?;
        // Memory may hold what an earlier run could not write.
        system::forget_cached(&file)?;
        let found = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))?;
        if is_block_device && found < len {
            let error = format!("it has {found} bytes, expected at least {len}");
            return Err(io::Error::other(error));
        }
        if found < len {
            file.set_len(len)?;
        }
        Ok(Self { file, is_block_device, is_blank: found == 0 })
    }

    /// Takes what lies behind `len` bytes from a file.
    fn cut_to(&self, len: u64) -> io::Result<()> {
        match self.is_block_device {
            true => Ok(()),
            false => self.file.set_len(len).and_then(|()| self.file.sync_all()),
        }
    }
}

/// Whether only devices belong at `path`: a file that is made there by mistake would fill the memory.
fn is_for_devices(path: &Path) -> io::Result<bool> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let folder = std::fs::canonicalize(folder)?;
    Ok(folder.starts_with("/dev") && !folder.starts_with("/dev/shm"))
}

impl Disk for Device {
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_all()?;
        Ok(system::forget_cached(&self.file)?)
    }

    fn is_blank(&self) -> bool {
        self.is_blank
    }
}

/// A disk by the content of the file that is restored onto it.
struct Image<'a> {
    disk: &'a dyn Disk,
    layout: Layout,
    /// Of the content.
    len: u64,
}

impl Image<'_> {
    fn bytes(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.layout.place(range.start, bytes.len(), |offset, part| {
            self.disk.read_exact_at(&mut bytes[part], offset)
        })?;
        Ok(bytes)
    }

    fn write(&self, start: u64, bytes: &[u8]) -> io::Result<()> {
        let write = |offset, part: Range<usize>| self.disk.write_all_at(&bytes[part], offset);
        self.layout.place(start, bytes.len(), write)
    }
}

/// Reads an image from its beginning to its end.
struct ImageReader<'a> {
    image: &'a Image<'a>,
    at: u64,
}

impl Read for ImageReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = (self.image.len - self.at).min(buffer.len() as u64) as usize;
        buffer[..len].copy_from_slice(&self.image.bytes(self.at..self.at + len as u64)?);
        self.at += len as u64;
        Ok(len)
    }
}

#[derive(Default)]
struct Counts {
    kept: AtomicU64,
    moved: AtomicU64,
    seeded: AtomicU64,
    fetched: AtomicU64,
    zeroed: AtomicU64,
    failed: AtomicU64,
}

impl Counts {
    fn report(&self, bytes: u64) -> DeviceReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (moved, seeded, fetched) = (read(&self.moved), read(&self.seeded), read(&self.fetched));
        DeviceReport {
            bytes,
            kept: read(&self.kept),
            moved,
            seeded,
            fetched,
            written: moved + seeded + fetched + read(&self.zeroed),
            failed: read(&self.failed),
        }
    }
}

/// A file that is restored onto an image.
struct Onto<'a> {
    chunks: &'a ChunkReader<'a>,
    chunker: Chunker,
    seeds: Seeds,
    image: Image<'a>,
    /// For messages.
    name: &'a Path,
    threads: usize,
    progress: &'a Progress,
    cancel: &'a Cancel,
    counts: Counts,
    /// Why nothing more can be done.
    stopped: OnceLock<StoreError>,
}

impl Onto<'_> {
    fn restore(&self, content: &Recipe) -> Result<(), StoreError> {
        let (mut batch, mut wanted, mut start) = (Vec::new(), Vec::new(), 0);
        let visited = self.chunks.visit(content, &mut |leaf| {
            batch.push(WantedChunk { place: None, leaf, file: FileNumber::Long(0), start });
            start += leaf.len;
            if batch.len() == BATCH {
                self.compare(std::mem::take(&mut batch), &mut wanted)?;
            }
            match wanted.len() >= MAX_WANTED {
                true => self.settle(&std::mem::take(&mut wanted)),
                false => Ok(()),
            }
        });
        match visited {
            Err(error) if self.is_over(&error) => return Err(error),
            // What chunks would follow, only the node knows that cannot be had.
            Err(error) => self.fail(start..content.len, &error),
            Ok(()) => {}
        }
        self.compare(batch, &mut wanted)?;
        self.settle(&wanted)
    }

    /// Whether nothing more is restored because of `error`.
    fn is_over(&self, error: &StoreError) -> bool {
        error.is_unreachable() || self.cancel.is_cancelled() || self.stopped.get().is_some()
    }

    /// Adds to `wanted` those of the chunks that do not lie where they belong.
    fn compare(
        &self,
        batch: Vec<WantedChunk>,
        wanted: &mut Vec<WantedChunk>,
    ) -> Result<(), StoreError> {
        let compared: Vec<_> =
            batch.into_iter().map(|chunk| (chunk, AtomicBool::new(false))).collect();
        if !self.image.disk.is_blank() {
            let flow = each(self.threads, &compared, |(chunk, is_kept)| {
                is_kept.store(self.has(chunk), Ordering::Relaxed);
                self.go_on()
            });
            self.result(flow)?;
        }
        for (chunk, is_kept) in compared {
            match is_kept.into_inner() {
                true => self.count(&self.counts.kept, chunk.leaf.len),
                false => {
                    let place = self.chunks.place_of(&chunk.leaf.root);
                    wanted.push(WantedChunk { place, ..chunk });
                }
            }
        }
        Ok(())
    }

    /// Whether a chunk lies where it belongs.
    fn has(&self, chunk: &WantedChunk) -> bool {
        let Recipe { root, len, .. } = chunk.leaf;
        // A recipe that lies about a length is no reason to take memory for it.
        len <= u64::from(MAX_GROUP_LEN)
            && self
                .image
                .bytes(chunk.start..chunk.start + len)
                .is_ok_and(|bytes| self.chunks.fingerprint(&bytes) == root)
    }

    /// Brings the chunks that do not lie where they belong.
    fn settle(&self, wanted: &[WantedChunk]) -> Result<(), StoreError> {
        let mut left: Vec<&WantedChunk> = wanted.iter().collect();
        if !left.is_empty() && !self.image.disk.is_blank() {
            left = self.move_chunks(left)?;
        }
        let served = self.seeds.serve(&mut left, self.chunks, self.threads, &|chunk, bytes| {
            self.write(chunk, &bytes, &self.counts.seeded)
        });
        self.result(served)?;
        let (reader, threads, shortest) = (self.chunks, self.threads, SHORTEST);
        let bring = Bring { reader, threads, shortest, keep: Keep::Nothing };
        self.result(bring.bring(&left, &|chunk, found| self.take(chunk, found)))
    }

    /// Moves what lies elsewhere on the disk, and gives the chunks that do not.
    fn move_chunks<'w>(
        &self,
        wanted: Vec<&'w WantedChunk>,
    ) -> Result<Vec<&'w WantedChunk>, StoreError> {
        let sought = Sought::new(wanted);
        let (mut moves, mut others) = (Vec::new(), Vec::new());
        let reader = ImageReader { image: &self.image, at: 0 };
        let mut flow = ControlFlow::Continue(());
        // As far as it can be read.
        let _ = seed::cut(reader, &self.chunker, &mut |start, bytes| {
            let len = bytes.len() as u64;
            Progress::add(&self.progress.seed_bytes, len);
            let found = sought.find(&self.chunks.fingerprint(bytes));
            // Recipes that lie about its length are told of where chunks are fetched.
            let (targets, lying): (Vec<_>, Vec<_>) =
                found.iter().copied().partition(|chunk| chunk.leaf.len == len);
            others.extend(lying);
            let targets: Vec<_> = targets.into_iter().map(|chunk| (chunk.start, chunk)).collect();
            if !targets.is_empty() {
                moves.push(Move { source: start..start + len, targets });
            }
            flow = self.go_on();
            flow
        });
        self.result(flow)?;
        others.extend(sought.left());
        let mut mover = DiskMover { onto: self, left: others };
        let made = moves::make(&moves, &mut mover);
        self.result(made.map_or_else(ControlFlow::Break, ControlFlow::Continue))?;
        Ok(mover.left)
    }

    /// Writes a chunk that came from the repository.
    fn take(&self, chunk: &WantedChunk, found: Result<Bytes, StoreError>) -> ControlFlow<()> {
        match found {
            Ok(bytes) => self.write(chunk, &bytes, &self.counts.fetched),
            Err(error) if error.is_unreachable() => self.stop(error),
            Err(error) => {
                self.fail(chunk.range(), &error);
                self.go_on()
            }
        }
    }

    /// Writes a chunk where it belongs.
    fn write(&self, chunk: &WantedChunk, bytes: &Bytes, counter: &AtomicU64) -> ControlFlow<()> {
        self.go_on()?;
        let (expected, found) = (chunk.leaf.len, bytes.len() as u64);
        if expected != found {
            self.fail(chunk.range(), &StoreError::RecipeLength { expected, found });
            return ControlFlow::Continue(());
        }
        if let Err(error) = self.image.write(chunk.start, bytes) {
            return self.stop(StoreError::file("write", self.name)(error));
        }
        self.count(counter, found);
        ControlFlow::Continue(())
    }

    /// Writes zeros where the file has holes and the disk has none.
    fn clear_holes(&self, size: u64) -> Result<(), StoreError> {
        if self.image.disk.is_blank() {
            return Ok(());
        }
        for hole in self.image.layout.holes(size) {
            let mut at = hole.start;
            while at < hole.end {
                let end = hole.end.min(at + HOLE_STEP);
                self.clear(at..end).map_err(StoreError::file("clear", self.name))?;
                self.result(self.go_on())?;
                at = end;
            }
        }
        Ok(())
    }

    fn clear(&self, range: Range<u64>) -> io::Result<()> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        // What cannot be read may be written.
        let read = self.image.disk.read_exact_at(&mut bytes, range.start);
        if read.is_err() || bytes.iter().any(|byte| *byte != 0) {
            bytes.fill(0);
            self.image.disk.write_all_at(&bytes, range.start)?;
            self.counts.zeroed.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads all again, and reports what is not as the snapshot has it.
    fn verify(&self, content: &Recipe) -> Result<(), StoreError> {
        let mut start = 0;
        self.chunks.visit(content, &mut |leaf| {
            let chunk = WantedChunk { place: None, leaf, file: FileNumber::Long(0), start };
            start += leaf.len;
            if !self.has(&chunk) {
                let source = io::Error::other("it holds other bytes than were written");
                self.fail(chunk.range(), &StoreError::file("verify", self.name)(source));
            }
            self.result(self.go_on())
        })
    }

    /// Reports bytes of the content that are not restored.
    fn fail(&self, Range { start, end }: Range<u64>, error: &StoreError) {
        let reason = format!("bytes {start} to {end} of its content: {}", describe(error));
        self.counts.failed.fetch_add(end - start, Ordering::Relaxed);
        self.progress.issue(self.name, IssueKind::NotRestored { reason });
    }

    /// Counts bytes of the content that are as they should be.
    fn count(&self, counter: &AtomicU64, len: u64) {
        counter.fetch_add(len, Ordering::Relaxed);
        Progress::add(&self.progress.bytes, len);
    }

    /// Ends the restore because of `error`.
    fn stop(&self, error: StoreError) -> ControlFlow<()> {
        let _ = self.stopped.set(error);
        ControlFlow::Break(())
    }

    fn go_on(&self) -> ControlFlow<()> {
        match self.cancel.is_cancelled() || self.stopped.get().is_some() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    /// Why `flow` broke, if it did.
    fn result(&self, flow: ControlFlow<()>) -> Result<(), StoreError> {
        if flow.is_continue() {
            return Ok(());
        }
        Err(if self.cancel.is_cancelled() { StoreError::Interrupted } else { StoreError::Stopped })
    }
}

/// Moves chunks on the disk.
struct DiskMover<'m, 'w> {
    onto: &'m Onto<'m>,
    /// Chunks that are not moved.
    left: Vec<&'w WantedChunk>,
}

impl<'w> Mover<&'w WantedChunk> for DiskMover<'_, 'w> {
    type Error = ();

    fn read(&mut self, one: &Move<&'w WantedChunk>) -> Option<Bytes> {
        let bytes = self.onto.image.bytes(one.source.clone()).ok()?;
        let expected = one.targets.first()?.1.leaf.root;
        (self.onto.chunks.fingerprint(&bytes) == expected).then(|| bytes.into())
    }

    fn write(&mut self, one: &Move<&'w WantedChunk>, bytes: &Bytes) -> Result<(), ()> {
        let moved = &self.onto.counts.moved;
        let mut targets = one.targets.iter();
        match targets.try_for_each(|(_, chunk)| self.onto.write(chunk, bytes, moved)) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(()),
        }
    }

    fn give_up(&mut self, one: &Move<&'w WantedChunk>) {
        self.left.extend(one.targets.iter().map(|(_, chunk)| *chunk));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_made_among_devices_whatever_way_leads_there() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev", folder.path().join("there")).unwrap();
        std::os::unix::fs::symlink("/dev/onefold-none", folder.path().join("link")).unwrap();
        let ways = ["/dev/onefold-none", "/dev/shm/../onefold-none", "/tmp/../dev/onefold-none"];
        let mut ways: Vec<PathBuf> = ways.map(PathBuf::from).to_vec();
        ways.extend(["there/onefold-none", "link"].map(|name| folder.path().join(name)));
        for way in ways {
            assert!(Device::open(&way, 1).is_err(), "{}", way.display());
        }
        assert!(!Path::new("/dev/onefold-none").exists());
        assert!(Device::open(&folder.path().join("file"), 1).is_ok());
    }
}
