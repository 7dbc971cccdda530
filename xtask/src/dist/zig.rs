//! A C compiler for other systems: zig, from the Python package index, behind scripts that are called as the C
//! compiler and archiver of one target are.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::python;
use crate::workspace::{self, Cargo};

const PACKAGE: &str = "ziglang==0.15.2";

/// What compiles and archives C for one target.
pub(crate) struct Zig {
    triple: &'static str,
    compiler: PathBuf,
    archiver: PathBuf,
    cache: PathBuf,
}

impl Zig {
    /// Installs zig if it is missing, and writes the scripts for the target that Rust calls `triple` and zig
    /// calls `target`.
    ///
    /// # Errors
    ///
    /// If zig cannot be installed.
    pub(crate) fn of(cargo: Cargo, triple: &'static str, target: &str) -> Result<Self> {
        let environment = python::environment(cargo, "zig", &[PACKAGE], &[])?;
        let zig = find(&environment)?;
        let folder = workspace::target_dir().join("zig-scripts");
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let (compiler, archiver) =
            (folder.join(format!("cc-{triple}")), folder.join(format!("ar-{triple}")));
        write_script(&compiler, &compiler_script(&zig, target))?;
        write_script(&archiver, &format!("#!/bin/sh\nexec '{}' ar \"$@\"\n", zig.display()))?;
        Ok(Self { triple, compiler, archiver, cache: workspace::target_dir().join("zig-cache") })
    }

    /// Lets the build scripts that `command` runs use them, with the further C flags `flags`.
    pub(crate) fn tell(&self, command: &mut Command, flags: &str) {
        let variable = |name: &str| format!("{name}_{}", self.triple.replace('-', "_"));
        command
            .env(variable("CC"), &self.compiler)
            .env(variable("AR"), &self.archiver)
            .env(variable("CFLAGS"), flags)
            .env("ZIG_GLOBAL_CACHE_DIR", &self.cache)
            .env("ZIG_LOCAL_CACHE_DIR", &self.cache);
        // an SDK that nothing looks into: zig has the headers of macOS
        if self.triple.ends_with("-apple-darwin") {
            command.env("SDKROOT", &self.cache);
        }
    }
}

/// zig's program in the virtual environment.
fn find(environment: &Path) -> Result<PathBuf> {
    let libraries = environment.join("lib");
    let place = || format!("{}: no zig here", libraries.display());
    let entries = fs::read_dir(&libraries).with_context(place)?;
    let programs = entries.flatten().map(|one| one.path().join("site-packages/ziglang/zig"));
    programs.into_iter().find(|program| program.exists()).with_context(place)
}

/// Calls zig for `target` without the words that name the target in another way. Undefined behaviour traps by
/// zig's default only where the code is not optimised; the flag makes it the same everywhere.
fn compiler_script(zig: &Path, target: &str) -> String {
    format!(
        "#!/bin/sh\n\
         skip=\n\
         for word do\n\
         shift\n\
         if [ -n \"$skip\" ]; then skip=; continue; fi\n\
         case \"$word\" in\n\
         --target=* | -mmacosx-version-min=* | -m64) ;;\n\
         -arch | -isysroot) skip=1 ;;\n\
         *) set -- \"$@\" \"$word\" ;;\n\
         esac\n\
         done\n\
         exec '{}' cc -target {target} -fno-sanitize=undefined \"$@\"\n",
        zig.display()
    )
}

fn write_script(path: &Path, text: &str) -> Result<()> {
    let place = || path.display().to_string();
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    fs::write(path, text).with_context(place)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).with_context(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_zig_does_not_know_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let (echo, script) = (folder.path().join("zig"), folder.path().join("cc"));
        write_script(&echo, "#!/bin/sh\nprintf '<%s>' \"$@\"\n").unwrap();
        write_script(&script, &compiler_script(&echo, "aarch64-macos")).unwrap();
        let words = ["-O2", "--target=arm64-apple-macosx", "-arch", "arm64", "-DA=b c", "x.c"];
        let said = Command::new(&script).args(words).output().unwrap();
        let expected = "<cc><-target><aarch64-macos><-fno-sanitize=undefined><-O2><-DA=b c><x.c>";
        assert_eq!(String::from_utf8_lossy(&said.stdout), expected);
    }
}
