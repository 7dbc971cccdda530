//! What a later version of the format has added: this program names it and both versions, and neither
//! deletes nor alters it, whatever it was asked to do.

use std::sync::Arc;
use std::time::Duration;

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, KeyInit};
use onefold_backend::Objects;
use onefold_seal::wire::Put;
use onefold_seal::{Check, Kind, ObjectId};
use onefold_store::prune::{self, Unused};
use onefold_store::tree::Time;
use onefold_store::{Cancel, Progress, Repository, Snapshot, StoreError, forget};
use onefold_testkit::random;
use tempfile::TempDir;

use crate::common::copied::made;
use crate::common::picture::Picture;
use crate::common::repaired::repair;
use crate::common::taken_back::TakenBack;
use crate::common::{
    Protection, back_up, chain, copy, envelope, expect_clean, names, open, replace, restored,
    small_chunks, write,
};
use crate::format_reader::{Keys, derive, keys};

/// A suite that version 1 does not have.
const LATER_SUITE: Option<u8> = Some(3);

/// Has the keys of a repository, and seals as a later program would.
struct Sealer(Option<Keys>);

impl Sealer {
    fn of(objects: &Arc<dyn Objects>) -> Self {
        let envelope = envelope(&**objects, open(objects).id());
        Self(envelope.keys().map(|found| {
            let master = *found.master().unwrap().as_bytes();
            let sealing = vec![derive("sealing key of epoch 0", &[&master])];
            Keys { master, sealing }
        }))
    }

    /// The same object under a header of the next version, of another suite if there is one.
    fn later(&self, object: &[u8], suite: Option<u8>) -> Vec<u8> {
        const CONTAINER: u8 = 2;
        let (covered, check) = object.split_at(object.len() - 16);
        let mut header = covered[..48].to_vec();
        header[4] += 1;
        header[6] = suite.unwrap_or(header[6]);
        let (from, to) = match object[5] {
            CONTAINER => {
                let to = covered.len() - 4;
                let footer = u32::from_le_bytes(covered[to..].try_into().unwrap());
                (to - footer as usize, to)
            }
            _ => (if self.0.is_some() { 80 } else { 48 }, covered.len()),
        };
        let (before, body, clear) = (&covered[48..from], &covered[from..to], &covered[to..]);
        let end = match &self.0 {
            None => {
                let check = Check::of(&[&header, body, clear]);
                [body, clear, check.as_bytes()].concat()
            }
            Some(keys) => {
                let key = keys.of_object(&covered[..80]);
                let body = keys::open(key, 0, &[&covered[..48], clear], body, check);
                let (nonce, aad) = ([0; 12], [&header[..], clear].concat());
                let payload = Payload { msg: &body, aad: &aad };
                let sealed = Aes256Gcm::new(&key.into()).encrypt(&nonce.into(), payload).unwrap();
                let (sealed, tag) = sealed.split_at(sealed.len() - 16);
                [sealed, clear, tag].concat()
            }
        };
        [&header[..], before, &end].concat()
    }

    /// Makes the object `name` one of the next version; gives what it was, and is.
    fn make_later(
        &self,
        objects: &dyn Objects,
        name: &str,
        suite: Option<u8>,
    ) -> (Vec<u8>, Vec<u8>) {
        let was = objects.get(name).unwrap().to_vec();
        let is = self.later(&was, suite);
        replace(objects, name, is.clone());
        (was, is)
    }
}

/// A repository with one snapshot that stays, what only others needed, and a prune that waits for a
/// backup: an object of each kind.
struct Scene {
    _source: TempDir,
    objects: Arc<dyn Objects>,
    kept: (ObjectId, Snapshot),
    picture: Picture,
}

impl Scene {
    fn new(protection: Protection) -> Self {
        let source = tempfile::tempdir().unwrap();
        let root = source.path();
        let objects = made(small_chunks(), protection);
        (0..3).for_each(|number| write(root.join(number.to_string()), random(number, 30_000)));
        let first = back_up(&open(&objects), root).0;
        write(root.join("0"), random(10, 30_000));
        let kept = back_up(&open(&objects), root);
        let picture = Picture::of(root);
        forget::forget(&open(&objects), &[first]).unwrap();
        put_intent(&objects);
        let waits = pruned(&open(&objects), Duration::from_secs(7 * 24 * 3600)).unwrap();
        assert_eq!(waits.waiting.len(), 1);
        write(root.join("more"), random(20, 70_000));
        let third = back_up(&open(&objects), root).0;
        forget::forget(&open(&objects), &[third]).unwrap();
        Self { _source: source, objects, kept, picture }
    }
}

fn put_intent(objects: &Arc<dyn Objects>) {
    let id = ObjectId::random();
    let intent = envelope(&**objects, open(objects).id()).seal(Kind::Intent, id, &intent());
    objects.put(&format!("intents/{id}"), intent.into()).unwrap();
}

/// The body of the intent of a backup that has just begun.
fn intent() -> Vec<u8> {
    let mut body = Vec::new();
    body.put_signed(Time::now().secs);
    body.extend([0; 6]);
    body
}

fn pruned(repository: &Repository, fence_after: Duration) -> Result<prune::Report, StoreError> {
    let options =
        prune::Options { max_unused: Unused::Bytes(0), fence_after, ..prune::Options::default() };
    prune::prune(repository, &options, &Progress::default(), &Cancel::default())
}

fn expect_later<T>(done: Result<T, StoreError>, what: &str) {
    let Err(error) = done else { panic!("{what}: goes on") };
    assert_eq!(error.unknown_version(), Some(2), "{what}: {}", chain(&error));
    assert!(chain(&error).contains("has format version 2, this program reads version 1"));
}

fn everything(objects: &dyn Objects) -> Vec<(String, Vec<u8>)> {
    names(objects, "")
        .into_iter()
        .map(|name| (name.clone(), objects.get(&name).unwrap().to_vec()))
        .collect()
}

#[test]
fn nothing_of_a_later_version_is_repaired_away_or_pruned() {
    for protection in [Protection::Plain, Protection::Encrypted] {
        let scene = Scene::new(protection);
        let sealer = Sealer::of(&scene.objects);
        for prefix in
            ["containers/", "index/", "snapshots/", "receipts/", "logs/", "marks/", "intents/"]
        {
            let all = names(&*scene.objects, prefix);
            assert!(!all.is_empty(), "{prefix}");
            for (name, suite) in all.iter().flat_map(|name| [(name, None), (name, LATER_SUITE)]) {
                // Nothing vouches for such an entry: it is a finding, and goes on being there.
                let is_anybodys = prefix == "logs/"
                    && suite.is_some()
                    && matches!(protection, Protection::Encrypted);
                for act in ["repair", "prune"] {
                    let what = format!("{act}, {protection:?}, {name} of suite {suite:?}");
                    let objects = copy(&*scene.objects);
                    let (was, is) = sealer.make_later(&*objects, name, suite);
                    let repository = open(&objects);
                    let (done, must_stop) = match act {
                        "repair" => {
                            let must_stop = prefix != "intents/" && !is_anybodys;
                            (repair(&repository).map(drop), must_stop)
                        }
                        _ => {
                            let needs = ["index/", "snapshots/", "marks/", "intents/"];
                            let done = pruned(&repository, Duration::ZERO);
                            (done.map(drop), needs.contains(&prefix))
                        }
                    };
                    match must_stop || done.is_err() {
                        true => expect_later(done, &what),
                        false => done.unwrap(),
                    }
                    assert_eq!(objects.get(name).unwrap(), is, "{what}");
                    if is_anybodys {
                        continue;
                    }
                    // A program that knows it finds all as it was.
                    replace(&*objects, name, was);
                    expect_clean(&open(&objects))
                        .unwrap_or_else(|broken| panic!("{what}: {broken}"));
                    let kept = restored(&open(&objects), &scene.kept.1).unwrap();
                    kept.expect(&scene.picture).unwrap();
                }
            }
        }
    }
}

#[test]
fn a_snapshot_of_a_later_version_is_not_forgotten_and_no_log_says_so() {
    for protection in [Protection::Plain, Protection::Encrypted] {
        let scene = Scene::new(protection);
        let sealer = Sealer::of(&scene.objects);
        for suite in [None, LATER_SUITE] {
            let objects = copy(&*scene.objects);
            sealer.make_later(&*objects, &format!("snapshots/{}", scene.kept.0), suite);
            let before = everything(&*objects);
            expect_later(forget::forget(&open(&objects), &[scene.kept.0]), "forget");
            assert!(everything(&*objects) == before);
        }
    }
}

#[test]
fn a_key_is_not_taken_back_for_good_where_a_later_program_knows_what_stays() {
    let scene = TakenBack::new();
    let sealer = Sealer::of(&scene.objects);
    for prefix in ["snapshots/", "logs/"] {
        let objects = copy(&*scene.objects);
        let name = &names(&*objects, prefix)[0];
        let (was, is) = sealer.make_later(&*objects, name, None);
        let before = names(&*objects, "");
        expect_later(scene.take_back(&objects), name);
        assert_eq!(objects.get(name).unwrap(), is);
        let began = format!("clients/{:016x}0000000000000001", scene.key.client());
        let now = names(&*objects, "");
        assert!(now.iter().all(|name| before.contains(name) || *name == began), "{now:?}");
        // Who wants it all the same has it.
        let anyway = copy(&*objects);
        let kept = open(&anyway).remove_client(scene.key.client(), true).unwrap();
        assert_eq!(kept.len(), usize::from(prefix == "logs/"));
        replace(&*objects, name, was);
        assert_eq!(scene.take_back(&objects).unwrap(), [scene.made.0]);
    }
}

/// Whoever stole a client's key can stop everybody as long as it is good, and no longer.
#[test]
fn what_a_stolen_key_seals_as_a_later_version_stops_nobody_once_the_key_is_taken_back() {
    let scene = TakenBack::new();
    let (objects, sealer) = (&scene.objects, Sealer::of(&scene.objects));
    let forged = ObjectId::random();
    scene.forge(objects, forged);
    sealer.make_later(&**objects, &format!("snapshots/{forged}"), None);
    let at = ObjectId::random();
    let sealed = scene.thief().seal(Kind::Intent, at, &intent());
    objects.put(&format!("intents/{at}"), sealer.later(&sealed, None).into()).unwrap();
    let week = Duration::from_secs(7 * 24 * 3600);
    expect_later(pruned(&open(objects), week), "prune");
    expect_later(open(objects).find(&"latest".parse().unwrap()), "latest");
    expect_later(repair(&open(objects)), "repair");
    expect_later(scene.take_back(objects), "key remove");
    let kept = open(objects).remove_client(scene.key.client(), true).unwrap();
    assert_eq!(kept, [scene.made.0]);
    assert_eq!(open(objects).find(&"latest".parse().unwrap()).unwrap().0, scene.made.0);
    expect_clean(&open(objects)).unwrap();
    repair(&open(objects)).unwrap();
    assert_eq!(pruned(&open(objects), week).unwrap().fenced.len(), 1);
    forget::forget(&open(objects), &[forged]).unwrap();
    restored(&open(objects), &scene.made.1).unwrap().expect(&scene.picture).unwrap();
    // Nor is a snapshot that stays, or another's, taken for one of these.
    let name = format!("snapshots/{}", scene.made.0);
    sealer.make_later(&**objects, &name, None);
    let (_, damaged) = open(objects).snapshots().unwrap();
    assert!(damaged[0].to_string().contains(&name), "{damaged:?}");
}
