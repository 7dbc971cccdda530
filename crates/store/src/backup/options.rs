//! What is backed up, and how.

use std::ffi::OsString;
use std::fs::File;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use super::accelerator::Accelerator;
use crate::writing::commit::PROGRAM;

/// How a backup is made.
#[derive(Debug, Clone)]
pub struct Options {
    /// The host to record; also decides which snapshot is the parent.
    pub host: String,
    /// The user to record.
    pub user: String,
    /// Tags to record.
    pub tags: Vec<String>,
    /// Patterns of what to leave out, as gitignore writes them, relative to each source. One that
    /// begins with the path of a source, or as the snapshot has it, is meant from there.
    pub excludes: Vec<String>,
    /// Whether `.gitignore`, `.ignore` and `.onefoldignore` files are honoured.
    pub ignore_files: bool,
    /// Files that mark directories whose other content is left out.
    pub exclude_if_present: Vec<Marker>,
    /// Whether directories on other file systems than their source are left out.
    pub one_file_system: bool,
    /// Block devices and images of disks that are backed up besides the paths: each is a file with
    /// the bytes that it holds. A device among the paths, or below them, is backed up as the node
    /// that it is.
    pub devices: Vec<PathBuf>,
    /// Whether sources stand in the snapshot under their full paths, even if their names differ.
    pub full_paths: bool,
    /// Whether every file is read, even one that looks unchanged.
    pub force: bool,
    /// Device and inode of the repository's directory, to leave it out of its own backup.
    pub own_repository: Option<(u64, u64)>,
    /// Whether files are counted first, so that progress knows how much there is.
    pub count_first: bool,
    /// Reading and storing threads each; as many as there are cores if `None`.
    pub threads: Option<NonZero<usize>>,
    /// How new chunks are compressed.
    pub compression: Compression,
    /// Length in bytes at which a container is sealed.
    pub container_len: usize,
    /// What cuts and fingerprints large files in place of the CPU, if anything.
    pub accelerator: Option<Arc<dyn Accelerator>>,
    /// The program to record.
    pub program: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            host: String::new(),
            user: String::new(),
            tags: Vec::new(),
            excludes: Vec::new(),
            ignore_files: false,
            exclude_if_present: Vec::new(),
            one_file_system: false,
            devices: Vec::new(),
            full_paths: false,
            force: false,
            own_repository: None,
            count_first: false,
            threads: None,
            compression: Compression::Configured,
            container_len: 16 << 20,
            accelerator: None,
            program: PROGRAM.into(),
        }
    }
}

/// How a backup compresses the chunks that it adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// By zstd at the level that the repository was made with.
    Configured,
    /// Not at all.
    Off,
    /// By zstd at this level.
    Level(i32),
}

/// A file by whose presence a directory's other content is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// The file's name.
    pub name: OsString,
    /// How it begins; empty if any content will do.
    pub head: Vec<u8>,
}

impl Marker {
    /// The mark of directories that hold a cache (bford.info/cachedir).
    pub fn cache() -> Self {
        let head = b"Signature: 8a477f597d28d172789f06886806bc55".to_vec();
        Self { name: "CACHEDIR.TAG".into(), head }
    }
}

/// Something that is read once, from begin to end, and is a file in the snapshot.
pub struct Stream {
    /// The file's name.
    pub name: Vec<u8>,
    /// What is read.
    pub input: File,
    /// Called when `input` ends. An error says that it ended too early and why; then the backup
    /// fails.
    pub expect_whole: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
}
