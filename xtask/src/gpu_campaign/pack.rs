//! What a machine with a GPU needs that can fetch nothing: both programs and compute-sanitizer, packed, and one command
//! that unpacks and runs them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::build;
use crate::dist::files;
use crate::gpu_kernels;
use crate::programs;
use crate::python;
use crate::record::Commit;
use crate::workspace::{self, Cargo};

/// What has compute-sanitizer.
pub(super) const SANITIZER_WHEEL: &str = "nvidia-cuda-sanitizer-api==13.0.85";

/// What may travel to a machine with a GPU is 64 MiB; the sources may have to come along, some 20.
const LOAD: u64 = 40 << 20;

/// The file that runs the campaign there.
const COMMAND: &str = "run";

/// The folder that it unpacks.
const PROGRAMS: &str = "programs";

/// Gathers in `folder` what the campaign needs, without what only a debugger reads.
///
/// # Errors
/// If the machine code or a program does not build, or if all is too large to travel. Without compute-sanitizer it is
/// packed all the same.
pub(super) fn pack(cargo: Cargo, folder: &Path) -> Result<()> {
    let cubins = workspace::target_dir().join("gpu-cubins");
    gpu_kernels::write_cubins(cargo, &cubins)?;
    let gathered = folder.join(PROGRAMS);
    files::fresh(&gathered)?;
    for name in ["onefold", "xtask"] {
        let built = build(cargo, name, Some(&cubins))?;
        programs::succeed(Command::new("strip").arg("-o").arg(gathered.join(name)).arg(built))?;
    }
    let sanitizer = sanitizer_folder(cargo);
    match &sanitizer {
        Ok(from) => {
            for entry in fs::read_dir(from)?.chain(fs::read_dir(from.with_file_name("lib"))?) {
                let entry = entry?;
                let to = gathered.join(entry.file_name());
                fs::copy(entry.path(), &to).with_context(|| to.display().to_string())?;
            }
        }
        Err(error) => println!("campaign: packed without compute-sanitizer: {error:#}"),
    }
    let packed = files::pack(&gathered, &files::time()?)?;
    fs::remove_dir_all(&gathered).with_context(|| gathered.display().to_string())?;
    let command = folder.join(COMMAND);
    let text = command_text(&Commit::current(), sanitizer.is_ok());
    files::write(&command, text.as_bytes(), 0o755)?;
    let bytes = packed.metadata()?.len();
    ensure!(bytes <= LOAD, "{}: {bytes} bytes, expected at most {LOAD}", packed.display());
    println!("campaign: {bytes} bytes; there: {} --out FOLDER", command.display());
    Ok(())
}

/// A script that unpacks what lies beside it, and runs the campaign with that. A compute-sanitizer of the machine's own
/// goes before a packed one.
fn command_text(commit: &Commit, has_sanitizer: bool) -> String {
    let sanitizer = if has_sanitizer { r#" --sanitizer "$sanitizer""# } else { "" };
    format!(
        r#"#!/bin/sh
# Unpacks the programs beside this file, and runs the campaign with them.
set -e
here=$(dirname "$0")
programs=$here/{PROGRAMS}
test -d "$programs" || tar -xzf "$programs.tar.gz" -C "$here"
sanitizer=$(command -v compute-sanitizer) || sanitizer=$programs/compute-sanitizer
exec "$programs/xtask" campaign gpu --program "$programs/onefold"{sanitizer} --commit {commit} "$@"
"#
    )
}

/// The folder of programs in NVIDIA's package, which is installed if need be.
pub(super) fn sanitizer_folder(cargo: Cargo) -> Result<PathBuf> {
    let folder = python::environment(cargo, "cuda-sanitizer", &[SANITIZER_WHEEL], &["--no-deps"])?;
    let folder = python::site_packages(&folder)?.join("nvidia/cu13/bin");
    ensure!(folder.join("compute-sanitizer").is_file(), "{}: no program", folder.display());
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_unpacks_and_runs_what_lies_beside_it() {
        let commit = Commit { id: "0123".into(), dirty: true };
        for (has_sanitizer, is_on_path) in [(true, false), (true, true), (false, false)] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("path");
            if is_on_path {
                files::write(&path.join("compute-sanitizer"), b"#!/bin/sh\n", 0o755).unwrap();
            }
            let paths = format!("{}:/usr/bin:/bin", path.display());
            let gathered = folder.path().join(PROGRAMS);
            files::write(&gathered.join("xtask"), b"#!/bin/sh\necho \"$@\"\n", 0o755).unwrap();
            files::pack(&gathered, "0").unwrap();
            fs::remove_dir_all(&gathered).unwrap();
            let command = folder.path().join(COMMAND);
            let text = command_text(&commit, has_sanitizer);
            files::write(&command, text.as_bytes(), 0o755).unwrap();
            for _ in 0..2 {
                let mut run = Command::new(&command);
                let said = run.args(["--out", "a b"]).env("PATH", &paths).output().unwrap();
                let said = String::from_utf8(said.stdout).unwrap();
                let at = gathered.display();
                let place = if is_on_path { &path } else { &gathered };
                let sanitizer = format!(" --sanitizer {}/compute-sanitizer", place.display());
                let sanitizer = if has_sanitizer { &sanitizer } else { "" };
                let expected = format!(
                    "campaign gpu --program {at}/onefold{sanitizer} --commit 0123-dirty --out a b\n"
                );
                assert_eq!(said, expected);
            }
        }
    }
}
