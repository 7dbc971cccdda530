//! What Debian's archive offers: documents as web pages and as PDF, and what other recipes fetch.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use onefold_bench::files_below;

use crate::build::order::{Allowed, Choice};
use crate::build::site::{Site, create, only_file, remove};
use crate::build::tool::{fetch, output, run};
use crate::build::{Cost, MB, Recipe, Sameness, Tool};

pub(super) const ARCHIVE: &str = "Debian archive";
pub(super) const APT_GET: Tool = Tool::new("apt-get", "apt");
pub(super) const APT_CACHE: Tool = Tool::new("apt-cache", "apt");
pub(super) const DPKG_DEB: Tool = Tool::new("dpkg-deb", "dpkg");
pub(super) const TAR: Tool = Tool::new("tar", "tar");

/// Why nothing from the archive is the same for ever.
pub(super) const ROTATES: &str = "versions rotate out of the archive";

/// How many of [`versions`].
pub(super) const VERSIONS: Choice = Choice {
    name: "count",
    about: "versions, the oldest first; fewer if fewer are offered",
    standard: "6",
    allowed: Allowed::Number(1, 99),
};

pub(super) const WEB: Recipe = Recipe {
    name: "web",
    kind: "HTML",
    about: "the kernel's documentation as web pages, each version that Debian 12 offers",
    source: Some(ARCHIVE),
    choices: &[VERSIONS],
    sameness: Sameness::NotBytes(ROTATES),
    tools: &[APT_GET, APT_CACHE, DPKG_DEB],
    cost: |choices| {
        let count = choices.number("count");
        Cost { built: count * 129 * MB, download: count * 38 * MB, scratch: 240 * MB }
    },
    build: web,
};

pub(super) const PDF: Recipe = Recipe {
    name: "pdf",
    kind: "PDF",
    about: "manuals of TeX packages",
    source: Some(ARCHIVE),
    choices: &[],
    sameness: Sameness::NotBytes(ROTATES),
    tools: &[APT_GET, DPKG_DEB],
    cost: |_| Cost { built: 285 * MB, download: 250 * MB, scratch: 220 * MB },
    build: pdf,
};

const MANUALS: [&str; 4] = [
    "texlive-humanities-doc",
    "texlive-latex-base-doc",
    "texlive-latex-recommended-doc",
    "texlive-science-doc",
];

fn web(site: &Site) -> Result<()> {
    const PACKAGE: &str = "linux-doc-6.1";
    let versions = versions(PACKAGE, site.count("count"))?;
    site.each(&versions, |version, to| {
        let file = download(&format!("{PACKAGE}={version}"), &site.room("package")?)?;
        let tree = site.room("tree")?;
        unpack(&file, &tree)?;
        keep_only(&tree, "html", to)
    })
}

fn pdf(site: &Site) -> Result<()> {
    site.each(&MANUALS, |package, to| {
        let file = download(package, &site.room("package")?)?;
        let tree = site.room("tree")?;
        unpack(&file, &tree)?;
        keep_only(&tree, "pdf", to)
    })
}

/// The versions of a package that the archive offers, the oldest first.
pub(super) fn versions(package: &str, most: usize) -> Result<Vec<String>> {
    let table = output(APT_CACHE.command().args(["madison", package]))?;
    let table = String::from_utf8_lossy(&table);
    let mut versions: Vec<String> =
        table.lines().filter_map(|line| Some(line.split('|').nth(1)?.trim().to_owned())).collect();
    ensure!(
        !versions.is_empty(),
        "{package}: apt knows no version of it; expected the package lists of Debian 12, as \
         `apt-get update` fetches them"
    );
    versions.dedup();
    versions.reverse();
    versions.truncate(most);
    Ok(versions)
}

/// Fetches `PACKAGE` or `PACKAGE=VERSION` into an empty folder.
pub(super) fn download(package: &str, room: &Path) -> Result<PathBuf> {
    let mut command = APT_GET.command();
    command.args(["-q", "-o", "Acquire::Retries=1", "-o", "APT::Sandbox::User=root"]);
    fetch(command.args(["download", package]).current_dir(room), package, ARCHIVE)?;
    only_file(room)
}

pub(super) fn unpack(package: &Path, to: &Path) -> Result<()> {
    run(DPKG_DEB.command().arg("-x").arg(package).arg(to))
}

/// What a tar of the recipes holds, with the rights noted there.
pub(super) fn unpack_tar(tar: &Path, to: &Path) -> Result<()> {
    run(TAR.command().arg("-C").arg(to).args(["--numeric-owner", "-xpf"]).arg(tar))
}

/// Moves the files with an ending from below `tree` to the same places below `to`.
fn keep_only(tree: &Path, ending: &str, to: &Path) -> Result<()> {
    create(to)?;
    for file in files_below(tree)? {
        if file.extension().is_none_or(|found| found != ending) {
            continue;
        }
        let home = to.join(file.strip_prefix(tree).expect("the file was found below"));
        create(home.parent().expect("the home lies below a folder"))?;
        fs::rename(&file, &home).with_context(|| home.display().to_string())?;
    }
    remove(tree)
}
