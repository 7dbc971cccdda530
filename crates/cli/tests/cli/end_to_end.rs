//! Versions of a real source tree go in and come out the same.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use onefold_testkit::skip;

use crate::lab::{Lab, number};
use crate::tree::make_version;
use crate::tree_equality::assert_same_tree;

/// Versions that are used at most: what `cargo xtask test` fetches.
const VERSIONS: usize = 4;
/// Bytes that a real dataset has at least.
const ENOUGH: u64 = 100_000_000;

#[test]
fn every_version_comes_back_as_it_was() {
    let lab = Lab::with_repository();
    let (versions, is_real) = match real_versions() {
        Some(versions) => (versions, true),
        None => (made_versions(&lab), false),
    };
    let mut ids = Vec::new();
    for version in &versions {
        let made = backup(&lab, version);
        ids.push(made["snapshot"].as_str().unwrap().to_owned());
        let again = backup(&lab, version);
        assert_eq!(number(&again, "unchanged_files"), number(&again, "files"), "{again}");
        assert_eq!(number(&again, "new_bytes"), 0, "{again}");
    }
    let stats = lab.ok("stats --repo repo --json").json();
    // Each version was backed up twice.
    let logical = number(&stats, "logical_bytes") / 2;
    let ratio = logical as f64 / number(&stats, "unique_bytes") as f64;
    if versions.len() > 1 {
        assert!(ratio > 1.5, "{ratio}: {stats}");
    }
    for (id, version) in ids.iter().zip(&versions) {
        let restored = lab.ok(&format!("restore --repo repo {id} --target out"));
        assert!(restored.stderr.is_empty(), "{restored:#?}");
        assert_same_tree(version, &lab.path("out"));
        fs::remove_dir_all(lab.path("out")).unwrap();
    }
    let checked = lab.ok("check --repo repo --read-data --json").json();
    assert_eq!(number(&checked, "snapshots"), 2 * versions.len() as u64);
    match is_real {
        true => assert!(logical >= ENOUGH, "{logical} bytes are too few to mean much"),
        false => skip("ONEFOLD_DATASETS has no kubernetes/v*: a small stand-in was used"),
    }
}

fn backup(lab: &Lab, version: &Path) -> serde_json::Value {
    let output = lab.command("backup --repo repo --json").arg(version).output().unwrap();
    crate::lab::Ran::of("backup --json", output).expect(0).summary()
}

/// The oldest versions of the dataset, if it is there.
fn real_versions() -> Option<Vec<PathBuf>> {
    let kubernetes = Path::new(&env::var_os("ONEFOLD_DATASETS")?).join("kubernetes");
    let entries = fs::read_dir(kubernetes).ok()?.map(|entry| entry.unwrap().path());
    let is_version = |path: &PathBuf| {
        path.is_dir() && path.file_name().unwrap().to_string_lossy().starts_with('v')
    };
    let mut versions: Vec<_> = entries.filter(is_version).collect();
    versions.sort();
    versions.truncate(VERSIONS);
    (!versions.is_empty()).then_some(versions)
}

fn made_versions(lab: &Lab) -> Vec<PathBuf> {
    let make = |version: u64| {
        let root = lab.path(format!("v{version}"));
        make_version(&root, version);
        root
    };
    (0..3).map(make).collect()
}
