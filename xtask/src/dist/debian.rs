//! The Debian package: the program with everything in it, its man pages, completions and systemd units.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::files::{compress, fresh, open_folders, put, write};
use super::{sbom, texts};
use crate::programs;
use crate::workspace;

const DESCRIPTION: &str = "\
Description: deduplicating backup and block devices
 Onefold cuts data at positions that depend on their content and stores every
 distinct chunk once, encrypted and compressed, in a directory or in S3.
 It backs up, restores, mounts snapshots, and serves deduplicated block
 devices over NBD.";

/// No mailbox yet: the domain is one that never exists. Packagers name themselves as for Debian's own tools.
const MAINTAINER: (&str, &str) = ("The Onefold authors", "maintainer@onefold.invalid");

/// Packages with what some commands use: `mount`, and volumes in a cluster of Ceph.
const RECOMMENDS: &str = "fuse3";
const SUGGESTS: &str = "librados2";

/// Makes the package of `program` below `folder`, and returns its path. `sbom` is the list of crates, if one was
/// made; `time` is that of all files. If `is_fast`, the package is larger.
///
/// # Errors
///
/// If a tool of Debian is missing or fails.
pub(crate) fn package(
    program: &Path,
    sbom: Option<&Path>,
    time: &str,
    folder: &Path,
    is_fast: bool,
) -> Result<PathBuf> {
    let root = folder.join("debian-root");
    fresh(&root)?;
    lay_out(program, sbom, &root)?;
    open_folders(&root)?;
    let version = format!("{}-1", super::version()?);
    let arch = text(Command::new("dpkg").arg("--print-architecture"))?;
    let size = text(Command::new("du").args(["-sk", "--apparent-size"]).arg(&root))?;
    let size = size.split_whitespace().next().unwrap_or_default();
    let depends = depends(&root.join("usr/bin/onefold"), folder)?;
    let maintainer = maintainer();
    let control = format!(
        "Package: onefold\nVersion: {version}\nArchitecture: {arch}\nSection: admin\nPriority: optional\n\
         Maintainer: {maintainer}\nInstalled-Size: {size}\nDepends: {depends}\n\
         Recommends: {RECOMMENDS}\nSuggests: {SUGGESTS}\n{DESCRIPTION}\n"
    );
    let meta = root.join("DEBIAN");
    write(&meta.join("control"), control.as_bytes(), 0o644)?;
    write(&meta.join("conffiles"), b"/etc/onefold/common.conf\n", 0o644)?;
    for script in ["postinst", "postrm"] {
        put(&ours(script), &meta.join(script), 0o755)?;
    }
    let made = folder.join(format!("onefold_{version}_{arch}.deb"));
    programs::succeed(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", if is_fast { "-z1" } else { "-z6" }])
            .args([if is_fast { "-Zgzip" } else { "-Zxz" }, "--build"])
            .arg(&root)
            .arg(&made)
            .env("SOURCE_DATE_EPOCH", time),
    )?;
    fs::remove_dir_all(&root).with_context(|| root.display().to_string())?;
    Ok(made)
}

/// The maintainer: `DEBFULLNAME` and `DEBEMAIL`, or a placeholder.
fn maintainer() -> String {
    let named = |variable| env::var(variable).ok().filter(|value| !value.is_empty());
    let (name, address) = MAINTAINER;
    match named("DEBEMAIL") {
        Some(own) => format!("{} <{own}>", named("DEBFULLNAME").as_deref().unwrap_or(name)),
        None => format!("{name} <{address}>"),
    }
}

/// A file of packaging/debian.
fn ours(name: &str) -> PathBuf {
    workspace::root().join("packaging/debian").join(name)
}

/// Puts all files where they are installed.
fn lay_out(program: &Path, sbom: Option<&Path>, root: &Path) -> Result<()> {
    let installed = root.join("usr/bin/onefold");
    put(program, &installed, 0o755)?;
    programs::succeed(Command::new("strip").arg("--strip-debug").arg(&installed))?;
    let pages = root.join("usr/share/man/man1");
    texts::write_pages(program, &pages)?;
    for entry in fs::read_dir(&pages).with_context(|| pages.display().to_string())? {
        compress(&entry?.path())?;
    }
    let completions = [
        "usr/share/bash-completion/completions",
        "usr/share/zsh/vendor-completions",
        "usr/share/fish/vendor_completions.d",
    ];
    for ((shell, name), folder) in texts::SHELLS.into_iter().zip(completions) {
        let folder = root.join(folder);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        texts::write_completion(program, shell, &folder.join(name))?;
    }
    let units = root.join("usr/lib/systemd/system");
    for unit in ["onefold-backup@.service", "onefold-backup@.timer", "onefold-serve@.service"] {
        put(&ours(unit), &units.join(unit), 0o644)?;
    }
    put(&ours("common.conf"), &root.join("etc/onefold/common.conf"), 0o640)?;
    for folder in ["etc/onefold/backup", "etc/onefold/serve"] {
        fs::create_dir_all(root.join(folder)).with_context(|| folder.to_owned())?;
    }
    let documents = root.join("usr/share/doc/onefold");
    for example in ["backup.conf", "serve.conf"] {
        put(&ours(example), &documents.join("examples").join(example), 0o644)?;
    }
    put(&ours("copyright"), &documents.join("copyright"), 0o644)?;
    let log = documents.join("changelog");
    put(&workspace::root().join("CHANGELOG.md"), &log, 0o644)?;
    compress(&log)?;
    if let Some(sbom) = sbom {
        put(sbom, &documents.join(sbom::NAME), 0o644)?;
    }
    Ok(())
}

/// The libraries that `program` needs, with the versions that have all of its symbols.
fn depends(program: &Path, folder: &Path) -> Result<String> {
    // The tool wants a source package, and writes beside it.
    let stub = folder.join("shlibs");
    write(
        &stub.join("debian/control"),
        b"Source: onefold\n\nPackage: onefold\nArchitecture: any\n",
        0o644,
    )?;
    let said = text(Command::new("dpkg-shlibdeps").arg("-O").arg(program).current_dir(&stub))?;
    fs::remove_dir_all(&stub).with_context(|| stub.display().to_string())?;
    let depends = said.strip_prefix("shlibs:Depends=").map(str::to_owned);
    depends.with_context(|| format!("dpkg-shlibdeps said '{said}', expected shlibs:Depends=…"))
}

/// What `command` says, without white space around it.
fn text(command: &mut Command) -> Result<String> {
    let text = String::from_utf8(texts::output(command)?)?.trim().to_owned();
    ensure!(!text.is_empty(), "{command:?} said nothing");
    Ok(text)
}
