//! `onefold restore --device`

use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Result, bail};
use indicatif::HumanBytes;
use onefold_store::Repository;
use onefold_store::restore::{self, DeviceOptions, DeviceReport};
use onefold_store::tree::{Entry, Node};
use serde::Serialize;

use crate::console::Console;
use crate::count;
use crate::exit::Exit;
use crate::interrupt::cancel_on_signal;
use crate::name::PathFields;
use crate::output::Output;
use crate::progress::watched;
use crate::signer::Signer;
use crate::snapshot_path::Found;

/// The restore of a device in JSON.
#[derive(Serialize)]
struct Done {
    r#type: &'static str,
    snapshot: String,
    #[serde(flatten)]
    path: PathFields,
    device: String,
    bytes: u64,
    kept: u64,
    moved: u64,
    seeded: u64,
    fetched: u64,
    written: u64,
    failed: u64,
    #[serde(flatten)]
    signer: Signer,
}

/// Restores the file that was `found`, or the only one in it, onto `device`.
pub(super) fn run(
    repository: &Repository,
    found: &Found,
    device: &Path,
    options: &DeviceOptions,
    console: &Console,
) -> Result<Exit> {
    let entry = only_file(repository, &found.entry)?;
    let note = "written bytes stay; run the same command to resume";
    let cancel = cancel_on_signal(console, note)?;
    let report = watched(console, |progress| {
        progress.total_files.store(1, Ordering::Relaxed);
        progress.total_bytes.store(entry.content_len(), Ordering::Relaxed);
        restore::restore_device(repository, &entry, device, options, progress, &cancel)
    })?;
    show(&report, found, device, console)?;
    if report.failed == 0 {
        return Ok(Exit::Fine);
    }
    if !console.is_json() {
        console.line(format_args!("error: {} could not be restored", HumanBytes(report.failed)));
    }
    Ok(Exit::Fatal)
}

/// The file `entry`. If it is a directory with a single entry, that entry, recursively.
fn only_file(repository: &Repository, entry: &Entry) -> Result<Entry> {
    let mut entry = entry.clone();
    let view = repository.view()?;
    while matches!(entry.node, Node::Directory { .. }) {
        entry = match &*view.entries(&entry)? {
            [only] => only.clone(),
            entries => bail!(
                "a directory with {} cannot be restored onto a device: name a file in it, as \
                 SNAPSHOT:PATH",
                count::count(entries.len() as u64, "entry", "entries")
            ),
        };
    }
    match entry.node {
        Node::File { .. } => Ok(entry),
        _ => bail!("only a file can be restored onto a device, and the snapshot has no file there"),
    }
}

fn show(report: &DeviceReport, found: &Found, device: &Path, console: &Console) -> Result<()> {
    let mut output = Output::new();
    if console.is_json() {
        output.json_line(&done(report, found, device))?;
    } else if !console.is_quiet() {
        output.line(describe(report))?;
    }
    output.finish()
}

fn done(report: &DeviceReport, found: &Found, device: &Path) -> Done {
    let DeviceReport { bytes, kept, moved, seeded, fetched, written, failed } = *report;
    Done {
        r#type: "summary",
        snapshot: found.id.to_string(),
        path: PathFields::new(&found.path),
        device: device.to_string_lossy().into_owned(),
        bytes,
        kept,
        moved,
        seeded,
        fetched,
        written,
        failed,
        signer: found.signer.clone(),
    }
}

fn describe(report: &DeviceReport) -> String {
    let DeviceReport { bytes, kept, moved, seeded, fetched, written, failed } = *report;
    let mut text = format!("restored {}", HumanBytes(bytes.saturating_sub(failed)));
    for (len, what) in [
        (kept, "already in place"),
        (moved, "moved"),
        (seeded, "from seeds"),
        (fetched, "from the repository"),
    ] {
        if len > 0 {
            text.push_str(&format!("; {} {what}", HumanBytes(len)));
        }
    }
    text.push_str(&format!("; {} written", HumanBytes(written)));
    text
}
