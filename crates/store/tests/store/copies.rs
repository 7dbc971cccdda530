//! Copies that a client keeps of what lies far away: what they serve for, and what they must not.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use onefold_backend::{MemoryObjects, Objects};
use onefold_container::{Content, Directory, container_id};
use onefold_seal::Password;
use onefold_store::prune::{self, prune};
use onefold_store::{
    Cancel, KeyRemark, Located, ObjectCache, Progress, Repository, StoreError, forget,
};
use tempfile::TempDir;

use crate::common::picture::Picture;
use crate::common::repaired::flip;
use crate::common::taken_back::TakenBack;
use crate::common::{
    CHEAP, Protection, back_up, checked, envelope, init, names, open, restored, small_chunks, write,
};

const MAX: u64 = 64 << 20;

/// A repository far away, and a client with a cache.
struct Far {
    objects: Arc<dyn Objects>,
    source: TempDir,
    cache: TempDir,
}

impl Far {
    fn new(protection: Protection) -> Self {
        let objects: Arc<dyn Objects> = Arc::new(MemoryObjects::new());
        init(Arc::clone(&objects), small_chunks(), protection).unwrap();
        let (source, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for number in 0..20 {
            let file = source.path().join(format!("folder-{number}/file"));
            write(file, format!("what is in file {number}").repeat(50));
        }
        Self { objects, source, cache }
    }

    /// The repository, opened by the client that has the cache.
    fn open(&self) -> Repository {
        self.keep_copies(open(&self.objects))
    }

    fn keep_copies(&self, mut repository: Repository) -> Repository {
        let cache = ObjectCache::open(self.cache.path(), repository.id(), MAX).unwrap();
        repository.keep_copies(cache);
        repository
    }

    fn copies(&self) -> Vec<PathBuf> {
        files_below(self.cache.path())
    }

    /// Fails unless the client finds one snapshot that is as the source.
    fn expect_whole(&self) {
        let repository = self.open();
        let (id, snapshot) = repository.latest(|_| true).unwrap();
        assert_eq!(repository.snapshots().unwrap().1.len(), 0);
        let picture = restored(&repository, &snapshot).unwrap();
        picture.expect(&Picture::of(self.source.path())).unwrap();
        assert_eq!(repository.trouble(), [""; 0], "{id}");
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

/// What a copy is of: the first word of its name.
fn kind(copy: &Path) -> &str {
    copy.file_name().unwrap().to_str().unwrap().split('-').next().unwrap()
}

fn kinds(copies: &[PathBuf]) -> BTreeSet<String> {
    copies.iter().map(|copy| kind(copy).to_owned()).collect()
}

/// What it is called, and what it makes of a copy.
type Damage = (&'static str, fn(&[u8]) -> Vec<u8>);

const PROTECTIONS: [Protection; 2] = [Protection::Plain, Protection::Encrypted];

#[test]
fn copies_are_pieces_of_the_repository_and_only_of_what_never_changes() {
    for protection in PROTECTIONS {
        let far = Far::new(protection);
        for _ in 0..3 {
            back_up(&far.open(), far.source.path());
        }
        let objects: Vec<_> =
            names(&*far.objects, "").iter().map(|name| far.objects.get(name).unwrap()).collect();
        let start_len = envelope(&*far.objects, far.open().id()).start_len();
        let copies = far.copies();
        let expected = ["footer", "group", "snapshot"].map(str::to_owned);
        assert_eq!(kinds(&copies), BTreeSet::from(expected));
        for copy in copies {
            let bytes = fs::read(&copy).unwrap();
            let is_piece = objects.iter().any(|object| match kind(&copy) {
                "snapshot" => *object == bytes,
                "footer" => {
                    let (start, end) = bytes.split_at(start_len);
                    object.starts_with(start) && object.ends_with(end)
                }
                _ => object.windows(bytes.len()).any(|window| window == bytes),
            });
            assert!(is_piece, "{}", copy.display());
        }
    }
}

#[test]
fn a_copy_that_is_damaged_in_any_way_is_fetched_anew() {
    let damages: [Damage; 5] = [
        ("flipped", |bytes| {
            let mut flipped = bytes.to_vec();
            flipped[bytes.len() / 2] ^= 4;
            flipped
        }),
        ("cut", |bytes| bytes[..bytes.len() - 1].to_vec()),
        ("emptied", |_| Vec::new()),
        ("of zeros", |bytes| vec![0; bytes.len()]),
        ("longer", |bytes| [bytes, b"!"].concat()),
    ];
    for protection in PROTECTIONS {
        let far = Far::new(protection);
        back_up(&far.open(), far.source.path());
        far.expect_whole();
        let good: Vec<_> = far.copies().iter().map(|copy| fs::read(copy).unwrap()).collect();
        for (damage, change) in damages {
            for copy in far.copies() {
                let bytes = fs::read(&copy).unwrap();
                write(&copy, change(&bytes));
            }
            far.expect_whole();
            let now: Vec<_> = far.copies().iter().map(|copy| fs::read(copy).unwrap()).collect();
            let again = now.iter().filter(|copy| good.contains(copy)).count();
            // What was not needed stays as it is until it is.
            assert!(again >= 3, "{damage}: {again} of {} copies are good", good.len());
        }
    }
}

#[test]
fn a_copy_of_another_object_is_fetched_anew() {
    let far = Far::new(Protection::Encrypted);
    let made: Vec<_> = (0..2).map(|_| back_up(&far.open(), far.source.path()).0).collect();
    let copies = far.copies();
    let snapshots: Vec<_> = copies.iter().filter(|copy| kind(copy) == "snapshot").collect();
    assert_eq!(snapshots.len(), 2);
    fs::copy(snapshots[0], snapshots[1]).unwrap();
    let (listed, damaged) = far.open().snapshots().unwrap();
    let mut ids: Vec<_> = listed.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable_by_key(|id| made.iter().position(|other| other == id));
    assert_eq!((ids, damaged.len()), (made, 0));
}

/// Damages all groups of trees and recipes in the repository.
fn damage_trees(far: &Far) {
    let envelope = envelope(&*far.objects, open(&far.objects).id());
    for info in far.objects.list("containers/").unwrap() {
        let id = container_id(&info.name).unwrap();
        let directory = Directory::read(&*far.objects, &envelope, id, info.size).unwrap();
        if directory.content == Content::Metadata {
            for group in &directory.groups {
                flip(&*far.objects, &info.name, group.offset as usize);
            }
        }
    }
}

#[test]
fn copies_serve_and_a_check_and_a_prune_go_past_them() {
    for protection in PROTECTIONS {
        let far = Far::new(protection);
        back_up(&far.open(), far.source.path());
        damage_trees(&far);
        far.expect_whole();
        let repository = far.open();
        let report = checked(&repository).unwrap();
        assert_ne!(report.findings.len(), 0, "the damage is in the repository");
        let (_, snapshot) = repository.latest(|_| true).unwrap();
        assert!(restored(&repository, &snapshot).is_err());

        let pruning = far.open();
        let (progress, cancel) = (Progress::default(), Cancel::default());
        prune(&pruning, &prune::Options::default(), &progress, &cancel).unwrap_err();
    }
}

#[test]
fn a_snapshot_that_is_damaged_is_found_by_a_check_although_there_is_a_copy() {
    let far = Far::new(Protection::Encrypted);
    let (id, _) = back_up(&far.open(), far.source.path());
    flip(&*far.objects, &format!("snapshots/{id}"), 60);
    assert_eq!(far.open().snapshots().unwrap().1.len(), 0);
    let report = checked(&far.open()).unwrap();
    assert!(report.findings.iter().any(|finding| finding.object == format!("snapshots/{id}")));
}

#[test]
fn a_snapshot_that_others_forgot_is_not_shown_by_its_copy() {
    let far = Far::new(Protection::Encrypted);
    let (id, _) = back_up(&far.open(), far.source.path());
    let (other, _) = back_up(&far.open(), far.source.path());
    assert_eq!(far.open().snapshots().unwrap().0.len(), 2);
    forget::forget(&open(&far.objects), &[id]).unwrap();
    let (listed, damaged) = far.open().snapshots().unwrap();
    assert_eq!((listed.len(), damaged.len()), (1, 0));
    assert_eq!(listed[0].0, other);
    let named = far.open().find(&id.to_string().parse().unwrap());
    assert!(matches!(named, Err(StoreError::NoSnapshot { .. })), "{named:?}");
}

#[test]
fn what_stands_in_the_place_of_a_snapshot_is_asked_for_each_time() {
    let scene = TakenBack::new();
    let far = Far { objects: Arc::clone(&scene.objects), ..Far::new(Protection::Encrypted) };
    assert_eq!(far.open().snapshots().unwrap().0.len(), 1);
    // It counted when it was copied, and does no more.
    let stolen = "0123456789abcdef0123456789abcdef".parse().unwrap();
    scene.forge(&scene.objects, stolen);
    scene.objects.put(&format!("receipts/{stolen}"), "".into()).unwrap();
    assert_eq!(far.open().snapshots().unwrap().0.len(), 2);
    scene.objects.delete(&format!("snapshots/{stolen}")).unwrap();
    assert_eq!(scene.take_back(&scene.objects).unwrap(), scene.all);
    scene.forge(&scene.objects, stolen);
    let (listed, damaged) = far.open().snapshots().unwrap();
    assert_eq!((listed.len(), damaged.len()), (1, 0));
    assert_eq!(listed[0].0, scene.made.0);
}

#[test]
fn a_password_that_was_removed_opens_nothing_whatever_was_copied() {
    let far = Far::new(Protection::Encrypted);
    let other = || Password::new(b"of somebody who leaves".to_vec());
    let key = open(&far.objects).add_key(&other(), CHEAP, &KeyRemark::default()).unwrap();
    back_up(&far.open(), far.source.path());
    let unlock = || match Repository::locate(Arc::clone(&far.objects)).unwrap() {
        Located::Locked(locked) => locked.unlock(&other()),
        Located::Open(_) => panic!("it is encrypted"),
    };
    let repository = far.keep_copies(unlock().unwrap());
    assert_eq!(repository.snapshots().unwrap().0.len(), 1);
    far.open().remove_key(key).unwrap();
    assert!(matches!(unlock().map(drop), Err(StoreError::WrongPassword { tried: 1 })));
}

#[test]
fn a_cache_that_fails_is_told_of_once_and_not_used_any_more() {
    let far = Far::new(Protection::Encrypted);
    back_up(&far.open(), far.source.path());
    let elsewhere = tempfile::tempdir().unwrap();
    for copy in far.copies() {
        let shard = copy.parent().unwrap();
        if !shard.is_symlink() {
            fs::remove_dir_all(shard).unwrap();
            symlink(elsewhere.path(), shard).unwrap();
        }
    }
    let repository = far.open();
    let (_, snapshot) = repository.latest(|_| true).unwrap();
    restored(&repository, &snapshot).unwrap().expect(&Picture::of(far.source.path())).unwrap();
    let trouble = repository.trouble();
    assert_eq!(trouble.len(), 1, "{trouble:?}");
    assert!(trouble[0].contains("symbolic link"), "{trouble:?}");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}
