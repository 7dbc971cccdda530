//! Bundles: few requests for who knows nothing, and nothing gained for who lies.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;

use bytes::Bytes;
use onefold_backend::{AppendOnly, Folder, MemoryFolder, Objects};
use onefold_seal::wire::Put;
use onefold_seal::{Envelope, Kind, ObjectId};
use onefold_store::{
    Cancel, KeyRemark, Located, ObjectCache, Progress, Repository, Snapshot, SnapshotSpec,
    WriteOnlyKey, decode_bundle, forget, repair, restore,
};

use crate::common::bundled::{Many, prune_all};
use crate::common::far::Far;
use crate::common::{
    Protection, checked, envelope, expect_clean, names, open, open_early, replace, restored,
};

const PROTECTIONS: [Protection; 2] = [Protection::Plain, Protection::Encrypted];

/// What the ids of bundles of each kind of object begin with.
const ENTRIES: u8 = 0;
const SNAPSHOTS: u8 = 1;
const RUNS: u8 = 2;

/// A client that knows nothing of the repository yet.
fn client(objects: &Arc<Far>) -> Repository {
    remembering(objects, Arc::default())
}

fn remembering(objects: &Arc<Far>, memory: Arc<MemoryFolder>) -> Repository {
    let mut repository = open_early(Arc::clone(objects) as Arc<dyn Objects>, true);
    repository.act_as("host".into(), Some(memory as Arc<dyn Folder>));
    assert_eq!(repository.recall().unwrap(), []);
    repository
}

/// The host whose log has all entries, without a memory.
fn host(objects: &Arc<dyn Objects>) -> Repository {
    let mut repository = open(objects);
    repository.act_as("host".into(), None);
    repository
}

fn kind(of: u8) -> Kind {
    if of == RUNS { Kind::RunBundle } else { Kind::Bundle }
}

/// The names of the bundles whose ids begin with `of`.
fn bundles(objects: &dyn Objects, of: u8) -> Vec<String> {
    names(objects, &format!("bundles/{of:02x}/"))
}

fn id_of(name: &str) -> ObjectId {
    name.rsplit('/').next().unwrap().parse().unwrap()
}

/// What the bundle `name` holds.
fn held(objects: &dyn Objects, envelope: &Envelope, of: u8, name: &str) -> Vec<(ObjectId, Bytes)> {
    let object = objects.get(name).unwrap();
    let body = envelope.open(kind(of), id_of(name), &object).unwrap().into_owned();
    decode_bundle(&body.into()).unwrap()
}

/// Puts a bundle of `copies` in the place of the only one whose id begins with `of`, as whoever has
/// the keys can.
fn forge(objects: &dyn Objects, envelope: &Envelope, of: u8, copies: &BTreeMap<ObjectId, Bytes>) {
    let [name] = &bundles(objects, of)[..] else { panic!("one bundle") };
    let mut body = Vec::new();
    body.put_varint(copies.len() as u64);
    for (id, copy) in copies {
        body.extend_from_slice(id.as_bytes());
        body.put_bytes(copy);
    }
    replace(objects, name, envelope.seal(kind(of), id_of(name), &body));
}

/// Forges the only bundle whose id begins with `of`: the copy of `original`, sealed under its own id,
/// says `lie` instead of `truth`, which is as long.
fn forge_copy(many: &Many, of: u8, original: ObjectId, own: Kind, truth: &[u8], lie: &[u8]) {
    let objects = &*many.objects;
    let envelope = envelope(objects, open(&many.objects).id());
    let [name] = &bundles(objects, of)[..] else { panic!("one bundle") };
    let mut copies: BTreeMap<_, _> = held(objects, &envelope, of, name).into_iter().collect();
    let mut body = envelope.open(own, original, &copies[&original]).unwrap().into_owned();
    let at = body.windows(truth.len()).position(|window| window == truth).unwrap();
    body[at..at + lie.len()].copy_from_slice(lie);
    let forged = Bytes::from(envelope.seal(own, original, &body));
    assert_eq!(forged.len(), copies[&original].len());
    copies.insert(original, forged);
    forge(objects, &envelope, of, &copies);
}

fn shown(repository: &Repository) -> Vec<(ObjectId, Snapshot)> {
    let (snapshots, damaged) = repository.shown_snapshots().unwrap();
    assert!(damaged.is_empty(), "{damaged:?}");
    snapshots
}

fn restore_latest(repository: &Repository) -> (ObjectId, String) {
    let (id, snapshot) = repository.latest(|_| true).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let options = restore::Options { threads: NonZero::new(2), ..Default::default() };
    let (progress, cancel) = (Progress::default(), Cancel::default());
    restore::restore(repository, &snapshot.root, folder.path(), &options, &progress, &cancel)
        .unwrap();
    (id, std::fs::read_to_string(folder.path().join("file")).unwrap())
}

#[test]
fn a_client_that_knows_nothing_reads_as_few_objects_however_many_there_are() {
    for protection in PROTECTIONS {
        let mut read = Vec::new();
        for count in [70, 140] {
            let mut many = Many::bundled(protection);
            many.go_on(&host(&many.objects), count - 70);
            prune_all(&open(&many.objects)).unwrap();
            let far = Far::new(Arc::clone(&many.objects));
            assert_eq!(shown(&client(&far)), many.snapshots);
            let shown_by = [far.take_count("snapshots/"), far.take_count("logs/")];
            // The last entry of the log, by its name.
            assert_eq!(shown_by, [0, 1], "{protection:?}");
            assert_eq!(far.take_count("bundles/"), bundles_read(&many));
            far.take_count("");
            let last = restore_latest(&client(&far));
            assert_eq!(last, (many.ids()[count - 1], format!("state {}", count - 1)));
            // The one that is restored, by its name.
            assert_eq!(far.take_count("snapshots/"), 1);
            assert_eq!([far.take_count("logs/"), far.take_count("index/")], [1, 0]);
            read.push(far.take_count(""));
            let unchanged = client(&far);
            many.go_on(&unchanged, 1);
            // The parent, by its name.
            assert_eq!([far.take_count("snapshots/"), far.take_count("index/")], [1, 0]);
            assert!(far.take_count("logs/") <= 1);
            assert_eq!(unchanged.trouble(), [""; 0]);
        }
        assert!(read.iter().all(|read| *read <= 20), "{read:?}");
    }
}

fn bundles_read(many: &Many) -> usize {
    names(&*many.objects, "bundles/").len()
}

#[test]
fn what_came_since_is_read_by_name() {
    for protection in PROTECTIONS {
        let mut many = Many::bundled(protection);
        many.go_on(&host(&many.objects), 5);
        let far = Far::new(Arc::clone(&many.objects));
        let repository = client(&far);
        assert_eq!(shown(&repository), many.snapshots);
        assert_eq!([far.take_count("snapshots/"), far.take_count("logs/")], [5, 5]);
        assert_eq!(restore_latest(&repository).1, "state 74");
        expect_clean(&open(&many.objects)).unwrap();
    }
}

#[test]
fn a_bundle_that_vanished_is_not_missed() {
    let many = Many::bundled(Protection::Encrypted);
    let far = Far::without(Arc::clone(&many.objects), "bundles/");
    let repository = client(&far);
    assert_eq!(shown(&repository), many.snapshots);
    assert_eq!(restore_latest(&repository).1, "state 69");
    assert_eq!(repository.trouble(), [""; 0]);
}

#[test]
fn a_bundle_is_kept_as_a_copy_and_not_fetched_again() {
    let many = Many::bundled(Protection::Encrypted);
    let (folder, memory) = (tempfile::tempdir().unwrap(), Arc::<MemoryFolder>::default());
    let far = Far::new(Arc::clone(&many.objects));
    for expected in [3, 0] {
        let mut repository = open_early(Arc::clone(&far) as Arc<dyn Objects>, true);
        let cache = ObjectCache::open(folder.path(), repository.id(), 64 << 20).unwrap();
        repository.keep_copies(cache);
        repository.act_as("host".into(), Some(Arc::clone(&memory) as Arc<dyn Folder>));
        assert_eq!(repository.recall().unwrap(), []);
        assert_eq!(shown(&repository), many.snapshots);
        assert_eq!(far.take_count("bundles/"), expected);
    }
}

#[test]
fn a_write_only_client_reads_bundles_of_runs_and_no_others() {
    let many = Many::bundled(Protection::Encrypted);
    let remark = KeyRemark { label: "a client".into(), ..KeyRemark::default() };
    let key = open(&many.objects).add_client(&remark).unwrap();
    let key = WriteOnlyKey::parse(&key.to_text()).unwrap();
    let far = Far::new(Arc::clone(&many.objects));
    let located = Repository::locate_early(Arc::clone(&far) as Arc<dyn Objects>, true).unwrap();
    let Located::Locked(locked) = located else { panic!("it is encrypted") };
    let mut repository = locked.open_write_only(&key).unwrap();
    repository.act_as("host".into(), Some(Arc::new(MemoryFolder::new())));
    assert_eq!(repository.recall().unwrap(), []);
    assert_eq!(repository.load().unwrap(), [""; 0]);
    assert_eq!(repository.trouble(), [""; 0]);
    assert_eq!([far.take_count("bundles/02/"), far.take_count("bundles/")], [1, 0]);
    assert_eq!(far.take_count("index/"), 0);
    let before = names(&*many.objects, "bundles/");
    let mut many = many;
    many.go_on(&repository, 192 - 70);
    assert_eq!(names(&*many.objects, "bundles/"), before);
}

#[test]
fn a_damaged_bundle_is_passed_over_with_a_warning_found_and_replaced() {
    for protection in PROTECTIONS {
        for of in [ENTRIES, SNAPSHOTS, RUNS] {
            let many = Many::bundled(protection);
            let name = bundles(&*many.objects, of).remove(0);
            let mut object = many.objects.get(&name).unwrap().to_vec();
            let middle = object.len() / 2;
            object[middle] ^= 1;
            replace(&*many.objects, &name, object);
            let repository = client(&Far::new(Arc::clone(&many.objects)));
            assert_eq!(shown(&repository), many.snapshots);
            assert_eq!(restore_latest(&repository).1, "state 69");
            let trouble = repository.trouble();
            assert!(trouble.len() == 1 && trouble[0].contains(&name), "{trouble:?}");
            let findings = checked(&open(&many.objects)).unwrap().findings;
            assert!(findings.len() == 1 && findings[0].object == name, "{findings:?}");
            let report = prune_all(&open(&many.objects)).unwrap();
            assert_eq!((report.put_bundles, report.deleted_bundles), (1, 1));
            assert!(report.warnings.iter().any(|warning| warning.contains(&name)));
            expect_clean(&open(&many.objects)).unwrap();
        }
    }
}

#[test]
fn a_bundle_stays_that_has_a_copy_of_a_damaged_original() {
    for protection in PROTECTIONS {
        let many = Many::bundled(protection);
        let before = names(&*many.objects, "bundles/");
        let name = names(&*many.objects, "logs/").remove(10);
        let mut object = many.objects.get(&name).unwrap().to_vec();
        let middle = object.len() / 2;
        object[middle] ^= 1;
        replace(&*many.objects, &name, object);
        let report = prune_all(&open(&many.objects)).unwrap();
        assert_eq!(report.deleted_bundles, 0);
        assert!(report.warnings.iter().any(|warning| warning.contains(&name)), "{report:?}");
        let after = names(&*many.objects, "bundles/");
        assert!(before.iter().all(|bundle| after.contains(bundle)), "{before:?}, {after:?}");
    }
}

#[test]
fn a_forged_copy_of_a_snapshot_is_shown_at_most_and_found_by_check() {
    for protection in PROTECTIONS {
        let many = Many::bundled(protection);
        let last = many.ids()[69];
        forge_copy(&many, SNAPSHOTS, last, Kind::Snapshot, b"host", b"gost");
        let repository = client(&Far::new(Arc::clone(&many.objects)));
        assert_eq!(shown(&repository).last().unwrap().1.host, "gost");
        // Whatever goes by a snapshot reads it.
        let hosts = [
            repository.snapshots().unwrap().0.pop().unwrap().1.host,
            repository.latest(|_| true).unwrap().1.host,
            repository.latest_read(|_| true).unwrap().1.host,
            repository.find(&SnapshotSpec::Prefix(last.to_string())).unwrap().1.host,
        ];
        assert_eq!(hosts, ["host"; 4]);
        assert!(repository.latest(|snapshot| snapshot.host == "gost").is_err());
        let findings = checked(&open(&many.objects)).unwrap().findings;
        assert!(findings.len() == 1, "{findings:?}");
        assert!(findings[0].problem.contains(&last.to_string()), "{findings:?}");
        prune_all(&open(&many.objects)).unwrap();
        expect_clean(&open(&many.objects)).unwrap();
        let repository = client(&Far::new(Arc::clone(&many.objects)));
        assert_eq!(shown(&repository), many.snapshots);
    }
}

#[test]
fn a_copy_of_another_length_than_is_listed_is_not_shown() {
    let many = Many::bundled(Protection::Plain);
    let envelope = envelope(&*many.objects, open(&many.objects).id());
    let name = bundles(&*many.objects, SNAPSHOTS).remove(0);
    let copies = held(&*many.objects, &envelope, SNAPSHOTS, &name);
    let mut copies: BTreeMap<_, _> = copies.into_iter().collect();
    let last = many.ids()[69];
    let body = envelope.open(Kind::Snapshot, last, &copies[&last]).unwrap().into_owned();
    // One byte more of a host: its length stands before it.
    let at = body.windows(5).position(|window| window == b"\x04host").unwrap();
    let longer = [&body[..at], b"\x05ghost", &body[at + 5..]].concat();
    let forged = envelope.seal(Kind::Snapshot, last, &longer);
    assert_eq!(envelope.open(Kind::Snapshot, last, &forged).unwrap(), longer);
    copies.insert(last, forged.into());
    forge(&*many.objects, &envelope, SNAPSHOTS, &copies);
    let repository = client(&Far::new(Arc::clone(&many.objects)));
    assert_eq!(shown(&repository), many.snapshots);
}

#[test]
fn a_forged_or_swapped_copy_of_an_entry_counts_for_nothing() {
    for protection in PROTECTIONS {
        let many = Many::bundled(protection);
        let envelope = envelope(&*many.objects, open(&many.objects).id());
        let entry: ObjectId = names(&*many.objects, "logs/")[30][5..].parse().unwrap();
        let [gone, other] = [many.ids()[30], ObjectId::from_bytes([7; 16])];
        let (truth, lie) = (gone.as_bytes(), other.as_bytes());
        forge_copy(&many, ENTRIES, entry, Kind::LogEntry, truth, lie);
        let far = Far::new(Arc::clone(&many.objects));
        assert_eq!(shown(&client(&far)), many.snapshots);
        // By name: the last one, the forged one, and none below it, which follow that again.
        assert_eq!(far.take_count("logs/"), 1 + 31);

        // Copies that changed places do not open under one another's ids.
        let name = bundles(&*many.objects, ENTRIES).remove(0);
        let copies = held(&*many.objects, &envelope, ENTRIES, &name);
        let ids = copies.iter().map(|(id, _)| *id);
        let swapped = ids.zip(copies.iter().rev().map(|(_, copy)| copy.clone())).collect();
        forge(&*many.objects, &envelope, ENTRIES, &swapped);
        let far = Far::new(Arc::clone(&many.objects));
        assert_eq!(shown(&client(&far)), many.snapshots);
        assert_eq!(far.take_count("logs/"), 70);
        assert_eq!(checked(&open(&many.objects)).unwrap().findings.len(), 1);
        prune_all(&open(&many.objects)).unwrap();
        expect_clean(&open(&many.objects)).unwrap();
    }
}

#[test]
fn an_older_bundle_that_is_brought_back_hides_nothing() {
    let mut many = Many::bundled(Protection::Encrypted);
    let old: Vec<_> = names(&*many.objects, "bundles/")
        .into_iter()
        .map(|name| (name.clone(), many.objects.get(&name).unwrap()))
        .collect();
    many.go_on(&host(&many.objects), 70);
    let forgotten = many.snapshots.remove(10).0;
    forget::forget(&open(&many.objects), &[forgotten]).unwrap();
    prune_all(&open(&many.objects)).unwrap();
    let newer = names(&*many.objects, "bundles/");
    for (name, object) in &old {
        assert!(!newer.contains(name));
        many.objects.put(name, object.clone()).unwrap();
    }
    newer.iter().for_each(|name| many.objects.delete(name).unwrap());
    let repository = client(&Far::new(Arc::clone(&many.objects)));
    assert_eq!(shown(&repository), many.snapshots);
    assert_eq!(restore_latest(&repository).1, "state 139");
    let report = checked(&open(&many.objects)).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert!(report.notes.iter().any(|note| note.contains("copies in bundles")));
}

#[test]
fn a_forged_run_loses_nothing_and_is_withdrawn_by_a_repair() {
    for protection in PROTECTIONS {
        let many = Many::bundled(protection);
        let envelope = envelope(&*many.objects, open(&many.objects).id());
        let run: ObjectId = names(&*many.objects, "index/")[0][6..].parse().unwrap();
        let object = many.objects.get(&format!("index/{run}")).unwrap();
        let body = envelope.open(Kind::Run, run, &object).unwrap().into_owned();
        // The first fingerprint, behind a count of containers of 16 bytes each and a count of entries.
        let at = 1 + 16 * usize::from(body[0]) + 1;
        let truth = body[at..at + 32].to_vec();
        let lie = [&truth[..31], &[truth[31].wrapping_sub(1)]].concat();
        forge_copy(&many, RUNS, run, Kind::Run, &truth, &lie);
        let repository = client(&Far::new(Arc::clone(&many.objects)));
        for (_, snapshot) in &many.snapshots {
            // A chunk that the index does not know is looked for in footers.
            restored(&repository, snapshot).unwrap();
        }
        // A prune that comes first leaves what tells of it.
        let report = prune_all(&open(&many.objects)).unwrap();
        assert!(report.warnings.iter().any(|warning| warning.contains("check --repair")));
        let findings = checked(&open(&many.objects)).unwrap().findings;
        assert!(findings.len() == 1, "{findings:?}");
        assert!(findings[0].problem.contains(&run.to_string()), "{findings:?}");
        let repository = open(&many.objects);
        let (host, user) = ("host".into(), "user".into());
        let options = repair::Options { host, user, container_len: 64 << 10 };
        repair::repair(&repository, &options, &Progress::default(), &Cancel::default()).unwrap();
        // Whoever has learnt from the copy sees that the run is gone.
        assert!(!names(&*many.objects, "index/").contains(&format!("index/{run}")));
        prune_all(&open(&many.objects)).unwrap();
        expect_clean(&open(&many.objects)).unwrap();
    }
}

#[test]
fn a_forgotten_snapshot_is_shown_no_more_and_leaves_with_the_next_prune() {
    for protection in PROTECTIONS {
        let mut many = Many::bundled(protection);
        let envelope = envelope(&*many.objects, open(&many.objects).id());
        let (forgotten, _) = many.snapshots.remove(5);
        forget::forget(&open(&many.objects), &[forgotten]).unwrap();
        let has_copy = |objects: &dyn Objects| {
            let bundles = bundles(objects, SNAPSHOTS);
            let mut held =
                bundles.iter().flat_map(|name| held(objects, &envelope, SNAPSHOTS, name));
            held.any(|(id, _)| id == forgotten)
        };
        assert!(has_copy(&*many.objects));
        let repository = client(&Far::new(Arc::clone(&many.objects)));
        assert_eq!(shown(&repository), many.snapshots);
        let prefix = SnapshotSpec::Prefix(forgotten.to_string());
        assert!(repository.find(&prefix).is_err());
        expect_clean(&open(&many.objects)).unwrap();
        prune_all(&open(&many.objects)).unwrap();
        assert!(!has_copy(&*many.objects));
        let repository = client(&Far::new(Arc::clone(&many.objects)));
        assert_eq!(shown(&repository), many.snapshots);
    }
}

#[test]
fn backups_bundle_what_is_in_no_bundle_and_leave_few_bundles() {
    let mut many = Many::new(0, Protection::Encrypted);
    let memory = Arc::<MemoryFolder>::default();
    let far = Far::new(Arc::clone(&many.objects));
    for _ in 0..4 {
        let repository = remembering(&far, Arc::clone(&memory));
        many.go_on(&repository, 64);
        assert_eq!(repository.trouble(), [""; 0]);
        for of in [ENTRIES, SNAPSHOTS] {
            let names = bundles(&*many.objects, of);
            assert!((1..=2).contains(&names.len()), "{names:?}");
        }
    }
    far.take_count("");
    assert_eq!(shown(&client(&far)), many.snapshots);
    assert_eq!([far.take_count("snapshots/"), far.take_count("logs/")], [0, 1]);
    expect_clean(&open(&many.objects)).unwrap();
}

#[test]
fn a_client_that_may_not_delete_leaves_old_bundles_to_a_prune() {
    let mut many = Many::bundled(Protection::Plain);
    let before = names(&*many.objects, "bundles/");
    let far = Far::new(Arc::new(AppendOnly(Arc::clone(&many.objects))));
    let repository = remembering(&far, Arc::default());
    // Up to the next entry by which a backup looks.
    many.go_on(&repository, 192 - 70);
    let after = names(&*many.objects, "bundles/");
    assert!(before.iter().all(|name| after.contains(name)), "{before:?}, {after:?}");
    assert!(after.len() > before.len(), "{after:?}");
    assert_eq!(shown(&client(&far)), many.snapshots);
    prune_all(&open(&many.objects)).unwrap();
    expect_clean(&open(&many.objects)).unwrap();
    assert_eq!(names(&*many.objects, "bundles/").len(), 3);
}
