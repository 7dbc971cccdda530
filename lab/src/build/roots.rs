//! Root file systems that differ by a package each, as tars: data that come again and again.

use std::path::Path;
use std::{fs, iter};

use anyhow::{Context, Result};

use crate::build::order::{Allowed, Choice, Choices};
use crate::build::site::{Site, create};
use crate::build::tool::{output, run, run_into};
use crate::build::{Cost, MB, Recipe, Sameness, apt};

pub(super) const ROOTS: Recipe = Recipe {
    name: "roots",
    kind: "root file systems",
    about: "a small Debian, and later states of it with a package more each, as tars",
    source: Some(apt::ARCHIVE),
    choices: &[Choice {
        name: "count",
        about: "file systems, about as many as the dedup ratio comes near to",
        standard: "40",
        allowed: Allowed::Number(1, 1 + ADDED.len() as u64),
    }],
    sameness: Sameness::NotBytes("the archive offers other versions as time goes by"),
    tools: &[apt::APT_GET, apt::DPKG_DEB, apt::TAR],
    cost,
    build,
};

fn cost(choices: &Choices) -> Cost {
    Cost { built: choices.number("count") * 126 * MB, download: 60 * MB, scratch: 250 * MB }
}

/// Installs what the system begins with, then one package after another, and packs each state; a
/// packed state is all that is needed to go on from.
fn build(site: &Site) -> Result<()> {
    let packages: Vec<&str> =
        iter::once("base").chain(ADDED.iter().copied()).take(site.count("count")).collect();
    let name = |(number, package): (usize, &&str)| format!("{number:02}-{package}.tar");
    let parts: Vec<String> = packages.iter().enumerate().map(name).collect();
    let done = site.done(&parts);
    let steps = BASE.len() + parts.len();
    let root = site.room("root")?;
    match done.checked_sub(1).map(|last| &parts[last]) {
        _ if done == parts.len() => return Ok(()),
        None => {
            create(&root.join("var/lib/dpkg/info"))?;
            for (step, package) in BASE.iter().enumerate() {
                site.step(step, steps, package)?;
                install(site, package, &root)?;
            }
        }
        Some(last) => {
            site.step(BASE.len() + done, steps, &format!("back to {last}"))?;
            apt::unpack_tar(&site.folder.join(last), &root)?;
        }
    }
    for (number, (package, part)) in packages.iter().zip(&parts).enumerate().skip(done) {
        site.step(BASE.len() + number, steps, package)?;
        if number > 0 {
            install(site, package, &root)?;
        }
        let unfinished = site.work.join(part);
        pack(&root, &unfinished)?;
        site.keep(part, &unfinished)?;
    }
    Ok(())
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

/// Unpacks a package, and notes it down where Debian's package manager does.
fn install(site: &Site, package: &str, root: &Path) -> Result<()> {
    let file = apt::download(package, &site.room("package")?)?;
    run(apt::DPKG_DEB.command().arg("-x").arg(&file).arg(root))?;
    let status = output(apt::DPKG_DEB.command().arg("-f").arg(&file))?;
    let list = output(apt::DPKG_DEB.command().arg("-c").arg(&file))?;
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
    let mut command = apt::TAR.command();
    command.args(["--sort=name", "--format=gnu", "--mtime=@0", "--numeric-owner"]);
    command.args(["--owner=0", "--group=0", "-C"]).arg(root).args(["-c", "."]);
    run_into(&mut command, tar)
}
