//! Keeps what the compiler alone does not: the edges between crates, their floors, shared lints, docstrings, tables of
//! figures, the index of decisions, and that nobody alters the fixtures of a frozen format.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::compat;
use crate::decisions;
use crate::edges::{self, Metadata};
use crate::figures;
use crate::floors;
use crate::manifest;
use crate::site;
use crate::workspace::Cargo;

/// A file with more lines than this has more than one idea.
const LONG_FILE: usize = 900;

/// Who finds items without a docstring.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Docstrings {
    /// The check itself, which compiles the workspace for that.
    Checked,
    /// Clippy, which is run as well and takes each warning for an error.
    LeftToClippy,
}

/// Checks the workspace at `manifest_path` and prints what it found; true if nothing is wrong.
pub(crate) fn run(cargo: Cargo, manifest_path: &Path, docstrings: Docstrings) -> bool {
    let findings = check(cargo, manifest_path, docstrings).unwrap_or_else(|error| Findings {
        errors: vec![format!("{}: {error:#}", manifest_path.display())],
        ..Findings::default()
    });
    for warning in &findings.warnings {
        println!("warning: {warning}");
    }
    for error in &findings.errors {
        println!("error: {error}");
    }
    match findings.errors.len() {
        0 => println!("tidy: {} crates, nothing wrong", findings.crates),
        count => println!("tidy: {count} wrong"),
    }
    findings.errors.is_empty()
}

#[derive(Default)]
struct Findings {
    crates: usize,
    errors: Vec<String>,
    warnings: Vec<String>,
}

fn check(cargo: Cargo, manifest_path: &Path, docstrings: Docstrings) -> Result<Findings> {
    let metadata = read_metadata(cargo, manifest_path)?;
    let mut errors = edges::violations(&metadata);
    errors.extend(lint_gaps(&metadata)?);
    if docstrings == Docstrings::Checked {
        errors.extend(undocumented(cargo, manifest_path)?);
    }
    let workspace = Path::new(&metadata.workspace_root);
    errors.extend(compat::violations(&workspace.join("compat"))?);
    errors.extend(floors::violations(workspace)?);
    errors.extend(figures::stale(workspace)?);
    errors.extend(decisions::unlisted(&workspace.join("docs/decisions"))?);
    errors.extend(site::broken(workspace)?);
    let root = format!("{}/", metadata.workspace_root);
    let relative = |line: String| line.strip_prefix(&root).map(str::to_owned).unwrap_or(line);
    Ok(Findings {
        crates: metadata.packages.len(),
        errors: errors.into_iter().map(relative).collect(),
        warnings: long_files(&metadata)?.into_iter().map(relative).collect(),
    })
}

fn read_metadata(cargo: Cargo, manifest_path: &Path) -> Result<Metadata> {
    let output = cargo
        .command()
        .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"])
        .arg(manifest_path)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("cargo metadata is not as expected")
}

/// Members that do not take the workspace's lints, and the workspace if it lacks `missing_docs`.
fn lint_gaps(metadata: &Metadata) -> Result<Vec<String>> {
    let mut gaps = Vec::new();
    let root = Path::new(&metadata.workspace_root).join("Cargo.toml");
    let lints = read(&root)?;
    let level = manifest::value(&lints, "workspace.lints.rust", "missing_docs");
    if !matches!(level, Some("\"warn\"" | "\"deny\"" | "\"forbid\"")) {
        gaps.push(format!(
            "{}: the workspace does not ask for docstrings; \
             expected missing_docs = \"warn\" in [workspace.lints.rust]",
            root.display()
        ));
    }
    for package in &metadata.packages {
        let place = &package.manifest_path;
        if manifest::value(&read(Path::new(place))?, "lints", "workspace") != Some("true") {
            gaps.push(format!(
                "{place}: `{}` has lints of its own; expected workspace = true in [lints]",
                package.name
            ));
        }
    }
    Ok(gaps)
}

/// The public items without a docstring.
///
/// Asks for the compiler's messages as data instead of raising the lint's level: cargo keeps the
/// messages of crates that are up to date and repeats them, so nothing is rebuilt for this check
/// and nothing is missed because it was built before.
fn undocumented(cargo: Cargo, manifest_path: &Path) -> Result<Vec<String>> {
    let mut child = cargo
        .command()
        .args(["check", "--quiet", "--workspace", "--lib", "--bins", "--all-features"])
        .args(["--keep-going", "--message-format=json-diagnostic-short", "--manifest-path"])
        .arg(manifest_path)
        .stdout(Stdio::piped())
        .spawn()
        .context("cargo check")?;
    let messages = BufReader::new(child.stdout.take().expect("stdout is piped"));
    let mut found = Vec::new();
    for line in messages.lines() {
        found.extend(missing_docstring(&line.context("the messages of cargo check")?)?);
    }
    let status = child.wait().context("cargo check")?;
    // At level "deny" or "forbid" a missing docstring is itself what ends the check.
    if !status.success() && found.is_empty() {
        found
            .push(format!("{}: does not compile; expected code to judge", manifest_path.display()));
    }
    Ok(found)
}

#[derive(Deserialize)]
struct CargoMessage {
    manifest_path: Option<String>,
    message: Option<Diagnostic>,
}

#[derive(Deserialize)]
struct Diagnostic {
    message: String,
    code: Option<Code>,
    spans: Vec<Span>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Span {
    file_name: PathBuf,
    line_start: usize,
    is_primary: bool,
}

/// What is wrong, if `line` is a message about an item without a docstring.
///
/// Errors of another kind are passed on to stderr: they are why the check did not end.
fn missing_docstring(line: &str) -> Result<Option<String>> {
    let message: CargoMessage =
        serde_json::from_str(line).with_context(|| format!("a message of cargo check: {line}"))?;
    let Some(diagnostic) = message.message else { return Ok(None) };
    if diagnostic.code.is_none_or(|code| code.code != "missing_docs") {
        if let Some(rendered) = diagnostic.rendered.filter(|text| text.contains(": error")) {
            eprint!("{rendered}");
        }
        return Ok(None);
    }
    let place = match diagnostic.spans.iter().find(|span| span.is_primary) {
        Some(span) => format!("{}:{}", span.file_name.display(), span.line_start),
        None => message.manifest_path.unwrap_or_default(),
    };
    Ok(Some(format!("{place}: {}; expected a docstring that promises", diagnostic.message)))
}

fn long_files(metadata: &Metadata) -> Result<Vec<String>> {
    let mut sources = Vec::new();
    for package in &metadata.packages {
        let folder =
            Path::new(&package.manifest_path).parent().context("a manifest in a folder")?;
        for part in ["src", "tests", "benches", "examples"] {
            collect_sources(&folder.join(part), &mut sources)?;
        }
    }
    let mut long = Vec::new();
    for source in sources {
        let lines = read(&source)?.lines().count();
        if lines > LONG_FILE {
            long.push(format!(
                "{}: {lines} lines; expected at most {LONG_FILE}, split where a second idea begins",
                source.display()
            ));
        }
    }
    Ok(long)
}

/// Adds the Rust files below `folder`, which may be absent.
fn collect_sources(folder: &Path, sources: &mut Vec<PathBuf>) -> Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| folder.display().to_string()),
    };
    for entry in entries {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        if path.is_dir() {
            collect_sources(&path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(path);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.display().to_string())
}
