//! Keys of write-only clients that are taken back: what was acknowledged stays, and nothing that comes
//! afterwards counts, whoever seals it.

use std::sync::Arc;
use std::time::Duration;

use onefold_backend::{MemoryFolder, Objects};
use onefold_seal::wire::Put;
use onefold_seal::{Envelope, Kind, ObjectId};
use onefold_store::prune::{self, Unused};
use onefold_store::tree::Time;
use onefold_store::{Cancel, KeyId, KeyRemark, Progress, Repository, StoreError, forget};

use crate::common::taken_back::{TakenBack, as_client};
use crate::common::trials::Trial;
use crate::common::{
    Protection, back_up, chain, checked, copied::made, copy, expect_clean, names, open, replace,
    restored, small_chunks,
};

#[test]
fn what_was_backed_up_before_stays_and_its_owner_knows_the_key() {
    let scene = TakenBack::new();
    let owner = open(&scene.objects);
    let remark = KeyRemark { label: "another".into(), ..KeyRemark::default() };
    let other = owner.add_client(&remark).unwrap();
    assert_ne!(other.client(), scene.key.client());
    let number = format!("{:08x}", scene.key.client());
    assert_eq!(owner.find_key(&number).unwrap(), KeyId::Client(scene.key.client()));
    assert_eq!(scene.take_back(&scene.objects).unwrap(), [scene.made.0]);
    let (clients, damaged) = open(&scene.objects).clients().unwrap();
    assert!(damaged.is_empty());
    for client in clients {
        let is_other = client.number == other.client();
        assert_eq!((client.is_removed, client.is_half_removed), (!is_other, false));
        assert_eq!(client.remark == remark, is_other);
    }
    let owner = open(&scene.objects);
    expect_clean(&owner).unwrap();
    restored(&owner, &scene.made.1).unwrap().expect(&scene.picture).unwrap();
    // The other client's key is as good as before.
    let client = as_client(&scene.objects, &other).unwrap();
    let made = back_up(&client, scene.source.path());
    assert!(open(&scene.objects).find(&made.0.to_string().parse().unwrap()).is_ok());
    let error = as_client(&scene.objects, &scene.key).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::KeyTakenBack { .. }), "{}", chain(&error));
}

#[test]
fn nothing_that_a_stolen_key_seals_counts_after_it_was_taken_back() {
    let scene = TakenBack::new();
    let objects = &scene.objects;
    scene.take_back(objects).unwrap();
    let (forged, thief) = (ObjectId::random(), scene.thief());
    scene.forge(objects, forged);
    // A log entry that commits a snapshot of which nobody ever heard, and one that is refused.
    let mut body = Vec::new();
    body.put_bytes(&[]);
    body.extend([0, 0]);
    body.put_bytes(b"thief");
    body.put_varint(2);
    body.extend_from_slice(forged.as_bytes());
    body.extend_from_slice(ObjectId::random().as_bytes());
    body.extend([0, 0]);
    let at = [&thief.pseudonym(b"thief")[..], &[0; 8]].concat();
    let at = ObjectId::from_bytes(at.try_into().unwrap());
    let entry = thief.seal(Kind::LogEntry, at, &body);
    objects.put(&format!("logs/{at}"), entry.into()).unwrap();
    // And the intent of a backup that goes on for ever.
    let mut body = Vec::new();
    body.put_signed(Time::now().secs);
    body.extend([0, 0, 0, 0, 0, 0]);
    let open_for_ever = ObjectId::random();
    let intent = thief.seal(Kind::Intent, open_for_ever, &body);
    objects.put(&format!("intents/{open_for_ever}"), intent.into()).unwrap();

    let mut owner = open(objects);
    owner.act_as("owner".into(), Some(Arc::new(MemoryFolder::new())));
    assert_eq!(owner.recall().unwrap(), []);
    let (snapshots, damaged) = owner.snapshots().unwrap();
    assert!(damaged.is_empty());
    assert_eq!(snapshots.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [scene.made.0]);
    assert_eq!(owner.find(&"latest".parse().unwrap()).unwrap().0, scene.made.0);
    let report = checked(&owner).unwrap();
    assert_eq!(report.findings, []);
    assert!(report.notes.iter().any(|note| note.contains("1 snapshots count for nothing")));
    let options = prune::Options {
        max_unused: Unused::Bytes(0),
        fence_after: Duration::from_secs(7 * 24 * 3600),
        ..prune::Options::default()
    };
    let (progress, cancel) = (Progress::default(), Cancel::default());
    let pruned = prune::prune(&open(objects), &options, &progress, &cancel).unwrap();
    assert_eq!((pruned.waiting.len(), pruned.fenced.len()), (0, 1));
    assert_eq!(names(&**objects, "intents/"), [] as [&str; 0]);
    restored(&open(objects), &scene.made.1).unwrap().expect(&scene.picture).unwrap();
}

#[test]
fn nothing_takes_the_place_of_a_snapshot_that_stays() {
    let scene = TakenBack::new();
    scene.take_back(&scene.objects).unwrap();
    let name = format!("snapshots/{}", scene.made.0);
    scene.objects.delete(&name).unwrap();
    scene.forge(&scene.objects, scene.made.0);
    let owner = open(&scene.objects);
    let (snapshots, damaged) = owner.snapshots().unwrap();
    assert!(snapshots.is_empty());
    assert!(damaged[0].to_string().contains(&name), "{damaged:?}");
    assert!(!checked(&owner).unwrap().findings.is_empty());
}

/// Whoever has a client's key and may delete takes a snapshot away and puts one of his own there.
#[test]
fn a_snapshot_in_the_place_of_somebody_elses_is_found_and_nothing_is_pruned() {
    let scene = TakenBack::new();
    let owners = back_up(&open(&scene.objects), scene.source.path()).0;
    let other = open(&scene.objects).add_client(&KeyRemark::default()).unwrap();
    let others = as_client(&scene.objects, &other).unwrap();
    let others = back_up(&others, scene.source.path()).0;
    open(&scene.objects).remove_client(other.client(), false).unwrap();
    for is_removed in [false, true] {
        if is_removed {
            scene.take_back(&scene.objects).unwrap();
        }
        for (id, lacks_log) in [(owners, false), (owners, true), (others, false)] {
            let objects = copy(&*scene.objects);
            let name = format!("snapshots/{id}");
            objects.delete(&name).unwrap();
            scene.forge(&objects, id);
            if lacks_log {
                names(&*objects, "logs/").iter().for_each(|name| objects.delete(name).unwrap());
            }
            for remembers in [false, true] {
                let mut owner = open(&objects);
                if remembers {
                    owner.act_as("owner".into(), Some(Arc::new(MemoryFolder::new())));
                    assert_eq!(owner.recall().unwrap(), []);
                }
                let (snapshots, damaged) = owner.snapshots().unwrap();
                assert!(snapshots.iter().all(|(other, _)| *other != id));
                assert!(damaged[0].to_string().contains(&name), "{damaged:?}");
                assert!(owner.find(&id.to_string().parse().unwrap()).is_err());
                let findings = checked(&owner).unwrap().findings;
                assert!(findings.iter().any(|one| one.object == name), "{findings:?}");
                let error = pruned(&owner).unwrap_err();
                assert!(chain(&error).contains(&name), "{}", chain(&error));
            }
            // Who gives it up can prune again.
            let owner = open(&objects);
            assert_eq!(owner.find_id(&id.to_string().parse().unwrap()).unwrap(), id);
            forget::forget(&owner, &[id]).unwrap();
            pruned(&open(&objects)).unwrap();
        }
    }
}

/// Whoever has another client's key names a snapshot in his log, before its own client is read.
#[test]
fn a_snapshot_that_two_clients_claim_is_said_to_be_and_comes_back_when_the_liars_key_goes() {
    let scene = TakenBack::new();
    let objects = &scene.objects;
    let liar = open(objects).add_client(&KeyRemark::default()).unwrap();
    let owner = crate::common::envelope(&**objects, open(objects).id());
    let keys = owner.keys().unwrap().of_client(liar.client()).unwrap();
    let liars = Envelope::encrypted(owner.repository(), keys);
    let own = names(&**objects, "logs/")[0].clone();
    // Logs are read in the order of their writers.
    let host = (0..).map(|n| format!("host {n}"));
    let is_before = |host: &String| {
        let at = ObjectId::from_bytes(
            [&liars.pseudonym(host.as_bytes())[..], &[0; 8]].concat().try_into().unwrap(),
        );
        (format!("logs/{at}") < own).then_some((host.clone(), at))
    };
    let (host, at) = host.filter_map(|host| is_before(&host)).next().unwrap();
    let mut body = Vec::new();
    body.put_bytes(&[]);
    body.extend([0, 0]);
    body.put_bytes(host.as_bytes());
    body.put_varint(1);
    body.extend_from_slice(scene.made.0.as_bytes());
    body.extend([0, 0]);
    let entry = liars.seal(Kind::LogEntry, at, &body);
    objects.put(&format!("logs/{at}"), entry.into()).unwrap();

    let (_, damaged) = open(objects).snapshots().unwrap();
    let [StoreError::Disputed { snapshot, client, other, .. }] = damaged[..] else {
        panic!("{damaged:?}")
    };
    assert_eq!((snapshot, client, other), (scene.made.0, scene.key.client(), liar.client()));
    let findings = checked(&open(objects)).unwrap().findings;
    let name = format!("snapshots/{}", scene.made.0);
    assert!(findings.iter().any(|one| one.object == name), "{findings:?}");
    assert!(pruned(&open(objects)).is_err());
    for (remembers, anyway) in [(false, false), (false, true), (true, false), (true, true)] {
        let objects = copy(&**objects);
        let memory = Arc::new(MemoryFolder::new());
        let owner = || {
            let mut owner = open(&objects);
            if remembers {
                owner.act_as("owner".into(), Some(Arc::clone(&memory) as _));
                assert_eq!(owner.recall().unwrap(), []);
            }
            owner
        };
        let who = owner();
        assert!(matches!(who.snapshots().unwrap().1[..], [StoreError::Disputed { .. }]));
        // That it names what another made is no reason to take that for its own, and for unread.
        assert_eq!(who.remove_client(liar.client(), anyway).unwrap(), []);
        // Also who has seen the liar's entry while its key was good goes by the other.
        for owner in [who, owner()] {
            let (snapshots, damaged) = owner.snapshots().unwrap();
            assert!(damaged.is_empty(), "{damaged:?}");
            assert_eq!(snapshots[0].0, scene.made.0);
        }
        expect_clean(&owner()).unwrap();
        pruned(&owner()).unwrap();
        restored(&owner(), &scene.made.1).unwrap().expect(&scene.picture).unwrap();
        // It is missed as its own client's.
        let name = format!("snapshots/{}", scene.made.0);
        if remembers {
            objects.delete(&name).unwrap();
            let mut owner = open(&objects);
            owner.act_as("owner".into(), Some(Arc::clone(&memory) as _));
            let findings = owner.recall().unwrap();
            assert!(findings.iter().any(|one| one.object == name), "{findings:?}");
        }
    }
}

fn pruned(repository: &Repository) -> Result<prune::Report, StoreError> {
    let options = prune::Options { max_unused: Unused::Bytes(0), ..prune::Options::default() };
    prune::prune(repository, &options, &Progress::default(), &Cancel::default())
}

#[test]
fn garbage_in_place_of_a_word_is_said_and_believed_by_nobody() {
    let scene = TakenBack::new();
    let name = format!("clients/{:016x}0000000000000002", scene.key.client());
    scene.objects.put(&name, b"garbage"[..].into()).unwrap();
    let owner = open(&scene.objects);
    let (_, damaged) = owner.snapshots().unwrap();
    assert!(damaged[0].to_string().contains(&name), "{damaged:?}");
    assert!(owner.clients().unwrap().1[0].to_string().contains(&name));
    assert!(owner.remove_client(scene.key.client(), false).is_err());
    // As good as before, once it is gone.
    scene.objects.delete(&name).unwrap();
    assert_eq!(scene.take_back(&scene.objects).unwrap(), [scene.made.0]);
    // A word of another repository, or of another client, is none.
    let word = scene.objects.get(&name).unwrap();
    let other = name.replace(&format!("{:08x}", scene.key.client()), "00000001");
    scene.objects.put(&other, word).unwrap();
    assert!(open(&scene.objects).clients().unwrap().1[0].to_string().contains(&other));
    let plain = made(small_chunks(), Protection::Plain);
    assert!(matches!(open(&plain).clients(), Err(StoreError::NotEncrypted)));
}

#[test]
fn a_removal_that_is_hidden_is_said_to_who_has_seen_it() {
    let scene = TakenBack::new();
    let memory = Arc::new(MemoryFolder::new());
    let recall = |objects: &Arc<dyn Objects>| {
        let mut owner: Repository = open(objects);
        owner.act_as("owner".into(), Some(Arc::clone(&memory) as _));
        owner.recall().unwrap()
    };
    assert_eq!(recall(&scene.objects), []);
    scene.take_back(&scene.objects).unwrap();
    assert_eq!(recall(&scene.objects), []);
    let name = format!("clients/{:016x}0000000000000002", scene.key.client());
    let hidden = copy(&*scene.objects);
    hidden.delete(&name).unwrap();
    let damaged = copy(&*scene.objects);
    replace(&*damaged, &name, b"garbage".to_vec());
    for _ in 0..2 {
        for objects in [&hidden, &damaged] {
            let findings = recall(objects);
            assert!(findings.iter().any(|one| one.object == name), "{findings:?}");
        }
    }
    assert_eq!(recall(&scene.objects), []);
}

#[test]
fn a_removal_that_was_seen_and_is_gone_is_not_finished_without_a_word() {
    let scene = TakenBack::new();
    let (memory, client) = (Arc::new(MemoryFolder::new()), scene.key.client());
    let remembers = |objects: &Arc<dyn Objects>| {
        let mut owner: Repository = open(objects);
        owner.act_as("owner".into(), Some(Arc::clone(&memory) as _));
        owner
    };
    scene.take_back(&scene.objects).unwrap();
    assert_eq!(remembers(&scene.objects).recall().unwrap(), []);
    let [began, kept] = [1, 2].map(|word| format!("clients/{client:016x}{word:016x}"));
    // Not a byte is left of a word: nothing but what was seen and the other words tells what it was.
    for name in [&began, &kept] {
        let destroyed = copy(&*scene.objects);
        replace(&*destroyed, name, b"x".to_vec());
        for owner in [remembers(&destroyed), open(&destroyed)] {
            let cleared = owner.remove_unreadable_keys(false).unwrap();
            assert_eq!((cleared.removed.len(), &cleared.left[0].object), (0, name));
        }
    }
    let objects = copy(&*scene.objects);
    objects.delete(&kept).unwrap();
    scene.forge(&objects, ObjectId::random());
    let owner = remembers(&objects);
    let info = &owner.clients().unwrap().0[0];
    assert_eq!((info.is_removed, info.is_half_removed, info.is_hidden), (false, false, true));
    let report = checked(&owner).unwrap();
    assert!(report.findings.iter().any(|one| one.problem.contains(&kept)), "{report:?}");
    assert!(!report.notes.iter().any(|note| note.contains("remove it again")), "{report:?}");
    let refused = owner.remove_client(client, false).unwrap_err();
    assert!(matches!(refused, StoreError::RemovalHidden { .. }), "{refused}");
    // Nor is it repaired, which would make the owner's of what the thief has put.
    let done = crate::common::repaired::repair(&owner).map(drop);
    assert!(matches!(done, Err(StoreError::Unusable(_))), "{done:?}");
    // Another client that remembers names another word.
    let mut other = open(&scene.objects);
    let others = Arc::new(MemoryFolder::new());
    other.act_as("other".into(), Some(Arc::clone(&others) as _));
    assert_eq!(other.recall().unwrap(), []);
    assert_eq!(owner.remove_client(client, true).unwrap().len(), 2);
    assert_eq!(remembers(&objects).recall().unwrap(), []);
    let mut other = open(&objects);
    other.act_as("other".into(), Some(others as _));
    let findings = other.recall().unwrap();
    assert_eq!(findings.iter().map(|one| &one.object).collect::<Vec<_>>(), [&kept]);
}

#[test]
fn a_snapshot_that_cannot_be_read_now_is_not_dropped_for_ever() {
    let scene = TakenBack::new();
    let name = format!("snapshots/{}", scene.made.0);
    let whole = scene.objects.get(&name).unwrap();
    for at in [6, 20, whole.len() - 1] {
        let objects = copy(&*scene.objects);
        let mut damaged = whole.to_vec();
        damaged[at] ^= 1;
        replace(&*objects, &name, damaged);
        let refused = scene.take_back(&objects).unwrap_err();
        let StoreError::UnreadSnapshots { count: 1, first, .. } = &refused else {
            panic!("{refused}")
        };
        assert_eq!(*first, name);
        // Once it can be read again it stays, and what was begun is finished.
        let later = copy(&*objects);
        replace(&*later, &name, whole.to_vec());
        assert_eq!(scene.take_back(&later).unwrap(), [scene.made.0]);
        assert_eq!(open(&objects).remove_client(scene.key.client(), true).unwrap(), []);
    }
}

#[test]
fn a_key_whose_id_begins_as_a_clients_number_does_not_hide_the_client() {
    let scene = TakenBack::new();
    let number = format!("{:08x}", scene.key.client());
    scene.objects.put(&format!("keys/{number}{:024x}", 7), b"x"[..].into()).unwrap();
    let owner = open(&scene.objects);
    assert_eq!(owner.find_key(&number).unwrap(), KeyId::Client(scene.key.client()));
    assert!(owner.find_key(&number[..7]).is_err());
}

#[test]
fn whatever_a_client_was_told_counts_in_every_order() {
    let acknowledged = TakenBack::new().try_every_order().unwrap();
    assert!(acknowledged >= 3, "{acknowledged} backups beside a removal");
}

#[test]
fn a_removal_that_is_cut_off_anywhere_loses_nothing_and_can_be_finished() {
    let scene = TakenBack::new();
    let count = scene.cut_power_everywhere(3).unwrap();
    println!("taking a key back: {count}");
    assert!(count.operations > 10 && count.states > 10, "{count}");
}
