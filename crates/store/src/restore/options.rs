//! How a restore is made.

use std::num::NonZero;
use std::path::PathBuf;

/// What happens to a file that is in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// It is replaced.
    #[default]
    Always,
    /// It is replaced unless size and mtime are those of the snapshot. What a power cut left may have
    /// both and not its bytes, if the file is shorter than 8 MiB and the file system makes lengths
    /// durable before bytes.
    IfChanged,
    /// It stays.
    Never,
}

/// How a restore is made.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Patterns of what to restore, as gitignore writes them, relative to the restored entry;
    /// everything if empty.
    pub includes: Vec<String>,
    /// Patterns of what to leave out, with all that is below it, whatever `includes` pick.
    pub excludes: Vec<String>,
    /// Whether what the snapshot does not have is removed from the target, below the directories
    /// that the snapshot has, as far as patterns let it. It goes once all is restored, and stays if
    /// something could not be restored.
    pub delete: bool,
    /// Where the snapshot's sources lie below what is restored, if several are: directories above
    /// them hold what was never backed up, so nothing is deleted from them.
    pub sources: Vec<Vec<u8>>,
    /// Whether nothing is changed, and only told what would be. The same acts are counted.
    pub dry_run: bool,
    /// Device and inode of a directory that is never deleted from, nor itself: the repository.
    pub own_repository: Option<(u64, u64)>,
    /// Whether to count files and bytes beside the restore, unless the progress has totals already.
    pub count_first: bool,
    /// What happens to files that are in the way.
    pub overwrite: Overwrite,
    /// Whether blocks of zeros become holes, in files that had none there as well.
    pub sparse: bool,
    /// Whether every restored file is read again and compared with the snapshot. One that looked
    /// unchanged, and so would have stayed, is compared as well, and replaced if it differs.
    pub verify: bool,
    /// Directories of which files may hold chunks that then need not come from the repository. Files
    /// that are replaced serve as well without being named, where the repository is far away.
    pub seeds: Vec<PathBuf>,
    /// Writing threads; as many as there are cores if `None`.
    pub threads: Option<NonZero<usize>>,
}
