//! Clients that can back up and not read: what they store deduplicates, they open none of it, and
//! whoever has a password does as always.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use onefold_backend::{MemoryObjects, Objects};
use onefold_container::{Directory, container_id};
use onefold_seal::{Envelope, Kind, ObjectId, SealError};
use onefold_store::prune::{self, Unused};
use onefold_store::{
    Cancel, Config, KeyRemark, Located, Progress, Repository, Snapshot, StoreError, WriteOnlyKey,
    check, copy, forget, repair, restore, stats,
};
use onefold_testkit::random;
use tempfile::TempDir;

use crate::common::hooked::Hooked;
use crate::common::picture::Picture;
use crate::common::sealed::snapshot_body;
use crate::common::{
    Protection, back_up, chain, checked, config, copy as copy_objects, envelope, expect_clean,
    init, names, open, options, restored, small_chunks, try_back_up, try_restore, write,
};

/// A repository with a snapshot of its owner's, and the key of a client.
struct Scene {
    source: TempDir,
    objects: Arc<dyn Objects>,
    first: (ObjectId, Snapshot),
    picture: Picture,
    key: WriteOnlyKey,
}

impl Scene {
    fn new() -> Self {
        Self::of(small_chunks())
    }

    fn of(config: Config) -> Self {
        let source = tempfile::tempdir().unwrap();
        for number in 0..8 {
            write(source.path().join(format!("{number}")), random(number, 20_000));
        }
        let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        let repository = init(Arc::clone(&objects), config, Protection::Encrypted).unwrap();
        let first = back_up(&repository, source.path());
        let picture = Picture::of(source.path());
        // As a client gets it.
        let key = repository.add_client(&KeyRemark::default()).unwrap();
        let key = WriteOnlyKey::parse(&key.to_text()).unwrap();
        Self { source, objects, first, picture, key }
    }

    fn client(&self) -> Repository {
        as_client(&self.objects, &self.key).unwrap()
    }

    fn change(&self, seed: u64) -> Picture {
        write(self.source.path().join("3"), random(seed, 20_000));
        Picture::of(self.source.path())
    }
}

fn as_client(objects: &Arc<dyn Objects>, key: &WriteOnlyKey) -> Result<Repository, StoreError> {
    match Repository::locate(Arc::clone(objects))? {
        Located::Locked(locked) => locked.open_write_only(key),
        Located::Open(_) => panic!("it is encrypted"),
    }
}

fn prune_all(objects: &Arc<dyn Objects>, fence_after: Duration) -> prune::Report {
    let options = prune::Options {
        max_unused: Unused::Bytes(0),
        fence_after,
        container_len: 64 << 10,
        ..prune::Options::default()
    };
    prune::prune(&open(objects), &options, &Progress::default(), &Cancel::default()).unwrap()
}

const A_WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

#[test]
fn what_a_client_backs_up_is_deduplicated_and_its_owner_restores_it() {
    let padded = Config { padding: true, ..small_chunks() };
    for config in [small_chunks(), padded, config(1024, 4096, 16384)] {
        let scene = Scene::of(config);
        let picture = scene.change(33);
        let client = scene.client();
        assert_eq!(client.load().unwrap(), [] as [&str; 0]);
        let (_, made) = back_up(&client, scene.source.path());
        // Everything was read again, and one file and a tree were new.
        assert_eq!((made.summary.unchanged_files, made.parent), (0, None));
        assert!((20_000..30_000).contains(&made.summary.new_bytes), "{:?}", made.summary);
        // Another client knows what this one stored, and so does the owner.
        let (_, again) = back_up(&scene.client(), scene.source.path());
        assert!(again.summary.new_bytes < 5_000, "{:?}", again.summary);
        let repository = open(&scene.objects);
        let (_, own) = back_up(&repository, scene.source.path());
        assert!(own.summary.new_bytes < 5_000, "{:?}", own.summary);
        expect_clean(&repository).unwrap();
        for snapshot in [&made, &again, &own] {
            restored(&repository, snapshot).unwrap().expect(&picture).unwrap();
        }
        restored(&repository, &scene.first.1).unwrap().expect(&scene.picture).unwrap();
        assert_eq!(checked(&repository).unwrap().notes, [] as [&str; 0]);
    }
}

#[test]
fn a_client_opens_no_snapshot_tree_chunk_or_footer_not_even_its_own() {
    let scene = Scene::new();
    scene.change(33);
    let client = scene.client();
    let (id, made) = back_up(&client, scene.source.path());
    let refused = |result: Result<(), StoreError>, what: &str| {
        let error = result.expect_err(what);
        let is_refused = matches!(
            error,
            StoreError::WriteOnly
                | StoreError::Envelope { source: SealError::WriteOnly, .. }
                | StoreError::Container(onefold_container::ContainerError::Envelope {
                    source: SealError::WriteOnly,
                    ..
                })
        );
        assert!(is_refused, "{what}: {}", chain(&error));
    };
    for client in [client, scene.client()] {
        refused(client.snapshots().map(drop), "snapshots");
        for id in [id, scene.first.0] {
            refused(client.find(&id.to_string().parse().unwrap()).map(drop), "a snapshot");
        }
        refused(stats::stats(&client).map(drop), "stats");
        refused(client.keys().map(drop), "keys");
        refused(client.rotate().map(drop), "a rotation");
        refused(client.add_client(&KeyRemark::default()).map(drop), "a key");
        refused(client.remove_client(7, false).map(drop), "a key's removal");
        refused(forget::forget(&client, &[id]), "a forget");
        let (progress, cancel) = (Progress::default(), Cancel::default());
        let checked = check::check(&client, check::Reading::All, &progress, &cancel);
        refused(checked.map(drop), "a check");
        let pruned = prune::prune(&client, &prune::Options::default(), &progress, &cancel);
        refused(pruned.map(drop), "a prune");
        // Even if somebody tells it what a snapshot says.
        for snapshot in [&made, &scene.first.1] {
            let nothing = try_restore(&client, snapshot, &restore::Options::default());
            refused(nothing.map(drop), "a restore");
            refused(client.view().map(drop), "a view");
            refused(client.walk(&snapshot.root, &mut |_, _| Ok(())), "a tree");
        }
    }
    // With nothing but the keys, object by object.
    let own = scene.client();
    let reader = envelope(&*scene.objects, own.id());
    let keys = reader.keys().unwrap().of_client(scene.key.client()).unwrap();
    let client = Envelope::encrypted(own.id(), keys);
    let kinds =
        [("snapshots/", Kind::Snapshot), ("receipts/", Kind::Receipt), ("index/", Kind::Run)];
    let config = scene.objects.get("config").unwrap();
    assert!(reader.open(Kind::Config, own.id(), &config).is_ok());
    let refused = client.open(Kind::Config, own.id(), &config);
    assert_eq!(refused, Err(SealError::WriteOnly));
    let mut opened = 0;
    for (prefix, kind) in kinds {
        for name in names(&*scene.objects, prefix) {
            let id = name.strip_prefix(prefix).unwrap().parse().unwrap();
            let object = scene.objects.get(&name).unwrap();
            assert!(reader.open(kind, id, &object).is_ok(), "{name}");
            match client.open(kind, id, &object) {
                Ok(_) => assert_eq!(kind, Kind::Run, "{name}"),
                Err(error) => assert_eq!(error, SealError::WriteOnly, "{name}"),
            }
            opened += 1;
        }
    }
    for name in names(&*scene.objects, "containers/") {
        let (id, object) = (container_id(&name).unwrap(), scene.objects.get(&name).unwrap());
        assert!(Directory::of_object(&reader, id, &object).is_ok());
        assert!(Directory::of_object(&client, id, &object).is_err(), "{name}");
        opened += 1;
    }
    assert!(opened >= 8, "{opened} objects");
}

#[test]
fn check_prune_and_rotation_go_on_with_a_clients_objects() {
    let scene = Scene::new();
    let picture = scene.change(33);
    let (_, made) = back_up(&scene.client(), scene.source.path());
    assert_eq!(open(&scene.objects).rotate().unwrap(), 1);
    forget::forget(&open(&scene.objects), &[scene.first.0]).unwrap();
    let report = prune_all(&scene.objects, A_WEEK);
    assert!(report.deleted_containers > 0 && report.waiting.is_empty(), "{report:?}");
    let repository = open(&scene.objects);
    expect_clean(&repository).unwrap();
    restored(&repository, &made).unwrap().expect(&picture).unwrap();
    // The key is good for the time after, and knows where prune put what it stored.
    let (_, again) = back_up(&scene.client(), scene.source.path());
    assert!(again.summary.new_bytes < 5_000, "{:?}", again.summary);
    let changed = scene.change(34);
    let (id, last) = back_up(&scene.client(), scene.source.path());
    restored(&open(&scene.objects), &last).unwrap().expect(&changed).unwrap();
    // A client's snapshot is forgotten like any other.
    forget::forget(&open(&scene.objects), &[id]).unwrap();
    prune_all(&scene.objects, A_WEEK);
    expect_clean(&open(&scene.objects)).unwrap();
    let again = prune_all(&scene.objects, A_WEEK);
    assert_eq!((again.deleted_containers, again.repacked_containers), (0, 0));
}

/// Backs up as a client; `at` is called once, before the snapshot is put.
fn back_up_and(scene: &Scene, at: impl FnOnce() + Send + 'static) -> Result<Snapshot, StoreError> {
    let at = Mutex::new(Some(at));
    let hook = move |name: &str| {
        if name.starts_with("snapshots/")
            && let Some(at) = at.lock().unwrap().take()
        {
            at();
        }
    };
    let objects: Arc<dyn Objects> = Arc::new(Hooked::new(&scene.objects, hook));
    let client = as_client(&objects, &scene.key)?;
    let sources = [scene.source.path()];
    try_back_up(&client, &sources, &options(), &Progress::default()).map(|(_, snapshot)| snapshot)
}

#[test]
fn a_prune_waits_for_a_client_or_revokes_it() {
    let scene = Scene::new();
    scene.change(33);
    let (objects, first) = (Arc::clone(&scene.objects), scene.first.0);
    let made = back_up_and(&scene, move || {
        forget::forget(&open(&objects), &[first]).unwrap();
        let report = prune_all(&objects, A_WEEK);
        assert_eq!((report.waiting.len(), report.deleted_containers), (1, 0));
        assert_eq!(report.waiting[0].intent.as_ref().unwrap().host, "host");
    });
    let made = made.unwrap();
    prune_all(&scene.objects, A_WEEK);
    expect_clean(&open(&scene.objects)).unwrap();
    let picture = Picture::of(scene.source.path());
    restored(&open(&scene.objects), &made).unwrap().expect(&picture).unwrap();

    scene.change(34);
    let objects = Arc::clone(&scene.objects);
    let revoked = back_up_and(&scene, move || {
        let (snapshots, _) = open(&objects).snapshots().unwrap();
        let all: Vec<_> = snapshots.iter().map(|(id, _)| *id).collect();
        forget::forget(&open(&objects), &all).unwrap();
        prune_all(&objects, Duration::ZERO);
    });
    let error = revoked.unwrap_err();
    assert!(matches!(error, StoreError::Revoked), "{}", chain(&error));
    let picture = Picture::of(scene.source.path());
    let (_, made) = back_up(&scene.client(), scene.source.path());
    restored(&open(&scene.objects), &made).unwrap().expect(&picture).unwrap();
}

#[test]
fn a_key_opens_its_own_repository_only_and_the_host_forges_nothing() {
    let scene = Scene::new();
    let other = Scene::new();
    let error = as_client(&scene.objects, &other.key).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::ForeignKey { .. }), "{error}");
    let plain: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    let made = init(plain, small_chunks(), Protection::Plain).unwrap();
    let refused = made.add_client(&KeyRemark::default());
    assert!(matches!(refused, Err(StoreError::NotEncrypted)));
    // The objects of another repository's client, under the names of this one's.
    scene.change(33);
    back_up(&scene.client(), scene.source.path());
    write(other.source.path().join("3"), random(99, 20_000));
    back_up(&as_client(&other.objects, &other.key).unwrap(), other.source.path());
    for prefix in ["snapshots/", "receipts/", "index/", "containers/"] {
        let own = names(&*scene.objects, prefix);
        for (name, foreign) in own.iter().zip(names(&*other.objects, prefix)) {
            let swapped = copy_objects(&*scene.objects);
            let mut object = other.objects.get(&foreign).unwrap().to_vec();
            // Even if its header is this one's, but for the suite.
            object[8..48].copy_from_slice(&scene.objects.get(name).unwrap()[8..48]);
            crate::common::replace(&*swapped, name, object);
            let found = checked(&open(&swapped)).unwrap().findings;
            assert!(found.iter().any(|found| found.to_string().contains(name)), "{name}");
        }
    }
}

/// Seals a snapshot as whoever has taken a client over; it says what he likes.
fn forge(scene: &Scene, secs: i64, tags: &[&str], parent: Option<ObjectId>) -> ObjectId {
    let reader = envelope(&*scene.objects, open(&scene.objects).id());
    let keys = reader.keys().unwrap().of_client(scene.key.client()).unwrap();
    let forger = Envelope::encrypted(reader.repository(), keys);
    let path = scene.first.1.paths[0].clone();
    let body = snapshot_body(secs, &path, tags, parent, onefold_store::Recipe::EMPTY);
    let id = ObjectId::random();
    let object = forger.seal(Kind::Snapshot, id, &body);
    scene.objects.put(&format!("snapshots/{id}"), object.into()).unwrap();
    id
}

#[test]
fn what_a_client_forges_is_known_and_pushes_out_nothing_of_its_owners() {
    let scene = Scene::new();
    let late = scene.first.1.time.secs + 1000;
    let forged: Vec<_> = (0..5).map(|n| forge(&scene, late + n, &[], None)).collect();
    let (id, made) = back_up(&scene.client(), scene.source.path());
    assert!(made.is_from_client && !scene.first.1.is_from_client);
    let repository = open(&scene.objects);
    let (all, damaged) = repository.snapshots().unwrap();
    assert!(damaged.is_empty());
    let from_clients: Vec<_> = all.iter().filter(|(_, one)| one.is_from_client).collect();
    assert_eq!(from_clients.len(), 6);
    assert!(forged.iter().chain([&id]).all(|id| from_clients.iter().any(|(one, _)| one == id)));
    let kept_at = |secs: i64, by: forget::GroupBy| -> Vec<ObjectId> {
        let counts = vec![(forget::Period::Snapshot, forget::Count::AtMost(1))];
        let policy = forget::Policy { counts, within: Vec::new(), tags: Vec::new() };
        let now = onefold_store::tree::Time { secs, nanos: 0 };
        let groups = forget::judge(all.clone(), by, &policy, now, &jiff::tz::TimeZone::UTC);
        let all = groups.iter().flat_map(|group| &group.snapshots);
        all.filter(|one| !one.reasons.is_empty()).map(|one| one.id).collect()
    };
    // Whatever they say of host and paths, and even if nothing is told apart by that.
    for by in [true, false] {
        let by = forget::GroupBy { host: by, paths: by, tags: false };
        let kept = kept_at(late + 10, by);
        assert_eq!(kept.len(), 2, "the newest of each kind");
        assert!(kept.contains(&scene.first.0) && kept.contains(&forged[4]), "{kept:?}");
        // Before that time comes, they push out not even what the client made itself.
        let kept = kept_at(late - 500, by);
        assert_eq!(kept.len(), 7, "{kept:?}");
        assert!(kept.contains(&scene.first.0) && kept.contains(&id), "{kept:?}");
    }
    // Nor is what it says of unchanged files believed.
    let (_, own) = back_up(&repository, scene.source.path());
    assert_eq!((own.parent, own.summary.unchanged_files), (Some(scene.first.0), 8));
}

#[test]
fn what_a_client_forges_stands_for_no_repaired_form_and_no_copy() {
    let scene = Scene::new();
    let (first, snapshot) = &scene.first;
    let target = Scene::new();
    // As if the copy were there already.
    let there = forge(&target, snapshot.time.secs, &[], Some(*first));
    let copied = copy_all(&scene, &target);
    assert_eq!((copied.copied.len(), copied.there.len()), (1, 0), "{there} stands for it");
    assert_eq!(copy_all(&scene, &target).there.len(), 1);
    // What a client made is a client's wherever it goes, and stands for itself only.
    let forged = forge(&scene, 7, &["mine"], None);
    let copied = copy_all(&scene, &target).copied;
    let [(of, copy)] = copied[..] else { panic!("{copied:?}") };
    assert_eq!(of, forged);
    let copy = open(&target.objects).find(&copy.to_string().parse().unwrap()).unwrap().1;
    assert!(copy.is_from_client);
    assert_eq!(copy.tags, ["mine", "from-write-only-client"]);
    assert_eq!(copy_all(&scene, &target).copied.len(), 0);
    // As if a repair had made a snapshot anew, so that none does.
    let repaired = forge(&scene, 8, &[repair::TAG], Some(*first));
    for name in names(&*scene.objects, "containers/") {
        let object = scene.objects.get(&name).unwrap();
        crate::common::replace(&*scene.objects, &name, object.slice(..object.len() - 1));
    }
    let report = crate::common::repaired::repair(&open(&scene.objects)).unwrap();
    let own: Vec<_> = report.snapshots.iter().filter(|one| one.old == *first).collect();
    assert_eq!(own.len(), 1);
    assert!(!own[0].is_from_before, "{repaired} stands for it: {own:?}");
}

fn copy_all(from: &Scene, to: &Scene) -> copy::Report {
    let (from, to) = (open(&from.objects), open(&to.objects));
    let snapshots = from.snapshots().unwrap().0;
    let (host, user) = ("host".into(), "user".into());
    let options = copy::Options { host, user, rechunk: false, container_len: 64 << 10 };
    copy::copy(&from, &to, snapshots, &options, &Progress::default(), &Cancel::default()).unwrap()
}

#[test]
fn containers_that_no_run_covers_cost_a_client_space_and_nothing_else() {
    let scene = Scene::new();
    names(&*scene.objects, "index/").iter().for_each(|name| scene.objects.delete(name).unwrap());
    let (_, made) = back_up(&scene.client(), scene.source.path());
    assert!(made.summary.new_bytes > 150_000, "{:?}", made.summary);
    let repository = open(&scene.objects);
    expect_clean(&repository).unwrap();
    restored(&repository, &made).unwrap().expect(&scene.picture).unwrap();
}
