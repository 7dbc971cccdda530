//! The fixtures in compat/: kept so that every later program can be held to reading them.
//!
//! Each version of the format has a folder there, and a line in compat/digests that says what it holds.
//! What is there is frozen.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::digest;
use crate::workspace::{self, Cargo};

/// The version that this program writes.
const VERSION: &str = "v1";

/// The file that says what each folder holds: its name, and a digest over names and bytes of its files.
const DIGESTS: &str = "digests";

/// Makes the fixtures of this version, reads them and notes what they are. Refuses if there are some.
pub(crate) fn make(cargo: Cargo) -> Result<()> {
    let compat = workspace::root().join("compat");
    let folder = compat.join(VERSION);
    ensure!(
        !folder.exists(),
        "{} is there, and what is frozen is never made anew: another format has another version. \
         (If it was not handed on to anybody, remove it, and its line in {DIGESTS}, by hand.)",
        folder.display()
    );
    let status = cargo
        .command()
        .args(["test", "--quiet", "--package", "onefold", "--test", "cli", "--"])
        .args(["--exact", "--nocapture"])
        .arg("compat::a_fixture_that_is_made_now_is_read_as_it_was_meant_and_goes_on_to_be_used")
        .env("ONEFOLD_COMPAT", &folder)
        .status()
        .context("cargo test")?;
    ensure!(status.success(), "the fixtures were not made or cannot be used: {status}");
    let found = digest::of_tree(&folder)?;
    let path = compat.join(DIGESTS);
    let mut noted = fs::read_to_string(&path).unwrap_or_default();
    noted.push_str(&format!("{VERSION} {}\n", found.digest));
    fs::write(&path, noted).with_context(|| path.display().to_string())?;
    println!("compat: made {}, {} files, {} bytes", folder.display(), found.files, found.bytes);
    Ok(())
}

/// What in `compat` is not as it was frozen.
pub(crate) fn violations(compat: &Path) -> Result<Vec<String>> {
    let mut errors = Vec::new();
    let path = compat.join(DIGESTS);
    let mut noted = BTreeMap::new();
    if path.exists() {
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        for line in text.lines() {
            let (name, digest) =
                line.split_once(' ').with_context(|| path.display().to_string())?;
            noted.insert(name.to_owned(), digest.to_owned());
        }
    }
    let listed: Vec<_> = match compat.is_dir() {
        true => fs::read_dir(compat).with_context(|| compat.display().to_string())?.collect(),
        false => Vec::new(),
    };
    for entry in listed {
        let entry = entry.with_context(|| compat.display().to_string())?;
        if !entry.path().is_dir() {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let found = digest::of_tree(&entry.path())?.digest;
        match noted.remove(&name) {
            Some(expected) if expected == found => {}
            Some(expected) => errors.push(format!(
                "{}: is frozen and was altered; its digest is {found}, expected {expected}",
                entry.path().display()
            )),
            None => errors.push(format!(
                "{}: {DIGESTS} does not say what it holds; expected a line '{name} {found}'",
                entry.path().display()
            )),
        }
    }
    errors.extend(
        noted.keys().map(|name| format!("{}: was frozen and is gone", compat.join(name).display())),
    );
    Ok(errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_frozen_is_as_it_was_or_an_error() {
        let root = tempfile::tempdir().unwrap();
        let compat = root.path();
        let said = || violations(compat).unwrap();
        assert_eq!(said(), [] as [&str; 0]);
        fs::create_dir_all(compat.join("v9/pool")).unwrap();
        fs::write(compat.join("v9/pool/pool"), "bytes").unwrap();
        fs::write(compat.join("README.md"), "no fixture").unwrap();
        assert!(said()[0].contains("does not say"), "{:?}", said());
        let digest = digest::of_tree(&compat.join("v9")).unwrap().digest;
        fs::write(compat.join(DIGESTS), format!("v9 {digest}\n")).unwrap();
        assert_eq!(said(), [] as [&str; 0]);
        fs::write(compat.join("v9/pool/pool"), "other").unwrap();
        assert!(said()[0].contains("was altered"), "{:?}", said());
        fs::write(compat.join("v9/pool/pool"), "bytes").unwrap();
        fs::write(compat.join("v9/more"), "").unwrap();
        assert!(said()[0].contains("was altered"), "{:?}", said());
        fs::remove_dir_all(compat.join("v9")).unwrap();
        assert!(said()[0].contains("is gone"), "{:?}", said());
    }
}
