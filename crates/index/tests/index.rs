//! The index against a table, with too little memory, over power cuts and damage.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold_backend::crash::CrashDisk;
use onefold_backend::fault::{Failure, Fault, Faults, Faulty};
use onefold_backend::{Folder, MemoryFolder, Operation};
use onefold_fingerprint::Fingerprint;
use onefold_index::{Claim, Hint, Index, Listed, Memory, Place};
use onefold_seal::ObjectId;
use onefold_testkit::SplitMix64;
use proptest::prelude::*;

const REPOSITORY: ObjectId = ObjectId::from_bytes([9; 16]);

/// Fingerprint number `n`; neighbours are far apart.
fn fingerprint(n: u64) -> Fingerprint {
    let mut random = SplitMix64::new(n);
    let words: [u64; 4] = std::array::from_fn(|_| random.next_u64());
    let mut bytes = [0; 32];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    Fingerprint::from_bytes(bytes)
}

fn object(n: u32) -> ObjectId {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&n.to_le_bytes());
    ObjectId::from_bytes(bytes)
}

/// The chunks of object `n` of `len`: fingerprints `n * len` and on.
fn list(n: u32, len: u32) -> Vec<Listed> {
    let first = u64::from(n) * u64::from(len);
    (0..len).map(|slot| (fingerprint(first + u64::from(slot)), 1 + slot % 7)).collect()
}

fn open(folder: &Arc<dyn Folder>, memory: Memory) -> Index {
    let (index, why) = Index::open(Arc::clone(folder), REPOSITORY, memory).unwrap();
    assert!(why.is_none(), "{why:?}");
    index
}

/// Admits every object as its own number.
fn admit_all(index: &Index) {
    (0..index.objects().len() as u32).for_each(|object| index.admit(object, object));
}

fn memory_folder() -> Arc<dyn Folder> {
    Arc::new(MemoryFolder::new())
}

#[test]
fn a_claim_is_new_then_pending_then_known() {
    let index = Index::in_memory();
    let (f, place) = (fingerprint(1), Place { container: 7, slot: 0, len: 12 });
    assert_eq!(index.get(&f), None);
    assert_eq!(index.claim(&f), Claim::New);
    assert_eq!(index.get(&f), None, "a claim is no place");
    assert_eq!(index.claim(&f), Claim::Pending);
    index.publish(object(1), 7, &[(f, 12)]);
    assert_eq!(index.claim(&f), Claim::Known(Hint(place)));
    assert_eq!(index.get(&f), Some(Hint(place)));
}

#[test]
fn what_was_retracted_is_new_again_and_then_where_it_was_published_last() {
    let index = Index::in_memory();
    index.publish(object(1), 1, &[(fingerprint(1), 5), (fingerprint(2), 6)]);
    index.claim(&fingerprint(3));
    index.retract(&fingerprint(1));
    index.retract(&fingerprint(3));
    assert_eq!(index.get(&fingerprint(1)), None);
    assert_eq!(index.claim(&fingerprint(3)), Claim::Pending, "a claim stays");
    assert_eq!(index.claim(&fingerprint(1)), Claim::New);
    assert_eq!(index.claim(&fingerprint(1)), Claim::Pending);
    index.forget_claims();
    assert_eq!(index.claim(&fingerprint(1)), Claim::New, "still wrong");
    index.publish(object(2), 2, &[(fingerprint(1), 5)]);
    let moved = Hint(Place { container: 2, slot: 0, len: 5 });
    assert_eq!(index.get(&fingerprint(1)), Some(moved));
    assert_eq!(index.claim(&fingerprint(1)), Claim::Known(moved));
    index.retract(&fingerprint(1));
    assert_eq!(index.get(&fingerprint(1)), None);
}

#[test]
fn a_chunk_that_moved_into_what_was_dismissed_is_new_again() {
    let index = Index::in_memory();
    index.publish(object(1), 1, &[(fingerprint(1), 5)]);
    index.retract(&fingerprint(1));
    assert_eq!(index.claim(&fingerprint(1)), Claim::New);
    index.publish(object(2), 2, &[(fingerprint(1), 5)]);
    index.dismiss(|number| number == 2);
    assert_eq!(index.get(&fingerprint(1)), None);
    assert_eq!(index.claim(&fingerprint(1)), Claim::New);
}

#[test]
fn a_forgotten_claim_is_new_again_and_what_is_known_stays() {
    let index = Index::in_memory();
    index.claim(&fingerprint(1));
    index.publish(object(2), 0, &[(fingerprint(2), 7)]);
    index.forget_claims();
    assert_eq!(index.claim(&fingerprint(1)), Claim::New);
    assert!(matches!(index.claim(&fingerprint(2)), Claim::Known(_)));
}

#[test]
fn each_fingerprint_is_new_to_exactly_one_of_many_threads() {
    let folder = memory_folder();
    let index = open(&folder, Memory::MIN);
    let (new, objects) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut owed = Vec::new();
                for n in 0..6_000 {
                    if index.claim(&fingerprint(n)) == Claim::New {
                        owed.push((fingerprint(n), 1));
                        new.fetch_add(1, Ordering::Relaxed);
                    }
                    if owed.len() == 100 {
                        let number = objects.fetch_add(1, Ordering::Relaxed) as u32;
                        index.publish(object(number), number, &owed).unwrap();
                        owed.clear();
                    }
                }
            });
        }
    });
    assert_eq!(new.into_inner(), 6_000);
    assert!(index.shape().segments > 0, "segments were written meanwhile");
    assert!(index.trouble().is_none());
}

#[test]
fn memory_is_kept_to_whatever_the_number_of_entries() {
    let folder = memory_folder();
    let index = open(&folder, Memory::MIN);
    for n in 0..300 {
        index.publish(object(n), n, &list(n, 500)).unwrap();
        let shape = index.shape();
        assert!(shape.filter_bytes <= 32 << 10, "{shape:?}");
        assert!(shape.segments <= 6, "{shape:?}");
        assert_eq!(shape.entries, 500 * u64::from(n + 1));
    }
    assert!(index.shape().sparsity >= 3, "{:?}", index.shape());
    // Who asks for a chunk gets it, hook or not.
    for n in (0..150_000).step_by(37) {
        let Some(Hint(place)) = index.get(&fingerprint(n)) else { panic!("{n} is not found") };
        assert_eq!(u64::from(place.container) * 500 + u64::from(place.slot), n);
    }
    assert!((1 << 40..(1 << 40) + 2_000).all(|n| index.get(&fingerprint(n)).is_none()));
    assert!(index.trouble().is_none());
}

#[test]
fn streams_are_known_by_their_hooks() {
    let folder = memory_folder();
    let index = open(&folder, Memory::MIN);
    for n in 0..300 {
        index.publish(object(n), n, &list(n, 500)).unwrap();
    }
    assert!(index.shape().sparsity >= 3, "{:?}", index.shape());
    // As storers do: a batch is prepared, then claimed.
    let stream: Vec<Fingerprint> = (20_000..60_000).map(fingerprint).collect();
    let mut new = 0;
    for batch in stream.chunks(64) {
        index.prepare(batch);
        new += batch.iter().filter(|one| index.claim(one) == Claim::New).count();
    }
    assert!(new * 50 < stream.len(), "{new} of {} were missed", stream.len());
    // What nobody stored is new.
    assert!((1 << 40..(1 << 40) + 2_000).all(|n| index.claim(&fingerprint(n)) == Claim::New));
}

#[test]
fn an_index_opened_again_knows_what_was_committed() {
    let folder = memory_folder();
    let index = open(&folder, Memory::MIN);
    for n in 0..20 {
        assert_eq!(index.publish(object(n), 1000 + n, &list(n, 300)), Some(n));
    }
    index.note_run(object(77), vec![0, 1, 2]);
    assert!(index.commit());
    drop(index);

    let index = open(&folder, Memory::MIN);
    assert_eq!(index.runs(), [(object(77), vec![0, 1, 2])]);
    let known = index.objects();
    assert_eq!(known.len(), 20);
    assert!((0..20).all(|n| known[n as usize].id == object(n)));
    assert!(known.iter().all(|one| one.chunks == 300 && one.bytes > 300));
    assert_eq!(index.list(3).unwrap(), list(3, 300));
    assert_eq!(index.get(&fingerprint(5)), None, "nothing is admitted");
    index.admit(0, 4);
    assert_eq!(index.get(&fingerprint(5)).unwrap().0.container, 4);
    assert_eq!(index.get(&fingerprint(305)), None);
    admit_all(&index);
    index.dismiss(|number| number == 0);
    assert_eq!(index.get(&fingerprint(5)), None);
    assert_eq!(index.get(&fingerprint(305)).unwrap().0, Place { container: 1, slot: 5, len: 6 });

    let index = index.clear().unwrap();
    assert!(index.objects().is_empty() && index.runs().is_empty());
    drop(index);
    assert!(open(&folder, Memory::MIN).objects().is_empty());
}

#[test]
fn more_memory_makes_hooks_of_all_again_and_less_makes_fewer() {
    let folder = memory_folder();
    let index = open(&folder, Memory::DEFAULT);
    for n in 0..200 {
        index.publish(object(n), n, &list(n, 500)).unwrap();
    }
    assert!(index.commit());
    assert_eq!(index.shape().sparsity, 0);
    drop(index);
    for (memory, is_sparse) in [(Memory::MIN, true), (Memory::new(1 << 20), false)] {
        let index = open(&folder, memory);
        admit_all(&index);
        let shape = index.shape();
        assert_eq!(shape.sparsity > 0, is_sparse, "{shape:?}");
        assert!(shape.filter_bytes <= memory.bytes() as u64 / 2);
        assert!((0..100_000).step_by(101).all(|n| index.get(&fingerprint(n)).is_some()));
        assert!(index.commit());
    }
    assert_eq!(open(&folder, Memory::new(1 << 20)).shape().sparsity, 0);
}

#[test]
fn the_index_of_another_repository_is_not_used() {
    let folder = memory_folder();
    let index = open(&folder, Memory::MIN);
    index.publish(object(0), 0, &list(0, 300)).unwrap();
    assert!(index.commit());
    drop(index);
    let other = ObjectId::from_bytes([1; 16]);
    let (index, why) = Index::open(Arc::clone(&folder), other, Memory::MIN).unwrap();
    assert!(why.is_some());
    assert!(index.objects().is_empty());
}

/// What happens to an index in the model test.
#[derive(Debug, Clone)]
enum Action {
    Publish { first: u64, len: u32 },
    Claim(u64),
    Get(u64),
    Retract(u64),
    Forget,
    Dismiss(u32),
    Reopen { with_commit: bool, memory: usize },
}

fn action() -> impl Strategy<Value = Action> {
    let n = 0..3_000u64;
    prop_oneof![
        4 => (n.clone(), 1..900u32).prop_map(|(first, len)| Action::Publish { first, len }),
        6 => n.clone().prop_map(Action::Claim),
        6 => n.clone().prop_map(Action::Get),
        1 => n.prop_map(Action::Retract),
        1 => Just(Action::Forget),
        1 => (0..40u32).prop_map(Action::Dismiss),
        2 => (any::<bool>(), 0..3usize).prop_map(|(with_commit, memory)| {
            Action::Reopen { with_commit, memory: 64 << (10 + 4 * memory) }
        }),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Owes {
    Yes,
    Wrong,
    WrongAndYes,
}

/// What the index should say.
#[derive(Debug, Clone, Default)]
struct Model {
    /// All places that were published of each fingerprint, in order.
    places: HashMap<u64, Vec<Place>>,
    gone: Vec<u32>,
    owed: BTreeMap<u64, Owes>,
    /// The only place that counts, since all before were retracted.
    moved: HashMap<u64, Place>,
    objects: u32,
}

impl Model {
    fn known(&self, n: u64) -> Vec<Place> {
        let is_there = |place: &&Place| !self.gone.contains(&place.container);
        self.places.get(&n).into_iter().flatten().filter(is_there).copied().collect()
    }

    /// Which answers are right: any place that was published and is there.
    fn allows(&self, n: u64, found: Option<Place>) -> bool {
        match (self.owed.get(&n), self.moved.get(&n)) {
            (Some(_), _) => found.is_none(),
            (None, Some(place)) => found == Some(*place),
            (None, None) => {
                let known = self.known(n);
                found.map_or(known.is_empty(), |place| known.contains(&place))
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn it_says_what_a_table_says(actions in prop::collection::vec(action(), 1..80)) {
        let folder = memory_folder();
        let mut index = open(&folder, Memory::MIN);
        let (mut model, mut committed) = (Model::default(), Model::default());
        for action in actions {
            match action {
                Action::Publish { first, len } => {
                    let number = model.objects;
                    model.objects += 1;
                    let chunks: Vec<Listed> = (0..len)
                        .map(|slot| (fingerprint(first + u64::from(slot)), len)).collect();
                    prop_assert_eq!(index.publish(object(number), number, &chunks), Some(number));
                    for slot in 0..len {
                        let n = first + u64::from(slot);
                        let place = Place { container: number, slot, len };
                        model.places.entry(n).or_default().push(place);
                        match model.owed.remove(&n) {
                            None | Some(Owes::Yes) => {
                                model.moved.entry(n).and_modify(|moved| *moved = place);
                            }
                            Some(Owes::Wrong | Owes::WrongAndYes) => {
                                model.moved.insert(n, place);
                            }
                        }
                    }
                }
                Action::Claim(n) => {
                    let expected_new = matches!(model.owed.get(&n), Some(Owes::Wrong));
                    let may_miss = index.shape().sparsity > 0;
                    match index.claim(&fingerprint(n)) {
                        Claim::New => {
                            let is_right = expected_new || may_miss || model.allows(n, None);
                            prop_assert!(is_right, "{n}");
                            let was_wrong = expected_new;
                            let owed = if was_wrong { Owes::WrongAndYes } else { Owes::Yes };
                            model.owed.insert(n, owed);
                        }
                        Claim::Pending => prop_assert!(
                            matches!(model.owed.get(&n), Some(Owes::Yes | Owes::WrongAndYes))
                        ),
                        Claim::Known(Hint(place)) => {
                            prop_assert!(model.allows(n, Some(place)), "{n} {place:?}");
                        }
                    }
                }
                Action::Get(n) => {
                    let found = index.get(&fingerprint(n)).map(|Hint(place)| place);
                    prop_assert!(model.allows(n, found), "{n} {found:?}");
                }
                Action::Retract(n) => {
                    index.retract(&fingerprint(n));
                    model.moved.remove(&n);
                    model.owed.entry(n).or_insert(Owes::Wrong);
                }
                Action::Forget => {
                    index.forget_claims();
                    model.owed.retain(|_, owed| *owed != Owes::Yes);
                    model.owed.values_mut().for_each(|owed| *owed = Owes::Wrong);
                }
                Action::Dismiss(object) => {
                    index.dismiss(|number| number == object);
                    if object < model.objects {
                        model.gone.push(object);
                        // where else these lie had been retracted
                        let lost = model.moved.extract_if(|_, place| place.container == object);
                        model.owed.extend(lost.map(|(n, _)| (n, Owes::Wrong)));
                    }
                }
                Action::Reopen { with_commit, memory } => {
                    if with_commit {
                        assert!(index.commit());
                        committed = model.clone();
                    }
                    drop(index);
                    index = open(&folder, Memory::new(memory));
                    admit_all(&index);
                    // Claims, refutations and dismissals are the session's.
                    model = Model {
                        places: committed.places.clone(),
                        objects: committed.objects,
                        ..Model::default()
                    };
                }
            }
            let trouble = index.trouble();
            prop_assert!(trouble.is_none(), "{trouble:?}");
        }
        for n in (0..3_900).step_by(13) {
            let found = index.get(&fingerprint(n)).map(|Hint(place)| place);
            prop_assert!(model.allows(n, found), "{n} {found:?}");
        }
    }
}

/// Two commits; how many objects were in the last one that returned.
fn program(folder: Arc<dyn Folder>) -> u32 {
    let Ok((index, _)) = Index::open(folder, REPOSITORY, Memory::MIN) else { return 0 };
    let mut acknowledged = 0;
    for part in [0..4, 4..7] {
        for n in part.clone() {
            index.publish(object(n), n, &list(n, 300));
        }
        match index.commit() {
            true => acknowledged = part.end,
            false => return acknowledged,
        }
    }
    acknowledged
}

#[test]
fn a_power_cut_loses_nothing_committed_and_invents_nothing() {
    let whole = CrashDisk::new();
    assert_eq!(program(Arc::new(whole.folder())), 7);
    let operations = whole.operations();
    for steps in (0..=operations).step_by(1 + operations as usize / 120) {
        let disk = CrashDisk::new();
        disk.crash_after(steps);
        let acknowledged = program(Arc::new(disk.folder()));
        for state in disk.durable_states(6, steps) {
            let (index, why) =
                Index::open(Arc::new(state.folder()), REPOSITORY, Memory::MIN).unwrap();
            assert!(why.is_none() || acknowledged == 0, "after {steps} steps: {why:?}");
            let known = index.objects().len() as u32;
            assert!(known >= acknowledged && [0, 4, 7].contains(&known), "after {steps} steps");
            admit_all(&index);
            for n in (0..2_100).step_by(11) {
                let found = index.get(&fingerprint(n)).map(|hint| hint.0.container);
                let expected = Some(n as u32 / 300).filter(|object| *object < known);
                assert_eq!(found, expected, "chunk {n} after {steps} steps");
            }
            assert!(index.trouble().is_none());
            // And it goes on from there.
            let number = index.publish(object(50), 50, &list(50, 300)).unwrap();
            assert!(index.commit());
            assert_eq!(index.list(number).unwrap(), list(50, 300));
        }
    }
}

/// Flips a bit of a page of `file`.
fn damage(folder: &Arc<dyn Folder>, file: &str, page: u64, at: usize) {
    let mut pages = folder.pages(file, 4096).unwrap();
    let mut bytes = [0; 4096];
    pages.read(page, &mut bytes).unwrap();
    bytes[at] ^= 4;
    pages.write(page, &bytes).unwrap();
}

#[test]
fn damage_anywhere_costs_answers_and_never_gives_a_wrong_one() {
    let mut random = SplitMix64::new(8);
    for round in 0..40 {
        let folder = memory_folder();
        let index = open(&folder, Memory::MIN);
        for n in 0..9 {
            index.publish(object(n), n, &list(n, 300)).unwrap();
        }
        assert!(index.commit());
        drop(index);
        let names = folder.names().unwrap();
        let name = &names[random.below(names.len())];
        if name == "journal" {
            let mut log = folder.log(name).unwrap();
            let mut bytes = vec![0; log.len() as usize];
            log.read(0, &mut bytes).unwrap();
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
            log.truncate(0).unwrap();
            log.append(&bytes).unwrap();
        } else {
            let count = folder.pages(name, 4096).unwrap().count();
            damage(&folder, name, random.below(count as usize) as u64, random.below(4096));
        }
        let (index, why) = Index::open(Arc::clone(&folder), REPOSITORY, Memory::MIN).unwrap();
        let is_whole = why.is_none() && index.objects().len() == 9;
        admit_all(&index);
        let mut missing = 0;
        for n in 0..2_700 {
            match index.get(&fingerprint(n)) {
                Some(Hint(place)) => {
                    assert_eq!(u64::from(place.container) * 300 + u64::from(place.slot), n);
                }
                None => missing += 1,
            }
        }
        let is_told = !is_whole || index.trouble().is_some();
        assert!(missing == 0 || is_told, "round {round}: {missing} missing after {name}");
    }
}

#[test]
fn an_exact_look_up_reads_no_page_of_the_lists_but_its_own() {
    let folder = memory_folder();
    let index = open(&folder, Memory::MIN);
    for n in 0..300 {
        index.publish(object(n), n, &list(n, 500)).unwrap();
    }
    assert!(index.commit());
    drop(index);
    // Each list takes five pages; the second is the one that is needed.
    let lists = folder.pages("lists", 4096).unwrap().count();
    for page in (0..lists.min(1_500)).filter(|page| page % 5 != 1) {
        damage(&folder, "lists", page, 100);
    }
    let index = open(&folder, Memory::MIN);
    assert!(index.shape().sparsity >= 3, "{:?}", index.shape());
    assert_eq!(index.shape().list_pages, 1_500);
    admit_all(&index);
    for n in 0..300 {
        let Hint(place) = index.get(&fingerprint(500 * n + 150)).expect("its page is whole");
        assert_eq!((u64::from(place.container), place.slot), (n, 150));
    }
    assert!(index.trouble().is_none());
}

#[test]
fn chunks_of_one_object_that_begin_alike_are_all_known() {
    let folder = memory_folder();
    let index = open(&folder, Memory::MIN);
    let twins = [0, 1, 2].map(|n| {
        let mut bytes = *fingerprint(1 << 40).as_bytes();
        bytes[8] ^= n;
        Fingerprint::from_bytes(bytes)
    });
    // Each on a page of its own, and the first once more at the end.
    let mut chunks = list(0, 400);
    for (at, twin) in [0, 150, 300, 399].into_iter().zip(twins.iter().cycle()) {
        chunks[at] = (*twin, 1);
    }
    index.publish(object(0), 0, &chunks).unwrap();
    assert_eq!(index.shape().entries, 399, "a chunk that comes again is not entered again");
    let expect_known = |index: &Index| {
        for (slot, twin) in [0, 150, 300].into_iter().zip(&twins) {
            assert_eq!(index.get(twin).map(|Hint(place)| place.slot), Some(slot));
            assert!(matches!(index.claim(twin), Claim::Known(Hint(place)) if place.slot == slot));
        }
    };
    expect_known(&index);
    assert!(index.commit());
    drop(index);
    let index = open(&folder, Memory::MIN);
    admit_all(&index);
    expect_known(&index);
}

#[test]
fn files_that_are_gone_or_short_are_noticed() {
    for name in ["lists", "segment-0", "journal"] {
        for is_short in [false, true] {
            let folder = memory_folder();
            let index = open(&folder, Memory::DEFAULT);
            index.publish(object(0), 0, &list(0, 300)).unwrap();
            assert!(index.commit());
            drop(index);
            match (name, is_short) {
                ("journal", true) => folder.log(name).unwrap().truncate(30).unwrap(),
                (_, true) => folder.pages(name, 4096).unwrap().set_count(1).unwrap(),
                _ => folder.remove(name).unwrap(),
            }
            let (index, why) =
                Index::open(Arc::clone(&folder), REPOSITORY, Memory::DEFAULT).unwrap();
            // Without a journal there was no index.
            assert_eq!(why.is_some(), name != "journal" || is_short, "{name} {is_short}");
            assert!(index.objects().is_empty());
            index.publish(object(1), 1, &list(1, 300)).unwrap();
            assert!(index.commit());
        }
    }
}

#[test]
fn a_full_disk_costs_knowledge_and_nothing_else() {
    for skip in 0..60 {
        let faults = Faults::none();
        let memory = MemoryFolder::new();
        let folder: Arc<dyn Folder> = Arc::new(Faulty::new(memory, "folder", &faults));
        let index = open(&folder, Memory::MIN);
        let fault = || Fault::new(Failure::Full).skip(skip).times(u64::MAX);
        faults.add(fault().on(Operation::Write));
        faults.add(fault().on(Operation::Resize));
        let mut taken_up = 0;
        for n in 0..9 {
            let chunks = list(n, 300);
            let is_new = |(f, _): &Listed| index.claim(f) == Claim::New;
            assert!(chunks.iter().all(is_new));
            taken_up += u32::from(index.publish(object(n), n, &chunks).is_some());
            let is_right = |(f, _): &Listed| match index.claim(f) {
                Claim::New => true,
                Claim::Known(Hint(place)) => place.container == n,
                Claim::Pending => false,
            };
            assert!(chunks.iter().all(is_right), "nothing stays claimed that was published");
        }
        let is_whole = index.commit();
        assert_eq!(is_whole, faults.failed() == 0);
        assert_eq!(index.trouble().is_none(), is_whole);
        assert!(taken_up == 9 || !is_whole);
    }
}

#[test]
fn of_a_chunk_in_several_objects_the_last_is_given_if_that_is_asked_for() {
    let folder = memory_folder();
    let index = open(&folder, Memory::MIN);
    for n in 0..12 {
        // Every object has chunks of its own, and ten of all.
        let mut chunks = list(n, 200);
        chunks.extend((0..10).map(|n| (fingerprint(1 << 40 | n), 1)));
        index.publish(object(n), n, &chunks).unwrap();
    }
    let of_all = || (0..10).map(|n| index.get(&fingerprint(1 << 40 | n)).unwrap().0.container);
    // Whatever was looked at before.
    (0..2_400).for_each(|n| assert!(index.get(&fingerprint(n)).is_some()));
    index.prefer_last();
    (0..600).for_each(|n| assert!(index.get(&fingerprint(n)).is_some()));
    assert!(of_all().all(|container| container == 11));
    index.dismiss(|number| number >= 4);
    assert!(of_all().all(|container| container == 3));
    index.publish(object(12), 12, &[(fingerprint(1 << 40), 1)]).unwrap();
    assert_eq!(of_all().next(), Some(12));
}

#[test]
fn a_slot_without_bytes_is_passed_over() {
    let index = Index::in_memory();
    let [f, g, h] = [1, 2, 3].map(fingerprint);
    index.publish(object(1), 1, &[(f, 5), (g, 0), (h, 6), (f, 0)]).unwrap();
    assert_eq!(index.get(&g), None);
    assert_eq!(index.get(&f).unwrap().0, Place { container: 1, slot: 0, len: 5 });
    assert_eq!(index.get(&h).unwrap().0, Place { container: 1, slot: 2, len: 6 });
}
