//! The data that tools back up in a round, and how they change between its phases.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use xtask::digest;

use super::backups::{Scene, Work};
use super::tool::Phase;

/// What is backed up.
pub(crate) struct Source {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    /// The dataset as it is.
    Still,
    /// A copy in which blocks are overwritten.
    Changing { original: PathBuf, round: Cell<u32> },
    /// One folder that shows one version after another.
    Versions { versions: Vec<PathBuf>, is_mounted: Cell<bool> },
}

/// A file at least this long is changed in some places.
const LARGE: u64 = 64 << 20;
/// Length in bytes of a change: a page of a file system.
const BLOCK: usize = 4096;
/// One change to so many bytes of a large file.
const BYTES_A_CHANGE: u64 = 16 << 20;

impl Source {
    /// What `scene` makes of `dataset`.
    pub(crate) fn of(scene: Scene, dataset: &Path, work: &Work) -> Result<Self> {
        let original = dataset.to_owned();
        Ok(match scene {
            Scene::Tree => Self { path: original, kind: Kind::Still },
            Scene::Images => {
                let path = work.fresh("source")?;
                let mut copy = Command::new("cp");
                copy.args(["-a", "--sparse=always", "-T"]).arg(dataset).arg(&path);
                run(&mut copy)?;
                Self { path, kind: Kind::Changing { original, round: Cell::new(0) } }
            }
            Scene::Versions => {
                let mut versions = fs::read_dir(dataset)
                    .and_then(Iterator::collect::<std::io::Result<Vec<_>>>)
                    .with_context(|| dataset.display().to_string())?
                    .into_iter()
                    .map(|entry| entry.path())
                    .collect::<Vec<_>>();
                versions.sort();
                ensure!(
                    versions.len() > 1,
                    "{}: expected folders, one a version",
                    dataset.display()
                );
                let path = work.fresh("source")?;
                Self { path, kind: Kind::Versions { versions, is_mounted: Cell::new(false) } }
            }
        })
    }

    /// What the tools are told to back up.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many versions there are.
    pub(crate) fn versions(&self) -> usize {
        match &self.kind {
            Kind::Still | Kind::Changing { .. } => 1,
            Kind::Versions { versions, .. } => versions.len(),
        }
    }

    /// Undoes what the last round changed. Each round has changes of its own.
    pub(crate) fn begin(&self, round: u32) -> Result<()> {
        if let Kind::Changing { original, round: last } = &self.kind {
            self.copy_blocks(original)?;
            last.set(round);
        }
        Ok(())
    }

    /// Reads all of it.
    pub(crate) fn warm(&self) -> Result<()> {
        match &self.kind {
            Kind::Still | Kind::Changing { .. } => digest::of_tree(&self.path).map(drop),
            Kind::Versions { versions, .. } => {
                versions.iter().try_for_each(|version| digest::of_tree(version).map(drop))
            }
        }
    }

    /// Makes the source what `phase` shall find, the `time`th time.
    pub(crate) fn prepare(&self, phase: Phase, time: usize) -> Result<()> {
        match (&self.kind, phase) {
            (Kind::Changing { round, .. }, Phase::Changed) => self.change(round.get()),
            (Kind::Versions { versions, is_mounted }, Phase::Version) => {
                self.unmount(is_mounted)?;
                let mut mount = Command::new("mount");
                // Read-only, so that no mistake in cleaning up reaches the dataset.
                mount.args(["--bind", "-o", "ro"]).arg(&versions[time]).arg(&self.path);
                run(&mut mount)
                    .context("only root may show one folder after another in a place")?;
                is_mounted.set(true);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn unmount(&self, is_mounted: &Cell<bool>) -> Result<()> {
        if is_mounted.replace(false) {
            run(Command::new("umount").arg(&self.path))?;
        }
        Ok(())
    }

    /// Overwrites blocks of the large files with bytes that were never there.
    fn change(&self, round: u32) -> Result<()> {
        self.each_block(round, |path, file, offset, _| {
            let mut block = [0; BLOCK];
            let mut hasher = blake3::Hasher::new();
            hasher.update(path.as_os_str().as_encoded_bytes());
            hasher.update(&round.to_le_bytes()).update(&offset.to_le_bytes());
            hasher.finalize_xof().fill(&mut block);
            file.write_all_at(&block, offset)
        })
    }

    /// Writes what the original has where the last round overwrote it.
    fn copy_blocks(&self, original: &Path) -> Result<()> {
        let Kind::Changing { round, .. } = &self.kind else { return Ok(()) };
        if round.get() == 0 {
            return Ok(());
        }
        self.each_block(round.get(), |path, file, offset, block| {
            let name = path.file_name().expect("a file has a name");
            File::open(original.join(name))?.read_exact_at(block, offset)?;
            file.write_all_at(block, offset)
        })
    }

    /// The places in the large files that `round` changes: evenly spread, another in each.
    fn each_block(
        &self,
        round: u32,
        visit: impl Fn(&Path, &File, u64, &mut [u8; BLOCK]) -> std::io::Result<()>,
    ) -> Result<()> {
        for entry in fs::read_dir(&self.path).with_context(|| self.path.display().to_string())? {
            let path = entry?.path();
            let place = || path.display().to_string();
            let len = path.symlink_metadata().with_context(place)?.len();
            if len < LARGE {
                continue;
            }
            let file = OpenOptions::new().read(true).write(true).open(&path).with_context(place)?;
            for number in 0..len / BYTES_A_CHANGE {
                let within = u64::from(round) * 7919 * BLOCK as u64 % BYTES_A_CHANGE;
                let offset = number * BYTES_A_CHANGE + within;
                visit(&path, &file, offset, &mut [0; BLOCK]).with_context(place)?;
            }
        }
        Ok(())
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Kind::Versions { is_mounted, .. } = &self.kind
            && let Err(error) = self.unmount(is_mounted)
        {
            eprintln!("bench: {error:#}");
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}
