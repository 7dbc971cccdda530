//! A repository with two snapshots, damaged in several places, and repaired while the power goes.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use onefold_backend::{MemoryObjects, Objects};
use onefold_container::{Content, Directory, container_id};
use onefold_seal::ObjectId;
use onefold_store::prune::{self, Unused};
use onefold_store::repair::{self, Report};
use onefold_store::{Cancel, Progress, Repository, Snapshot, StoreError, backup, forget, restore};
use onefold_testkit::{random, text};
use tempfile::TempDir;

use super::picture::Picture;
use super::trials::Trial;
use super::{
    Protection, chain, config, envelope, expect_clean, init, names, open, replace, restored,
    try_back_up, try_open, write,
};

/// Two snapshots, each of which misses something.
pub struct Damaged {
    source: TempDir,
    /// The damaged repository.
    pub before: Arc<dyn Objects>,
    /// The snapshots, oldest first.
    pub ids: [ObjectId; 2],
    /// What of each can still be restored.
    survivors: BTreeMap<ObjectId, Picture>,
    /// Files of each that cannot, relative to the source.
    lost: BTreeMap<ObjectId, Vec<String>>,
}

impl Damaged {
    pub fn new(protection: Protection) -> Self {
        let source = super::fast_folder();
        let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        let repository = init(Arc::clone(&objects), config(1024, 4096, 16384), protection).unwrap();
        make_first_version(source.path());
        let first = back_up(&repository, source.path());
        let first_containers = names(&*objects, "containers/");
        let first_picture = Picture::of(source.path());
        make_second_version(source.path());
        let second = back_up(&repository, source.path());
        let pictures = [first_picture, Picture::of(source.path())];
        let ids = [first, second];

        let data_container = |is_of_first: bool| {
            let envelope = envelope(&*objects, repository.id());
            let read = |name: &String| {
                let object = objects.get(name).unwrap();
                Directory::of_object(&envelope, container_id(name).unwrap(), &object).unwrap()
            };
            let all = names(&*objects, "containers/");
            let mut own = all.iter().filter(|name| first_containers.contains(name) == is_of_first);
            let name = own.find(|name| read(name).content == Content::Data).unwrap();
            (name.clone(), read(name))
        };
        // One group of several.
        let (name, directory) = data_container(true);
        assert!(directory.groups.len() >= 2, "{} groups", directory.groups.len());
        flip(&*objects, &name, directory.groups[1].offset as usize + 100);
        // A whole container, by its footer.
        let (name, _) = data_container(false);
        let object = objects.get(&name).unwrap();
        replace(&*objects, &name, object.slice(..object.len() - 5));
        flip(&*objects, &names(&*objects, "index/")[0], 100);
        flip(&*objects, &format!("receipts/{first}"), 20);
        flip(&*objects, &names(&*objects, "logs/")[0], 60);

        let mut scene = Self {
            source,
            before: objects,
            ids,
            survivors: BTreeMap::new(),
            lost: BTreeMap::new(),
        };
        let repository = open(&scene.before);
        for ((id, snapshot), picture) in repository.snapshots().unwrap().0.iter().zip(&pictures) {
            let (found, failed) = scene.restore(&repository, snapshot);
            assert!(failed > 0, "nothing is lost");
            found.expect_no_other_bytes(picture).unwrap();
            let lost: Vec<_> = picture
                .paths()
                .filter(|path| !found.paths().any(|kept| kept == *path))
                .map(|path| path.to_str().unwrap().to_owned())
                .collect();
            assert_eq!(lost.len() as u64, failed);
            scene.survivors.insert(*id, found);
            scene.lost.insert(*id, lost);
        }
        assert!(scene.lost[&ids[1]].len() > scene.lost[&ids[0]].len());
        scene
    }

    /// What a snapshot restores to and how much of it does not.
    fn restore(&self, repository: &Repository, snapshot: &Snapshot) -> (Picture, u64) {
        let folder = super::fast_folder();
        let options = restore::Options { threads: NonZero::new(1), ..Default::default() };
        let report = restore::restore(
            repository,
            &snapshot.root,
            folder.path(),
            &options,
            &Progress::default(),
            &Cancel::default(),
        )
        .unwrap();
        (Picture::of(folder.path()), report.failed)
    }

    /// What could be restored before can still be, and new snapshots are whole.
    fn expect_survivors(&self, objects: &Arc<dyn Objects>) -> Result<(), String> {
        let repository = try_open(Arc::clone(objects)).map_err(|error| chain(&error))?;
        let (snapshots, damaged) = repository.snapshots().map_err(|error| chain(&error))?;
        if let Some(error) = damaged.first() {
            return Err(chain(error));
        }
        for id in self.ids {
            let Some((_, snapshot)) = snapshots.iter().find(|(there, _)| *there == id) else {
                return Err(format!("snapshot {id}, which nobody forgot, is gone"));
            };
            let (found, _) = self.restore(&repository, snapshot);
            found
                .expect_at_least(&self.survivors[&id])
                .map_err(|broken| format!("snapshot {id} is worse than before: {broken}"))?;
        }
        for (id, snapshot) in &snapshots {
            if self.ids.contains(id) {
                continue;
            }
            let parent = snapshot.parent.ok_or("a new snapshot does not say of what")?;
            restored(&repository, snapshot)
                .and_then(|found| found.expect(&self.survivors[&parent]))
                .map_err(|broken| format!("the new snapshot of {parent}: {broken}"))?;
        }
        Ok(())
    }

    /// After a repair that ended: each snapshot has a new form, and once the old ones are forgotten
    /// nothing is wrong.
    pub fn expect_repaired(
        &self,
        objects: &Arc<dyn Objects>,
        report: &Report,
    ) -> Result<(), String> {
        self.expect_survivors(objects)?;
        for id in self.ids {
            let of_it: Vec<_> = report.snapshots.iter().filter(|one| one.old == id).collect();
            let [one] = of_it[..] else { return Err(format!("{} forms of {id}", of_it.len())) };
            let mut lost: Vec<_> =
                one.lost.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
            lost.sort();
            if !one.is_from_before && lost != self.lost[&id] {
                return Err(format!("lost of {id} is {lost:?}, expected {:?}", self.lost[&id]));
            }
            if one.new.is_none() {
                return Err(format!("{id} was not rewritten"));
            }
        }
        let repository = try_open(Arc::clone(objects)).map_err(|error| chain(&error))?;
        let there = repository.snapshots().map_err(|error| chain(&error))?.0;
        if there.len() != 4 {
            return Err(format!("there are {} snapshots, expected 2 old and 2 new", there.len()));
        }
        forget::forget(&repository, &self.ids).map_err(|error| chain(&error))?;
        let options = prune::Options {
            max_unused: Unused::Bytes(0),
            fence_after: Duration::ZERO,
            ..prune::Options::default()
        };
        prune::prune(&repository, &options, &Progress::default(), &Cancel::default())
            .map_err(|error| format!("the prune after it fails: {}", chain(&error)))?;
        let repository = try_open(Arc::clone(objects)).map_err(|error| chain(&error))?;
        let warnings = repository.load().map_err(|error| chain(&error))?;
        if !warnings.is_empty() {
            return Err(format!("opening warns: {warnings:?}"));
        }
        expect_clean(&repository).map_err(|broken| format!("not clean in the end: {broken}"))?;
        for prefix in ["marks/", "intents/"] {
            if !names(&**objects, prefix).is_empty() {
                return Err(format!("{prefix} is not empty in the end"));
            }
        }
        for (_, snapshot) in repository.snapshots().map_err(|error| chain(&error))?.0 {
            let parent = snapshot.parent.ok_or("a new snapshot does not say of what")?;
            restored(&repository, &snapshot)?
                .expect(&self.survivors[&parent])
                .map_err(|broken| format!("in the end the new snapshot of {parent}: {broken}"))?;
        }
        Ok(())
    }

    /// Where the files are.
    pub fn source(&self) -> &Path {
        self.source.path()
    }

    /// Paths of what each snapshot lost.
    pub fn lost(&self, id: ObjectId) -> &[String] {
        &self.lost[&id]
    }
}

impl Trial for Damaged {
    type Acknowledged = ();

    fn before(&self) -> &dyn Objects {
        &*self.before
    }

    fn run(&self, objects: Arc<dyn Objects>, (): &mut ()) -> Result<(), StoreError> {
        repair_at(objects).map(drop)
    }

    /// Nothing is worse than before; and another repair brings all of it to a good end.
    fn expect_promises_kept(&self, objects: Arc<dyn Objects>, (): &()) -> Result<(), String> {
        self.expect_survivors(&objects)?;
        let report = repair_at(Arc::clone(&objects))
            .map_err(|error| format!("another repair fails: {}", chain(&error)))?;
        self.expect_repaired(&objects, &report)
    }
}

/// Opens the repository in `objects` and repairs it.
pub fn repair_at(objects: Arc<dyn Objects>) -> Result<Report, StoreError> {
    repair(&try_open(objects)?)
}

/// Repairs an open repository.
pub fn repair(repository: &Repository) -> Result<Report, StoreError> {
    let options =
        repair::Options { host: "host".into(), user: "user".into(), container_len: 64 << 10 };
    repair::repair(repository, &options, &Progress::default(), &Cancel::default())
}

fn back_up(repository: &Repository, source: &Path) -> ObjectId {
    let options =
        backup::Options { threads: NonZero::new(1), container_len: 2 << 20, ..super::options() };
    let (id, _) = try_back_up(repository, &[source], &options, &Progress::default()).unwrap();
    id
}

/// Flips a bit of an object.
pub fn flip(objects: &dyn Objects, name: &str, at: usize) {
    let mut bytes = objects.get(name).unwrap().to_vec();
    bytes[at] ^= 4;
    replace(objects, name, bytes);
}

/// Two groups of one container of data, and some small things.
fn make_first_version(root: &Path) {
    for number in 0..10 {
        write(root.join(format!("{}/noise-{number}", number % 3)), random(number, 60_000));
    }
    write(root.join("text"), text(1, 20_000));
    fs::hard_link(root.join("text"), root.join("0/linked")).unwrap();
    std::os::unix::fs::symlink("text", root.join("link")).unwrap();
}

/// New files, all in a container of their own, and one that has something of both.
fn make_second_version(root: &Path) {
    write(root.join("new/noise"), random(100, 30_000));
    write(root.join("new/text"), text(2, 10_000));
    write(root.join("1/noise-1"), [random(1, 60_000), random(101, 10_000)].concat());
}
