//! Encrypted repositories: what is written says nothing, opens for the right password only, and is
//! refused when a single byte or a place was changed.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use onefold_backend::{BackendError, MemoryFolder, MemoryObjects, ObjectInfo, Objects};
use onefold_cdc::{Algorithm, Params};
use onefold_container::{Directory, container_id};
use onefold_fingerprint::{FingerprintAlgorithm, Fingerprinter};
use onefold_index::Memory;
use onefold_seal::{Check, Cost, HEADER_LEN, Key, Keys, ObjectId, Password, SealError, WrappedKey};
use onefold_store::tree::Time;
use onefold_store::{
    Cancel, Config, IndexPlace, KeyId, KeyPair, KeyRemark, Located, Progress, Repository, Snapshot,
    StoreError, backup, parse_public_key, repair, restore,
};
use onefold_testkit::{random, text};
use tempfile::TempDir;

use crate::common::pass_on::pass_on;
use crate::common::picture::Picture;
use crate::common::{
    CHEAP, Protection, back_up, chain, checked, config, copy, envelope, expect_clean, init, names,
    open, options, password, replace, restored, small_chunks, try_back_up, try_open, try_restore,
    write,
};

fn encrypted() -> (Arc<dyn Objects>, Repository) {
    let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    let repository = init(Arc::clone(&objects), small_chunks(), Protection::Encrypted).unwrap();
    (objects, repository)
}

fn other_password(text: &str) -> Password {
    Password::new(text.into())
}

fn remark(label: &str) -> KeyRemark {
    let created = Time { secs: 1, nanos: 0 };
    KeyRemark { created, label: label.into(), host: "keyhost".into(), ..KeyRemark::default() }
}

fn unlock(objects: &Arc<dyn Objects>, password: &Password) -> Result<Repository, StoreError> {
    match Repository::locate(Arc::clone(objects))? {
        Located::Open(_) => panic!("it is encrypted"),
        Located::Locked(locked) => locked.unlock(password),
    }
}

/// A source with names and contents that can be recognised.
fn planted() -> TempDir {
    let source = tempfile::tempdir().unwrap();
    let line = "PLANTED CONTENT OF A FILE that compresses a little, line after line\n";
    write(source.path().join("PLANTED-NAME/deep"), line.repeat(30));
    write(source.path().join("raw"), random(1, 30_000));
    write(source.path().join("text"), text(2, 30_000));
    source
}

#[test]
fn what_was_backed_up_encrypted_is_checked_and_restored_as_it_was() {
    let source = planted();
    let (objects, repository) = encrypted();
    let (_, first) = back_up(&repository, source.path());
    let picture = Picture::of(source.path());
    write(source.path().join("raw"), [random(1, 20_000), random(3, 9_000)].concat());
    let repository = open(&objects);
    assert!(repository.is_encrypted());
    let (_, second) = back_up(&repository, source.path());
    assert_eq!(second.summary.unchanged_files, 2);
    assert!(second.summary.new_bytes < 25_000, "{:?}", second.summary);
    let repository = open(&objects);
    expect_clean(&repository).unwrap();
    restored(&repository, &first).unwrap().expect(&picture).unwrap();
    restored(&repository, &second).unwrap().expect(&Picture::of(source.path())).unwrap();
    let report = checked(&repository).unwrap();
    assert_eq!((report.notes, report.snapshots), (Vec::new(), 2));
}

#[test]
fn nothing_that_was_backed_up_is_seen_in_what_is_stored() {
    let source = planted();
    let (objects, repository) = encrypted();
    let chosen = backup::Options { tags: vec!["PLANTED-TAG".into()], ..options() };
    let root = [source.path()];
    try_back_up(&repository, &root, &chosen, &Progress::default()).unwrap();
    repository.add_key(&other_password("two"), CHEAP, &remark("PLANTED-LABEL")).unwrap();
    repository.rotate().unwrap();
    let plain: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    let in_clear = init(Arc::clone(&plain), small_chunks(), Protection::Plain).unwrap();
    try_back_up(&in_clear, &root, &chosen, &Progress::default()).unwrap();

    let mut secrets: Vec<Vec<u8>> = ["PLANTED-NAME", "PLANTED-TAG", "PLANTED-LABEL", "keyhost"]
        .map(|word| word.as_bytes().to_vec())
        .to_vec();
    // Bytes that do not compress lie as they are in a plain container.
    secrets.push(random(1, 30_000)[5000..5016].to_vec());
    for (objects, id) in [(&objects, repository.id()), (&plain, in_clear.id())] {
        let envelope = envelope(&**objects, id);
        for name in names(objects, "containers/") {
            let (id, object) = (container_id(&name).unwrap(), objects.get(&name).unwrap());
            let directory = Directory::of_object(&envelope, id, &object).unwrap();
            for chunk in &directory.chunks {
                let group = directory.group_of_object(&object, chunk.group).unwrap();
                let unkeyed = Fingerprinter::blake3().fingerprint(&group[chunk.range()]);
                let is_keyed = unkeyed != chunk.fingerprint;
                assert_eq!(is_keyed, envelope.keys().is_some());
                secrets.push(chunk.fingerprint.as_bytes()[..8].to_vec());
                secrets.push(unkeyed.as_bytes()[..8].to_vec());
            }
        }
    }
    let sees = |objects: &dyn Objects, secret: &[u8]| {
        names(objects, "").iter().find_map(|name| {
            let object = objects.get(name).unwrap();
            object.windows(secret.len()).any(|window| window == secret).then(|| name.clone())
        })
    };
    assert!(secrets.len() > 50);
    for secret in &secrets {
        assert_eq!(sees(&*objects, secret), None, "{secret:02x?}");
    }
    let visible = secrets.iter().filter(|secret| sees(&*plain, secret).is_some()).count();
    assert!(visible > 20, "a search that finds nothing in clear proves nothing: {visible}");
}

#[test]
fn two_repositories_of_the_same_data_have_nothing_in_common() {
    let source = planted();
    let [one, two] = [(); 2].map(|()| {
        let (objects, repository) = encrypted();
        back_up(&repository, source.path());
        let mut blocks = HashSet::new();
        let mut prints = HashSet::new();
        let envelope = envelope(&*objects, repository.id());
        for name in names(&objects, "") {
            let object = objects.get(&name).unwrap();
            blocks.extend(object[HEADER_LEN..].windows(16).map(<[u8]>::to_vec));
            if let Some(id) = container_id(&name) {
                let directory = Directory::of_object(&envelope, id, &object).unwrap();
                prints.extend(directory.chunks.into_iter().map(|chunk| chunk.fingerprint));
            }
        }
        (blocks, prints)
    });
    assert!(one.0.is_disjoint(&two.0) && one.1.is_disjoint(&two.1));
    assert!(one.0.len() > 50_000 && one.1.len() > 40);
}

#[test]
fn chunks_are_cut_with_a_secret_of_the_repository() {
    let keyable: Vec<_> = [Algorithm::MinCdc, Algorithm::GearAes, Algorithm::FastCdc]
        .map(|algorithm| Params::for_mean(algorithm, 1024).unwrap())
        .to_vec();
    let data = random(5, 100_000);
    for params in keyable {
        let chosen = Config { params, ..Config::standard() };
        let cuts = || {
            let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
            let made = init(Arc::clone(&objects), chosen.clone(), Protection::Encrypted).unwrap();
            let found = open(&objects);
            assert_eq!(found.config(), made.config());
            assert_eq!(found.config().fingerprint, FingerprintAlgorithm::Blake3Keyed);
            let chunker = onefold_cdc::Chunker::new(&found.config().params).unwrap();
            chunker.cut_points(&data).collect::<Vec<_>>()
        };
        assert_ne!(cuts(), cuts(), "{}", params.algorithm);
    }
    let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    let params = Params::for_mean(Algorithm::Ram, 1024).unwrap();
    let chosen = Config { params, ..Config::standard() };
    let made = init(objects, chosen, Protection::Encrypted).unwrap();
    assert_eq!(made.config().params.secret, None, "there is nothing to key");
}

#[test]
fn only_the_password_opens() {
    let (objects, repository) = encrypted();
    let error = Repository::open(Arc::clone(&objects)).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::Locked), "{error}");
    for wrong in ["", "correct horse", "Correct horse battery staple"] {
        let error = unlock(&objects, &other_password(wrong)).map(drop).unwrap_err();
        assert!(matches!(error, StoreError::WrongPassword { tried: 1 }), "{error}");
    }
    assert_eq!(unlock(&objects, &password()).unwrap().id(), repository.id());
}

#[test]
fn a_damaged_or_foreign_key_is_told_from_a_wrong_password() {
    let (objects, repository) = encrypted();
    let name = names(&objects, "keys/").pop().unwrap();
    let key = objects.get(&name).unwrap();
    let said =
        |objects: &Arc<dyn Objects>| chain(&try_open(Arc::clone(objects)).map(drop).unwrap_err());
    for len in 0..key.len() {
        let damaged = copy(&objects);
        replace(&damaged, &name, key.slice(..len));
        assert!(said(&damaged).contains(&name), "{len} bytes: {}", said(&damaged));
    }
    let (elsewhere, _) = encrypted();
    let foreign = names(&elsewhere, "keys/").pop().unwrap();
    let without = copy(&objects);
    without.delete(&name).unwrap();
    assert!(said(&without).contains("there is no key"), "{}", said(&without));
    without.put(&foreign, elsewhere.get(&foreign).unwrap()).unwrap();
    assert!(said(&without).contains("1 of other repositories"), "{}", said(&without));
    // beside its own key a foreign one is harmless, and noted
    objects.put(&foreign, elsewhere.get(&foreign).unwrap()).unwrap();
    let report = checked(&open(&objects)).unwrap();
    assert!(report.findings.is_empty() && report.notes[0].contains("another repository"));
    assert_eq!(repository.keys().unwrap().0.len(), 1);
    // and so is a damaged one, which is found
    let second = repository.add_key(&other_password("two"), CHEAP, &remark("")).unwrap();
    let second = format!("keys/{second}");
    replace(&objects, &second, "damaged");
    let report = checked(&open(&objects)).unwrap();
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].object, second);
}

#[test]
fn keys_come_and_go_and_the_one_in_use_stays() {
    let source = planted();
    let (objects, repository) = encrypted();
    back_up(&repository, source.path());
    let second = repository.add_key(&other_password("two"), CHEAP, &remark("second")).unwrap();
    let opened = unlock(&objects, &other_password("two")).unwrap();
    expect_clean(&opened).unwrap();
    let (keys, damaged) = opened.keys().unwrap();
    assert!(damaged.is_empty());
    let labels: Vec<_> = keys.iter().map(|key| (key.remark.label.as_str(), key.in_use)).collect();
    assert_eq!(labels, [("first", false), ("second", true)]);
    let error = opened.remove_key(second).unwrap_err();
    assert!(matches!(error, StoreError::KeyInUse { key } if key == second), "{error}");
    let first = keys[0].id;
    assert_eq!(opened.find_key(&first.to_string()[..9]).unwrap(), KeyId::Key(first));
    assert!(matches!(opened.find_key("xyz"), Err(StoreError::NoKey { count: 0, .. })));
    opened.remove_key(first).unwrap();
    let error = unlock(&objects, &password()).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::WrongPassword { tried: 1 }), "{error}");
    // Whoever opened it with the removed key cannot remove the last one.
    let error = repository.remove_key(second).unwrap_err();
    assert!(matches!(error, StoreError::KeyInUse { .. }), "{error}");
    assert!(unlock(&objects, &other_password("two")).is_ok());
    assert!(matches!(opened.remove_key(first), Err(StoreError::NoKey { .. })));
}

#[test]
fn a_repository_without_encryption_has_no_keys() {
    let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    let repository = init(Arc::clone(&objects), small_chunks(), Protection::Plain).unwrap();
    let adding = repository.add_key(&password(), CHEAP, &remark(""));
    assert!(matches!(adding, Err(StoreError::NotEncrypted)));
    assert!(matches!(repository.rotate(), Err(StoreError::NotEncrypted)));
    assert!(!repository.is_encrypted());
}

#[test]
fn after_a_rotation_old_objects_open_and_new_ones_are_sealed_anew() {
    let source = planted();
    let (objects, repository) = encrypted();
    repository.add_key(&other_password("two"), CHEAP, &remark("")).unwrap();
    let (_, first) = back_up(&repository, source.path());
    let picture = Picture::of(source.path());
    let before: HashSet<String> = names(&objects, "").into_iter().collect();
    assert_eq!(repository.rotate().unwrap(), 1);
    assert_eq!(open(&objects).rotate().unwrap(), 2);
    write(source.path().join("new"), random(9, 20_000));
    // Who opened it before goes on in the epoch it knows; who opens it now begins the latest.
    let (_, old_epoch) = back_up(&repository, source.path());
    write(source.path().join("newer"), random(10, 20_000));
    let repository = unlock(&objects, &other_password("two")).unwrap();
    assert_eq!(repository.epoch(), 2);
    let between: HashSet<String> = names(&objects, "").into_iter().collect();
    let (_, second) = back_up(&repository, source.path());
    let epoch_of = |name: &String| objects.get(name).unwrap()[8];
    assert!(before.iter().chain(&between).all(|name| epoch_of(name) == 0));
    let after = names(&objects, "");
    let new: Vec<_> = after.iter().filter(|name| !between.contains(*name)).collect();
    assert!(new.len() >= 5 && new.into_iter().all(|name| epoch_of(name) == 2));
    for password in [password(), other_password("two")] {
        let repository = unlock(&objects, &password).unwrap();
        expect_clean(&repository).unwrap();
        restored(&repository, &first).unwrap().expect(&picture).unwrap();
        restored(&repository, &second).unwrap().expect(&Picture::of(source.path())).unwrap();
        assert!(restored(&repository, &old_epoch).is_ok());
    }
    objects.delete("epochs/00000000000000000000000000000001").unwrap();
    let report = checked(&open(&objects)).unwrap();
    assert!(report.findings[0].to_string().contains("epochs/00000000000000000000000000000001"));
    // Without the key of its epoch an object is refused, and says why.
    objects.delete("epochs/00000000000000000000000000000002").unwrap();
    let report = checked(&open(&objects)).unwrap();
    let says = |text: &str| report.findings.iter().any(|finding| finding.problem.contains(text));
    assert!(says("was sealed in key epoch 2, the latest known is 0"), "{:?}", report.findings);
}

#[test]
fn two_rotations_at_the_same_time_do_not_make_two_keys_of_one_epoch() {
    let (objects, one) = encrypted();
    assert_eq!(one.rotate().unwrap(), 1);
    // Its listing is that of a moment ago.
    let late: Arc<dyn Objects> = Arc::new(Unlisted { objects: Arc::clone(&objects) });
    let error = open(&late).rotate().unwrap_err();
    assert!(matches!(error, StoreError::EpochTaken { epoch: 1 }), "{error}");
    assert_eq!(open(&objects).epoch(), 1);
}

/// A repository with one object of each kind, and what it restores to.
fn small() -> (TempDir, Arc<dyn Objects>, Snapshot) {
    let source = tempfile::tempdir().unwrap();
    write(source.path().join("file"), "content");
    let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
    let config = config(256, 1024, 4096);
    let repository = init(Arc::clone(&objects), config, Protection::Encrypted).unwrap();
    repository.rotate().unwrap();
    let (_, snapshot) = back_up(&open(&objects), source.path());
    (source, objects, snapshot)
}

/// Whether anything is said of what is in `objects`: it does not open, or a check finds something.
fn is_noticed(objects: &Arc<dyn Objects>) -> bool {
    match try_open(Arc::clone(objects)) {
        Err(_) => true,
        Ok(repository) => !checked(&repository).unwrap().findings.is_empty(),
    }
}

#[test]
fn every_byte_of_every_object_counts() {
    let (_source, objects, _) = small();
    assert!(!is_noticed(&objects));
    let all = names(&objects, "");
    assert_eq!(all.len(), 9, "{all:?}");
    let mut bytes = 0;
    for name in &all {
        let object = objects.get(name).unwrap();
        for at in 0..object.len() {
            let mut changed = object.to_vec();
            changed[at] ^= 1 << (at % 8);
            let damaged = copy(&objects);
            replace(&damaged, name, changed);
            assert!(is_noticed(&damaged), "byte {at} of {name}");
        }
        bytes += object.len();
    }
    println!("{bytes} bytes of {} objects", all.len());
}

#[test]
fn objects_under_other_names_or_from_elsewhere_are_refused() {
    let (_source, objects, _) = small();
    let (_other_source, elsewhere, _) = small();
    let kind_of = |name: &str| name.split('/').next().unwrap().to_owned();
    let (all, others) = (names(&objects, ""), names(&elsewhere, ""));
    for name in &all {
        let own = all.iter().filter(|other| *other != name).map(|other| objects.get(other));
        let foreign = others.iter().map(|other| elsewhere.get(other));
        for (number, object) in own.chain(foreign).enumerate() {
            let swapped = copy(&objects);
            replace(&swapped, name, object.unwrap());
            assert!(is_noticed(&swapped), "object {number} as {name}");
        }
    }
    // The whole of another repository but for one kind of object.
    for kind in ["config", "keys", "epochs", "containers", "snapshots"] {
        let mixed: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        for (from, names) in [(&objects, &all), (&elsewhere, &others)] {
            let is_own = Arc::ptr_eq(from, &objects);
            for name in names.iter().filter(|name| (kind_of(name) == kind) == is_own) {
                mixed.put(name, from.get(name).unwrap()).unwrap();
            }
        }
        assert!(is_noticed(&mixed), "{kind}");
    }
}

#[test]
fn a_container_moved_between_epochs_is_refused() {
    let (_source, objects, snapshot) = small();
    for name in names(&objects, "containers/") {
        for epoch in [0, 2] {
            let moved = copy(&objects);
            let mut object = objects.get(&name).unwrap().to_vec();
            assert_eq!(object[8], 1);
            object[8] = epoch;
            replace(&moved, &name, object);
            let repository = open(&moved);
            let report = checked(&repository).unwrap();
            assert!(report.findings.iter().any(|finding| finding.object == name));
            let lost = try_restore(&repository, &snapshot, &restore::Options::default());
            assert!(lost.is_err() || lost.unwrap().report.failed > 0);
        }
    }
}

#[test]
fn an_object_in_clear_does_not_pass_in_an_encrypted_repository() {
    let (_source, objects, _) = small();
    let id = open(&objects).id();
    let envelope = onefold_seal::Envelope::plain(id);
    let name = names(&objects, "snapshots/").pop().unwrap();
    let snapshot = name.strip_prefix("snapshots/").unwrap().parse().unwrap();
    let forged = envelope.seal(onefold_seal::Kind::Snapshot, snapshot, &[0; 200]);
    replace(&objects, &name, forged);
    let (_, damaged) = open(&objects).snapshots().unwrap();
    let [StoreError::Envelope { source: SealError::NotEncrypted, .. }] = damaged[..] else {
        panic!("{damaged:?}");
    };
}

#[test]
fn an_init_that_was_cut_off_behind_its_key_can_be_run_again() {
    let (objects, _) = encrypted();
    objects.delete("config").unwrap();
    assert!(matches!(try_open(Arc::clone(&objects)), Err(StoreError::NoRepository)));
    let again = init(Arc::clone(&objects), small_chunks(), Protection::Encrypted).unwrap();
    assert_eq!(names(&objects, "keys/").len(), 2);
    assert_eq!(open(&objects).id(), again.id());
    let report = checked(&again).unwrap();
    assert!(report.findings.is_empty() && report.notes.len() == 1, "{report:?}");
}

#[test]
fn a_repository_has_no_more_than_64_keys_and_garbage_is_none() {
    let (objects, repository) = encrypted();
    for number in 0..100 {
        objects.put(&format!("keys/{number:032x}"), "x".into()).unwrap();
    }
    for _ in 1..64 {
        repository.add_key(&other_password("x"), CHEAP, &remark("")).unwrap();
    }
    let error = repository.add_key(&other_password("x"), CHEAP, &remark("")).unwrap_err();
    assert!(matches!(error, StoreError::TooManyKeys { found: 65, .. }), "{error}");
    assert!(try_open(Arc::clone(&objects)).is_ok());
    assert!(unlock(&objects, &other_password("x")).is_ok());
    assert_eq!(repository.remove_unreadable_keys(false).unwrap().removed.len(), 100);
    assert_eq!(repository.keys().unwrap().0.len(), 64);
}

#[test]
fn any_amount_of_garbage_among_the_keys_costs_a_bounded_time_and_can_be_removed() {
    let (objects, repository) = encrypted();
    let own = repository.keys().unwrap().0[0].id;
    for number in 0..3000 {
        objects.put(&format!("keys/{number:032x}"), "x".into()).unwrap();
    }
    let error = try_open(Arc::clone(&objects)).map(drop).unwrap_err();
    let StoreError::UntriedKeys { left, first, .. } = &error else { panic!("{error}") };
    assert_eq!((*left, &**first), (3001 - 1024, "keys/00000000000000000000000000000400"));
    let Located::Locked(locked) = Repository::locate(Arc::clone(&objects)).unwrap() else {
        panic!("it is encrypted")
    };
    let opened = locked.only_key(&own.to_string()[..12].to_uppercase()).unlock(&password());
    let opened = opened.unwrap();
    assert!(!checked(&opened).unwrap().findings.is_empty());
    assert_eq!(opened.remove_unreadable_keys(false).unwrap().removed.len(), 3000);
    assert_eq!(names(&objects, "keys/"), [format!("keys/{own}")]);
    expect_clean(&open(&objects)).unwrap();
}

#[test]
fn a_forged_key_that_is_dear_to_try_is_tried_last() {
    let (objects, repository) = encrypted();
    let own = names(&objects, "keys/").remove(0);
    for number in 0..100u32 {
        let id = ObjectId::from_bytes(u128::from(number).to_be_bytes());
        let mut forged = objects.get(&own).unwrap().to_vec();
        forged[32..48].copy_from_slice(id.as_bytes());
        for (field, value) in [Cost::MAX.memory_kib, Cost::MAX.passes, 1].into_iter().enumerate() {
            forged[80 + 4 * field..][..4].copy_from_slice(&value.to_le_bytes());
        }
        let (covered, check) = forged.split_last_chunk_mut::<16>().unwrap();
        check.copy_from_slice(Check::of(&[covered]).as_bytes());
        objects.put(&format!("keys/{id}"), forged.into()).unwrap();
    }
    // One of them would take half a minute, on a quiet machine.
    let begun = Instant::now();
    assert_eq!(open(&objects).id(), repository.id());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(repository.remove_unreadable_keys(false).unwrap().removed.len(), 100);
}

#[test]
fn garbage_among_the_epochs_locks_nobody_out() {
    let (objects, repository) = encrypted();
    assert_eq!(repository.rotate().unwrap(), 1);
    let source = tempfile::tempdir().unwrap();
    write(source.path().join("file"), "content");
    back_up(&open(&objects), source.path());
    let garbage = [2, u32::MAX].map(|epoch| format!("epochs/{epoch:032x}"));
    garbage.iter().for_each(|name| objects.put(name, "x".into()).unwrap());
    let opened = open(&objects);
    let trouble = opened.trouble();
    assert!(
        garbage.iter().all(|name| trouble.iter().any(|said| said.contains(name))),
        "{trouble:?}"
    );
    assert_eq!(opened.epoch(), 1);
    let (_, made) = back_up(&opened, source.path());
    restored(&opened, &made).unwrap().expect(&Picture::of(source.path())).unwrap();
    let found = checked(&opened).unwrap().findings;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|found| garbage.contains(&found.object)), "{found:?}");
    let error = opened.rotate().unwrap_err();
    assert!(chain(&error).contains(&garbage[1]), "{}", chain(&error));
    assert_eq!(opened.remove_unreadable_keys(false).unwrap().removed, garbage);
    assert_eq!(open(&objects).rotate().unwrap(), 2);
    expect_clean(&open(&objects)).unwrap();
}

#[test]
fn a_private_key_opens_what_it_was_told_of_and_nothing_else() {
    let (objects, repository) = encrypted();
    let source = planted();
    let (_, made) = back_up(&repository, source.path());
    let pair = KeyPair::random();
    let locked = |objects: &Arc<dyn Objects>| match Repository::locate(Arc::clone(objects)) {
        Ok(Located::Locked(locked)) => locked,
        _ => panic!("it is encrypted"),
    };
    let error = locked(&objects).unlock_by(&pair).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::WrongPair { tried: 0 }), "{error}");
    let public = parse_public_key(&pair.public_text()).unwrap();
    let id = repository.add_public_key(&public, &remark("pair")).unwrap();
    let error = locked(&objects).unlock_by(&pair).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::StrangeRepository { .. }), "{error}");
    let text = format!("{}\n{}\n", *pair.private_text(), repository.trust_text().unwrap());
    let told = KeyPair::parse(&text).unwrap();
    let error = locked(&objects).unlock_by(&KeyPair::random()).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::WrongPair { tried: 1 }), "{error}");
    // Somebody who knows the public key wraps a master key of his own, under many names.
    for _ in 0..8 {
        let (forged, own) = (ObjectId::random(), Keys::new(Key::random()));
        let object = WrappedKey::wrap_for(repository.id(), forged, &own, &public, b"").unwrap();
        objects.put(&format!("keys/{forged}"), object.into()).unwrap();
    }
    let opened = locked(&objects).unlock_by(&told).unwrap();
    restored(&opened, &made).unwrap().expect(&Picture::of(source.path())).unwrap();
    // In a repository of his own, with the same id, it opens nothing.
    let his = copy(&*objects);
    his.delete(&format!("keys/{id}")).unwrap();
    let error = locked(&his).unlock_by(&told).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::StrangeRepository { .. }), "{error}");
    // It goes on through rotations, is listed, and can be removed like any other.
    assert_eq!(opened.rotate().unwrap(), 1);
    assert_eq!(locked(&objects).unlock_by(&told).unwrap().epoch(), 1);
    let keys = opened.keys().unwrap().0;
    let own: Vec<_> = keys.iter().filter(|key| key.in_use).collect();
    assert_eq!((own[0].id, own[0].cost, &*own[0].remark.label), (id, None, "pair"));
    assert_eq!(opened.remove_unreadable_keys(false).unwrap().removed.len(), 8);
    assert!(matches!(opened.remove_key(id), Err(StoreError::KeyInUse { .. })));
    open(&objects).remove_key(id).unwrap();
    assert!(locked(&objects).unlock_by(&told).is_err());
}

#[test]
fn a_backup_relies_on_nothing_that_a_damaged_epoch_sealed() {
    let (objects, repository) = encrypted();
    let (source, cache) = (planted(), tempfile::tempdir().unwrap());
    let open_kept = || {
        let mut repository = open(&objects);
        let place = IndexPlace::Directory(cache.path().to_owned(), Memory::MIN);
        repository.keep_index(place);
        repository
    };
    assert_eq!(repository.rotate().unwrap(), 1);
    back_up(&open_kept(), source.path());
    // the epoch that sealed all of it is damaged, and the kept index knows where all of it is
    let epoch = objects.list("epochs/").unwrap().remove(0).name;
    let mut damaged = objects.get(&epoch).unwrap().to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    replace(&*objects, &epoch, damaged);
    let repository = open_kept();
    assert_eq!(repository.trouble().len(), 1);
    let (_, made) = back_up(&repository, source.path());
    restored(&open(&objects), &made).unwrap().expect(&Picture::of(source.path())).unwrap();
    // it is not taken for garbage
    let clear = |even_damaged| {
        let cleared = open(&objects).remove_unreadable_keys(even_damaged).unwrap();
        let left: Vec<_> = cleared.left.into_iter().map(|left| left.object).collect();
        (cleared.removed, left)
    };
    assert_eq!(clear(false), (vec![], vec![epoch.clone()]));
    // and a repair takes nothing of it for damaged
    let (host, user) = ("host".into(), "user".into());
    let options = repair::Options { host, user, container_len: 1 << 20 };
    let opened = open(&objects);
    let done = repair::repair(&opened, &options, &Progress::default(), &Cancel::default());
    assert!(matches!(done, Err(StoreError::Unusable(_))), "{done:?}");
    // Nor if not a byte is left of what it was: what it sealed says its number.
    replace(&*objects, &epoch, "x");
    assert_eq!(clear(false), (vec![], vec![epoch.clone()]));
    assert_eq!(clear(true), (vec![epoch.clone()], vec![]));
}

#[test]
fn a_damaged_key_is_not_taken_for_garbage_without_a_word() {
    let (objects, repository) = encrypted();
    let id = repository.add_key(&other_password("x"), CHEAP, &remark("")).unwrap();
    let name = format!("keys/{id}");
    let mut damaged = objects.get(&name).unwrap().to_vec();
    damaged[100] ^= 1;
    replace(&objects, &name, damaged);
    objects.put(&format!("keys/{:032x}", 7), "x".into()).unwrap();
    let cleared = repository.remove_unreadable_keys(false).unwrap();
    assert_eq!((cleared.removed.len(), &*cleared.left[0].object), (1, &*name));
    assert_eq!(repository.remove_unreadable_keys(true).unwrap().removed, [name]);
    assert_eq!(names(&objects, "keys/").len(), 1);
}

#[test]
fn a_key_that_cannot_be_read_is_told_to_who_has_a_private_key() {
    let (objects, repository) = encrypted();
    let pair = KeyPair::random();
    let public = parse_public_key(&pair.public_text()).unwrap();
    let id = repository.add_public_key(&public, &remark("pair")).unwrap();
    let name = format!("keys/{id}");
    let mut damaged = objects.get(&name).unwrap().to_vec();
    damaged[90] ^= 1;
    replace(&objects, &name, damaged);
    let Located::Locked(locked) = Repository::locate(Arc::clone(&objects)).unwrap() else {
        panic!("it is encrypted")
    };
    let error = locked.unlock_by(&pair).map(drop).unwrap_err();
    assert!(chain(&error).contains(&name), "{}", chain(&error));
}

#[test]
fn an_epoch_that_is_hidden_is_named_and_no_kept_index_relies_on_it() {
    let (objects, repository) = encrypted();
    let (source, cache) = (planted(), tempfile::tempdir().unwrap());
    let memory = Arc::new(MemoryFolder::new());
    let open_kept = |objects: &Arc<dyn Objects>| {
        let mut repository = open(objects);
        repository.keep_index(IndexPlace::Directory(cache.path().to_owned(), Memory::MIN));
        repository.act_as("host".into(), Some(Arc::clone(&memory) as _));
        repository
    };
    assert_eq!(repository.rotate().unwrap(), 1);
    let first = open_kept(&objects);
    assert_eq!(first.recall().unwrap(), []);
    let (lost, _) = back_up(&first, source.path());
    drop(first);
    let epoch = objects.list("epochs/").unwrap().remove(0).name;
    let hidden = copy(&objects);
    hidden.delete(&epoch).unwrap();
    // Nothing of the snapshot is left but what the log tells.
    hidden.delete(&format!("snapshots/{lost}")).unwrap();
    for _ in 0..2 {
        let repository = open_kept(&hidden);
        let findings = repository.recall().unwrap();
        assert!(findings.iter().any(|one| one.object == epoch), "{findings:?}");
        let lost = format!("snapshots/{lost}");
        assert!(findings.iter().any(|one| one.object == lost), "{findings:?}");
        let (_, made) = back_up(&repository, source.path());
        drop(repository);
        let picture = Picture::of(source.path());
        restored(&open(&hidden), &made).unwrap().expect(&picture).unwrap();
    }
    // Hidden from listings alone, it is asked for by its name, and the log tells what is missing.
    let unlisted = copy(&objects);
    unlisted.delete(&format!("snapshots/{lost}")).unwrap();
    let unlisted: Arc<dyn Objects> = Arc::new(Unlisted { objects: unlisted });
    for knows in [true, false] {
        let mut repository = open_kept(&unlisted);
        if !knows {
            repository.act_as("late".into(), Some(Arc::new(MemoryFolder::new())));
        }
        let findings = repository.recall().unwrap();
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(finding.object, format!("snapshots/{lost}"));
    }
}

/// Objects of which those of epochs are not listed.
struct Unlisted {
    objects: Arc<dyn Objects>,
}

impl Objects for Unlisted {
    fn list(&self, prefix: &str) -> Result<Vec<ObjectInfo>, BackendError> {
        let infos = self.objects.list(prefix)?;
        Ok(infos.into_iter().filter(|info| !info.name.starts_with("epochs/")).collect())
    }

    pass_on!(put, get, size, delete);
}
