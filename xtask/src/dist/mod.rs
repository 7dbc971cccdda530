//! `cargo xtask dist`: what users download, made from this checkout.
//!
//! | file | makes |
//! | --- | --- |
//! | program.rs | the program, static or with everything in it |
//! | macos.rs | the check that the command compiles for macOS |
//! | zig.rs | the C compiler for other systems |
//! | texts.rs | man pages and completions |
//! | debian.rs | the Debian package |
//! | sbom.rs | the list of crates in the program |
//! | deny.rs | the check of licences, duplicates and sources of crates |
//! | semver.rs | the check that crates for others keep the promise of their versions |
//! | tools.rs | programs of crates.io that this takes |
//! | sums.rs | checksums, and their signature |
//! | files.rs | folders and archives whose bytes depend on their content only |
//! | twice.rs | the proof that two builds are equal |

mod debian;
mod deny;
pub(crate) mod files;
mod macos;
mod program;
mod sbom;
mod semver;
mod sums;
mod texts;
mod tools;
mod twice;
mod zig;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use self::files::{fresh, put};
use self::program::{ALLOCATOR, TARGETS, Target};
use crate::manifest;
use crate::programs;
use crate::workspace::{self, Cargo};

/// What `cargo xtask dist` was asked for.
#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand)]
enum What {
    /// The static program alone, without archives
    Static {
        /// The kind of machine: x86_64 or aarch64 [default: this machine's]
        #[arg(long, value_parser = target)]
        arch: Option<Target>,
        /// The allocator: a feature of the command, or musl
        #[arg(long, default_value = ALLOCATOR)]
        allocator: String,
    },
    /// The Debian package alone
    Deb {
        /// The program to pack, if it is built already
        #[arg(long)]
        program: Option<PathBuf>,
        /// The folder for the package [default: target/dist]
        #[arg(long)]
        out: Option<PathBuf>,
        /// Compress little, for tests
        #[arg(long)]
        fast: bool,
    },
    /// Build the static program in two folders, and compare
    Twice,
    /// Check licences, duplicates and sources of the dependencies
    Deny,
    /// Check that the command compiles for macOS
    Macos,
    /// Check that the command compiles with the oldest Rust that Cargo.toml names
    OldestRust,
    /// Install the library for C by cargo-c, and compile a program with it
    CargoC,
    /// Check that the crates for others changed only as their versions allow
    Semver {
        /// The commit or tag that they are compared with [default: the newest release]
        #[arg(long)]
        baseline: Option<String>,
    },
    /// Sign the checksums of what was made
    Sign {
        /// The releaser's private key, as ssh-keygen makes it
        #[arg(long)]
        key: PathBuf,
    },
}

fn target(arch: &str) -> Result<Target, String> {
    let found = TARGETS.into_iter().find(|target| target.arch == arch);
    found.ok_or_else(|| "expected x86_64 or aarch64".to_owned())
}

/// Makes all that a release has, builds it again elsewhere, and compares; then tries the oldest Rust, compares
/// the crates with those of the newest release, and tries the packages in a clean root.
pub(crate) fn campaign(cargo: Cargo) -> Result<()> {
    let folder = folder();
    everything(cargo, &folder)?;
    // where the tests of packages look
    for target in TARGETS {
        let built = build_static(cargo, target, ALLOCATOR)?;
        keep_program(&built, target, ALLOCATOR, &folder)?;
    }
    twice::run(cargo)?;
    check_oldest_rust()?;
    semver::check(cargo, None)?;
    for (_, check) in CHECKS {
        check(cargo)?;
    }
    let mut tests = cargo.command();
    tests.args(["test", "--package", "xtask", "--test", "packages"]);
    programs::succeed(tests.env("ONEFOLD_REQUIRE_ALL", "1"))?;
    check_cargo_c(cargo)?;
    println!("campaign: the packages are made, equal when made again, and installed");
    Ok(())
}

/// What of the packages is checked without installing them: each by its name.
pub(crate) const CHECKS: [(&str, Check); 2] = [("macos", macos::check), ("deny", deny::check)];

/// Fails with what is wrong.
pub(crate) type Check = fn(Cargo) -> Result<()>;

/// Installs the library for C by cargo-c, and compiles a program with what was installed.
fn check_cargo_c(cargo: Cargo) -> Result<()> {
    let mut path = tools::install(cargo, "cargo-c", "0.10.24")?.into_os_string();
    if let Some(rest) = env::var_os("PATH") {
        path.push(":");
        path.push(rest);
    }
    let mut tests = cargo.command();
    tests.args(["test", "--package", "onefold-capi", "--test", "c", "cargo_c"]);
    programs::succeed(tests.env("PATH", path).env("ONEFOLD_REQUIRE_ALL", "1"))
}

/// Checks the workspace with the oldest compiler that Cargo.toml names.
fn check_oldest_rust() -> Result<()> {
    let file = workspace::root().join("Cargo.toml");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let oldest = manifest::value(&text, "workspace.package", "rust-version");
    let oldest = oldest.with_context(|| format!("{}: no rust-version", file.display()))?;
    let oldest = oldest.trim_matches('"');
    let rustup = |arguments: &[&str]| {
        let mut rustup = Command::new("rustup");
        rustup.args(arguments).current_dir(workspace::root());
        // those of the cargo that runs this program
        rustup.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
        rustup.env("CARGO_TARGET_DIR", workspace::target_dir().join("oldest-rust"));
        programs::succeed(&mut rustup)
    };
    rustup(&["toolchain", "install", oldest, "--profile", "minimal"])?;
    rustup(&["run", oldest, "cargo", "check", "--locked", "--package", "onefold"])?;
    println!("dist: the command compiles with Rust {oldest}");
    Ok(())
}

/// Makes what was asked for, or all that a release has.
pub(crate) fn run(cargo: Cargo, options: Options) -> Result<()> {
    let folder = folder();
    match options.what {
        None => everything(cargo, &folder),
        Some(What::Static { arch, allocator }) => {
            let arch = arch.map_or_else(own_target, Ok)?;
            let program = build_static(cargo, arch, &allocator)?;
            let kept = keep_program(&program, arch, &allocator, &folder)?;
            println!("dist: {}", kept.display());
            Ok(())
        }
        Some(What::Deb { program, out, fast }) => {
            let folder = out.unwrap_or(folder);
            let program = match program {
                Some(program) => program,
                None => build_dynamic(cargo)?,
            };
            fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
            let made = debian::package(&program, None, &files::time()?, &folder, fast)?;
            println!("dist: {}", made.display());
            Ok(())
        }
        Some(What::Twice) => twice::run(cargo),
        Some(What::Deny) => deny::check(cargo),
        Some(What::Macos) => macos::check(cargo),
        Some(What::OldestRust) => check_oldest_rust(),
        Some(What::CargoC) => check_cargo_c(cargo),
        Some(What::Semver { baseline }) => semver::check(cargo, baseline),
        Some(What::Sign { key }) => sums::sign(&folder, &key),
    }
}

/// Where everything goes that is made.
fn folder() -> PathBuf {
    workspace::target_dir().join("dist")
}

/// Copies a static program to where it is kept by its target and allocator; where that is.
fn keep_program(program: &Path, target: Target, allocator: &str, folder: &Path) -> Result<PathBuf> {
    let kept = folder.join("programs").join(format!("{}-{allocator}", target.arch)).join("onefold");
    put(program, &kept, 0o755)?;
    Ok(kept)
}

/// The version of the workspace.
fn version() -> Result<String> {
    let file = workspace::root().join("Cargo.toml");
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    Ok(version_in(&text).with_context(|| file.display().to_string())?.to_owned())
}

/// The version of the workspace whose Cargo.toml is `text`.
fn version_in(text: &str) -> Result<&str> {
    let version = manifest::value(text, "workspace.package", "version");
    Ok(version.context("no version of a workspace")?.trim_matches('"'))
}

fn own_target() -> Result<Target> {
    let arch = env::consts::ARCH;
    target(arch).map_err(|_| anyhow::anyhow!("no static program is made for {arch}"))
}

fn build_static(cargo: Cargo, target: Target, allocator: &str) -> Result<PathBuf> {
    program::build_static(cargo, target, allocator, workspace::root(), &program::folder())
}

fn build_dynamic(cargo: Cargo) -> Result<PathBuf> {
    program::build_dynamic(cargo, workspace::root(), &program::folder())
}

/// What the folder of the container image has beside the program and the list of crates.
const BESIDE_IN_CONTAINER: [(&str, &str); 3] = [
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("packaging/Containerfile", "Containerfile"),
];

/// Makes all that a release has: archives of the static programs, the Debian package, the folder of the container
/// image, the list of crates and the checksums.
fn everything(cargo: Cargo, folder: &Path) -> Result<()> {
    let time = files::time()?;
    fresh(folder)?;
    let sbom = folder.join(sbom::NAME);
    sbom::write(cargo, &sbom, &time)?;
    let own = own_target()?;
    let own_program = build_static(cargo, own, ALLOCATOR)?;
    for target in TARGETS {
        let built = match target == own {
            true => own_program.clone(),
            false => build_static(cargo, target, ALLOCATOR)?,
        };
        archive(target, &built, &own_program, &sbom, &time, folder)?;
    }
    let container = folder.join("container");
    put(&own_program, &container.join("onefold"), 0o755)?;
    put(&sbom, &container.join(sbom::NAME), 0o644)?;
    for (file, name) in BESIDE_IN_CONTAINER {
        put(&workspace::root().join(file), &container.join(name), 0o644)?;
    }
    debian::package(&build_dynamic(cargo)?, Some(&sbom), &time, folder, false)?;
    sums::write(folder)?;
    println!("dist: {}", folder.display());
    Ok(())
}

/// Packs the program of `target` with its man pages and completions, of which `own` tells on this machine.
fn archive(
    target: Target,
    program: &Path,
    own: &Path,
    sbom: &Path,
    time: &str,
    folder: &Path,
) -> Result<()> {
    let name = format!("onefold-{}-{}", version()?, target.triple);
    let packed = folder.join(&name);
    fresh(&packed)?;
    put(program, &packed.join("onefold"), 0o755)?;
    for file in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        put(&workspace::root().join(file), &packed.join(file), 0o644)?;
    }
    put(sbom, &packed.join(sbom::NAME), 0o644)?;
    texts::write_pages(own, &packed.join("man"))?;
    let completions = packed.join("completions");
    fs::create_dir_all(&completions).with_context(|| completions.display().to_string())?;
    for (shell, file) in texts::SHELLS {
        texts::write_completion(own, shell, &completions.join(file))?;
    }
    files::open_folders(&packed)?;
    files::pack(&packed, time)?;
    fs::remove_dir_all(&packed).with_context(|| packed.display().to_string())
}

/// Copies the files that git knows, as they are now, to the empty folder `to`.
pub(crate) fn copy_source(to: &Path) -> Result<()> {
    fresh(to)?;
    let list = workspace::target_dir().join("sources.list");
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let names = texts::output(git.current_dir(workspace::root()))?;
    fs::write(&list, names).with_context(|| list.display().to_string())?;
    // names that were deleted and not yet committed are no error
    programs::succeed(
        Command::new("sh")
            .args(["-c", "tar -c --null --ignore-failed-read -T \"$1\" | tar -x -C \"$2\"", "sh"])
            .arg(&list)
            .arg(to)
            .current_dir(workspace::root()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_container_copies_what_its_folder_has() {
        let file = workspace::root().join("packaging/Containerfile");
        let text = fs::read_to_string(file).unwrap();
        let mut has: Vec<&str> = BESIDE_IN_CONTAINER.iter().map(|(_, name)| *name).collect();
        has.extend(["onefold", sbom::NAME]);
        let mut copied = 0;
        for line in text.lines().filter_map(|line| line.strip_prefix("COPY ")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (target, sources) = words.split_last().unwrap();
            assert!(target.starts_with("/usr/"), "{line}");
            assert!(sources.iter().all(|source| has.contains(source)), "{line}");
            copied += sources.len();
        }
        // the file itself is not copied
        assert_eq!(copied, has.len() - 1);
    }

    #[test]
    fn archives_are_called_as_cargo_binstall_looks_for_them() {
        let manifest = fs::read_to_string(workspace::root().join("crates/cli/Cargo.toml")).unwrap();
        for target in TARGETS {
            let gnu = target.triple.replace("musl", "gnu");
            let section = format!("[package.metadata.binstall.overrides.{gnu}]");
            let section = manifest.split(&section).nth(1).unwrap().split("\n[").next().unwrap();
            let name = format!("onefold-{{ version }}-{}", target.triple);
            assert!(section.contains(&format!("/{name}.tar.gz")), "{section}");
            assert!(section.contains(&format!("\"{name}/{{ bin }}")), "{section}");
        }
        assert!(manifest.contains("/onefold-{ version }-{ target }.tar.gz"));
    }
}
