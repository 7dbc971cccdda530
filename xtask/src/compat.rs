//! The fixtures in compat/: kept so that every later program can be held to reading them.
//!
//! Each version of the format has a folder there, and a line in compat/digests that says what it holds.
//! What is there is frozen.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::digest;
use crate::old_program;
use crate::workspace::{self, Cargo};

/// The newest version: of pools alone, so its fixture is a pool.
const VERSION: &str = "v2";

/// The versions that were handed on: a repository without a fixture of each is not whole.
const FROZEN: &[&str] = &["v1", "v2"];

/// The file that says what each folder holds: its name, and a digest over names and bytes of its files.
const DIGESTS: &str = "digests";

/// Makes the fixtures of this version, reads them and notes what they are. Refuses if there are some.
pub(crate) fn make(cargo: Cargo) -> Result<()> {
    let compat = workspace::root().join("compat");
    let folder = compat.join(VERSION);
    expect_new(&compat)?;
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
    let mut text = text(&compat)?;
    text.push_str(&format!("{VERSION} {}\n", found.digest));
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    println!("compat: made {}, {} files, {} bytes", folder.display(), found.files, found.bytes);
    Ok(())
}

/// Has the program of `revision` open, check, restore, prune and continue what this one writes.
pub(crate) fn with_old(cargo: Cargo, revision: &str) -> Result<()> {
    let program = old_program::build(cargo, revision)?;
    let status = cargo
        .command()
        .args(["test", "--quiet", "--package", "onefold", "--test", "cli", "--"])
        .args(["--nocapture", "compat::old::"])
        .env(old_program::VARIABLE, program)
        .env("ONEFOLD_REQUIRE_ALL", "1")
        .status()
        .context("cargo test")?;
    ensure!(status.success(), "the program of {revision} cannot use what this one wrote: {status}");
    println!("compat: the program of {revision} goes on from what this one wrote");
    Ok(())
}

/// Fails if there is, or was, a fixture of this version.
fn expect_new(compat: &Path) -> Result<()> {
    let folder = compat.join(VERSION);
    ensure!(
        !folder.exists() && !noted(compat)?.contains_key(VERSION),
        "{} is there, or {DIGESTS} names it, and what is frozen is never made anew: another format \
         has another version. (If it was not handed on to anybody, remove both by hand.)",
        folder.display()
    );
    Ok(())
}

/// What the file of digests says; nothing if there is none yet.
fn text(compat: &Path) -> Result<String> {
    let path = compat.join(DIGESTS);
    match fs::read_to_string(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.with_context(|| path.display().to_string()),
    }
}

/// The digest of each folder, by its name.
fn noted(compat: &Path) -> Result<BTreeMap<String, String>> {
    let path = compat.join(DIGESTS);
    let mut noted = BTreeMap::new();
    for line in text(compat)?.lines() {
        let (name, digest) = line.split_once(' ').with_context(|| path.display().to_string())?;
        let before = noted.insert(name.to_owned(), digest.to_owned());
        ensure!(before.is_none(), "{}: names {name} twice", path.display());
    }
    Ok(noted)
}

/// What in `compat` is not as it was frozen.
pub(crate) fn violations(compat: &Path) -> Result<Vec<String>> {
    let mut errors = Vec::new();
    let mut noted = noted(compat)?;
    for version in FROZEN.iter().filter(|version| !noted.contains_key(**version)) {
        errors.push(format!(
            "{}: {version} is frozen, and there is no line of it",
            compat.join(DIGESTS).display()
        ));
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
        // Neither folder nor line: gone as well.
        assert!(said()[0].contains("v1 is frozen") && said()[1].contains("v2 is frozen"));
        for version in FROZEN {
            fs::create_dir_all(compat.join(version).join("pool")).unwrap();
            fs::write(compat.join(version).join("pool/pool"), "bytes").unwrap();
        }
        fs::write(compat.join("README.md"), "no fixture").unwrap();
        assert!(said()[2].contains("does not say"), "{:?}", said());
        let digest = digest::of_tree(&compat.join("v1")).unwrap().digest;
        let lines = format!("v1 {digest}\nv2 {digest}\n");
        fs::write(compat.join(DIGESTS), &lines).unwrap();
        assert_eq!(said(), [] as [&str; 0]);
        fs::write(compat.join("v1/pool/pool"), "other").unwrap();
        assert!(said()[0].contains("was altered"), "{:?}", said());
        fs::write(compat.join("v1/pool/pool"), "bytes").unwrap();
        fs::write(compat.join("v2/more"), "").unwrap();
        assert!(said()[0].contains("was altered"), "{:?}", said());
        // Another fixture in its place is no way out, nor is another line behind its own.
        fs::write(compat.join(DIGESTS), format!("{lines}v1 blake3:00\n")).unwrap();
        assert!(violations(compat).unwrap_err().to_string().contains("v1 twice"));
        fs::write(compat.join(DIGESTS), &lines).unwrap();
        fs::remove_file(compat.join("v2/more")).unwrap();
        fs::remove_dir_all(compat.join("v1")).unwrap();
        assert!(said()[0].contains("is gone"), "{:?}", said());
    }

    #[test]
    fn what_was_frozen_is_not_made_again() {
        let root = tempfile::tempdir().unwrap();
        let compat = root.path();
        expect_new(compat).unwrap();
        fs::write(compat.join(DIGESTS), format!("{VERSION} blake3:00\n")).unwrap();
        assert!(expect_new(compat).is_err(), "its folder is gone, its line is not");
        fs::write(compat.join(DIGESTS), "v0 blake3:00\n").unwrap();
        expect_new(compat).unwrap();
        fs::create_dir(compat.join(VERSION)).unwrap();
        assert!(expect_new(compat).is_err());
        fs::remove_file(compat.join(DIGESTS)).unwrap();
        fs::create_dir(compat.join(DIGESTS)).unwrap();
        assert!(text(compat).is_err(), "what cannot be read is not empty");
    }
}
