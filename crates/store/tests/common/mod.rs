//! What the tests of the store share: repositories, source trees and pictures of directories.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(unreachable_pub, reason = "a module of every test crate, a library of none")]

pub mod attacked;
pub mod bundled;
pub mod copied;
pub mod far;
pub mod hang;
pub mod hooked;
pub mod lagging;
pub mod merged;
pub mod pass_on;
pub mod picture;
pub mod play;
pub mod pruned;
pub mod remembered;
pub mod repaired;
pub mod rounds;
pub mod scene;
pub mod sealed;
pub mod stage;
pub mod taken_back;
pub mod trials;
pub mod two_prunes;
pub mod watched;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use onefold_backend::{MemoryObjects, Objects};
use onefold_cdc::{Algorithm, ChunkSizes, Params};
use onefold_fingerprint::FingerprintAlgorithm;
use onefold_seal::{Cost, Envelope, Key, Kind, ObjectId, Password, WrappedKey};
use onefold_store::check::{self, Reading};
use onefold_store::{
    Cancel, Config, Issue, KeyRemark, Located, Progress, Repository, Snapshot, StoreError, backup,
    restore,
};
use tempfile::TempDir;

use self::picture::Picture;

/// A configuration whose chunks have about `avg` bytes.
pub fn config(min: usize, avg: usize, max: usize) -> Config {
    let sizes = ChunkSizes::new(min, avg, max).unwrap();
    Config {
        params: Params::new(Algorithm::FastCdc, sizes),
        fingerprint: FingerprintAlgorithm::Blake3,
        compression_level: 1,
        padding: false,
    }
}

/// Chunks of about 1 KiB: small files have several.
pub fn small_chunks() -> Config {
    config(256, 1024, 4096)
}

/// A new repository in memory, and where its objects are.
pub fn in_memory(config: Config) -> (Arc<dyn Objects>, Repository) {
    let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    let repository = Repository::init(Arc::clone(&objects), config).unwrap();
    (objects, repository)
}

/// Whether a repository of the tests is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    Plain,
    Encrypted,
}

/// What a password costs in the tests: next to nothing.
pub const CHEAP: Cost = Cost { memory_kib: 32, passes: 1, lanes: 1 };

/// The password of encrypted repositories of the tests.
pub fn password() -> Password {
    Password::new(b"correct horse battery staple".to_vec())
}

/// A new repository in `objects`.
pub fn init(
    objects: Arc<dyn Objects>,
    config: Config,
    protection: Protection,
) -> Result<Repository, StoreError> {
    match protection {
        Protection::Plain => Repository::init(objects, config),
        Protection::Encrypted => {
            let remark = KeyRemark { label: "first".into(), ..KeyRemark::default() };
            Repository::init_encrypted(objects, config, &password(), CHEAP, &remark)
        }
    }
}

/// The repository in `objects`, opened anew, with the password if it takes one.
pub fn try_open(objects: Arc<dyn Objects>) -> Result<Repository, StoreError> {
    match Repository::locate(objects)? {
        Located::Open(repository) => Ok(*repository),
        Located::Locked(locked) => locked.unlock(&password()),
    }
}

/// The repository in `objects`, opened anew as a command does.
pub fn open_early(objects: Arc<dyn Objects>, needs_index: bool) -> Repository {
    match Repository::locate_early(objects, needs_index).unwrap() {
        Located::Open(repository) => *repository,
        Located::Locked(locked) => locked.unlock(&password()).unwrap(),
    }
}

/// The repository in `objects`, opened anew.
pub fn open(objects: &Arc<dyn Objects>) -> Repository {
    try_open(Arc::clone(objects)).unwrap()
}

/// What frames the objects of the repository `id` in `objects`, its keys found without the store.
pub fn envelope(objects: &dyn Objects, id: ObjectId) -> Envelope {
    let own = |name: &String| {
        let key = name.strip_prefix("keys/").unwrap().parse().unwrap();
        let object = objects.get(name).unwrap();
        let wrapped = WrappedKey::read(id, key, &object).ok()?;
        wrapped.unwrap(&password()).unwrap()
    };
    let Some(mut keys) = names(objects, "keys/").iter().find_map(own) else {
        return Envelope::plain(id);
    };
    for name in names(objects, "epochs/") {
        let object: ObjectId = name.strip_prefix("epochs/").unwrap().parse().unwrap();
        let epoch = u32::from_be_bytes(object.as_bytes()[12..].try_into().unwrap());
        let envelope = Envelope::encrypted(id, keys.clone());
        let body =
            envelope.open(Kind::Epoch, object, &objects.get(&name).unwrap()).unwrap().to_vec();
        keys.add_epoch(epoch, Key::new(body.try_into().unwrap()));
    }
    Envelope::encrypted(id, keys)
}

/// The same objects at another place in memory.
pub fn copy(objects: &dyn Objects) -> Arc<dyn Objects> {
    let copy = MemoryObjects::new();
    for info in objects.list("").unwrap() {
        copy.put(&info.name, objects.get(&info.name).unwrap()).unwrap();
    }
    Arc::new(copy)
}

/// Puts other bytes under a name that is taken.
pub fn replace(objects: &dyn Objects, name: &str, bytes: impl Into<Bytes>) {
    objects.delete(name).unwrap();
    objects.put(name, bytes.into()).unwrap();
}

/// The names of the objects below `prefix`.
pub fn names(objects: &dyn Objects, prefix: &str) -> Vec<String> {
    objects.list(prefix).unwrap().into_iter().map(|info| info.name).collect()
}

/// Options of the tests: two threads of each kind and small containers.
pub fn options() -> backup::Options {
    backup::Options {
        host: "host".into(),
        user: "user".into(),
        threads: NonZero::new(2),
        container_len: 64 << 10,
        ..backup::Options::default()
    }
}

/// What an operation reported while it ran.
#[derive(Clone, Default)]
pub struct Issues(Arc<Mutex<Vec<String>>>);

impl Issues {
    /// Counters whose issues are kept here.
    pub fn progress(&self) -> Progress {
        let issues = self.clone();
        Progress::new(move |issue| issues.note(issue))
    }

    /// Keeps an issue.
    pub fn note(&self, issue: &Issue) {
        self.0.lock().unwrap().push(issue.to_string());
    }

    /// The issues so far.
    pub fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Whether some issue says `text`.
    pub fn say(&self, text: &str) -> bool {
        self.all().iter().any(|issue| issue.contains(text))
    }
}

/// Backs up one directory without any issue.
pub fn back_up(repository: &Repository, source: &Path) -> (ObjectId, Snapshot) {
    let issues = Issues::default();
    let done = try_back_up(repository, &[source], &options(), &issues.progress());
    assert_eq!(issues.all(), [] as [&str; 0]);
    done.unwrap()
}

/// Backs up, and does not mind how it ends.
///
/// Waits for the file clock to tick first: a file is only recognised as unchanged if it was last
/// changed clearly before the backup that read it.
pub fn try_back_up(
    repository: &Repository,
    sources: &[&Path],
    options: &backup::Options,
    progress: &Progress,
) -> Result<(ObjectId, Snapshot), StoreError> {
    let sources: Vec<PathBuf> = sources.iter().map(|path| path.to_path_buf()).collect();
    thread::sleep(Duration::from_millis(15));
    backup::backup(repository, &sources, options, progress, &Cancel::default())
}

/// What a restore gave.
pub struct Restored {
    /// Where it went.
    pub folder: TempDir,
    /// What it counted.
    pub report: restore::Report,
    /// What it complained of.
    pub issues: Vec<String>,
}

/// Restores a snapshot to a folder of its own.
pub fn try_restore(
    repository: &Repository,
    snapshot: &Snapshot,
    options: &restore::Options,
) -> Result<Restored, StoreError> {
    restore_to(tempfile::tempdir().unwrap(), repository, snapshot, options)
}

/// Restores over what is in `target`. Returns the issues that the restore reported.
pub fn restore_over(
    repository: &Repository,
    snapshot: &Snapshot,
    target: &Path,
    options: &restore::Options,
) -> (restore::Report, Vec<String>) {
    try_restore_over(repository, snapshot, target, options).unwrap()
}

fn try_restore_over(
    repository: &Repository,
    snapshot: &Snapshot,
    target: &Path,
    options: &restore::Options,
) -> Result<(restore::Report, Vec<String>), StoreError> {
    let issues = Issues::default();
    let (progress, cancel) = (issues.progress(), Cancel::default());
    let root = &snapshot.root;
    let report = restore::restore(repository, root, target, options, &progress, &cancel)?;
    Ok((report, issues.all()))
}

fn restore_to(
    folder: TempDir,
    repository: &Repository,
    snapshot: &Snapshot,
    options: &restore::Options,
) -> Result<Restored, StoreError> {
    let (report, issues) = try_restore_over(repository, snapshot, folder.path(), options)?;
    Ok(Restored { folder, report, issues })
}

/// What a snapshot restores to; fails if any of it cannot be restored.
pub fn restored(repository: &Repository, snapshot: &Snapshot) -> Result<Picture, String> {
    let options = restore::Options { threads: NonZero::new(2), ..restore::Options::default() };
    let restored = restore_to(fast_folder(), repository, snapshot, &options);
    let restored = restored.map_err(|error| chain(&error))?;
    if restored.report.failed > 0 || !restored.issues.is_empty() {
        return Err(format!("{:?}, {:?}", restored.report, restored.issues));
    }
    Ok(Picture::of(restored.folder.path()))
}

/// A folder in memory where there is such a thing: the simulator restores thousands of files.
fn fast_folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Checks with all data read.
pub fn checked(repository: &Repository) -> Result<check::Report, StoreError> {
    check::check(repository, Reading::All, &Progress::default(), &Cancel::default())
}

/// Fails unless a check that reads all data finds nothing.
pub fn expect_clean(repository: &Repository) -> Result<(), String> {
    let report = checked(repository).map_err(|error| chain(&error))?;
    match &report.findings[..] {
        [] => Ok(()),
        [first, others @ ..] => Err(format!("{first} (and {} other findings)", others.len())),
    }
}

/// Fails if a receipt has no snapshot. A check knows by the log that such a receipt of a forgotten
/// snapshot means nothing; an earlier program takes the snapshot for lost.
pub fn expect_no_receipt_alone(objects: &dyn Objects) -> Result<(), String> {
    let mut receipts = names(objects, "receipts/").into_iter();
    let is_alone =
        |receipt: &String| objects.size(&receipt.replace("receipts/", "snapshots/")).is_err();
    match receipts.find(is_alone) {
        Some(receipt) => Err(format!("{receipt} has no snapshot")),
        None => Ok(()),
    }
}

/// An error with its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(|cause| format!("{cause}: ")).collect()
}

/// Writes a source file, and the directories on the way to it.
#[expect(clippy::disallowed_methods, reason = "a source of backups, no durable byte")]
pub fn write(path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
    let path = path.as_ref();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}
