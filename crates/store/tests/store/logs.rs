//! Logs, and clients that remember them: what was taken away or brought back is seen, and nothing
//! that writers, forgets, crashes and lagging listings do is taken for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use onefold_backend::{BackendError, Folder, MemoryFolder, MemoryObjects, Objects};
use onefold_seal::wire::Put;
use onefold_seal::{Envelope, Kind, ObjectId};
use onefold_store::check::Finding;
use onefold_store::{
    KeyRemark, Located, LogEntry, Repository, SnapshotSpec, StoreError, WriteOnlyKey, forget,
    repair,
};
use onefold_testkit::SplitMix64;
use tempfile::TempDir;

use crate::common::lagging::Lagging;
use crate::common::pass_on::pass_on;
use crate::common::remembered::Remembered;
use crate::common::{
    Protection, back_up, checked, copy, envelope, expect_clean, init, names, open, replace,
    small_chunks, write,
};

const BOTH: [Protection; 2] = [Protection::Plain, Protection::Encrypted];

/// A client: a host that remembers, or does not.
#[derive(Clone)]
struct Client {
    host: &'static str,
    memory: Option<Arc<dyn Folder>>,
    /// If it can write and not read.
    key: Option<WriteOnlyKey>,
}

impl Client {
    fn new(host: &'static str) -> Self {
        Self { host, memory: Some(Arc::new(MemoryFolder::new())), key: None }
    }

    fn open(&self, objects: &Arc<dyn Objects>) -> Repository {
        let mut repository = match &self.key {
            None => open(objects),
            Some(key) => match Repository::locate(Arc::clone(objects)).unwrap() {
                Located::Locked(locked) => locked.open_write_only(key).unwrap(),
                Located::Open(_) => panic!("it is encrypted"),
            },
        };
        repository.act_as(self.host.into(), self.memory.clone());
        repository
    }

    fn back_up(&self, objects: &Arc<dyn Objects>, source: &TempDir) -> ObjectId {
        let repository = self.open(objects);
        let (id, _) = back_up(&repository, source.path());
        assert_eq!(repository.trouble(), [] as [&str; 0]);
        id
    }

    /// What contradicts, in words.
    fn recall(&self, objects: &Arc<dyn Objects>) -> Vec<String> {
        self.open(objects).recall().unwrap().iter().map(Finding::to_string).collect()
    }
}

struct Scene {
    source: TempDir,
    objects: Arc<dyn Objects>,
}

impl Scene {
    fn new(protection: Protection) -> Self {
        let source = tempfile::tempdir().unwrap();
        write(source.path().join("file"), "content");
        let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        init(Arc::clone(&objects), small_chunks(), protection).unwrap();
        Self { source, objects }
    }

    fn back_up(&self, client: &Client) -> ObjectId {
        client.back_up(&self.objects, &self.source)
    }

    /// A client that can write and not read.
    fn write_only(&self, host: &'static str) -> Client {
        let key = open(&self.objects).add_client(&KeyRemark::default()).unwrap();
        Client { key: Some(key), ..Client::new(host) }
    }

    fn forget(&self, client: &Client, id: ObjectId) {
        forget::forget(&client.open(&self.objects), &[id]).unwrap();
    }

    fn without(&self, gone: &[String]) -> Arc<dyn Objects> {
        let objects = copy(&*self.objects);
        gone.iter().for_each(|name| objects.delete(name).unwrap());
        objects
    }
}

/// Everything that tells of a snapshot but the logs.
fn of_snapshot(id: ObjectId) -> [String; 2] {
    [format!("snapshots/{id}"), format!("receipts/{id}")]
}

/// Fails unless one of the findings has all of `words`.
fn expect_said(findings: &[String], words: &[&str]) {
    let has_all = |finding: &&String| words.iter().all(|word| finding.contains(word));
    assert!(findings.iter().any(|finding| has_all(&finding)), "{words:?}: {findings:?}");
}

fn expect_one(findings: &[String], words: &[&str]) {
    assert_eq!(findings.len(), 1, "{findings:?}");
    expect_said(findings, words);
}

#[test]
fn a_repository_that_went_back_is_seen_by_whoever_saw_it_before() {
    for protection in BOTH {
        let scene = Scene::new(protection);
        let [one, two, late] = ["one", "two", "late"].map(Client::new);
        scene.back_up(&one);
        let old = copy(&*scene.objects);
        scene.back_up(&one);
        assert_eq!(two.recall(&scene.objects), [] as [&str; 0]);
        let head = names(&*scene.objects, "logs/").pop().unwrap();
        // Whoever was there, whether or not the log is its own, as often as it looks.
        for client in [&one, &two, &one] {
            let findings = client.recall(&old);
            expect_said(&findings, &[&head, "'one'", "older than it was"]);
            expect_said(&findings, &["snapshots/", "'one'", "no log says that it was forgotten"]);
        }
        // Whoever was not cannot know. That is all that brings it back.
        assert_eq!(late.recall(&old), [] as [&str; 0]);
        expect_clean(&open(&old)).unwrap();
        // What is written there now is another history.
        late.back_up(&old, &scene.source);
        let repository = one.open(&old);
        back_up(&repository, scene.source.path());
        assert_eq!(repository.trouble().len(), 2, "it is said, and the backup is made");
        let findings = two.recall(&old);
        assert!(findings.iter().any(|one| one.contains("is not the entry")), "{findings:?}");
        assert_eq!(one.recall(&scene.objects), [] as [&str; 0], "and back again");
    }
}

#[test]
fn a_snapshot_that_was_taken_away_is_missed_by_everybody_until_it_is_forgotten() {
    for protection in BOTH {
        let scene = Scene::new(protection);
        let [one, two, late] = ["one", "two", "late"].map(Client::new);
        let kept = scene.back_up(&one);
        let gone = scene.back_up(&one);
        assert_eq!(two.recall(&scene.objects), [] as [&str; 0]);
        let objects = scene.without(&of_snapshot(gone));
        for client in [&one, &two, &late] {
            let said = [&*gone.to_string(), "'one'", "no log says that it was forgotten"];
            expect_one(&client.recall(&objects), &said);
        }
        let found = checked(&open(&objects)).unwrap().findings;
        assert!(found.iter().any(|one| one.object.contains(&gone.to_string())), "{found:?}");
        // The way out.
        let spec = |id: ObjectId| id.to_string().parse::<SnapshotSpec>().unwrap();
        let repository = two.open(&objects);
        assert_eq!(repository.find_id(&spec(gone)).unwrap(), gone);
        assert_eq!(repository.find_id(&spec(kept)).unwrap(), kept);
        let stranger = repository.find_id(&spec(ObjectId::random()));
        assert!(matches!(stranger, Err(StoreError::NoSnapshot { .. })), "{stranger:?}");
        forget::forget(&repository, &[gone]).unwrap();
        for client in [&one, &two, &late] {
            assert_eq!(client.recall(&objects), [] as [&str; 0]);
        }
        expect_clean(&open(&objects)).unwrap();
    }
}

#[test]
fn entries_that_are_gone_or_exchanged_are_named() {
    for protection in BOTH {
        let scene = Scene::new(protection);
        let [one, late] = ["one", "late"].map(Client::new);
        for _ in 0..3 {
            scene.back_up(&one);
        }
        let entries = names(&*scene.objects, "logs/");
        let [first, middle, last] = &entries[..] else { panic!("{entries:?}") };
        for gone in [first, middle] {
            let objects = scene.without(std::slice::from_ref(gone));
            expect_one(&late.recall(&objects), &[gone, "is missing, though"]);
            let found = checked(&open(&objects)).unwrap().findings;
            assert!(found.iter().any(|one| one.object == *gone), "{found:?}");
        }
        let objects = scene.without(std::slice::from_ref(last));
        expect_one(&one.recall(&objects), &[last, "'one'", "is the last now"]);
        let objects = scene.without(&entries);
        expect_one(&one.recall(&objects), &[last, "'one'", "nothing is left"]);
        let objects = copy(&*scene.objects);
        replace(&*objects, middle, objects.get(last).unwrap());
        let findings = late.recall(&objects);
        assert!(findings.iter().any(|one| one.contains(middle)), "{findings:?}");
    }
}

#[test]
fn a_snapshot_that_no_log_names_is_noted_and_harms_nobody() {
    let scene = Scene::new(Protection::Plain);
    let one = Client::new("one");
    scene.back_up(&one);
    let id = scene.back_up(&one);
    // As a backup leaves it that was cut off after its snapshot.
    let last = names(&*scene.objects, "logs/").pop().unwrap();
    let objects = scene.without(&[last, of_snapshot(id)[1].clone()]);
    assert_eq!(Client::new("two").recall(&objects), [] as [&str; 0]);
    let report = checked(&open(&objects)).unwrap();
    assert_eq!(report.findings, []);
    let note = |note: &String| note.contains("in no log") && note.contains(&id.to_string());
    assert!(report.notes.iter().any(note), "{:?}", report.notes);
    forget::forget(&open(&objects), &[id]).unwrap();
    assert_eq!(checked(&open(&objects)).unwrap().notes, [] as [&str; 0]);
}

/// Any order of backups, forgets and looks by several clients, one of which cannot read.
#[test]
fn writers_beside_each_other_are_never_taken_for_attackers() {
    for seed in 0..6 {
        let scene = Scene::new(Protection::Encrypted);
        let forgetful = Client { memory: None, ..Client::new("two") };
        let clients = [Client::new("one"), Client::new("two"), forgetful, scene.write_only("one")];
        let mut numbers = SplitMix64::new(seed);
        let mut there = Vec::new();
        for _ in 0..24 {
            let client = &clients[numbers.below(clients.len())];
            match numbers.below(4) {
                0 | 1 => there.push(scene.back_up(client)),
                2 if client.key.is_none() && !there.is_empty() => {
                    let id = there.swap_remove(numbers.below(there.len()));
                    scene.forget(client, id);
                }
                _ => assert_eq!(client.recall(&scene.objects), [] as [&str; 0], "seed {seed}"),
            }
        }
        for client in clients.iter().chain([&Client::new("late")]) {
            assert_eq!(client.recall(&scene.objects), [] as [&str; 0], "seed {seed}");
        }
        let report = checked(&open(&scene.objects)).unwrap();
        assert_eq!((report.findings, report.notes), (Vec::new(), Vec::new()), "seed {seed}");
    }
}

#[test]
fn a_listing_that_lags_is_no_attack() {
    let scene = Scene::new(Protection::Encrypted);
    let [one, two] = ["one", "two"].map(Client::new);
    let first = scene.back_up(&one);
    let lagging = |prefix| {
        let lagging = Arc::new(Lagging::new(Arc::clone(&scene.objects), prefix));
        let objects: Arc<dyn Objects> = Arc::clone(&lagging) as _;
        (lagging, objects)
    };
    // Backups of which nothing is listed yet, by their own client and by another.
    let (lag, objects) = lagging("");
    let second = scene.back_up(&one);
    scene.back_up(&one);
    assert_eq!(one.recall(&objects), [] as [&str; 0]);
    assert_eq!(two.recall(&objects), [] as [&str; 0]);
    // What it notes next goes behind entries that it does not see.
    let repository = one.open(&objects);
    forget::forget(&repository, &[second]).unwrap();
    assert_eq!((repository.trouble().len(), lag.settled()), (0, 0));
    assert_eq!(names(&*scene.objects, "logs/").len(), 4);
    // A forget whose log entry is not listed yet, and the snapshot is gone.
    let (lag, objects) = lagging("logs/");
    scene.forget(&two, first);
    assert_eq!(one.recall(&objects), [] as [&str; 0]);
    assert_eq!(lag.settled(), 1);
    for client in [&one, &two, &Client::new("late")] {
        assert_eq!(client.recall(&scene.objects), [] as [&str; 0]);
    }
}

#[test]
fn a_write_only_client_sees_a_log_go_back_and_forgets_nothing() {
    let scene = Scene::new(Protection::Encrypted);
    let (owner, client) = (Client::new("owner"), scene.write_only("client"));
    let id = scene.back_up(&owner);
    scene.back_up(&client);
    let old = copy(&*scene.objects);
    scene.back_up(&client);
    for who in [&client, &owner] {
        assert_eq!(who.recall(&scene.objects), [] as [&str; 0]);
        expect_said(&who.recall(&old), &["logs/", "older than it was"]);
    }
    // It says that the owner's snapshot was forgotten, in whichever log, and takes it away.
    let reader = envelope(&*scene.objects, open(&scene.objects).id());
    let keys = reader.keys().unwrap().of_client(7).unwrap();
    let forger = Envelope::encrypted(reader.repository(), keys);
    for log in ["owner", "client", "nobody"] {
        let objects = scene.without(&of_snapshot(id));
        let body = entry(b"", log, &[], &[id], &[(0, 7)]);
        let at = [&forger.pseudonym(log.as_bytes())[..], &7u64.to_be_bytes()].concat();
        let at = ObjectId::from_bytes(at.try_into().unwrap());
        let object = forger.seal(Kind::LogEntry, at, &body);
        objects.put(&format!("logs/{at}"), object.into()).unwrap();
        let findings = Client::new("late").recall(&objects);
        for word in [&*id.to_string(), "which can do neither"] {
            assert!(findings.iter().any(|one| one.contains(word)), "{findings:?}");
        }
    }
}

/// The body of a log entry.
fn entry(
    previous: &[u8],
    host: &str,
    committed: &[ObjectId],
    forgotten: &[ObjectId],
    settled: &[(u64, u64)],
) -> Vec<u8> {
    let mut body = Vec::new();
    body.put_bytes(previous);
    body.extend([0, 0]);
    body.put_bytes(host.as_bytes());
    for list in [committed, forgotten] {
        body.put_varint(list.len() as u64);
        list.iter().for_each(|id| body.extend_from_slice(id.as_bytes()));
    }
    body.put_varint(settled.len() as u64);
    for (first, last) in settled {
        body.put_varint(*first);
        body.put_varint(*last);
    }
    assert!(LogEntry::decode(&body).is_ok());
    body
}

#[test]
fn a_fence_in_the_place_of_a_snapshot_is_a_snapshot_that_is_missing() {
    for protection in BOTH {
        let scene = Scene::new(protection);
        let owner = Client::new("owner");
        let id = scene.back_up(&owner);
        assert_eq!(owner.recall(&scene.objects), [] as [&str; 0]);
        let keys = envelope(&*scene.objects, open(&scene.objects).id());
        let fence = keys.seal(Kind::Fence, id, &[]);
        let objects = scene.without(&[]);
        replace(&*objects, &format!("snapshots/{id}"), fence);
        for client in [&owner, &Client::new("late")] {
            expect_said(&client.recall(&objects), &[&id.to_string(), "has a fence in its place"]);
        }
        let findings = checked(&open(&objects)).unwrap().findings;
        assert!(findings.iter().any(|one| one.object.ends_with(&id.to_string())), "{findings:?}");
        // A fence that is made long is none, and what it is not is said.
        if protection == Protection::Encrypted {
            let mut body = vec![0; 500];
            body[0] = 1;
            let mut long = Vec::new();
            let parts = keys.clone().padding(true).begin(Kind::Fence, id, &mut long);
            let check = parts.seal_end(&mut body, b"");
            long.extend_from_slice(&body);
            long.extend_from_slice(check.as_bytes());
            assert_eq!(keys.open(Kind::Fence, id, &long).unwrap(), &b""[..]);
            replace(&*objects, &format!("snapshots/{id}"), long);
            let (_, damaged) = open(&objects).snapshots().unwrap();
            assert!(damaged[0].to_string().contains(&id.to_string()), "{damaged:?}");
        }
        // Given up, nobody minds it any more.
        let objects = scene.without(&[]);
        replace(&*objects, &format!("snapshots/{id}"), keys.seal(Kind::Fence, id, &[]));
        forget::forget(&owner.open(&objects), &[id]).unwrap();
        assert_eq!(owner.recall(&objects), [] as [&str; 0]);
    }
}

#[test]
fn an_entry_that_names_very_many_snapshots_costs_no_request_for_each() {
    let scene = Scene::new(Protection::Plain);
    let keys = envelope(&*scene.objects, open(&scene.objects).id());
    let named: Vec<_> = (0..5000).map(|_| ObjectId::random()).collect();
    let at = [&keys.pseudonym(b"liar")[..], &[0; 8]].concat();
    let at = ObjectId::from_bytes(at.try_into().unwrap());
    let body = entry(b"", "liar", &named, &[], &[]);
    scene.objects.put(&format!("logs/{at}"), keys.seal(Kind::LogEntry, at, &body).into()).unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counting: Arc<dyn Objects> =
        Arc::new(Counting { objects: Arc::clone(&scene.objects), asked: Arc::clone(&asked) });
    assert_eq!(Client::new("late").recall(&counting).len(), named.len());
    let asked = asked.load(Ordering::Relaxed);
    assert!(asked < 100, "asked {asked} times for the size of an object");
}

/// Objects that count how often one is asked for its size.
struct Counting {
    objects: Arc<dyn Objects>,
    asked: Arc<AtomicUsize>,
}

impl Objects for Counting {
    pass_on!(put, get, list, delete);

    fn size(&self, name: &str) -> Result<u64, BackendError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.objects.size(name)
    }
}

#[test]
fn a_repair_settles_what_contradicts_for_all_clients() {
    for protection in BOTH {
        let scene = Scene::new(protection);
        let [one, two] = ["one", "two"].map(Client::new);
        scene.back_up(&one);
        let gone = scene.back_up(&one);
        scene.back_up(&two);
        let [first, _, _] = &names(&*scene.objects, "logs/")[..] else { panic!() };
        // Damaged, of which a snapshot is missing, and without its end.
        let went_back = scene.without(&[]);
        scene.back_up(&one);
        scene.back_up(&two);
        assert_eq!(two.recall(&scene.objects), [] as [&str; 0]);
        let mut damaged = went_back.get(first).unwrap().to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        replace(&*went_back, first, damaged);
        of_snapshot(gone).iter().for_each(|name| went_back.delete(name).unwrap());
        let late = Client::new("late");
        assert!(two.recall(&went_back).len() >= 3, "{:?}", two.recall(&went_back));
        let repository = two.open(&went_back);
        let report = crate::common::repaired::repair(&repository).unwrap();
        assert_eq!(report.logs.len(), 2, "{report:?}");
        assert!(report.given_up.contains(&gone), "{report:?}");
        assert_eq!(repository.trouble(), [] as [&str; 0]);
        expect_clean(&open(&went_back)).unwrap();
        for client in [&two, &one, &late] {
            assert_eq!(client.recall(&went_back), [] as [&str; 0], "{}", client.host);
        }
        one.back_up(&went_back, &scene.source);
        let again = crate::common::repaired::repair(&two.open(&went_back)).unwrap();
        assert_eq!((again.logs.len(), again.given_up.len()), (0, 0));
        assert_eq!(two.recall(&went_back), [] as [&str; 0]);
        let _: &repair::Report = &again;
    }
}

#[test]
fn a_crash_anywhere_is_no_attack_and_what_was_remembered_stays_so() {
    let count = Remembered::new().cut_power_everywhere(3).unwrap();
    println!("a backup and a forget of a client that remembers: {count}");
    assert!(count.operations > 60 && count.states > count.operations, "{count}");
}

#[test]
fn processes_that_read_the_log_at_the_same_time_append_one_behind_the_other() {
    for protection in BOTH {
        let scene = Scene::new(protection);
        let client = Client::new("one");
        let open = || {
            let repository = client.open(&scene.objects);
            assert_eq!(repository.recall().unwrap(), []);
            repository
        };
        let opened = [open(), open(), open()];
        for repository in opened.iter().chain(&opened) {
            back_up(repository, scene.source.path());
            assert_eq!(repository.trouble(), [""; 0]);
        }
        let entries = names(&*scene.objects, "logs/");
        let numbers: Vec<_> =
            entries.iter().map(|name| name[name.len() - 16..].to_owned()).collect();
        let expected: Vec<_> = (0..6).map(|number| format!("{number:016x}")).collect();
        assert_eq!(numbers, expected);
        for client in [client, Client::new("late")] {
            assert_eq!(client.recall(&scene.objects), [""; 0]);
        }
    }
}

#[test]
fn an_entry_that_a_contradicted_client_puts_is_not_remembered() {
    for protection in BOTH {
        let scene = Scene::new(protection);
        let client = Client::new("one");
        let open = || client.open(&scene.objects);
        let repository = open();
        assert_eq!(repository.recall().unwrap(), []);
        let (lost, _) = back_up(&repository, scene.source.path());
        assert_eq!(repository.recall().unwrap(), []);
        scene.objects.delete(&format!("snapshots/{lost}")).unwrap();
        // It goes on as long as it likes, and the loss is said each time.
        for _ in 0..3 {
            let repository = open();
            assert_eq!(repository.recall().unwrap().len(), 1);
            back_up(&repository, scene.source.path());
            assert_eq!(repository.trouble().len(), 1);
        }
    }
}
