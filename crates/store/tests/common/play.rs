//! What backups, prunes and restores do on a [`Stage`], and what must hold whatever their order.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use onefold_backend::{Folder, LocalFolder, Objects};
use onefold_seal::ObjectId;
use onefold_store::prune::{self, Unused};
use onefold_store::{Cancel, Progress, Repository, StoreError, backup, forget};
use onefold_testkit::{SplitMix64, random};
use tempfile::TempDir;

use super::picture::Picture;
use super::stage::Stage;
use super::{chain, config, expect_clean, expect_no_receipt_alone, names, open, restored, write};

/// Sources that have files in common, and what they look like.
pub struct Sources {
    _folder: TempDir,
    each: Vec<(PathBuf, Picture)>,
}

impl Sources {
    pub fn new() -> Self {
        let folder = super::fast_folder();
        let mut numbers = SplitMix64::new(7);
        let make = |number: u64| {
            let root = folder.path().join(number.to_string());
            for file in 0..3 {
                let seed = numbers.below(7) as u64;
                write(root.join(format!("{file}")), random(seed, 1500 + 700 * seed as usize));
            }
            write(root.join("below/same"), random(99, 2000));
            (root.clone(), Picture::of(&root))
        };
        let each = (0..5).map(make).collect();
        // Files are recognised as unchanged only if they are older than the backup that read them.
        thread::sleep(Duration::from_millis(15));
        Self { _folder: folder, each }
    }
}

/// How a play differs from others.
#[derive(Debug, Clone, Copy)]
pub struct Cast {
    pub writers: usize,
    pub pruners: usize,
    pub readers: usize,
    /// How many turns listings lag behind at most.
    pub lag: u64,
    /// Whether some players die.
    pub deaths: bool,
}

/// What everyone may know: which source each acknowledged snapshot is of.
#[derive(Default)]
struct Known {
    acknowledged: HashMap<ObjectId, usize>,
    /// Taken away, or about to be.
    forgotten: BTreeSet<ObjectId>,
    broken: Option<String>,
    /// Where backups lock files, if all are on one machine: then prunes are patient with what lives.
    locks: Option<Arc<dyn Folder>>,
    /// What happened, to tell that the plays are not all alike.
    counts: Counts,
}

/// How often things happened in plays.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub backups: u64,
    pub revoked: u64,
    pub prunes: u64,
    pub deleted: u64,
    pub waited: u64,
    /// Backups that a prune took for dead.
    pub fenced: u64,
    pub rescued: u64,
    pub restores: u64,
    /// Backups whose snapshot was forgotten before they had ended.
    pub overtaken: u64,
}

impl Counts {
    pub fn add(&mut self, other: Self) {
        self.backups += other.backups;
        self.revoked += other.revoked;
        self.prunes += other.prunes;
        self.deleted += other.deleted;
        self.waited += other.waited;
        self.fenced += other.fenced;
        self.rescued += other.rescued;
        self.restores += other.restores;
        self.overtaken += other.overtaken;
    }
}

type Shared = Arc<Mutex<Known>>;

/// The repository as one of the players opens it.
fn open_beside(
    objects: &Arc<dyn Objects>,
    locks: Option<Arc<dyn Folder>>,
) -> Result<Repository, StoreError> {
    let mut repository = Repository::open(Arc::clone(objects))?;
    if let Some(locks) = locks {
        repository.lock_backups_in(locks);
    }
    Ok(repository)
}

/// Where backups lock files. Copied, since no player may hold what is known while it waits for a turn.
fn locks(known: &Shared) -> Option<Arc<dyn Folder>> {
    known.lock().unwrap().locks.clone()
}

/// Plays once; fails with the first promise that was broken.
pub fn play(sources: &Sources, cast: Cast, seed: u64) -> Result<Counts, String> {
    play_between(sources, cast, seed, &|_| ())
}

/// Plays once, on one machine: no prune waits for the dead, and none fences what lives.
pub fn play_on_one_machine(sources: &Sources, cast: Cast, seed: u64) -> Result<Counts, String> {
    let folder = super::fast_folder();
    let locks: Arc<dyn Folder> = Arc::new(LocalFolder::create(folder.path()).unwrap());
    let known = Known { locks: Some(Arc::clone(&locks)), ..Known::default() };
    let counts = play_with(known, sources, cast, seed, &|_| ())?;
    match &locks.names().unwrap()[..] {
        [] => Ok(counts),
        left => Err(format!("the last prune left {left:?}")),
    }
}

/// Plays once, and calls `between` before each backup and each prune.
pub fn play_between(
    sources: &Sources,
    cast: Cast,
    seed: u64,
    between: &(dyn Fn(&mut SplitMix64) + Sync),
) -> Result<Counts, String> {
    play_with(Known::default(), sources, cast, seed, between)
}

fn play_with(
    known: Known,
    sources: &Sources,
    cast: Cast,
    seed: u64,
    between: &(dyn Fn(&mut SplitMix64) + Sync),
) -> Result<Counts, String> {
    let mut numbers = SplitMix64::new(seed);
    let players = cast.writers + cast.pruners + cast.readers;
    let stage = Stage::new(seed, players, cast.lag);
    let objects = stage.objects();
    let known = Arc::new(Mutex::new(known));
    let repository =
        Repository::init(Arc::clone(&objects), config(256, 1024, 4096)).expect("nothing is there");
    for source in 0..3 {
        back_up(&repository, sources, source, &known).map_err(|error| chain(&error))?;
    }
    // Without runs an index takes one of several places of a chunk at random.
    if numbers.below(2) == 0 {
        names(&*objects, "index/").iter().for_each(|name| objects.delete(name).unwrap());
    }
    if cast.deaths {
        for player in 0..cast.writers + cast.pruners {
            if numbers.below(3) == 0 {
                stage.dies_after(player, 3 + numbers.below(60) as u64);
            }
        }
    }
    thread::scope(|scope| {
        for player in 0..players {
            let (stage, known, seed) = (&stage, &known, numbers.next_u64());
            scope.spawn(move || {
                let objects = stage.player(player);
                let mut numbers = SplitMix64::new(seed);
                let result = if player < cast.writers {
                    writer(&objects, sources, known, &mut numbers, between)
                } else if player < cast.writers + cast.pruners {
                    pruner(&objects, known, &mut numbers, between)
                } else {
                    reader(&objects, sources, known, &mut numbers)
                };
                // Nobody minds what the dead did not do.
                if let Err(broken) = result
                    && !stage.has_died(player)
                {
                    known.lock().unwrap().broken.get_or_insert(broken);
                }
                stage.leave(player);
            });
        }
        stage.direct();
    });
    let broken = known.lock().unwrap().broken.take();
    match broken {
        Some(broken) => return Err(broken),
        None => expect_promises_kept(&objects, sources, &known, cast.deaths)?,
    }
    let counts = known.lock().unwrap().counts;
    Ok(counts)
}

fn back_up(
    repository: &Repository,
    sources: &Sources,
    source: usize,
    known: &Shared,
) -> Result<(), StoreError> {
    let options = backup::Options {
        host: "host".into(),
        threads: NonZero::new(1),
        container_len: 4 << 10,
        ..backup::Options::default()
    };
    let (path, _) = &sources.each[source];
    let paths = [path.clone()];
    let (id, _) =
        backup::backup(repository, &paths, &options, &Progress::default(), &Cancel::default())?;
    let mut known = known.lock().unwrap();
    known.acknowledged.insert(id, source);
    known.counts.backups += 1;
    Ok(())
}

fn writer(
    objects: &Arc<dyn Objects>,
    sources: &Sources,
    known: &Shared,
    numbers: &mut SplitMix64,
    between: &dyn Fn(&mut SplitMix64),
) -> Result<(), String> {
    let mut handle = None;
    for _ in 0..2 {
        between(numbers);
        // A handle that stays open has an index that grows old.
        if handle.is_none() || numbers.below(2) == 0 {
            handle = match open_beside(objects, locks(known)) {
                Ok(opened) => Some(opened),
                Err(error) => return Err(format!("a writer cannot open: {}", chain(&error))),
            };
        }
        let repository = handle.as_ref().expect("it was opened");
        match back_up(repository, sources, numbers.below(sources.each.len()), known) {
            Ok(()) => {}
            Err(StoreError::Revoked) if locks(known).is_some() => {
                return Err("a backup that lives was taken for dead".into());
            }
            Err(StoreError::Revoked) => known.lock().unwrap().counts.revoked += 1,
            Err(StoreError::Forgotten { snapshot }) => {
                let mut known = known.lock().unwrap();
                known.counts.overtaken += 1;
                if !known.forgotten.contains(&snapshot) {
                    return Err(format!("{snapshot} counts as forgotten and is not"));
                }
            }
            Err(error) => return Err(format!("a backup fails: {}", chain(&error))),
        }
    }
    Ok(())
}

/// Longer than a play.
const AN_HOUR: Duration = Duration::from_secs(3600);

fn pruner(
    objects: &Arc<dyn Objects>,
    known: &Shared,
    numbers: &mut SplitMix64,
    between: &dyn Fn(&mut SplitMix64),
) -> Result<(), String> {
    for _ in 0..2 {
        between(numbers);
        let fence_after = match numbers.below(3) {
            0 if locks(known).is_none() => Duration::ZERO,
            _ => AN_HOUR,
        };
        let result = forget_and_prune(objects, known, numbers, fence_after);
        match result {
            Ok(()) => {}
            Err(error) => return Err(format!("a prune fails: {}", chain(&error))),
        }
    }
    Ok(())
}

fn forget_and_prune(
    objects: &Arc<dyn Objects>,
    known: &Shared,
    numbers: &mut SplitMix64,
    fence_after: Duration,
) -> Result<(), StoreError> {
    let repository = open_beside(objects, locks(known))?;
    let mut victims = Vec::new();
    // An operator forgets what a listing shows, acknowledged or not.
    let (shown, _) = repository.snapshots()?;
    {
        let mut known = known.lock().unwrap();
        let unacknowledged = shown.iter().map(|(id, _)| *id);
        victims.extend(unacknowledged.filter(|id| !known.acknowledged.contains_key(id)));
        let mut there: Vec<ObjectId> = known.acknowledged.keys().copied().collect();
        there.retain(|id| !known.forgotten.contains(id));
        there.sort();
        for _ in 0..2 {
            if there.len() > 1 {
                victims.push(there.swap_remove(numbers.below(there.len())));
            }
        }
        known.forgotten.extend(&victims);
    }
    forget::forget(&repository, &victims)?;
    let report =
        prune::prune(&repository, &options(fence_after), &Progress::default(), &Cancel::default())?;
    let mut known = known.lock().unwrap();
    known.counts.prunes += 1;
    known.counts.deleted += report.deleted_containers;
    known.counts.waited += u64::from(!report.waiting.is_empty());
    known.counts.fenced += report.fenced.len() as u64;
    known.counts.rescued += report.rescued_chunks;
    Ok(())
}

fn options(fence_after: Duration) -> prune::Options {
    prune::Options {
        max_unused: Unused::Bytes(0),
        fence_after,
        container_len: 4 << 10,
        ..prune::Options::default()
    }
}

fn reader(
    objects: &Arc<dyn Objects>,
    sources: &Sources,
    known: &Shared,
    numbers: &mut SplitMix64,
) -> Result<(), String> {
    let repository = Repository::open(Arc::clone(objects)).map_err(|error| chain(&error))?;
    for _ in 0..2 {
        let (there, _) = repository.snapshots().map_err(|error| chain(&error))?;
        if there.is_empty() {
            continue;
        }
        let (id, snapshot) = &there[numbers.below(there.len())];
        let result = restored(&repository, snapshot);
        let known = &mut *known.lock().unwrap();
        // What was forgotten meanwhile may be gone.
        let Some(source) = known.acknowledged.get(id) else { continue };
        if known.forgotten.contains(id) {
            continue;
        }
        result
            .and_then(|picture| picture.expect(&sources.each[*source].1))
            .map_err(|broken| format!("snapshot {id} cannot be restored meanwhile: {broken}"))?;
        known.counts.restores += 1;
    }
    Ok(())
}

/// Whatever was acknowledged and not forgotten is there and whole, now and after everything was
/// tidied up, and then no space is wasted.
fn expect_promises_kept(
    objects: &Arc<dyn Objects>,
    sources: &Sources,
    known: &Shared,
    some_died: bool,
) -> Result<(), String> {
    let known = known.lock().unwrap();
    // One who died between receipt and last look may have left one.
    if !some_died {
        expect_no_receipt_alone(&**objects)?;
    }
    let expect_all = |when: &str| -> Result<(), String> {
        let repository = open(objects);
        expect_clean(&repository).map_err(|broken| format!("not clean {when}: {broken}"))?;
        for (id, source) in &known.acknowledged {
            if known.forgotten.contains(id) {
                continue;
            }
            let (_, snapshot) = repository
                .find(&id.to_string().parse().unwrap())
                .map_err(|error| format!("snapshot {id} is lost {when}: {}", chain(&error)))?;
            restored(&repository, &snapshot)
                .and_then(|picture| picture.expect(&sources.each[*source].1))
                .map_err(|broken| format!("snapshot {id} is not whole {when}: {broken}"))?;
        }
        Ok(())
    };
    expect_all("after all")?;
    let repository = open_beside(objects, known.locks.clone()).map_err(|error| chain(&error))?;
    let fence_after = if known.locks.is_some() { AN_HOUR } else { Duration::ZERO };
    // One who died while forgetting has forgotten half.
    let half: Vec<ObjectId> = known.forgotten.iter().copied().collect();
    forget::forget(&repository, &half).map_err(|error| chain(&error))?;
    let prune = |dry_run| {
        let options = prune::Options { dry_run, ..options(fence_after) };
        prune::prune(&repository, &options, &Progress::default(), &Cancel::default())
            .map_err(|error| format!("the last prune fails: {}", chain(&error)))
    };
    prune(false)?;
    expect_all("after the last prune")?;
    let after = prune(true)?;
    if after.dead_containers + after.repacked_containers + after.merged_containers > 0 {
        return Err(format!("the last prune left something to do: {after:?}"));
    }
    for prefix in ["marks/", "intents/"] {
        if !names(&**objects, prefix).is_empty() {
            return Err(format!("the last prune left {prefix}"));
        }
    }
    Ok(())
}
