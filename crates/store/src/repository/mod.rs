//! An open repository.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use onefold_backend::{BackendError, Folder, Objects};
use onefold_fingerprint::{FingerprintAlgorithm, Fingerprinter};
use onefold_seal::{Envelope, Keys, ObjectId, Suite};

use crate::bundle::Bundles;
use crate::chunks::reader::ChunkReader;
use crate::finding::{Warning, describe};
use crate::keys::Locked;
use crate::local::cache::ObjectCache;
use crate::local::early::{Early, Opening};
use crate::objects::client::Removal;
use crate::objects::entry::OwnHead;
use crate::objects::key::key_id;
use crate::objects::receipt::receipt_name;
use crate::objects::seen::Seen;
use crate::objects::snapshot;
use crate::reading::entries::Entries;
use crate::session::index::{IndexPlace, Loaded};
use crate::tree::{self, Detail, Entry, Node};
use crate::{Config, Snapshot, SnapshotSpec, StoreError};

/// The snapshots that could be read, with their ids, and what was wrong with the others.
pub type SnapshotList = (Vec<(ObjectId, Snapshot)>, Vec<StoreError>);

/// What [`Repository::walk`] calls with a path and its entry.
pub(crate) type Visit<'v> = dyn FnMut(&[u8], &Entry) -> Result<(), StoreError> + 'v;

/// An open repository.
///
/// Any number of processes may have the same repository open and back up to it at the same time:
/// they write objects under names of their own and never modify one.
pub struct Repository {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) envelope: Envelope,
    pub(crate) config: Config,
    pub(crate) fingerprinter: Fingerprinter,
    /// The key that it was opened with.
    pub(crate) key: Option<ObjectId>,
    /// For which host it was opened; empty if nobody said.
    pub(crate) host: String,
    /// Where it is remembered what was seen of its logs.
    pub(crate) memory: Option<Arc<dyn Folder>>,
    /// Where a file is locked for each backup of this machine.
    pub(crate) locks: Option<Arc<dyn Folder>>,
    /// What went wrong with these two.
    pub(crate) trouble: Mutex<Vec<Warning>>,
    /// Whether something among the key epochs could not be opened: perhaps one that sealed containers.
    pub(crate) lacks_epochs: AtomicBool,
    /// By number of a write-only client, what stays of it if its key was taken back.
    pub(crate) kept: Mutex<HashMap<u32, Option<Arc<Removal>>>>,
    /// What the logs say, as far as it was read last.
    pub(crate) logged: Mutex<Option<Arc<Seen>>>,
    /// Answers that the objects have early.
    pub(crate) early: Option<Arc<Early>>,
    /// The last entry of this host's log, if nothing contradicted the logs when they were read last.
    pub(crate) own_head: Mutex<Option<OwnHead>>,
    /// Copies of what does not change.
    pub(crate) cache: Option<ObjectCache>,
    /// Whether these are not to be used.
    pub(crate) past_cache: AtomicBool,
    /// Its bundles, as far as they were read.
    pub(crate) bundles: Bundles,
    /// Where its index is kept besides.
    pub(crate) index_place: IndexPlace,
    pub(crate) loaded: OnceLock<Loaded>,
}

/// A repository as it is found: open, or in need of a password.
pub enum Located {
    /// It is not encrypted.
    Open(Box<Repository>),
    /// It is encrypted.
    Locked(Locked),
}

impl Repository {
    /// Fails unless a repository could be made here.
    pub fn expect_free(objects: &dyn Objects) -> Result<(), StoreError> {
        expect_free(objects)
    }

    /// Makes a repository where there is nothing yet, not encrypted, and opens it.
    pub fn init(objects: Arc<dyn Objects>, config: Config) -> Result<Self, StoreError> {
        config.check_recordable()?;
        // Refused before anything is written.
        fingerprinter(&config, None)?;
        config.expect_possible(None)?;
        expect_free(&*objects)?;
        let envelope = Envelope::plain(ObjectId::random());
        config.create(&*objects, &envelope)?;
        Self::assemble(objects, envelope, config, None)
    }

    /// Looks for the repository, and opens it unless that takes a password.
    pub fn locate(objects: Arc<dyn Objects>) -> Result<Located, StoreError> {
        Self::locate_with(objects, None)
    }

    /// The same for a command, which compares the logs with what it remembers next
    /// ([`recall`](Self::recall)), and then reads chunks if it `needs_index`. Where requests take time
    /// to travel, all that it will ask for is asked at once.
    pub fn locate_early(
        objects: Arc<dyn Objects>,
        needs_index: bool,
    ) -> Result<Located, StoreError> {
        if objects.gap() == 0 {
            return Self::locate(objects);
        }
        let early = Arc::new(Early::new(objects));
        let opening = Opening::begin(Arc::clone(&early), needs_index);
        Self::locate_with(early, Some(opening))
    }

    fn locate_with(
        objects: Arc<dyn Objects>,
        early: Option<Opening>,
    ) -> Result<Located, StoreError> {
        let (id, suite, config) = Config::find(&*objects)?;
        if suite != Suite::Plain {
            return Ok(Located::Locked(Locked::new(objects, id, config, early)));
        }
        early.iter().for_each(Opening::read);
        let envelope = Envelope::plain(id);
        let config = Config::open(&envelope, &config)?;
        let mut repository = Self::assemble(objects, envelope, config, None)?;
        repository.early = early.map(Opening::into_early);
        Ok(Located::Open(Box::new(repository)))
    }

    /// Opens the repository, which must not be encrypted.
    pub fn open(objects: Arc<dyn Objects>) -> Result<Self, StoreError> {
        match Self::locate(objects)? {
            Located::Open(repository) => Ok(*repository),
            Located::Locked(_) => Err(StoreError::Locked),
        }
    }

    /// Discards what the storage holds of puts that began longer than `age` ago and never ended, and
    /// returns of how many.
    pub fn discard_unfinished(&self, age: Duration) -> Result<u64, BackendError> {
        self.objects.discard_unfinished(age)
    }

    /// Which repository this is.
    pub fn id(&self) -> ObjectId {
        self.envelope.repository()
    }

    /// What was chosen when it was made.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Keeps the index at `place` from now on, unless it is loaded already. Where a key epoch is
    /// missing it is learnt anew and not kept: one that was learnt before knows containers that
    /// nobody can open now, and a backup must not rely on these.
    pub fn keep_index(&mut self, place: IndexPlace) {
        self.index_place = place;
    }

    /// What is wrong with the place of the index, if anything became known since it was asked last.
    /// Nothing is lost by it but time, and chunks that are stored a second time.
    pub fn index_trouble(&self) -> Option<Warning> {
        let trouble = self.loaded.get()?.index.trouble()?;
        Some(format!("{}; it is built again when it is needed next", describe(&trouble)))
    }

    /// Loads the index if it is not loaded; what was wrong with it.
    pub fn load(&self) -> Result<&[Warning], StoreError> {
        Ok(&self.loaded()?.warnings)
    }

    /// Every snapshot with its id, oldest first. Snapshots that cannot be read are given apart.
    pub fn snapshots(&self) -> Result<SnapshotList, StoreError> {
        self.expect_reading()?;
        let listed = self.listed_snapshots()?;
        let list = |take: &mut TakeSnapshot<'_>| Snapshot::find_many(self, &listed, take);
        Ok(oldest_first(list)?.0)
    }

    /// The same only to be shown, from bundles where there are many; and the ids of those of which no
    /// more than a copy in a bundle was read.
    fn look_over(&self) -> Result<(SnapshotList, HashSet<ObjectId>), StoreError> {
        self.expect_reading()?;
        let listed = snapshot::ids(&self.objects.list(snapshot::PREFIX)?);
        oldest_first(|take| Snapshot::show_many(self, &listed, take))
    }

    /// The same as [`snapshots`](Self::snapshots), only to be shown: where there are many, most are
    /// read in bundles.
    pub fn shown_snapshots(&self) -> Result<SnapshotList, StoreError> {
        Ok(self.look_over()?.0)
    }

    /// The snapshot that `spec` names.
    pub fn find(&self, spec: &SnapshotSpec) -> Result<(ObjectId, Snapshot), StoreError> {
        match spec {
            SnapshotSpec::Latest => self.latest(|_| true),
            SnapshotSpec::Prefix(digits) => self.find_by_prefix(digits),
        }
    }

    /// The newest of the snapshots that are `wanted`, as they are shown; itself it is read by its name.
    pub fn latest(
        &self,
        wanted: impl Fn(&Snapshot) -> bool,
    ) -> Result<(ObjectId, Snapshot), StoreError> {
        let (shown, copied) = self.look_over()?;
        let (id, snapshot) = match newest(shown, &wanted) {
            // A copy may say what no snapshot is.
            Err(StoreError::NoSnapshot { .. }) if !copied.is_empty() => {
                return self.latest_read(wanted);
            }
            newest => newest?,
        };
        if !copied.contains(&id) {
            return Ok((id, snapshot));
        }
        match Snapshot::find(self, id) {
            Ok(Some(original)) if original == snapshot => Ok((id, original)),
            Err(error) if error.is_unreachable() => Err(error),
            // The copy was not what the snapshot is.
            Ok(_) | Err(_) => self.latest_read(wanted),
        }
    }

    /// The newest of the snapshots that are `wanted`, all of which are read by their names: for whoever
    /// takes it away.
    pub fn latest_read(
        &self,
        wanted: impl Fn(&Snapshot) -> bool,
    ) -> Result<(ObjectId, Snapshot), StoreError> {
        newest(self.snapshots()?, wanted)
    }

    fn find_by_prefix(&self, digits: &str) -> Result<(ObjectId, Snapshot), StoreError> {
        let (id, found) = self.only_fitting(digits)?;
        Ok((id, found?))
    }

    /// The id of the snapshot that `spec` names, even if it is damaged; or even if it is missing, as
    /// long as all digits are given and its receipt is there or a log names it.
    pub fn find_id(&self, spec: &SnapshotSpec) -> Result<ObjectId, StoreError> {
        let digits = match spec {
            SnapshotSpec::Latest => return Ok(self.latest_read(|_| true)?.0),
            SnapshotSpec::Prefix(digits) => digits,
        };
        match (self.only_fitting(digits), digits.parse()) {
            (Err(StoreError::NoSnapshot { .. }), Ok(id)) if self.should_have(id)? => Ok(id),
            (found, _) => Ok(found?.0),
        }
    }

    /// Whether there was a snapshot `id` that nobody forgot.
    fn should_have(&self, id: ObjectId) -> Result<bool, StoreError> {
        match self.objects.size(&receipt_name(id)) {
            Ok(_) => return Ok(true),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        let mut seen = Seen::default();
        seen.compare(self, None)?;
        Ok(seen.has(id))
    }

    /// The one snapshot whose id begins so, or why it cannot be read.
    fn only_fitting(
        &self,
        digits: &str,
    ) -> Result<(ObjectId, Result<Snapshot, StoreError>), StoreError> {
        self.expect_reading()?;
        let mut listed = self.listed_snapshots()?;
        listed.retain(|(id, _)| id.to_string().starts_with(digits));
        let mut found = Vec::new();
        Snapshot::find_many(self, &listed, &mut |id, read| {
            found.extend(read.transpose().map(|read| (id, read)));
        })?;
        match (found.pop(), found.len()) {
            (Some(only), 0) => Ok(only),
            (None, _) => Err(StoreError::NoSnapshot { spec: digits.into(), hint: String::new() }),
            (_, others) => {
                Err(StoreError::AmbiguousSnapshot { spec: digits.into(), count: others + 1 })
            }
        }
    }

    /// The entry at `path` in a snapshot; components are separated by slashes, empty ones ignored.
    pub fn entry_at(
        &self,
        id: ObjectId,
        snapshot: &Snapshot,
        path: &[u8],
    ) -> Result<Entry, StoreError> {
        let no_path = || StoreError::NoPath {
            snapshot: id,
            path: String::from_utf8_lossy(path).into_owned(),
        };
        let reader = self.reader()?;
        let mut entry = snapshot.root.clone();
        for component in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            let mut entries = Entries::of_directory(&entry)?;
            entry = loop {
                let child = entries.next(&reader, Detail::All)?.ok_or_else(no_path)?;
                if child.name == component {
                    break child;
                }
            };
        }
        Ok(entry)
    }

    /// Calls `visit` with path and entry of everything below `entry`, directories before what they
    /// hold. Paths are relative to `entry`, with slashes between components.
    pub fn walk(&self, entry: &Entry, visit: &mut Visit<'_>) -> Result<(), StoreError> {
        walk(&self.reader()?, entry, visit)
    }

    pub(crate) fn reader(&self) -> Result<ChunkReader<'_>, StoreError> {
        self.expect_reading()?;
        Ok(self.reader_of(self.loaded()?))
    }

    /// A reader that knows what `loaded` knows.
    pub(crate) fn reader_of<'a>(&'a self, loaded: &'a Loaded) -> ChunkReader<'a> {
        ChunkReader::new(
            &*self.objects,
            &self.envelope,
            self.cache(),
            self.fingerprinter.clone(),
            &loaded.index,
            &loaded.containers,
        )
    }

    /// What was wrong with the index; nothing if it is not loaded.
    pub fn warnings(&self) -> &[Warning] {
        self.loaded.get().map_or(&[], |loaded| &loaded.warnings)
    }

    pub(crate) fn loaded(&self) -> Result<&Loaded, StoreError> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let loaded = self.load_index()?;
        Ok(self.loaded.get_or_init(|| loaded))
    }
}

/// Takes what was found of a snapshot.
type TakeSnapshot<'t> = dyn FnMut(ObjectId, Result<Option<Snapshot>, StoreError>) + 't;

/// What `list` hands out, oldest first, and what it gives.
fn oldest_first<T>(
    list: impl FnOnce(&mut TakeSnapshot<'_>) -> Result<T, StoreError>,
) -> Result<(SnapshotList, T), StoreError> {
    let (mut snapshots, mut damaged) = (Vec::new(), Vec::<(ObjectId, StoreError)>::new());
    let listed = list(&mut |id, found| match found {
        Ok(Some(snapshot)) => snapshots.push((id, snapshot)),
        Ok(None) => {}
        // Forgotten since it was listed.
        Err(StoreError::Backend(error)) if error.is_not_found() => {}
        Err(error) => damaged.push((id, error)),
    })?;
    if let Some(at) = damaged.iter().position(|(_, error)| error.is_unreachable()) {
        return Err(damaged.swap_remove(at).1);
    }
    // Answers come in any order, and messages in the order of the listing.
    damaged.sort_unstable_by_key(|(id, _)| *id);
    let damaged = damaged.into_iter().map(|(_, error)| error).collect();
    snapshots.sort_by_key(|(id, snapshot)| (snapshot.time, *id));
    Ok(((snapshots, damaged), listed))
}

/// The newest of `snapshots` that are `wanted`.
fn newest(
    (snapshots, mut damaged): SnapshotList,
    wanted: impl Fn(&Snapshot) -> bool,
) -> Result<(ObjectId, Snapshot), StoreError> {
    // A damaged snapshot may be the newest: saying nothing would restore an older one.
    if let Some(error) = damaged.pop() {
        return Err(error);
    }
    let count = snapshots.len();
    let newest = snapshots.into_iter().rev().find(|(_, snapshot)| wanted(snapshot));
    newest.ok_or_else(|| StoreError::NoSnapshot {
        spec: SnapshotSpec::Latest.to_string(),
        hint: match count {
            0 => ": the repository has none yet".into(),
            _ => format!(": none of {count} snapshots is of the host, tags and paths asked for"),
        },
    })
}

/// What names chunks. Encrypted repositories use keyed BLAKE3, the others anything without a key
/// but SHA-1, whose collisions can be made.
pub(crate) fn fingerprinter(
    config: &Config,
    keys: Option<&Keys>,
) -> Result<Fingerprinter, StoreError> {
    let refused = |expected| {
        let name = config.fingerprint.name();
        let text = format!("a repository cannot name chunks by '{name}': expected {expected}");
        Err(StoreError::Unusable(text))
    };
    match (config.fingerprint, keys) {
        (FingerprintAlgorithm::Blake3Keyed, Some(keys)) => {
            Ok(Fingerprinter::blake3_keyed(*keys.fingerprint().as_bytes()))
        }
        (_, Some(_)) => refused("blake3-keyed, because it is encrypted"),
        (FingerprintAlgorithm::Blake3, None) => Ok(Fingerprinter::blake3()),
        (FingerprintAlgorithm::Sha256, None) => Ok(Fingerprinter::sha256()),
        (FingerprintAlgorithm::Sha3, None) => Ok(Fingerprinter::sha3()),
        _ => refused("blake3, sha256 or sha3-256"),
    }
}

/// Fails unless a repository can be made: there is nothing but, at most, the keys of inits that
/// were cut off.
pub(crate) fn expect_free(objects: &dyn Objects) -> Result<(), StoreError> {
    let is_taken = |name: &String| key_id(name).is_none();
    match objects.list_names("")?.into_iter().find(is_taken) {
        Some(found) if found == crate::objects::config::NAME => Err(StoreError::Exists),
        Some(found) => Err(StoreError::NotEmpty { found }),
        None => Ok(()),
    }
}

/// All entries of a directory, `None` if `entry` is none. Memory grows with how many there are.
pub(crate) fn read_tree(
    reader: &ChunkReader<'_>,
    entry: &Entry,
) -> Result<Option<Vec<Entry>>, StoreError> {
    if !matches!(entry.node, Node::Directory { .. }) {
        return Ok(None);
    }
    let (mut entries, mut all) = (Entries::of_directory(entry)?, Vec::new());
    while let Some(entry) = entries.next(reader, Detail::All)? {
        all.push(entry);
    }
    Ok(Some(all))
}

/// As [`Repository::walk`], with a reader of the caller's.
pub(crate) fn walk(
    reader: &ChunkReader<'_>,
    entry: &Entry,
    visit: &mut Visit<'_>,
) -> Result<(), StoreError> {
    fn descend(
        reader: &ChunkReader<'_>,
        entry: &Entry,
        depth: usize,
        path: &mut Vec<u8>,
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        tree::check_depth(depth)?;
        let mut entries = Entries::of_directory(entry)?;
        while let Some(child) = entries.next(reader, Detail::All)? {
            entries.park_before(&child);
            let len = extend(path, &child.name);
            visit(path, &child)?;
            descend(reader, &child, depth + 1, path, visit)?;
            path.truncate(len);
        }
        Ok(())
    }
    descend(reader, entry, 0, &mut Vec::new(), visit)
}

/// Appends a component to a path, and returns how long the path was.
pub(crate) fn extend(path: &mut Vec<u8>, name: &[u8]) -> usize {
    let len = path.len();
    if len > 0 {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    len
}
