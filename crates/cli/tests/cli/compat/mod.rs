//! What an earlier program made is read as it was meant, byte for byte, and goes on to be used.
//!
//! compat/ has a folder for each version of the format that is frozen: repositories, a pool, and what
//! they hold. Version 2 is one of pools alone, and so is its folder. `cargo xtask compat` makes that of the
//! newest version, once; that nobody alters it afterwards is held by `cargo xtask tidy`.

mod old;
mod pool;
mod repositories;
mod source;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use onefold_seal::Check;
use onefold_volume::Version;

use crate::lab::{Lab, ONEFOLD};

/// What there is of each version that is frozen.
fn frozen() -> Vec<PathBuf> {
    let compat = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../compat");
    let all = fs::read_dir(compat).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<PathBuf> = all.filter(|path| path.is_dir()).collect();
    for version in ["v1", "v2"] {
        assert!(folders.iter().any(|folder| folder.ends_with(version)), "{folders:?}");
    }
    folders
}

/// Makes in `folder` what version 1 has, of a source that lies at `root` meanwhile.
fn make(folder: &Path, root: &Path) {
    fs::create_dir_all(folder).unwrap();
    repositories::make(folder, root);
    pool::make(folder, Version::Whole);
}

/// The same of the newest version.
fn make_newest(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    pool::make(folder, Version::NEWEST);
}

fn expect_usable(folder: &Path, program: &Path) {
    if repositories::are_in(folder) {
        repositories::expect_usable(folder, program);
    }
    pool::expect_usable(folder, program);
}

#[test]
fn what_is_frozen_is_read_as_it_was_meant_and_goes_on_to_be_used() {
    for folder in frozen() {
        println!("{}", folder.display());
        expect_usable(&folder, Path::new(ONEFOLD));
    }
}

#[test]
fn a_pool_that_is_frozen_is_upgraded_with_all_that_is_in_it() {
    for folder in frozen() {
        println!("{}", folder.display());
        pool::expect_upgradable(&folder);
    }
}

/// With `ONEFOLD_COMPAT` those of the newest version are made there, to be kept.
#[test]
fn a_fixture_that_is_made_now_is_read_as_it_was_meant_and_goes_on_to_be_used() {
    let temporary = tempfile::tempdir().unwrap();
    let kept = env::var_os("ONEFOLD_COMPAT").map(PathBuf::from);
    let newest = kept.clone().unwrap_or_else(|| temporary.path().join("newest"));
    assert!(!newest.exists(), "{} is in the way", newest.display());
    make_newest(&newest);
    expect_usable(&newest, Path::new(ONEFOLD));
    if kept.is_none() {
        let first = temporary.path().join("first");
        make(&first, &temporary.path().join("source"));
        expect_usable(&first, Path::new(ONEFOLD));
    }
}

/// Makes an object say that a later version wrote it, as if it were so.
fn make_later(path: &Path) {
    let mut object = fs::read(path).unwrap();
    object[4] += 1;
    let (covered, check) = object.split_last_chunk_mut::<16>().unwrap();
    check.copy_from_slice(Check::of(&[covered]).as_bytes());
    fs::write(path, object).unwrap();
}

#[test]
fn a_repository_of_a_later_version_is_refused_by_its_version_and_not_changed() {
    for how in ["--no-encryption", "--password-file password"] {
        let lab = Lab::new();
        lab.write("password", "correct horse battery staple");
        lab.write("source/file", "content");
        lab.ok(&format!("init repo {how}"));
        let repo = match how {
            "--no-encryption" => "--repo repo".to_owned(),
            how => format!("--repo repo {how}"),
        };
        lab.ok(&format!("backup {repo} source"));
        // These are what is read first.
        make_later(&lab.path("repo/config"));
        let keys = fs::read_dir(lab.path("repo/keys")).into_iter().flatten();
        keys.for_each(|key| make_later(&key.unwrap().path()));
        let before = source::manifest_of(&lab.path("repo"));
        for line in ["snapshots", "check", "check --repair", "prune", "backup source"] {
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let refused = lab.run(&format!("{word} {repo} {rest}")).expect(1);
            refused.says(&["has format version 2, this program reads version 1", "hint: "]);
        }
        assert_eq!(source::manifest_of(&lab.path("repo")), before);
    }
}

#[test]
fn a_pool_of_a_later_version_is_refused_by_its_version_and_not_changed() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB disk");
    let mut head = fs::read(lab.path("pool/pool")).unwrap();
    head[12] += 1;
    let (covered, check) = head.split_last_chunk_mut::<16>().unwrap();
    check.copy_from_slice(Check::of(&[covered]).as_bytes());
    lab.write("pool/pool", &head);
    let before = source::manifest_of(&lab.path("pool"));
    for line in ["list", "check", "scrub", "create --size 1MiB other", "delete disk"] {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let refused = lab.run(&format!("volume {word} --pool pool {rest}")).expect(1);
        refused.says(&["format version 3, this program reads up to 2", "hint: "]);
    }
    assert_eq!(source::manifest_of(&lab.path("pool")), before);
}
