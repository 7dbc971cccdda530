//! `cargo xtask site`: the documents as pages for a browser, in `target/site`. A page lies where its document does,
//! README.md as index.html.

mod links;
mod page;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

/// The documents that each page links to, by heading.
const NAVIGATION: &[(&str, &[&str])] = &[
    (
        "Use",
        &[
            "README.md",
            "docs/install.md",
            "docs/commands.md",
            "docs/s3.md",
            "docs/volumes.md",
            "docs/cluster.md",
            "docs/bench.md",
            "docs/security.md",
            "docs/upgrading.md",
            "docs/platforms.md",
            "docs/compared.md",
            "CHANGELOG.md",
        ],
    ),
    (
        "Understand",
        &[
            "docs/glossary.md",
            "docs/results.md",
            "docs/format.md",
            "docs/pool-format.md",
            "docs/cluster-format.md",
            "docs/volume-stream.md",
            "docs/keyed-chunking.md",
            "docs/papers.md",
            "docs/lab/README.md",
        ],
    ),
    (
        "Develop",
        &[
            "CONTRIBUTING.md",
            "ARCHITECTURE.md",
            "docs/testing.md",
            "docs/decisions/README.md",
            "docs/versions.md",
            "docs/releasing.md",
            "SECURITY.md",
        ],
    ),
];

/// All documents of the workspace, by their paths in it.
type Documents = BTreeMap<PathBuf, String>;

/// What is wrong with links in documents below `root`: files and headings that do not exist.
///
/// # Errors
///
/// If a document cannot be read.
pub(crate) fn broken(root: &Path) -> Result<Vec<String>> {
    let documents = read(root)?;
    let mut wrong = links::broken(root, &documents);
    let named = NAVIGATION.iter().flat_map(|(_, all)| all.iter());
    for name in named.filter(|name| !documents.contains_key(Path::new(name))) {
        // other workspaces have not these documents
        if documents.contains_key(Path::new("docs/install.md")) {
            wrong.push(format!("xtask/src/site/mod.rs: {name} is no document"));
        }
    }
    Ok(wrong)
}

/// Writes the pages to `folder`, which it replaces.
///
/// # Errors
///
/// If a link leads nowhere, or a file cannot be read or written.
pub(crate) fn write(folder: &Path) -> Result<()> {
    let root = workspace::root();
    let wrong = broken(root)?;
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    let documents = read(root)?;
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let mut beside = BTreeSet::new();
    for (path, text) in &documents {
        let page = page::of(path, text, NAVIGATION, &documents);
        put(&folder.join(page::place(path)), page.as_bytes())?;
        beside.extend(links::of(path, text).into_iter().filter_map(|link| link.file));
    }
    for file in beside {
        let from = root.join(&file);
        if from.is_file() && !documents.contains_key(&file) {
            let bytes = fs::read(&from).with_context(|| from.display().to_string())?;
            put(&folder.join(&file), &bytes)?;
        }
    }
    println!("site: {} pages in {}", documents.len(), folder.display());
    Ok(())
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let place = || path.display().to_string();
    fs::create_dir_all(path.parent().with_context(place)?).with_context(place)?;
    fs::write(path, bytes).with_context(place)
}

/// The documents that git knows, or would take.
fn read(root: &Path) -> Result<Documents> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.md"]);
    let output = git.current_dir(root).stdin(Stdio::null()).output().context("git")?;
    if !output.status.success() {
        // small workspaces of tests are in no repository
        if root.join(".git").exists() {
            bail!("git ls-files ended with {}", output.status);
        }
        return Ok(Documents::new());
    }
    let names = String::from_utf8(output.stdout).context("names of documents in UTF-8")?;
    let mut documents = Documents::new();
    for name in names.split('\0').filter(|name| !name.is_empty()) {
        let path = root.join(name);
        // deleted, and not yet committed
        if path.exists() {
            let text = fs::read_to_string(&path).with_context(|| name.to_owned())?;
            documents.insert(PathBuf::from(name), text);
        }
    }
    Ok(documents)
}
