//! Two builds of the static program in different folders.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::program::{ALLOCATOR, build_static};
use super::{copy_source, own_target};
use crate::workspace::{self, Cargo};

/// Builds the static program from two copies of the sources, whose paths differ in length, and compares.
///
/// # Errors
///
/// If a build fails, or if the programs differ.
pub(crate) fn run(cargo: Cargo) -> Result<()> {
    let place = workspace::target_dir().join("dist-twice");
    let mut programs = Vec::new();
    for name in ["a", "another/folder"] {
        let source = place.join(name).join("source");
        copy_source(&source)?;
        let into = place.join(name).join("build");
        let built = build_static(cargo, own_target()?, ALLOCATOR, &source, &into)?;
        programs.push(fs::read(&built).with_context(|| built.display().to_string())?);
        // both builds would be gigabytes
        remove(&into)?;
    }
    let differing = programs[0].iter().zip(&programs[1]).filter(|(a, b)| a != b).count();
    ensure!(
        programs[0] == programs[1],
        "two builds differ: {} and {} bytes, {differing} of them unequal; expected equal programs",
        programs[0].len(),
        programs[1].len()
    );
    let name = place.display().to_string().into_bytes();
    let is_named = programs[0].windows(name.len()).any(|part| part == name);
    ensure!(!is_named, "the program names the folder it was built in: {}", place.display());
    println!("dist: two builds in different folders are equal, {} bytes", programs[0].len());
    remove(&place)
}

fn remove(folder: &Path) -> Result<()> {
    fs::remove_dir_all(folder).with_context(|| folder.display().to_string())
}
