//! Damage: every action on every object of a repository. A check names the object, a restore gives
//! the right bytes or says what it could not give, and the next backup works.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use onefold_backend::{MemoryObjects, Objects};
use onefold_container::{Content, Directory, container_id};
use onefold_seal::{HEADER_LEN, ObjectId};
use onefold_store::{Progress, Repository, SnapshotSpec, StoreError, restore};
use onefold_testkit::{SplitMix64, random, text};
use tempfile::TempDir;

use crate::common::picture::Picture;
use crate::common::{
    Issues, Protection, back_up, chain, checked, copy, envelope, expect_clean, init, names, open,
    options, replace, restored, small_chunks, try_back_up, try_open, try_restore, write,
};

/// What is done to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Action {
    FlippedBit,
    Truncated,
    Extended,
    Empty,
    Missing,
    Swapped,
}

impl Action {
    const ALL: [Self; 6] = [
        Self::FlippedBit,
        Self::Truncated,
        Self::Extended,
        Self::Empty,
        Self::Missing,
        Self::Swapped,
    ];

    /// The forms of this action on `object`: what is there afterwards, or nothing.
    fn apply(self, object: &[u8], other: &[u8]) -> Vec<Option<Vec<u8>>> {
        match self {
            Self::FlippedBit => flipped(object),
            Self::Truncated => [HEADER_LEN - 1, HEADER_LEN, object.len() / 2, object.len() - 1]
                .map(|len| Some(object[..len.min(object.len() - 1)].to_vec()))
                .to_vec(),
            Self::Extended => vec![Some([object, b"\0"].concat())],
            Self::Empty => vec![Some(Vec::new())],
            Self::Missing => vec![None],
            Self::Swapped => vec![Some(other.to_vec())],
        }
    }
}

/// A bit of each part of the header, some of the body, and some of the footer or check flipped.
fn flipped(object: &[u8]) -> Vec<Option<Vec<u8>>> {
    let mut numbers = SplitMix64::new(object.len() as u64);
    let header = [0, 4, 5, 6, 8, 12, 20, 40];
    let body = [0; 4].map(|_| HEADER_LEN + numbers.below(object.len() - HEADER_LEN));
    let end = [1, 16, 17, 20, 30].map(|back| object.len() - back);
    [&header[..], &body, &end]
        .concat()
        .into_iter()
        .map(|at| {
            let mut damaged = object.to_vec();
            damaged[at] ^= 1 << numbers.below(8);
            Some(damaged)
        })
        .collect()
}

/// What an object is to the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Config,
    DataContainer,
    MetadataContainer,
    Run,
    Snapshot,
    Receipt,
    Key,
    Epoch,
    LogEntry,
}

impl What {
    const ALL: [Self; 9] = [
        Self::Config,
        Self::DataContainer,
        Self::MetadataContainer,
        Self::Run,
        Self::Snapshot,
        Self::Receipt,
        Self::Key,
        Self::Epoch,
        Self::LogEntry,
    ];

    /// Whether all snapshots can do without an object of this kind.
    fn is_dispensable(self) -> bool {
        matches!(self, Self::Run | Self::Receipt | Self::LogEntry)
    }

    fn is_container(self) -> bool {
        matches!(self, Self::DataContainer | Self::MetadataContainer)
    }
}

/// How damage was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Noticed {
    /// The repository does not open, with an error that names the object.
    Refused,
    /// A finding names the object.
    Found,
    /// A note names it: nothing is lost.
    Noted,
    /// Every finding names the two repositories that are mixed.
    FoundEverywhere,
}

impl fmt::Display for Noticed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "refused",
            Self::Found => "found",
            Self::Noted => "noted",
            Self::FoundEverywhere => "found in all others",
        })
    }
}

/// A repository with three snapshots of a source that grew.
struct Scene {
    source: TempDir,
    objects: Arc<dyn Objects>,
    id: ObjectId,
    pictures: BTreeMap<ObjectId, Picture>,
}

impl Scene {
    fn new() -> Self {
        Self::of(Protection::Plain, 3)
    }

    /// So many snapshots, the last one in a key epoch of its own if the repository is encrypted.
    fn of(protection: Protection, versions: u64) -> Self {
        let source = tempfile::tempdir().unwrap();
        let root = source.path();
        let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        let mut repository = init(Arc::clone(&objects), small_chunks(), protection).unwrap();
        let mut pictures = BTreeMap::new();
        for version in 0..versions {
            if repository.is_encrypted() && version + 1 == versions {
                repository.rotate().unwrap();
                repository = open(&objects);
            }
            for number in 0..4 {
                let seed = version * 10 + number;
                write(root.join(format!("texts/{version}/{number}")), text(seed, 2000));
            }
            // Its recipe has nodes, which are lost with a container of metadata.
            write(root.join(format!("noise/{version}")), random(version, 200_000));
            let (id, _) = back_up(&repository, root);
            pictures.insert(id, Picture::of(root));
        }
        Self { source, objects, id: repository.id(), pictures }
    }

    fn what(&self, name: &str) -> What {
        match name.split('/').next().unwrap() {
            "config" => What::Config,
            "index" => What::Run,
            "snapshots" => What::Snapshot,
            "receipts" => What::Receipt,
            "keys" => What::Key,
            "epochs" => What::Epoch,
            "logs" => What::LogEntry,
            "containers" => match self.directory(name).content {
                Content::Data => What::DataContainer,
                Content::Metadata => What::MetadataContainer,
            },
            other => panic!("what is '{other}'?"),
        }
    }

    fn directory(&self, name: &str) -> Directory {
        let object = self.objects.get(name).unwrap();
        let id = container_id(name).unwrap();
        Directory::of_object(&envelope(&self.objects, self.id), id, &object).unwrap()
    }

    /// Another object of the same kind; of another repository if there is one only.
    fn another(&self, name: &str, all: &[(String, What)]) -> Vec<u8> {
        let what = self.what(name);
        match all.iter().find(|(other, kind)| *kind == what && other != name) {
            Some((other, _)) => self.objects.get(other).unwrap().to_vec(),
            None => self.foreign(what),
        }
    }

    /// An object of this kind of another repository.
    fn foreign(&self, what: What) -> Vec<u8> {
        let protection = match open(&self.objects).is_encrypted() {
            true => Protection::Encrypted,
            false => Protection::Plain,
        };
        let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        let repository = init(Arc::clone(&objects), small_chunks(), protection).unwrap();
        let name = match what {
            What::Config => "config".to_owned(),
            What::Key => names(&objects, "keys/").remove(0),
            What::Epoch => {
                repository.rotate().unwrap();
                names(&objects, "epochs/").remove(0)
            }
            other => panic!("there are several of {other:?}"),
        };
        objects.get(&name).unwrap().to_vec()
    }

    /// Damages a copy of the repository.
    fn damaged(&self, name: &str, bytes: Option<Vec<u8>>) -> Arc<dyn Objects> {
        let objects = copy(&self.objects);
        match bytes {
            Some(bytes) => replace(&objects, name, bytes),
            None => objects.delete(name).unwrap(),
        }
        objects
    }

    /// Restores every snapshot: right bytes, or a failure that is reported. Whether all are whole.
    fn expect_no_wrong_bytes(&self, repository: &Repository) -> bool {
        let (snapshots, damaged) = repository.snapshots().unwrap();
        let mut are_whole = damaged.is_empty() && snapshots.len() == self.pictures.len();
        for (id, snapshot) in &snapshots {
            let expected = &self.pictures[id];
            let Ok(restored) = try_restore(repository, snapshot, &restore::Options::default())
            else {
                are_whole = false;
                continue;
            };
            let found = Picture::of(restored.folder.path());
            found.expect_no_other_bytes(expected).unwrap();
            match restored.report.failed {
                0 => found.expect(expected).unwrap(),
                _ => {
                    assert!(!restored.issues.is_empty(), "a failure that nobody hears of");
                    are_whole = false;
                }
            }
        }
        are_whole
    }

    /// Backs up on top of the damage; the new snapshot must be there and, if `is_healed`, whole.
    fn expect_next_backup(&self, objects: &Arc<dyn Objects>, is_healed: bool) {
        let repository = open(objects);
        let root = [self.source.path()];
        let (_, next) = try_back_up(&repository, &root, &options(), &Progress::default()).unwrap();
        let whole = Picture::of(self.source.path());
        let after = open(objects);
        match restored(&after, &next) {
            Ok(found) => found.expect(&whole).unwrap(),
            Err(failed) => assert!(!is_healed, "the next backup is not whole: {failed}"),
        }
    }
}

/// How a check notices that `name` is damaged.
fn noticed(objects: &Arc<dyn Objects>, name: &str) -> Result<Noticed, String> {
    let repository = match try_open(Arc::clone(objects)) {
        Ok(repository) => repository,
        // Without any key it is not known which one is missing.
        Err(StoreError::NoKeys { .. }) if name.starts_with("keys/") => return Ok(Noticed::Refused),
        Err(error) => {
            let said = chain(&error);
            return said.contains(name).then_some(Noticed::Refused).ok_or(said);
        }
    };
    // A container is named by its id, as one lacks the name that is not listed.
    let id = name.rsplit('/').next().unwrap();
    let report = checked(&repository).map_err(|error| chain(&error))?;
    if report.findings.iter().any(|finding| finding.to_string().contains(id)) {
        return Ok(Noticed::Found);
    }
    // A run that is gone is known by the containers that it covered, the last entry of a log by the
    // snapshot that it named.
    let names_it = |note: &String| {
        note.contains(name)
            || (name.starts_with("index/") && note.contains("in no index run"))
            || (name.starts_with("logs/") && note.contains("in no log"))
    };
    if report.notes.iter().any(names_it) && report.findings.is_empty() {
        return Ok(Noticed::Noted);
    }
    let is_mixed = |problem: &str| {
        problem.contains("belongs to repository") || problem.contains("a key was added")
    };
    match report.findings.iter().filter(|finding| is_mixed(&finding.problem)).count() {
        0 => Err(format!("{report:?}")),
        _ => Ok(Noticed::FoundEverywhere),
    }
}

#[test]
fn every_damage_to_every_object_is_named_and_none_gives_wrong_bytes() {
    let kinds = damage_everything(&Scene::new());
    assert_eq!(kinds, What::ALL.len() - 2, "there are no keys and epochs");
}

#[test]
fn every_damage_to_an_encrypted_repository_is_named_and_none_gives_wrong_bytes() {
    let kinds = damage_everything(&Scene::of(Protection::Encrypted, 2));
    assert_eq!(kinds, What::ALL.len());
}

/// Damages every object in every way; how many kinds of objects there were.
fn damage_everything(scene: &Scene) -> usize {
    let is_encrypted = open(&scene.objects).is_encrypted();
    let all: Vec<(String, What)> = names(&scene.objects, "")
        .into_iter()
        .map(|name| (name.clone(), scene.what(&name)))
        .collect();
    let mut matrix = BTreeMap::<(Action, What), BTreeMap<Noticed, u32>>::new();
    for (name, what) in &all {
        let object = scene.objects.get(name).unwrap();
        let other = scene.another(name, &all);
        for action in Action::ALL {
            for bytes in action.apply(&object, &other) {
                let objects = scene.damaged(name, bytes);
                let noticed = noticed(&objects, name)
                    .unwrap_or_else(|said| panic!("{action:?} {what:?} {name}: {said}"));
                *matrix.entry((action, *what)).or_default().entry(noticed).or_default() += 1;
                let expected: &[Noticed] = match (action, what) {
                    (Action::Swapped, What::Config) if !is_encrypted => &[Noticed::FoundEverywhere],
                    (Action::Missing, What::Epoch) => &[Noticed::FoundEverywhere],
                    (_, What::Config | What::Key) => &[Noticed::Refused],
                    (Action::Missing, What::Receipt | What::Run) => &[Noticed::Noted],
                    // The last one of a log is known by its snapshot only.
                    (Action::Missing, What::LogEntry) => &[Noticed::Found, Noticed::Noted],
                    _ => &[Noticed::Found],
                };
                assert!(expected.contains(&noticed), "{action:?} {what:?}: {noticed}");
                if noticed == Noticed::Refused || *what == What::Config {
                    continue;
                }
                let are_whole = scene.expect_no_wrong_bytes(&open(&objects));
                assert!(are_whole || !what.is_dispensable(), "{action:?} {what:?} lost data");
                scene.expect_next_backup(
                    &objects,
                    !what.is_container() || matches!(action, Action::Missing | Action::Empty),
                );
            }
        }
    }
    print(&matrix);
    let cases: u32 = matrix.values().flat_map(BTreeMap::values).sum();
    println!("{cases} damages to {} objects", all.len());
    assert_eq!(matrix.len() % Action::ALL.len(), 0);
    matrix.len() / Action::ALL.len()
}

fn print(matrix: &BTreeMap<(Action, What), BTreeMap<Noticed, u32>>) {
    print!("{:12}", "");
    What::ALL.iter().for_each(|what| print!("{:22}", format!("{what:?}")));
    for action in Action::ALL {
        print!("\n{:12}", format!("{action:?}"));
        for what in What::ALL {
            let Some(counts) = matrix.get(&(action, what)) else { continue };
            let cell: Vec<_> =
                counts.iter().map(|(noticed, count)| format!("{count} {noticed}")).collect();
            print!("{:22}", cell.join(", "));
        }
    }
    println!();
}

#[test]
fn a_container_that_was_removed_is_healed_by_the_next_backup() {
    let scene = Scene::new();
    for name in names(&scene.objects, "containers/") {
        let objects = scene.damaged(&name, None);
        let before = open(&objects);
        assert!(before.load().unwrap().is_empty(), "runs may cover containers that are gone");
        let (_, next) = back_up(&before, scene.source.path());
        assert!(next.summary.new_bytes > 0);
        let after = open(&objects);
        restored(&after, &next).unwrap().expect(&Picture::of(scene.source.path())).unwrap();
        // The source still has every byte of the older snapshots, though not their trees.
        if scene.what(&name) == What::DataContainer {
            for (id, picture) in &scene.pictures {
                let (_, old) = after.find(&id.to_string().parse().unwrap()).unwrap();
                restored(&after, &old).unwrap().expect(picture).unwrap();
            }
        }
    }
}

#[test]
fn no_backup_relies_on_a_container_that_is_listed_shorter_than_it_must_be() {
    let scene = Scene::new();
    for name in names(&scene.objects, "containers/") {
        let object = scene.objects.get(&name).unwrap();
        let chunks = scene.directory(&name).chunks.len();
        // Nothing, a header alone, and less than the chunks take in the footer.
        for len in [0, HEADER_LEN, 33 * chunks] {
            let objects = scene.damaged(&name, Some(object[..len].to_vec()));
            let repository = open(&objects);
            let warnings = repository.load().unwrap();
            assert!(warnings.len() == 1 && warnings[0].contains(&name[14..]), "{warnings:?}");
            let (_, next) = back_up(&repository, scene.source.path());
            assert!(next.summary.new_bytes > 0);
            let expected = Picture::of(scene.source.path());
            restored(&open(&objects), &next).unwrap().expect(&expected).unwrap();
        }
    }
}

#[test]
fn a_damaged_run_is_warned_of_and_done_without() {
    let scene = Scene::new();
    for name in names(&scene.objects, "index/") {
        let objects = scene.damaged(&name, Some(b"no run at all".to_vec()));
        let repository = open(&objects);
        let warnings = repository.load().unwrap();
        assert!(warnings.len() == 1 && warnings[0].contains(&name[6..]), "{warnings:?}");
        // What the run covered is read from the containers: nothing is stored again.
        let stored = names(&objects, "containers/").len();
        let (_, next) = back_up(&repository, scene.source.path());
        assert_eq!((next.summary.new_bytes, next.summary.unchanged_files), (0, 15));
        assert_eq!(names(&objects, "containers/").len(), stored);
    }
}

#[test]
fn without_any_run_everything_is_found_in_the_containers() {
    let scene = Scene::new();
    let objects = copy(&scene.objects);
    names(&objects, "index/").iter().for_each(|name| objects.delete(name).unwrap());
    names(&objects, "receipts/").iter().for_each(|name| objects.delete(name).unwrap());
    let repository = open(&objects);
    assert!(repository.load().unwrap().is_empty());
    assert!(scene.expect_no_wrong_bytes(&repository));
    expect_clean(&repository).unwrap();
}

#[test]
fn a_container_that_no_run_covers_and_is_damaged_is_warned_of() {
    let scene = Scene::new();
    let objects = copy(&scene.objects);
    names(&objects, "index/").iter().for_each(|name| objects.delete(name).unwrap());
    let name = names(&objects, "containers/").pop().unwrap();
    replace(&objects, &name, "x");
    let repository = open(&objects);
    let warnings = repository.load().unwrap();
    assert!(warnings.len() == 1 && warnings[0].contains(&name[14..]), "{warnings:?}");
    // Nobody vouches for it, so its chunks are read and stored again.
    let (_, next) = back_up(&repository, scene.source.path());
    restored(&open(&objects), &next).unwrap().expect(&Picture::of(scene.source.path())).unwrap();
}

#[test]
fn the_latest_snapshot_is_not_guessed_beside_a_damaged_one() {
    let scene = Scene::new();
    let objects = copy(&scene.objects);
    let name = names(&objects, "snapshots/").pop().unwrap();
    replace(&objects, &name, "x");
    let repository = open(&objects);
    let error = repository.find(&SnapshotSpec::Latest).unwrap_err();
    assert!(chain(&error).contains(&name), "{}", chain(&error));
    let (snapshots, damaged) = repository.snapshots().unwrap();
    assert_eq!((snapshots.len(), damaged.len()), (2, 1));
    let (id, _) = &snapshots[0];
    assert!(repository.find(&id.to_string().parse().unwrap()).is_ok());
}

#[test]
fn what_does_not_belong_there_is_noted_and_left_alone() {
    let scene = Scene::new();
    let objects = copy(&scene.objects);
    for folder in ["containers/00/", "index/", "snapshots/", "receipts/"] {
        objects.put(&format!("{folder}left-behind"), "x".into()).unwrap();
    }
    let repository = open(&objects);
    assert!(repository.load().unwrap().is_empty());
    let report = checked(&repository).unwrap();
    assert!(report.findings.is_empty());
    assert_eq!(report.notes.iter().filter(|note| note.contains("left-behind")).count(), 4);
    assert!(scene.expect_no_wrong_bytes(&repository));
}

#[test]
fn a_repository_without_its_config_says_what_it_lost() {
    let scene = Scene::new();
    let objects = scene.damaged("config", None);
    let error = Repository::open(Arc::clone(&objects)).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::LostConfig { .. }), "{error}");
    let error = Repository::init(objects, small_chunks()).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::NotEmpty { .. }), "{error}");
    let error = Repository::init(Arc::clone(&scene.objects), small_chunks()).map(drop).unwrap_err();
    assert!(matches!(error, StoreError::Exists), "{error}");
}

#[test]
fn a_lost_parent_tree_makes_its_files_be_read_again() {
    let scene = Scene::new();
    for name in names(&scene.objects, "containers/") {
        if scene.what(&name) != What::MetadataContainer {
            continue;
        }
        let objects = scene.damaged(&name, None);
        let issues = Issues::default();
        let repository = open(&objects);
        let root = [scene.source.path()];
        let done = try_back_up(&repository, &root, &options(), &issues.progress());
        assert_eq!(issues.all(), [] as [&str; 0]);
        let (_, next) = done.unwrap();
        assert!(next.summary.unchanged_files < 15, "{:?}", next.summary);
        restored(&open(&objects), &next).unwrap();
    }
}
