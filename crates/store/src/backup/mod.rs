//! Backing up: read → chunk → fingerprint → look up → append, on all cores.
//!
//! ```text
//! walk ── jobs ──▶ readers ── batches ──▶ storers ── groups ──▶ packer ── containers ──▶ uploader
//!  names            open, read, cut        fingerprint, claim,     fills containers       puts them,
//!                        ▲                 compress, assemble                             publishes
//!                        └──── empty buffers ────┘
//! ```
//!
//! Every queue is bounded, so a slow stage holds back the ones before it and memory does not grow
//! with the source. An [`Accelerator`] may cut and fingerprint a large file in place of reader and
//! storer. A storing thread claims each new chunk in the index, so a chunk is stored once
//! however many threads meet it at the same time; that the claimer has not stored it yet does not
//! matter, because the snapshot is put only after every container is durable.

mod accelerator;
mod assemble;
mod batch;
mod beneath;
mod opened;
mod options;
pub(crate) mod pack;
mod parent;
mod read;
mod share;
mod sink;
pub(crate) mod source;
mod sources;
mod stamps;
mod stop;
mod store;
mod stretch;
mod tally;
mod walk;

use std::num::NonZero;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

use onefold_cdc::Chunker;
use onefold_container::{Codec, Compressor};
use onefold_seal::ObjectId;

use self::accelerator::Turns;
pub use self::accelerator::{Accelerator, AcceleratorError};
pub use self::options::{Compression, Marker, Options, Stream};
use self::pack::{Packer, Press, Uploader};
use self::parent::Parent;
use self::sink::{Known, Sink};
use self::sources::{Shape, Sources};
use self::stop::Stop;
use self::tally::Tally;
use self::walk::Walk;
use crate::bundles::arrange_after_backup;
use crate::chunks::place::Used;
use crate::seeded::fault;
use crate::threads::both;
use crate::tree::{Entry, Time};
use crate::writing::added::Added;
use crate::writing::alive::Alive;
use crate::writing::commit::{Announced, Author};
use crate::{Cancel, Progress, Repository, Snapshot, StoreError, Summary};

/// Lists of jobs that may wait for a reader.
const QUEUED_JOBS: usize = 64;
/// Sealed containers that may wait for the uploader, besides the one it puts and the one whose
/// sender waits: memory for containers is bounded by this.
const QUEUED_CONTAINERS: usize = 0;

/// Backs `paths` up and gives the new snapshot with its id.
///
/// When this returns, the snapshot and everything it refers to is durable. Files that cannot be
/// read are reported to `progress` and left out; they do not make the backup fail. On any error but
/// [`StoreError::Unacknowledged`] no snapshot was made, and what was stored stays for the next backup
/// to reuse.
///
/// Prunes may run meanwhile: they delete nothing on which this relies, or see to it that this
/// fails.
pub fn backup(
    repository: &Repository,
    paths: &[PathBuf],
    options: &Options,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<(ObjectId, Snapshot), StoreError> {
    let sources = Sources::new(paths, options, progress)?;
    run(repository, &sources, options, progress, cancel)
}

/// Backs up what comes from `stream`, as [`backup`] does paths. Fails if reading it fails.
pub fn backup_stream(
    repository: &Repository,
    stream: &Stream,
    options: &Options,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<(ObjectId, Snapshot), StoreError> {
    run(repository, &Sources::stream(stream)?, options, progress, cancel)
}

/// What [`backup`] would come to now. Reads all that it would read, and stores nothing.
///
/// Chunks that are new and occur in sources again more than 16 GiB of new data later may be counted
/// twice: memory for what was seen is bounded.
pub fn rehearse(
    repository: &Repository,
    paths: &[PathBuf],
    options: &Options,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Summary, StoreError> {
    let begun = Instant::now();
    let sources = Sources::new(paths, options, progress)?;
    let stop = Stop { user: cancel, failed: AtomicBool::new(false) };
    let tally = Tally::default();
    let backup = Backup { repository, options, progress, stop, tally: &tally };
    backup.store(&sources, parent::find(repository, &sources, options)?, Time::now(), None)?;
    Ok(summary(&tally, progress, begun))
}

fn run(
    repository: &Repository,
    sources: &Sources<'_>,
    options: &Options,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<(ObjectId, Snapshot), StoreError> {
    let begun = Instant::now();
    let time = Time::now();
    // Nothing relies on the parent, so it may be found before the notice is given.
    let parent = parent::find(repository, sources, options)?;
    let Options { host, user, program, .. } = options;
    let author = Author { host, user, program };
    let announced = Announced::new(repository, author, time, &Alive::begin(repository))?;
    let stop = Stop { user: cancel, failed: AtomicBool::new(false) };
    let tally = Tally::default();
    let backup = Backup { repository, options, progress, stop, tally: &tally };
    let stored = match backup.store(sources, parent, time, Some(&announced)) {
        Ok(stored) => stored,
        Err(error) => {
            announced.withdraw();
            return Err(error);
        }
    };
    let snapshot = Snapshot {
        time,
        host: options.host.clone(),
        user: options.user.clone(),
        paths: sources.paths.clone(),
        tags: options.tags.clone(),
        parent: stored.parent,
        program: options.program.clone(),
        summary: summary(&tally, progress, begun),
        root: stored.root,
        is_from_client: repository.is_write_only(),
    };
    let id = announced.commit_validated(&snapshot)?;
    if !cancel.is_cancelled() {
        arrange_after_backup(repository);
    }
    Ok((id, snapshot))
}

fn summary(tally: &Tally, progress: &Progress, begun: Instant) -> Summary {
    let count = Progress::read;
    Summary {
        files: count(&tally.files),
        // The root is a directory that no other one counts.
        directories: count(&tally.directories) + 1,
        others: count(&tally.others),
        bytes: count(&tally.bytes),
        unchanged_files: count(&progress.unchanged_files),
        new_bytes: count(&progress.new_bytes),
        stored_bytes: count(&progress.stored_bytes),
        unreadable: count(&progress.losses),
        milliseconds: begun.elapsed().as_millis() as u64,
    }
}

/// All of a backup but its snapshot, durable.
struct Stored {
    root: Entry,
    parent: Option<ObjectId>,
}

/// One run of the pipeline.
struct Backup<'a> {
    repository: &'a Repository,
    options: &'a Options,
    progress: &'a Progress,
    stop: Stop<'a>,
    tally: &'a Tally,
}

impl<'a> Backup<'a> {
    /// Stores the sources and the index of what was added; nothing if it is not announced.
    fn store(
        &self,
        sources: &Sources<'_>,
        parent: Option<Parent>,
        time: Time,
        announced: Option<&Announced<'_>>,
    ) -> Result<Stored, StoreError> {
        let repository = self.repository;
        let parent_snapshot = parent.as_ref().map(|(_, snapshot)| snapshot);
        let loaded = repository.loaded()?;
        let root = Arc::new(OnceLock::new());
        // One backup of this process at a time: another must not take chunks for stored that this
        // one has only claimed.
        let turn = loaded.backing_up.lock().expect("no backup panics");
        if let Some(announced) = announced {
            announced.learn(loaded)?;
        }
        let used = Used::of(&loaded.containers);
        let from = (sources, parent_snapshot, time);
        let (result, added) = match self.run_threads(from, &root, &used, announced.is_some()) {
            Ok((result, added)) => (result, Some(added)),
            Err(error) => (Err(error), None),
        };
        if result.is_err() || announced.is_none() {
            loaded.index.forget_claims();
        }
        drop(turn);
        if let Some(announced) = announced {
            let write_runs = || {
                // Even an interrupted backup leaves an index of what it stored, for the next one.
                let Some(added) = added else { return Ok(()) };
                added.write_runs(&*repository.objects, &repository.envelope, &loaded.index)?;
                loaded.keep_index();
                Ok::<_, StoreError>(())
            };
            let revalidate = || match result {
                Ok(()) => announced.revalidate(loaded, &used),
                Err(error) => Err(error),
            };
            let (written, validated) = both(write_runs, revalidate);
            written.and(validated)?;
        } else {
            result?;
        }
        let root = root.get().expect("every directory was finished").clone();
        Ok(Stored { root, parent: parent.map(|(id, _)| id) })
    }

    /// What was added comes back even if the backup was interrupted, nothing if it failed.
    fn run_threads(
        &self,
        (sources, parent, time): (&Sources<'_>, Option<&Snapshot>, Time),
        root: &Arc<OnceLock<Entry>>,
        used: &Used,
        stores: bool,
    ) -> Result<(Result<(), StoreError>, Added), StoreError> {
        let Self { repository, options, progress, stop, tally } = self;
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let threads = options.threads.map_or(cores, NonZero::get);
        let config = repository.config();
        let chunker = Chunker::new(&config.params)?;
        let loaded = repository.loaded()?;
        let chunks = repository.reader_of(repository.loaded()?);
        let (jobs, jobs_in) = crossbeam_channel::bounded(QUEUED_JOBS);
        let (batches, batches_in) = crossbeam_channel::bounded(threads);
        let (full, full_in) = crossbeam_channel::bounded(QUEUED_CONTAINERS);
        // Each reader holds a batch and needs another before it can hand the first over.
        let (pool, pool_in) = crossbeam_channel::unbounded();
        for _ in 0..3 * threads + 1 {
            let buffer = vec![0; batch::buffer_len(&chunker)];
            pool.send(buffer).expect("the pool is open");
        }
        let shared = read::Shared {
            chunker: &chunker,
            chunks: &chunks,
            progress,
            stop,
            used,
            force: options.force,
            stream: match sources.shape {
                Shape::Stream(stream) => Some(stream),
                _ => None,
            },
            parent_time: parent.map(|snapshot| snapshot.time),
            accelerated: options
                .accelerator
                .as_deref()
                .map(|accelerator| Turns { accelerator, turn: Mutex::new(()) }),
            pool: pool_in,
            batches,
            readers: threads,
        };
        let (offers, offered) = crossbeam_channel::bounded(threads);
        let packer =
            Arc::new(Packer::new(repository.envelope.clone(), options.container_len, full));
        let uploader = &Uploader {
            objects: stores.then_some(&*repository.objects),
            index: &loaded.index,
            containers: &loaded.containers,
            cache: repository.cache(),
            progress,
        };
        let press = || {
            let suite = repository.envelope.suite();
            let compressor = match options.compression {
                Compression::Configured => Compressor::new(config.compression_level, suite),
                Compression::Off => Compressor::of(Codec::Raw, suite),
                Compression::Level(level) => Compressor::new(level, suite),
            };
            compressor.map(Press::new)
        };
        let last_press = press()?;
        let sinks = (0..threads)
            .map(|_| {
                let known = Known { index: &loaded.index, used };
                let fingerprinter = repository.fingerprinter.clone();
                let packer = Arc::clone(&packer);
                Ok(Sink::new(&chunker, fingerprinter, known, packer, progress, tally, press()?))
            })
            .collect::<Result<Vec<_>, StoreError>>()?;
        thread::scope(|scope| {
            let uploading: Vec<_> = (0..uploader.at_a_time())
                .map(|_| {
                    let full = full_in.clone();
                    scope.spawn(|| stop.watch(move || uploader.run(&full)))
                })
                .collect();
            drop(full_in);
            let storing: Vec<_> = sinks
                .into_iter()
                .map(|sink| {
                    let (batches, pool) = (batches_in.clone(), pool.clone());
                    scope.spawn(move || stop.watch(|| store::run(&batches, &pool, sink)))
                })
                .collect();
            // Only the threads hold them now: when all of one kind end, the others notice.
            drop((batches_in, pool));
            let shared = Arc::new(shared);
            let reading: Vec<_> = (0..threads)
                .map(|_| {
                    let (shared, jobs) = (Arc::clone(&shared), jobs_in.clone());
                    let (offers, offered) = (offers.clone(), offered.clone());
                    scope.spawn(move || stop.watch(|| read::run(&shared, &jobs, offers, &offered)))
                })
                .collect();
            drop((shared, jobs_in, offers, offered));
            let counting = options
                .count_first
                .then(|| scope.spawn(|| walk::count(sources, options, progress, stop)));
            let walk = Walk::new(options, &chunks, progress, stop, jobs);
            let parent_root = parent.map(|snapshot| &snapshot.root);
            let mut results = vec![stop.watch(|| walk.run(sources, parent_root, time, root))];
            results.extend(reading.into_iter().map(join));
            results.extend(storing.into_iter().map(join));
            let packer = Arc::into_inner(packer).expect("the storing threads have ended");
            let packed = match fault!(SnapshotBeforeTree) {
                false => stop.watch(|| packer.finish(last_press)),
                true => {
                    let early = self.snapshot_before_tree(root, time, sources);
                    early.and_then(|()| stop.watch(|| packer.finish(last_press)))
                }
            };
            results.push(packed);
            let uploaded = uploading.into_iter().map(join).reduce(|one, other| {
                let (mut one, other) = (one?, other?);
                one.append(other);
                Ok(one)
            });
            let uploaded = uploaded.expect("there is an uploader");
            // Counting only serves the progress bar: its errors are met by the walk as well.
            let _ = counting.map(join);
            let (added, uploaded) = match uploaded {
                Ok(added) => (added, Ok(())),
                Err(error) => (Added::default(), Err(error)),
            };
            results.push(uploaded);
            match worst(results) {
                Err(error @ StoreError::Interrupted) => Ok((Err(error), added)),
                Err(error) => Err(error),
                Ok(()) => Ok((Ok(()), added)),
            }
        })
    }

    /// What [`Bug::SnapshotBeforeTree`] does.
    fn snapshot_before_tree(
        &self,
        root: &OnceLock<Entry>,
        time: Time,
        sources: &Sources<'_>,
    ) -> Result<(), StoreError> {
        let Some(root) = root.get().cloned() else { return Ok(()) };
        let snapshot = Snapshot {
            time,
            host: self.options.host.clone(),
            user: self.options.user.clone(),
            paths: sources.paths.clone(),
            tags: Vec::new(),
            parent: None,
            program: self.options.program.clone(),
            summary: Summary::default(),
            root,
            is_from_client: false,
        };
        let Repository { objects, envelope, .. } = self.repository;
        snapshot.write(&**objects, envelope, ObjectId::random()).map(drop)
    }
}

fn join<T>(handle: ScopedJoinHandle<'_, T>) -> T {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The error that says most: a failure, before the user's wish, before what followed from either.
fn worst(results: Vec<Result<(), StoreError>>) -> Result<(), StoreError> {
    let weight = |error: &StoreError| match error {
        StoreError::Stopped => 0,
        StoreError::Interrupted => 1,
        _ => 2,
    };
    match results.into_iter().filter_map(Result::err).max_by_key(weight) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
