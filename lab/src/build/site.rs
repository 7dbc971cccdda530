//! Where a recipe works: the dataset's folder, room beside it, and someone who watches.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::build::{BuildError, Choices};

/// Who is told how far a build is, and may stop it.
pub trait Watch {
    /// `done` of `of` parts are there; `what` is next.
    fn step(&self, done: usize, of: usize, what: &str);

    /// Whether to stop before the next part.
    fn is_stopped(&self) -> bool;
}

/// Where a recipe works.
pub(crate) struct Site<'a> {
    pub(super) folder: PathBuf,
    /// For what is on its way to the folder; empty when a build begins, removed when it ends.
    pub(super) work: PathBuf,
    pub(super) choices: &'a Choices,
    pub(super) watch: &'a dyn Watch,
}

impl Site<'_> {
    /// Makes those of `parts` that the folder lacks, in order.
    ///
    /// `make` is given a part and the path at which to create it, a file or a folder; it moves to
    /// its place when `make` is done. Stops between parts if it is asked to.
    pub(super) fn each<P: AsRef<str>>(
        &self,
        parts: &[P],
        mut make: impl FnMut(&str, &Path) -> Result<()>,
    ) -> Result<()> {
        for (done, part) in parts.iter().enumerate() {
            let part = part.as_ref();
            self.step(done, parts.len(), part)?;
            let home = self.folder.join(part);
            if home.exists() {
                continue;
            }
            let unfinished = self.work.join(format!("unfinished-{part}"));
            remove(&unfinished)?;
            make(part, &unfinished).with_context(|| format!("build {part}"))?;
            self.keep(part, &unfinished)?;
        }
        Ok(())
    }

    /// Tells the watch, and stops if it says so.
    pub(super) fn step(&self, done: usize, of: usize, what: &str) -> Result<()> {
        if self.watch.is_stopped() {
            return Err(BuildError::Stopped.into());
        }
        self.watch.step(done, of, what);
        Ok(())
    }

    /// How many of `parts` are there, from the first to the last before one is missing.
    pub(super) fn done(&self, parts: &[String]) -> usize {
        parts.iter().take_while(|part| self.folder.join(part).exists()).count()
    }

    /// Moves what is finished to its place, where it counts as whole, even after a power failure.
    pub(super) fn keep(&self, part: &str, finished: &Path) -> Result<()> {
        keep_at(&self.folder.join(part), finished)
    }

    /// An empty folder with room for what is fetched or unpacked.
    pub(super) fn room(&self, name: &str) -> Result<PathBuf> {
        let room = self.work.join(name);
        remove(&room)?;
        create(&room)?;
        Ok(room)
    }

    /// Empties the folder, for recipes whose parts depend on what came before by more than bytes.
    pub(super) fn start_over(&self) -> Result<()> {
        let entries =
            fs::read_dir(&self.folder).with_context(|| self.folder.display().to_string())?;
        for entry in entries {
            remove(&entry.with_context(|| self.folder.display().to_string())?.path())?;
        }
        Ok(())
    }

    pub(super) fn number(&self, choice: &str) -> u64 {
        self.choices.number(choice)
    }

    pub(super) fn count(&self, choice: &str) -> usize {
        usize::try_from(self.number(choice)).expect("counts and sizes are limited to what fits")
    }
}

/// Moves `finished` to `home` when all of it is on the disk, and waits until the move is too.
pub(super) fn keep_at(home: &Path, finished: &Path) -> Result<()> {
    flush(finished)?;
    fs::rename(finished, home)
        .with_context(|| format!("move {} to {}", finished.display(), home.display()))?;
    flush_entry(home)
}

/// Waits until the name of `path` is on the disk.
pub(super) fn flush_entry(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let flushed = File::open(folder).and_then(|folder| folder.sync_all());
    flushed.with_context(|| format!("flush {}", folder.display()))
}

/// Waits until a file, or a folder with all that is in it, is on the disk.
///
/// For a folder the whole file system is asked once: 4,000 small files asked one by one took
/// seventy times as long.
pub(super) fn flush(path: &Path) -> Result<()> {
    let flushed = File::open(path).and_then(|handle| match handle.metadata()?.is_dir() {
        true => Ok(rustix::fs::syncfs(&handle)?),
        false => handle.sync_all(),
    });
    flushed.with_context(|| format!("flush {}", path.display()))
}

pub(super) fn create(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))
}

pub(super) fn remove(path: &Path) -> Result<()> {
    let place = || format!("remove {}", path.display());
    if path.is_dir() {
        fs::remove_dir_all(path).with_context(place)?;
    } else if path.exists() {
        fs::remove_file(path).with_context(place)?;
    }
    Ok(())
}

/// The only file in a folder, where a program put it under a name of its own.
pub(super) fn only_file(folder: &Path) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let file = files.next().with_context(|| format!("{}: empty", folder.display()))?;
    Ok(file.with_context(|| folder.display().to_string())?.path())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::Watch;

    /// Lets a build go on to its end.
    pub(crate) struct Nobody;

    impl Watch for Nobody {
        fn step(&self, _: usize, _: usize, _: &str) {}

        fn is_stopped(&self) -> bool {
            false
        }
    }
}
