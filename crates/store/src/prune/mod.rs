//! Pruning: giving back the space of what no snapshot needs any more, beside running backups and
//! other prunes, without locks.
//!
//! Containers are *condemned* first, by a mark, and deleted later:
//!
//! 1. Find what is live, choose containers: dead, wasteful and small ones. Copy what is live in them.
//! 2. Put the mark. Whoever looks at the repository from now on relies on none of its containers.
//! 3. Wait for, or fence, every backup that may have looked before: its intent is there.
//! 4. Look again at marks, containers and snapshots; copy what turned out to be live after all.
//! 5. Delete containers, runs over nothing, the mark.
//!
//! A crash anywhere leaves a leak or a mark that the next prune finishes. Why nothing that is
//! needed can be deleted is argued in docs/decisions/0011-prune.md.

mod choose;
mod intents;
mod live;
mod merge;
mod options;
mod report;
mod rewrite;
mod trust;

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use onefold_backend::Objects;
use onefold_container::{self as container, container_id, container_name};
use onefold_index as index;
use onefold_seal::ObjectId;

use self::choose::{Candidate, Choice, choose};
use self::live::{Live, Walk};
pub use self::options::{Options, Unused};
pub use self::report::{Report, Waiting};
use self::rewrite::{LiveChunk, Rewrite};
use crate::bundles::{Arranged, arrange};
use crate::chunks::loaded::Loaded;
use crate::chunks::reader::ChunkReader;
use crate::finding::describe;
use crate::history::fence::{self, Fate};
use crate::objects::bundle::{self, Of};
use crate::objects::intent::Intent;
use crate::objects::mark::{self, mark_name};
use crate::objects::snapshot::{self, Snapshot, snapshot_id};
use crate::reading::trees_ahead;
use crate::seeded::fault;
use crate::writing::copier::Copier;
use crate::{Cancel, Progress, Recipe, Repository, StoreError};

/// Deletes what no snapshot needs.
///
/// Fails without deleting anything if some snapshot is not whole: nobody could say what it needs.
/// Interrupted or failed it leaves the repository whole; what it began, the next prune finishes. Where
/// there is no room for copies, nothing is repacked.
pub fn prune(
    repository: &Repository,
    options: &Options,
    progress: &Progress,
    cancel: &Cancel,
) -> Result<Report, StoreError> {
    repository.expect_reading()?;
    repository.go_past_cache();
    let deleting = Options { max_unused: Unused::Unlimited, ..options.clone() };
    let mut options = options;
    let mut attempts = 0;
    let mut failed_index = None;
    let mut full = None;
    loop {
        let report = Report::default();
        let walked = Vec::new();
        let is_anew = failed_index.is_some();
        let mut prune = Prune { repository, options, progress, cancel, report, walked, is_anew };
        attempts += 1;
        match prune.run() {
            Ok(()) => {
                let mut report = prune.report;
                report.warnings.extend(failed_index);
                report.warnings.extend(full);
                return Ok(report);
            }
            Err(StoreError::Interrupted) => return Err(StoreError::Interrupted),
            Err(StoreError::Index(error)) if error.is_local() && !is_anew => {
                failed_index =
                    Some(format!("{}; the index is built again in memory", describe(&error)));
            }
            // What was copied so far is used; to delete takes less room than to copy.
            Err(error) if error.is_full() && options.max_unused != Unused::Unlimited => {
                full = Some(format!(
                    "{}; only containers of which nothing is needed were deleted: prune again to \
                     repack the others",
                    describe(&error)
                ));
                options = &deleting;
            }
            // Beside another prune a snapshot may vanish with its chunks while it is walked.
            Err(error) if attempts == ATTEMPTS || !prune.has_lost_snapshots()? => {
                return Err(error);
            }
            Err(_) => {}
        }
    }
}

/// Containers that are deleted before a prune looks whether it is to stop.
const DELETES: usize = 256;

/// How often a prune begins anew because snapshots were forgotten meanwhile.
const ATTEMPTS: u32 = 8;

/// A prune on its way.
struct Prune<'a> {
    repository: &'a Repository,
    options: &'a Options,
    progress: &'a Progress,
    cancel: &'a Cancel,
    report: Report,
    /// The snapshots that were read.
    walked: Vec<ObjectId>,
    /// Whether the index is learnt from the repository alone, because its place failed.
    is_anew: bool,
}

/// Names below `snapshots/` that were seen, and the snapshots among them.
#[derive(Default)]
struct SeenSnapshots {
    ids: HashSet<ObjectId>,
    snapshots: Vec<(ObjectId, Snapshot)>,
}

/// What a prune has condemned.
#[derive(Default)]
struct Condemned {
    containers: HashSet<ObjectId>,
    marks: Vec<(ObjectId, Vec<ObjectId>)>,
    /// Containers that took the copies.
    copies: HashSet<ObjectId>,
}

impl Prune<'_> {
    fn objects(&self) -> &dyn Objects {
        &*self.repository.objects
    }

    fn run(&mut self) -> Result<(), StoreError> {
        let running = self.resolve_intents()?;
        let seen = self.snapshots()?;
        let loaded = self.load()?;
        let reader = reader(self.repository, &loaded);
        let live = self.walk(&seen, &loaded, &reader)?;
        let condemned = self.condemn(&reader, &loaded, &live, !running.is_empty())?;
        if !self.options.dry_run {
            self.sweep(&loaded, &live, &seen, condemned)?;
            self.bundle()?;
        }
        self.report.warnings.extend(loaded.warnings);
        Ok(())
    }

    /// Learns where every chunk lies.
    fn load(&self) -> Result<Loaded, StoreError> {
        let loaded = match self.is_anew {
            true => self.repository.load_index_anew()?,
            false => self.repository.load_index()?,
        };
        loaded.marks.expect_whole()?;
        Ok(loaded)
    }

    /// Whether a snapshot that was read has been forgotten since.
    fn has_lost_snapshots(&self) -> Result<bool, StoreError> {
        for id in &self.walked {
            if fence::fate(self.repository, *id)? == Fate::Open {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads every snapshot. The listing makes sure that those it does not show stay away.
    ///
    /// Snapshots are read before containers are listed: what they refer to was there before them.
    fn snapshots(&mut self) -> Result<SeenSnapshots, StoreError> {
        let (mut seen, mut failed) = (SeenSnapshots::default(), None);
        let listed = self.repository.listed_snapshots()?;
        Snapshot::find_many(self.repository, &listed, &mut |id, found| {
            match found {
                Ok(Some(snapshot)) => seen.snapshots.push((id, snapshot)),
                Ok(None) => {}
                Err(StoreError::Backend(error)) if error.is_not_found() => return,
                Err(error) => drop(failed.get_or_insert_with(|| broken(id, error))),
            }
            seen.ids.insert(id);
        })?;
        self.cancel.check()?;
        if let Some(error) = failed {
            return Err(error);
        }
        self.walked.extend(seen.snapshots.iter().map(|(id, _)| *id));
        Ok(seen)
    }

    /// Finds out what is live.
    fn walk(
        &mut self,
        seen: &SeenSnapshots,
        loaded: &Loaded,
        reader: &ChunkReader<'_>,
    ) -> Result<Live, StoreError> {
        let mut live = Live::default();
        loaded.index.prefer_last();
        self.progress.noun.get_or_init(|| "snapshots");
        self.progress.total_files.store(seen.snapshots.len() as u64, Ordering::Relaxed);
        self.report.snapshots = seen.snapshots.len() as u64;
        for (number, (id, snapshot)) in seen.snapshots.iter().enumerate() {
            if number % trees_ahead::TOGETHER == 0 {
                let next = seen.snapshots[number..].iter().take(trees_ahead::TOGETHER);
                let is_walked = |tree: &Recipe| live.has_tree(tree, loaded);
                trees_ahead::read(reader, next.map(|(_, one)| &one.root.node), &is_walked);
            }
            let (cancel, path) = (self.cancel, Vec::new());
            let mut walk = Walk { reader, loaded, live: &mut live, cancel, path };
            match walk.root(&snapshot.root) {
                Ok(()) => {}
                Err(StoreError::Interrupted) => return Err(StoreError::Interrupted),
                // If it was forgotten since it was read, the next attempt does without it. This one
                // cannot: what was noted of a tree before its children were read may be shared.
                Err(error) => return Err(broken(*id, error)),
            }
            Progress::add(&self.progress.files, 1);
        }
        Ok(live)
    }

    /// Chooses containers, copies what is live in them and puts the mark.
    fn condemn(
        &mut self,
        reader: &ChunkReader<'_>,
        loaded: &Loaded,
        live: &Live,
        are_running: bool,
    ) -> Result<Condemned, StoreError> {
        let choice = self.choose(reader, loaded, live, are_running)?;
        if self.options.dry_run {
            return Ok(Condemned::default());
        }
        let mut copier = Copier::new(self.repository, loaded, self.options.container_len)?;
        let chosen = self.copy_live(choice, &mut copier, reader, loaded, live)?;
        rescue(&mut copier, reader, live)?;
        let containers = loaded.containers.all();
        let ids = chosen.iter().map(|number| containers[*number as usize].id);
        let ids: Vec<ObjectId> = ids.collect();
        fault!(CopiedAfterDelete => self.delete_containers(&ids)?);
        copier.finish()?;
        self.report.copied_bytes += copier.stored;
        let mut condemned = Condemned {
            containers: ids.iter().copied().collect(),
            copies: copier.put_ids(),
            ..Condemned::default()
        };
        fault!(DeletedBeforeMark => self.delete_containers(&ids)?);
        for part in ids.chunks(mark::MAX_CONDEMNED) {
            let id = mark::write(part, self.objects(), &self.repository.envelope)?;
            condemned.marks.push((id, part.to_vec()));
        }
        Ok(condemned)
    }

    /// Chooses containers and enters what is chosen in the report.
    fn choose(
        &mut self,
        reader: &ChunkReader<'_>,
        loaded: &Loaded,
        live: &Live,
        are_running: bool,
    ) -> Result<Choice, StoreError> {
        let Options { max_unused, max_repack, .. } = *self.options;
        let candidates = self.candidates(loaded, live, are_running);
        let mut choice = choose(candidates.iter().copied(), max_unused, max_repack);
        if max_unused != Unused::Unlimited {
            choice.merge = self.choose_small(&candidates, &choice, reader, loaded)?;
            choice.unused -= choice.merge.iter().map(Candidate::unused).sum::<u64>();
        }
        self.keep_where_others_lie(&mut choice, reader, loaded, live)?;
        loaded.expect_answers()?;
        let sum = |chosen: &[Candidate]| chosen.iter().map(|candidate| candidate.size).sum();
        self.report.dead_containers = choice.dead.len() as u64;
        self.report.dead_bytes = sum(&choice.dead);
        self.report.unused_bytes = choice.unused;
        self.report.repacked_containers = choice.repack.len() as u64;
        self.report.repacked_bytes = sum(&choice.repack);
        self.report.merged_containers = choice.merge.len() as u64;
        self.report.merged_bytes = sum(&choice.merge);
        self.report.rescued_chunks = live.strays().count() as u64;
        Ok(choice)
    }

    /// What is known of every container that may be chosen.
    fn candidates(&mut self, loaded: &Loaded, live: &Live, are_running: bool) -> Vec<Candidate> {
        let containers = loaded.containers.all();
        let known = &containers[..loaded.chunk_bytes.len()];
        self.report.containers = known.len() as u64;
        self.report.bytes = known.iter().map(|one| one.size).sum();
        let candidates = (0u32..).zip(known).filter_map(|(number, container)| {
            let at = number as usize;
            let candidate = Candidate {
                number,
                size: container.size,
                chunk_bytes: loaded.chunk_bytes[at],
                live_bytes: live.bytes(number),
                live_chunks: live.chunks(number),
            };
            // Whose footer cannot be read: nobody knows what it holds.
            let is_known = candidate.chunk_bytes > 0;
            // Probably a running backup's, which would then have to store its chunks again. Nothing
            // but politeness depends on it.
            let is_fresh = are_running && !loaded.covered[at] && candidate.live_bytes == 0;
            (is_known && !is_fresh).then_some(candidate)
        });
        candidates.collect()
    }

    /// Copies what is live in the containers that were chosen. Returns the numbers of those that
    /// can be condemned: one that cannot be read stays, with a warning.
    fn copy_live(
        &mut self,
        choice: Choice,
        copier: &mut Copier<'_>,
        reader: &ChunkReader<'_>,
        loaded: &Loaded,
        live: &Live,
    ) -> Result<Vec<u32>, StoreError> {
        let copied_bytes = self.report.repacked_bytes + self.report.merged_bytes;
        self.progress.total_bytes.store(copied_bytes, Ordering::Relaxed);
        let mut chosen: Vec<u32> = choice.dead.iter().map(|candidate| candidate.number).collect();
        let merged: HashSet<u32> = choice.merge.iter().map(|candidate| candidate.number).collect();
        let mut copied = [choice.repack, choice.merge].concat();
        copied.sort_unstable_by_key(|candidate| candidate.number);
        let rewrite = Rewrite { reader, live, cancel: self.cancel };
        rewrite.read(&copied, &mut |candidate, chunks| {
            self.cancel.check()?;
            match chunks {
                Ok(chunks) => {
                    for LiveChunk { content, fingerprint, bytes } in chunks {
                        copier.push(content, fingerprint, &bytes)?;
                    }
                    chosen.push(candidate.number);
                }
                Err(error @ (StoreError::Container(_) | StoreError::WrongChunk { .. }))
                    if !error.is_unreachable() =>
                {
                    self.leave(candidate, merged.contains(&candidate.number), loaded, &error);
                }
                Err(error) => return Err(error),
            }
            Progress::add(&self.progress.bytes, candidate.size);
            Ok(())
        })?;
        Ok(chosen)
    }

    /// Warns of a container that stays because it cannot be read.
    fn leave(
        &mut self,
        candidate: &Candidate,
        is_merged: bool,
        loaded: &Loaded,
        error: &StoreError,
    ) {
        let report = &mut self.report;
        let (containers, bytes) = match is_merged {
            true => (&mut report.merged_containers, &mut report.merged_bytes),
            false => (&mut report.repacked_containers, &mut report.repacked_bytes),
        };
        *containers -= 1;
        *bytes -= candidate.size;
        let container = loaded.containers.get(candidate.number);
        let name = container_name(container.expect("containers are only added").id);
        report.warnings.push(format!("{name} is left as it is: {}", describe(error)));
    }

    /// Deletes what is condemned and no backup may still rely on.
    fn sweep(
        &mut self,
        loaded: &Loaded,
        live: &Live,
        seen: &SeenSnapshots,
        condemned: Condemned,
    ) -> Result<(), StoreError> {
        let left = loaded.marks.marks.iter().map(|(id, containers)| (*id, containers.clone()));
        let marks: Vec<(ObjectId, Vec<ObjectId>)> =
            left.chain(condemned.marks.iter().cloned()).collect();
        if marks.is_empty() {
            return Ok(());
        }
        // A backup whose intent is not listed now put it after the marks, and so sees them.
        if !fault!(IntentsUnsettled) {
            self.objects().settle()?;
        }
        let mut running = self.resolve_intents()?;
        fault!(IntentsIgnored => running.clear());
        let blocks = |mark: ObjectId, intent: &Intent| !intent.marks.contains(&mark);
        let (waiting, free): (Vec<_>, Vec<_>) = marks
            .into_iter()
            .partition(|(mark, _)| running.iter().any(|(_, intent)| blocks(*mark, intent)));
        self.report.waiting_containers = waiting.iter().map(|(_, list)| list.len() as u64).sum();
        let is_waited_for = |intent: &Intent| waiting.iter().any(|(mark, _)| blocks(*mark, intent));
        self.report.waiting = running
            .iter()
            .filter(|(_, intent)| is_waited_for(intent))
            .map(|(id, intent)| Waiting::new(*id, Some(intent)))
            .collect();
        if free.is_empty() {
            return Ok(());
        }
        // A backup that was listed as running, and is not now, has its snapshot listed now.
        self.objects().settle()?;
        let is_left = |(mark, _): &&(ObjectId, _)| loaded.marks.marks.contains_key(mark);
        let containers_of = |(_, list): &(ObjectId, Vec<ObjectId>)| list.clone();
        match self.is_as_before(loaded, live, seen, &condemned)? {
            true => {
                let left: Vec<_> = free.iter().filter(is_left).flat_map(containers_of).collect();
                self.save_from(&left, loaded, live)?;
                loaded.expect_answers()?;
            }
            false => {
                let (loaded, live) = self.look_again()?;
                let all: Vec<_> = free.iter().flat_map(containers_of).collect();
                self.save_from(&all, &loaded, &live)?;
                loaded.expect_answers()?;
            }
        }
        let mut deleted = HashSet::new();
        for (_, containers) in &free {
            self.delete_containers(containers)?;
            deleted.extend(containers.iter().copied());
        }
        self.delete_runs(loaded, &deleted)?;
        // Whoever sees no mark must see no container of it.
        self.objects().settle()?;
        let marks: Vec<_> = free.iter().map(|(mark, _)| mark_name(*mark)).collect();
        self.objects().delete_many(&marks)?;
        self.report.deleted_containers = deleted.len() as u64;
        Ok(())
    }

    /// Sees to it that bundles hold what is there, and nothing else. Nothing depends on a bundle, so
    /// whatever fails is a warning, unless the storage cannot be reached.
    fn bundle(&mut self) -> Result<(), StoreError> {
        if let Some(early) = &self.repository.early {
            early.ask(&Of::ALL.map(Of::prefix), Vec::new(), 0);
        }
        let bundles = match bundle::list(self.objects()) {
            Ok(bundles) => bundles,
            Err(error) => return self.not_bundled(error),
        };
        for of in Of::ALL {
            self.cancel.check()?;
            match arrange(self.repository, of, &bundles) {
                Ok(Arranged { put, deleted, warnings }) => {
                    self.report.put_bundles += put;
                    self.report.deleted_bundles += deleted;
                    self.report.warnings.extend(warnings);
                }
                Err(error) => self.not_bundled(error)?,
            }
        }
        Ok(())
    }

    fn not_bundled(&mut self, error: StoreError) -> Result<(), StoreError> {
        if error.is_unreachable() {
            return Err(error);
        }
        self.report.warnings.push(describe(&error));
        Ok(())
    }

    /// Whether nothing happened beside this prune that changes what is live or where: no snapshot
    /// that it has not seen, no mark of another prune, and everything there on which it relies.
    fn is_as_before(
        &self,
        loaded: &Loaded,
        live: &Live,
        seen: &SeenSnapshots,
        condemned: &Condemned,
    ) -> Result<bool, StoreError> {
        let marks = mark::list(self.objects())?;
        let is_known = |mark: &ObjectId| {
            loaded.marks.marks.contains_key(mark)
                || condemned.marks.iter().any(|(own, _)| own == mark)
        };
        if !marks.iter().all(is_known) && !fault!(OtherMarksIgnored) {
            return Ok(false);
        }
        let listed: HashSet<ObjectId> = self
            .objects()
            .list_names(container::PREFIX)?
            .iter()
            .filter_map(|name| container_id(name))
            .collect();
        let containers = loaded.containers.all();
        let mut needed = (0u32..)
            .zip(&containers)
            .filter(|(number, one)| {
                live.bytes(*number) > 0 && !condemned.containers.contains(&one.id)
            })
            .map(|(_, one)| &one.id)
            .chain(&condemned.copies);
        if !needed.all(|id| listed.contains(id)) {
            return Ok(false);
        }
        fault!(SnapshotsListedEarly => return Ok(true));
        for name in self.objects().list_names(snapshot::PREFIX)? {
            let Some(id) = snapshot_id(&name) else { continue };
            let is_new = !seen.ids.contains(&id);
            if is_new && fence::fate(self.repository, id)? != Fate::Fenced {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Finds out anew what is live, as if every condemned container were gone, and copies what is
    /// in none of the others.
    fn look_again(&mut self) -> Result<(Loaded, Live), StoreError> {
        let seen = self.snapshots()?;
        let loaded = self.load()?;
        let reader = reader(self.repository, &loaded);
        let live = self.walk(&seen, &loaded, &reader)?;
        let mut copier = Copier::new(self.repository, &loaded, self.options.container_len)?;
        rescue(&mut copier, &reader, &live)?;
        drop(reader);
        copier.finish()?;
        // Who misses a container that is deleted now must see its copy.
        self.objects().settle()?;
        self.report.rescued_chunks += live.strays().count() as u64;
        self.report.copied_bytes += copier.stored;
        Ok((loaded, live))
    }

    fn delete_containers(&self, containers: &[ObjectId]) -> Result<(), StoreError> {
        containers.chunks(DELETES).try_for_each(|some| {
            self.cancel.check()?;
            let names: Vec<_> = some.iter().map(|id| container_name(*id)).collect();
            Ok(self.objects().delete_many(&names)?)
        })
    }

    /// Deletes the runs of which every container is gone.
    fn delete_runs(
        &mut self,
        loaded: &Loaded,
        deleted: &HashSet<ObjectId>,
    ) -> Result<(), StoreError> {
        let containers = loaded.containers.all();
        let is_gone = |number: &Option<u32>| {
            number.is_none_or(|number| deleted.contains(&containers[number as usize].id))
        };
        let runs = loaded.runs.iter().filter(|(_, covers)| covers.iter().all(is_gone));
        let names: Vec<_> = runs.map(|(run, _)| index::run_name(*run)).collect();
        self.objects().delete_many(&names)?;
        self.report.deleted_runs = names.len() as u64;
        Ok(())
    }
}

/// What reads from where `loaded` says, with the short containers: trees are in them, and they are what
/// is merged.
fn reader<'a>(repository: &'a Repository, loaded: &'a Loaded) -> ChunkReader<'a> {
    repository.reader_of(loaded).keeping_short(0..loaded.containers.len() as u32)
}

/// Copies live chunks that are only where nobody may rely on them.
fn rescue(
    copier: &mut Copier<'_>,
    reader: &ChunkReader<'_>,
    live: &Live,
) -> Result<(), StoreError> {
    live.strays().try_for_each(|fingerprint| copier.chunk(fingerprint, reader))
}

fn broken(snapshot: ObjectId, source: StoreError) -> StoreError {
    match source {
        source if source.is_no_answer() => source,
        StoreError::Index(ref error) if error.is_local() => source,
        source => StoreError::Broken { snapshot, source: Box::new(source) },
    }
}
