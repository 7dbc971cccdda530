//! Datasets made of what package registries offer, and of random bytes.
//!
//! Each builder fills a folder with files whose names sort in the order in which they are to be
//! cut. A file that is there is complete and left alone, so a broken run is resumed. What is
//! fetched or unpacked on the way lies beside the folder until it is done.
#![allow(
    clippy::disallowed_methods,
    reason = "a dataset is nothing to keep: lost, it is built anew"
)]

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::Dataset;

/// Releases of TypeScript, oldest first: 17 packages that give a dedup ratio near 4.
pub const TYPESCRIPT: [&str; 17] = [
    "5.0.2", "5.0.3", "5.0.4", "5.1.3", "5.1.5", "5.1.6", "5.2.2", "5.3.2", "5.3.3", "5.4.2",
    "5.4.3", "5.4.4", "5.4.5", "5.5.2", "5.5.3", "5.5.4", "5.6.2",
];

/// `dir/NN-VERSION.tar` for each of [`TYPESCRIPT`], as published: 550 MB, of which a quarter is
/// downloaded. Needs npm and gzip. Reproducible to the byte.
pub fn typescript(dir: &Path) -> Result<()> {
    create(dir)?;
    let fetched = dir.with_extension("download");
    for (number, version) in TYPESCRIPT.iter().enumerate() {
        let tar = dir.join(format!("{number:02}-{version}.tar"));
        if tar.exists() {
            continue;
        }
        println!("dataset: typescript {version} into {}", dir.display());
        create(&fetched)?;
        let package = format!("typescript@{version}");
        run(Command::new("npm").args(["pack", "--silent", &package]).current_dir(&fetched))?;
        let packed = fetched.join(format!("typescript-{version}.tgz"));
        run_into(Command::new("gzip").arg("-dc").arg(&packed), &tar)?;
    }
    remove(&fetched)
}

/// What a small system begins with.
const BASE: &[&str] = &[
    "base-files",
    "base-passwd",
    "bash",
    "bsdutils",
    "coreutils",
    "dash",
    "debconf",
    "debian-archive-keyring",
    "debianutils",
    "diffutils",
    "dpkg",
    "e2fsprogs",
    "findutils",
    "gcc-12-base",
    "gpgv",
    "grep",
    "gzip",
    "hostname",
    "init-system-helpers",
    "libacl1",
    "libapt-pkg6.0",
    "libattr1",
    "libaudit1",
    "libblkid1",
    "libbz2-1.0",
    "libc-bin",
    "libc6",
    "libcap2",
    "libcrypt1",
    "libdb5.3",
    "libgcc-s1",
    "libgcrypt20",
    "libgmp10",
    "libgnutls30",
    "libgpg-error0",
    "libhogweed6",
    "libidn2-0",
    "liblz4-1",
    "liblzma5",
    "libmount1",
    "libnettle8",
    "libp11-kit0",
    "libpam-modules",
    "libpam0g",
    "libpcre2-8-0",
    "libseccomp2",
    "libselinux1",
    "libsmartcols1",
    "libssl3",
    "libstdc++6",
    "libsystemd0",
    "libtasn1-6",
    "libtinfo6",
    "libudev1",
    "libunistring2",
    "libuuid1",
    "libxxhash0",
    "libzstd1",
    "login",
    "mawk",
    "mount",
    "ncurses-base",
    "ncurses-bin",
    "passwd",
    "perl-base",
    "sed",
    "sysvinit-utils",
    "tar",
    "tzdata",
    "util-linux",
    "zlib1g",
];

/// What is put in, one after another.
const ADDED: &[&str] = &[
    "bc",
    "bsdextrautils",
    "bzip2",
    "ca-certificates",
    "cpio",
    "cron",
    "dc",
    "ed",
    "file",
    "fdisk",
    "htop",
    "iproute2",
    "iputils-ping",
    "jq",
    "kmod",
    "less",
    "libjq1",
    "libmagic1",
    "libncursesw6",
    "libonig5",
    "libpopt0",
    "libproc2-0",
    "libreadline8",
    "logrotate",
    "lsof",
    "m4",
    "make",
    "nano",
    "netbase",
    "netcat-openbsd",
    "patch",
    "procps",
    "psmisc",
    "readline-common",
    "rsync",
    "strace",
    "time",
    "tree",
    "unzip",
];

/// `dir/NN-PACKAGE.tar`: a root file system of Debian packages, and `count` − 1 later states of it,
/// each with a package more; at most 40. The dedup ratio comes near to `count`; 40 are about
/// 4 GB, of which 60 MB are downloaded. Needs apt-get, dpkg-deb and tar. Not reproducible
/// to the byte: the archive offers other versions as time goes by.
pub fn root_file_systems(dir: &Path, count: usize) -> Result<()> {
    let most = 1 + ADDED.len();
    ensure!((1..=most).contains(&count), "{count} root file systems: expected 1 to {most}");
    create(dir)?;
    let fetched = dir.with_extension("download");
    let root = dir.with_extension("root");
    remove(&root)?;
    create(&root.join("var/lib/dpkg/info"))?;
    create(&fetched)?;
    println!("dataset: {count} root file systems into {}", dir.display());
    for package in BASE {
        install(package, &fetched, &root)?;
    }
    pack(&root, &dir.join("00-base.tar"))?;
    for (number, package) in (1..count).zip(ADDED) {
        install(package, &fetched, &root)?;
        pack(&root, &dir.join(format!("{number:02}-{package}.tar")))?;
    }
    remove(&root)?;
    remove(&fetched)
}

/// Unpacks a package, and notes it down where Debian's package manager does.
fn install(package: &str, fetched: &Path, root: &Path) -> Result<()> {
    let home = fetched.join(package);
    create(&home)?;
    run(Command::new("apt-get").args(["-q", "download", package]).current_dir(&home))?;
    let files = fs::read_dir(&home).with_context(|| home.display().to_string())?;
    let Some(file) = files.flatten().next() else { bail!("{package}: apt-get left no file") };
    run(Command::new("dpkg-deb").arg("-x").arg(file.path()).arg(root))?;
    let status = output(Command::new("dpkg-deb").arg("-f").arg(file.path()))?;
    let list = output(Command::new("dpkg-deb").arg("-c").arg(file.path()))?;
    let notes = root.join("var/lib/dpkg");
    let path = notes.join("status");
    let mut all = if path.exists() { fs::read(&path)? } else { Vec::new() };
    all.extend([&b"Status: install ok installed\n"[..], &status, b"\n"].concat());
    fs::write(&path, all).with_context(|| path.display().to_string())?;
    let path = notes.join("info").join(format!("{package}.list"));
    fs::write(&path, list).with_context(|| path.display().to_string())
}

/// The same bytes for the same tree, by whomever and whenever it was unpacked.
fn pack(root: &Path, tar: &Path) -> Result<()> {
    if tar.exists() {
        return Ok(());
    }
    let mut command = Command::new("tar");
    command.args(["--sort=name", "--format=gnu", "--mtime=@0", "--numeric-owner"]);
    command.args(["--owner=0", "--group=0", "-C"]).arg(root).args(["-c", "."]);
    run_into(&mut command, tar)
}

/// The paper's synthetic series: `count` versions of `len` random bytes, each the one before with
/// `edits` changes of 100 bytes at positions drawn from all of it: one half inserted and one half
/// deleted, or all overwritten. `dir/NN.bin`.
pub fn version_series(
    dir: &Path,
    count: usize,
    len: usize,
    edits: usize,
    overwrite: bool,
) -> Result<()> {
    const CHANGED: usize = 100;
    create(dir)?;
    let mut version = Dataset::random(1, len).bytes().to_vec();
    for number in 0..count {
        if number > 0 {
            let draws = Dataset::random(1 + number as u64, edits * (16 + CHANGED));
            version = edited(&version, draws.bytes(), CHANGED, overwrite);
        }
        let path = dir.join(format!("{number:02}.bin"));
        fs::write(&path, &version).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// `version` with a change for each record of `draws`: where, what, and the `changed` bytes.
fn edited(version: &[u8], draws: &[u8], changed: usize, overwrite: bool) -> Vec<u8> {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |sum, &b| sum << 8 | u64::from(b));
    let last = version.len().saturating_sub(changed);
    let mut edits: Vec<(usize, bool, &[u8])> = draws
        .chunks_exact(16 + changed)
        .map(|draw| {
            let at = (number(&draw[..8]) % (last as u64 + 1)) as usize;
            (at, draw[8] % 2 == 0, &draw[16..])
        })
        .collect();
    edits.sort();
    let mut result = Vec::with_capacity(version.len());
    let mut from = 0;
    for (at, insert, bytes) in edits {
        if at < from {
            continue; // within what the edit before took out
        }
        result.extend_from_slice(&version[from..at]);
        if overwrite || insert {
            result.extend_from_slice(bytes);
        }
        from = if overwrite || !insert { at + bytes.len() } else { at };
    }
    result.extend_from_slice(&version[from..]);
    result
}

fn run(command: &mut Command) -> Result<()> {
    output(command).map(|_| ())
}

fn output(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("run {program}; is it installed?"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{program} ended with {}: {}", output.status, errors.trim());
    }
    Ok(output.stdout)
}

/// What the command prints becomes the file, all of it or nothing.
fn run_into(command: &mut Command, path: &Path) -> Result<()> {
    let place = || path.display().to_string();
    let unfinished = path.with_extension("part");
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .stdin(Stdio::null())
        .stdout(File::create(&unfinished).with_context(place)?)
        .status()
        .with_context(|| format!("run {program}; is it installed?"))?;
    ensure!(status.success(), "{program} ended with {status}");
    fs::rename(&unfinished, path).with_context(place)
}

fn create(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())
}

fn remove(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One change: where, whether an insertion, and with which bytes.
    fn draw(at: u64, insert: bool, byte: u8) -> Vec<u8> {
        [at.to_le_bytes(), [u8::from(!insert); 8]].concat().into_iter().chain([byte; 3]).collect()
    }

    #[test]
    fn edits_insert_delete_and_overwrite_where_they_were_drawn() {
        let draws = [draw(6, true, b'x'), draw(2, false, b'y')].concat();
        assert_eq!(edited(b"0123456789", &draws, 3, false), b"015xxx6789");
        assert_eq!(edited(b"0123456789", &draws, 3, true), b"01yyy5xxx9");
        // the second begins in what the first took out
        let draws = [draw(2, false, b'y'), draw(3, true, b'x')].concat();
        assert_eq!(edited(b"0123456789", &draws, 3, false), b"0156789");
    }

    #[test]
    fn a_series_is_the_same_each_time_and_changes_a_little() {
        let folder = tempfile::tempdir().unwrap();
        let series = |name: &str| {
            let dir = folder.path().join(name);
            version_series(&dir, 3, 100_000, 10, true).unwrap();
            Dataset::read(&dir, None).unwrap()
        };
        let (first, second) = (series("a"), series("b"));
        assert_eq!(first.digest(), second.digest());
        let files: Vec<_> = first.files().collect();
        let differ = |a: &[u8], b: &[u8]| a.iter().zip(b).filter(|(a, b)| a != b).count();
        assert_eq!(files.iter().map(|file| file.len()).collect::<Vec<_>>(), [100_000; 3]);
        assert!((500..=1000).contains(&differ(files[0], files[1])));
        assert!((500..=1000).contains(&differ(files[1], files[2])));
    }

    #[test]
    fn too_many_root_file_systems_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refusal = root_file_systems(folder.path(), 41).unwrap_err().to_string();
        assert_eq!(refusal, "41 root file systems: expected 1 to 40");
    }
}
