//! Which bundles there are, and how they come and go.
//!
//! Objects that are in no bundle are put into a new one once there are [`LEAST`] of them. It takes up
//! bundles that are at most twice as long as what it has already. So each bundle is more than twice as
//! long as the next shorter one, and a copy that is written anew is in a bundle of at least one and a
//! half times the length: of n objects of about equal length there are O(log n) bundles that are not
//! full, and each copy is written O(log n) times.
//!
//! The successor of bundles is durable before these are deleted. Cut off in between, copies stand
//! twice; the next prune deletes the shorter bundle. One that is gone is not missed.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use onefold_seal::ObjectId;

use super::compare::{Comparison, compare};
use super::shelf::within_bounds;
use crate::finding::describe;
use crate::local::cache::Copied;
use crate::objects::bundle::{Held, ListedBundle, Of, bundle_name, encode, list, new_id};
use crate::objects::read::read_bounded;
use crate::objects::snapshot;
use crate::{Repository, StoreError};

/// No longer object is copied: a request of its own costs little beside its bytes.
const MAX_COPY: u64 = 64 << 10;

/// The fewest objects that begin a bundle. As many requests are under way at a time, so whoever reads
/// fewer objects by their names waits for one round trip.
const LEAST: usize = 64;

/// The bytes of copies in a full bundle, about. A longer one would save few requests, and take more than
/// its share of a client's cache.
const FULL: u64 = 4 << 20;

/// Log entries from one look for what may be bundled to the next. If each backup looked, each would
/// find again what cannot be bundled.
const EVERY: u64 = LEAST as u64;

/// The most log entries of a host from one backup to the next, about: that of the backup, and those of
/// what is forgotten after it.
const PUT_AT_ONCE: u64 = 4;

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Arranged {
    /// Bundles that were put.
    pub(crate) put: u64,
    /// Bundles that were deleted.
    pub(crate) deleted: u64,
    /// What was wrong with bundles that were replaced.
    pub(crate) warnings: Vec<String>,
}

/// Bundles what is in none of `bundles`, which are all that there are, and replaces those that hold what
/// is gone or wrong: each copy is held against its original. For whoever may delete.
pub(crate) fn arrange(
    repository: &Repository,
    of: Of,
    bundles: &[ListedBundle],
) -> Result<Arranged, StoreError> {
    let mut arranged = Arranged::default();
    let mut shelf = Shelf::of(originals(repository, of)?);
    let there = shelf.originals.keys().copied().collect();
    for bundle in bundles.iter().filter(|bundle| bundle.of == of) {
        match compare(repository, bundle, &there) {
            Err(error) if error.is_not_found() => {}
            Err(error) if error.is_unreachable() => return Err(error),
            Err(error) => {
                // A later program, or who has its key epoch, can say what it holds.
                let is_damage = repository.is_damage(&error);
                shelf.old.extend(is_damage.then_some(bundle.id));
                arranged.warnings.push(format!("{}; {}", describe(&error), fate(is_damage)));
            }
            Ok(compared) if compared.is_right() => shelf.add(*bundle, compared.right),
            Ok(compared) => {
                let goes = goes(bundle, &compared);
                shelf.old.extend(goes.then_some(bundle.id));
                arranged.warnings.extend(wrong(bundle, &compared, goes));
            }
        }
    }
    let loose = shelf.loose();
    let (portions, old) = shelf.plan(loose);
    for portion in portions {
        arranged.put += put(repository, of, portion)?;
    }
    for id in old {
        match repository.objects.delete(&bundle_name(id)) {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            Ok(()) | Err(_) => arranged.deleted += 1,
        }
    }
    Ok(arranged)
}

/// Whether a bundle goes that is not right. It stays where a copy may be all that is left of its
/// original. A false copy of a run stays until a check has seen it: clients may have learnt from it what
/// the run does not say, and a repair renews the run.
fn goes(bundle: &ListedBundle, compared: &Comparison) -> bool {
    compared.unread.is_empty() && (bundle.of != Of::Runs || compared.different.is_empty())
}

/// What is wrong with a bundle beyond that it holds what is gone.
fn wrong(bundle: &ListedBundle, compared: &Comparison, goes: bool) -> Option<String> {
    let original = compared.different.iter().chain(&compared.unread).next()?;
    let (name, original) = (bundle.name(), bundle.of.name(*original));
    Some(format!("{name}: its copy of {original} is not what that is; {}", fate(goes)))
}

fn fate(goes: bool) -> &'static str {
    match goes {
        true => "it was replaced",
        false => "it stays: run `check --repair`",
    }
}

/// Bundles what is in no bundle, if there is much of it, within bounded bytes. A client that may not
/// delete leaves what is replaced to a prune. The backup is done, so what goes wrong is only noted.
pub(crate) fn arrange_after_backup(repository: &Repository) {
    if repository.is_write_only() {
        return;
    }
    if let Err(error) = arrange_due(repository) {
        repository.note_trouble(format_args!("nothing was bundled: {}", describe(&error)));
    }
}

fn arrange_due(repository: &Repository) -> Result<(), StoreError> {
    for of in Of::ALL.into_iter().filter(|of| is_due(repository, *of)) {
        let listed = list(&*repository.objects)?;
        let bundles: Vec<_> = within_bounds(&listed, of).collect();
        if bundles.len() < listed.iter().filter(|bundle| bundle.of == of).count() {
            continue;
        }
        let mut held = HashMap::new();
        // Readers of copies report a bundle that cannot be read, and a prune replaces it.
        repository.read_bundles(bundles.clone(), &mut |bundle, copies| {
            held.extend(copies.ok().map(|copies| (bundle.id, copies)));
        })?;
        let mut shelf = Shelf::of(originals(repository, of)?);
        for bundle in bundles {
            if let Some(copies) = held.remove(&bundle.id) {
                shelf.add(bundle, copies);
            }
        }
        let mut loose = shelf.loose();
        if loose.len() < LEAST {
            continue;
        }
        bound(&mut loose);
        let (portions, old) = shelf.plan(loose);
        for portion in portions {
            put(repository, of, portion)?;
        }
        for id in old {
            if repository.objects.delete(&bundle_name(id)).is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// Whether a backup that has just ended looks for what may be bundled: as far as the logs and the
/// index tell, for nothing is asked for to learn that.
fn is_due(repository: &Repository, of: Of) -> bool {
    let Some(logs) = repository.logs_followed() else { return false };
    let Ok(listed) = repository.listed_bundles() else { return false };
    let entries = logs.entry_count();
    let there = match of {
        Of::Entries => entries,
        Of::Snapshots => logs.snapshot_count(),
        Of::Runs => repository.loaded.get().map_or(0, |loaded| loaded.runs.len() as u64),
    };
    let bundled = listed.iter().filter(|bundle| bundle.of == of);
    let bundled: u64 = bundled.map(|bundle| u64::from(bundle.count)).sum();
    entries % EVERY < PUT_AT_ONCE && there.saturating_sub(bundled) >= LEAST as u64
}

/// The objects that may be bundled, with their lengths in bytes.
fn originals(repository: &Repository, of: Of) -> Result<HashMap<ObjectId, u64>, StoreError> {
    let infos = repository.objects.list(of.prefix())?;
    let is_fence = |len| of == Of::Snapshots && len <= snapshot::MAX_FENCE_LEN;
    let listed = infos.iter().filter(|info| info.size <= MAX_COPY && !is_fence(info.size));
    Ok(listed.filter_map(|info| Some((of.id(&info.name)?, info.size))).collect())
}

/// Leaves the first of `loose`, up to a full bundle.
fn bound(loose: &mut Vec<(ObjectId, u64)>) {
    let mut sum = 0;
    loose.retain(|(_, len)| {
        sum += len;
        sum <= FULL
    });
}

/// Copies of a new bundle, and the objects that are yet to be copied, with their lengths in bytes.
#[derive(Default)]
struct Portion {
    copies: BTreeMap<ObjectId, Bytes>,
    loose: Vec<(ObjectId, u64)>,
}

/// A bundle that stays, unless a longer one takes it up.
struct KeptBundle {
    id: ObjectId,
    /// None of a bundle that is too long to be taken up.
    copies: Held,
    /// Of the copies, in bytes.
    len: u64,
}

/// What there is to bundle, and the bundles that there are.
struct Shelf {
    originals: HashMap<ObjectId, u64>,
    covered: HashSet<ObjectId>,
    kept: Vec<KeptBundle>,
    /// Bundles that go.
    old: Vec<ObjectId>,
}

impl Shelf {
    fn of(originals: HashMap<ObjectId, u64>) -> Self {
        Self { originals, covered: HashSet::new(), kept: Vec::new(), old: Vec::new() }
    }

    /// Takes up a bundle, those with most copies first. It goes if others have all its copies.
    fn add(&mut self, bundle: ListedBundle, mut copies: Held) {
        let ids = || copies.iter().map(|(id, _)| *id);
        if ids().all(|id| self.covered.contains(&id)) {
            return self.old.push(bundle.id);
        }
        self.covered.extend(ids());
        let len: u64 = copies.iter().map(|(_, copy)| copy.len() as u64).sum();
        // What takes it up has half of it already.
        if len + len / 2 > FULL {
            copies.clear();
        }
        self.kept.push(KeptBundle { id: bundle.id, copies, len });
    }

    /// The objects that are in no bundle, with their lengths, in ascending order.
    fn loose(&self) -> Vec<(ObjectId, u64)> {
        let is_loose = |(id, _): &(&ObjectId, &u64)| !self.covered.contains(id);
        let mut loose: Vec<_> =
            self.originals.iter().filter(is_loose).map(|(id, len)| (*id, *len)).collect();
        loose.sort_unstable();
        loose
    }

    /// What new bundles hold, and which bundles go when these are durable.
    fn plan(mut self, loose: Vec<(ObjectId, u64)>) -> (Vec<Portion>, Vec<ObjectId>) {
        if loose.len() < LEAST {
            return (Vec::new(), self.old);
        }
        let (mut full, mut last, mut sum) = (Vec::new(), Portion::default(), 0);
        for (id, len) in loose {
            if sum + len > FULL {
                full.push(std::mem::take(&mut last));
                sum = 0;
            }
            last.loose.push((id, len));
            sum += len;
        }
        self.kept.sort_by_key(|kept| kept.len);
        for kept in self.kept {
            if kept.len > 2 * sum || kept.len + sum > FULL || kept.copies.is_empty() {
                break;
            }
            sum += kept.len;
            last.copies.extend(kept.copies);
            self.old.push(kept.id);
        }
        full.push(last);
        (full, self.old)
    }
}

/// Puts a bundle; how many were put. Objects that are gone or cannot be read are left out.
fn put(repository: &Repository, of: Of, portion: Portion) -> Result<u64, StoreError> {
    let Portion { mut copies, loose } = portion;
    // The portion was cut by these lengths.
    let bounded = loose.iter().map(|(id, len)| (of.name(*id), *len));
    read_bounded(&*repository.objects, bounded, &mut |at, read| {
        if let Ok(bytes) = read {
            copies.insert(loose[at].0, bytes);
        }
    })?;
    if copies.is_empty() {
        return Ok(0);
    }
    let id = new_id(of, copies.len() as u32);
    let object = Bytes::from(repository.envelope.seal(of.kind(), id, &encode(&copies)));
    repository.objects.put(&bundle_name(id), object.clone())?;
    let copied = Copied::Bundle(id, object.len() as u64);
    repository.cache().inspect(|cache| cache.keep(copied, &object));
    Ok(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> ObjectId {
        let mut id = [0; ObjectId::LEN];
        id[8..].copy_from_slice(&number.to_be_bytes());
        ObjectId::from_bytes(id)
    }

    /// A repository without bytes: objects of `LEN`, and bundles of them.
    #[derive(Default)]
    struct Model {
        objects: u64,
        bundles: Vec<Vec<u64>>,
        written: u64,
    }

    const LEN: u64 = 200;

    impl Model {
        fn arrange(&mut self) {
            let originals = (0..self.objects).map(|number| (id(number), LEN)).collect();
            let mut shelf = Shelf::of(originals);
            self.bundles.sort_by_key(|bundle| std::cmp::Reverse(bundle.len()));
            for (at, bundle) in self.bundles.iter().enumerate() {
                let count = bundle.len() as u32;
                let listed = ListedBundle { id: id(at as u64), of: Of::Entries, count, len: 0 };
                let copy = |number: &u64| (id(*number), Bytes::from(vec![0; LEN as usize]));
                shelf.add(listed, bundle.iter().map(copy).collect());
            }
            let loose = shelf.loose();
            let (portions, old) = shelf.plan(loose);
            let number =
                |id: &ObjectId| u64::from_be_bytes(id.as_bytes()[8..].try_into().expect("8 bytes"));
            let gone: HashSet<usize> = old.iter().map(|id| number(id) as usize).collect();
            let mut at = 0..;
            self.bundles.retain(|_| !gone.contains(&at.next().expect("it has no end")));
            for portion in portions {
                let all: Vec<u64> = portion
                    .copies
                    .keys()
                    .chain(portion.loose.iter().map(|(id, _)| id))
                    .map(number)
                    .collect();
                self.written += all.len() as u64;
                self.bundles.push(all);
            }
        }
    }

    #[test]
    fn of_many_objects_there_are_few_bundles_and_each_copy_is_written_a_few_times() {
        let mut model = Model::default();
        for objects in 1..=20_000 {
            model.objects = objects;
            if objects % 64 == 0 {
                model.arrange();
            }
        }
        let mut all: Vec<u64> = model.bundles.concat();
        all.sort_unstable();
        // All but those of the last backups, none twice.
        assert!(all.iter().copied().eq(0..20_000 - 20_000 % 64));
        assert!(model.bundles.len() <= 9, "{} bundles", model.bundles.len());
        // log(20,000 ÷ 64) to the base 1.5 is 14.2.
        assert!(model.written <= 15 * 20_000, "{} copies written", model.written);
    }

    #[test]
    fn few_objects_are_not_bundled() {
        let mut model = Model { objects: LEAST as u64 - 1, ..Model::default() };
        model.arrange();
        assert!(model.bundles.is_empty());
        model.objects += 1;
        model.arrange();
        assert_eq!(model.bundles.len(), 1);
    }

    #[test]
    fn a_bundle_whose_copies_are_all_in_others_goes() {
        let mut model = Model { objects: 100, ..Model::default() };
        model.bundles = vec![(0..40).collect(), (0..100).collect(), (60..100).collect()];
        model.arrange();
        assert_eq!(model.bundles, [(0..100).collect::<Vec<_>>()]);
    }
}
