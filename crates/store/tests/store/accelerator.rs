//! Backups of which some other device than the CPU cuts and fingerprints large files.

use std::io::{self, Read};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold_cdc::{Chunker, Stream};
use onefold_fingerprint::{Fingerprint, Fingerprinter};
use onefold_store::backup::{Accelerator, AcceleratorError, Options, backup};
use onefold_store::{Cancel, Progress, Repository, Snapshot, StoreError};
use onefold_testkit::{random, text};

use crate::common::{
    chain, expect_clean, in_memory, names, options, restored, small_chunks, write,
};

/// The shortest file that is passed to the device.
const LEAST: u64 = 100_000;

/// A device that is one thread of the CPU.
#[derive(Debug)]
struct Thread {
    fingerprinter: Fingerprinter,
    /// It fails when it has handed over as many chunks.
    lost_after: usize,
    chunks: AtomicUsize,
}

impl Thread {
    fn of(repository: &Repository, lost_after: usize) -> Arc<Self> {
        let fingerprinter = repository.fingerprinter().clone();
        Arc::new(Self { fingerprinter, lost_after, chunks: AtomicUsize::new(0) })
    }
}

impl Accelerator for Thread {
    fn takes(&self, len: u64) -> bool {
        len >= LEAST
    }

    fn run(
        &self,
        chunker: &Chunker,
        input: &mut (dyn Read + Send),
        store: &mut dyn FnMut(&[u8], Fingerprint) -> io::Result<()>,
    ) -> Result<(), AcceleratorError> {
        let mut stream = Stream::new(chunker.clone(), input);
        while let Some(chunk) = stream.next().map_err(AcceleratorError::Read)? {
            if self.chunks.fetch_add(1, Ordering::Relaxed) == self.lost_after {
                return Err(AcceleratorError::Lost("thread:0 (made up) failed".into()));
            }
            let fingerprint = self.fingerprinter.fingerprint(chunk);
            store(chunk, fingerprint).map_err(|_| AcceleratorError::Store)?;
        }
        Ok(())
    }
}

/// Backs up `source`, by `device` if there is one.
fn back_up(
    repository: &Repository,
    source: &tempfile::TempDir,
    device: Option<Arc<Thread>>,
    threads: usize,
) -> Result<Snapshot, StoreError> {
    let options = Options {
        accelerator: device.map(|device| device as Arc<dyn Accelerator>),
        threads: NonZero::new(threads),
        ..options()
    };
    let paths = [PathBuf::from(source.path())];
    let made = backup(repository, &paths, &options, &Progress::default(), &Cancel::default());
    made.map(|(_, snapshot)| snapshot)
}

/// Small files, large ones, and one that ends where the device begins.
fn source() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [
        ("a small", text(1, 3000)),
        ("b large", random(2, 3 << 20)),
        ("c least", random(3, LEAST as usize)),
        ("d shorter", random(4, LEAST as usize - 1)),
        ("e larger than all buffers", [random(2, 3 << 20), vec![0; 9 << 20], text(5, 99)].concat()),
        ("f empty", Vec::new()),
    ] {
        write(folder.path().join(name), bytes);
    }
    folder
}

#[test]
fn a_device_makes_the_snapshot_that_the_cpu_makes() {
    let source = source();
    let (_, by_cpu) = in_memory(small_chunks());
    let expected = back_up(&by_cpu, &source, None, 2).unwrap();
    for threads in [1, 3] {
        let (_, by_device) = in_memory(small_chunks());
        let device = Thread::of(&by_device, usize::MAX);
        let snapshot = back_up(&by_device, &source, Some(Arc::clone(&device)), threads).unwrap();
        assert_eq!(snapshot.root, expected.root);
        assert_eq!(snapshot.summary.bytes, expected.summary.bytes);
        assert_eq!(snapshot.summary.new_bytes, expected.summary.new_bytes);
        assert!(device.chunks.load(Ordering::Relaxed) > 100);
        let pictures = [(&by_device, &snapshot), (&by_cpu, &expected)];
        let [found, expected] = pictures.map(|(from, snapshot)| restored(from, snapshot).unwrap());
        assert!(found == expected);
        expect_clean(&by_device).unwrap();
    }
}

#[test]
fn a_device_that_is_lost_is_named_and_leaves_no_snapshot() {
    let source = source();
    for lost_after in [0, 1, 500] {
        let (objects, repository) = in_memory(small_chunks());
        let device = Thread::of(&repository, lost_after);
        let error = back_up(&repository, &source, Some(device), 2).unwrap_err();
        let said = chain(&error);
        assert!(said.contains("no snapshot was made: thread:0 (made up) failed"), "{said}");
        assert_eq!(names(&*objects, "snapshots/"), [""; 0]);
        // what was stored until then is whole, and the next backup uses it
        let snapshot = back_up(&repository, &source, None, 2).unwrap();
        restored(&repository, &snapshot).unwrap();
        expect_clean(&repository).unwrap();
    }
}
