use std::fmt;
use std::path::PathBuf;

use crate::build::Tool;

/// Why a dataset cannot be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// No recipe has this name.
    Unknown {
        /// What was asked for.
        name: String,
        /// Names that are like it, the nearest first; all of them if none is.
        nearest: Vec<&'static str>,
    },
    /// A recipe has no such choice, or not with this value.
    Choice {
        /// Of the recipe.
        name: &'static str,
        /// What was asked for.
        choice: String,
        /// What could have been.
        expected: String,
    },
    /// Programs are not there.
    MissingTools {
        /// Of the dataset.
        name: String,
        /// What is missing.
        tools: Vec<Tool>,
    },
    /// The disk is too small; nothing was downloaded.
    DiskTooSmall {
        /// Of the dataset.
        name: String,
        /// Where it should have been built.
        dir: PathBuf,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The disk ran full; the parts that are done are kept.
    DiskFull {
        /// Of the dataset.
        name: String,
        /// Where it is built.
        dir: PathBuf,
        /// What could not be written.
        reason: String,
    },
    /// What is there is not what its receipt says; it was left alone.
    Changed {
        /// Where it was built.
        dir: PathBuf,
        /// Files and bytes that are there.
        found: (u64, u64),
        /// Files and bytes that were.
        expected: (u64, u64),
    },
    /// Something is where the dataset would be built, and no build began it; it was left alone.
    InTheWay {
        /// Of the dataset.
        name: String,
        /// What is there.
        path: PathBuf,
    },
    /// Something could not be fetched.
    Unfetched {
        /// What.
        what: String,
        /// From where.
        source: &'static str,
        /// What the program that tried says.
        reason: String,
    },
    /// The bytes are not those that were recorded.
    OtherBytes {
        /// Of the dataset.
        name: String,
        /// Where it was built.
        dir: PathBuf,
        /// What came out.
        found: String,
        /// What was recorded.
        expected: &'static str,
    },
    /// Its user asked it to stop; the parts that are done are kept, unless the recipe starts over.
    Stopped,
}

impl BuildError {
    /// A way out, where one is known.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unknown { .. } => "`cargo lab dataset list` tells what there is".into(),
            Self::MissingTools { tools, .. } => {
                let packages: Vec<&str> = tools.iter().map(|tool| tool.package).collect();
                format!("on Debian: apt-get install {}", packages.join(" "))
            }
            Self::DiskTooSmall { .. } => {
                "name a folder on a larger disk with --dir, or free space".into()
            }
            Self::DiskFull { .. } => "free space, then run it again to go on".into(),
            Self::Changed { dir, .. } | Self::OtherBytes { dir, .. } => {
                format!("remove '{}' and build it again", dir.display())
            }
            Self::InTheWay { .. } => {
                "name another folder with --dir, or move away what is there".into()
            }
            Self::Unfetched { source, .. } => format!(
                "check the network, the proxy settings and that the {source} can be reached, then \
                 run it again: parts that are done are kept"
            ),
            Self::Stopped => "run it again to go on; parts that are done are kept".into(),
            Self::Choice { .. } => return None,
        })
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, nearest } => {
                write!(f, "no dataset '{name}', expected one like {}", nearest.join(", "))
            }
            Self::Choice { name, choice, expected } => {
                write!(f, "{name}: no choice '{choice}', expected {expected}")
            }
            Self::MissingTools { name, tools } => {
                let tools: Vec<String> = tools
                    .iter()
                    .map(|tool| format!("{} (package {})", tool.program, tool.package))
                    .collect();
                write!(f, "{name}: cannot be built without {}", tools.join(", "))
            }
            Self::DiskTooSmall { name, dir, needed, free } => write!(
                f,
                "{name}: takes {} MB in '{}', where {} MB are free; nothing was downloaded",
                needed.div_ceil(1_000_000),
                dir.display(),
                free / 1_000_000,
            ),
            Self::DiskFull { name, dir, reason } => write!(
                f,
                "{name}: the disk of '{}' is full: {reason}; parts that are done are kept",
                dir.display(),
            ),
            Self::Changed { dir, found, expected } => write!(
                f,
                "'{}' holds {} bytes in {} files, expected {} in {} as its receipt says; nothing \
                 was changed",
                dir.display(),
                found.1,
                found.0,
                expected.1,
                expected.0,
            ),
            Self::InTheWay { name, path } => write!(
                f,
                "{name}: '{}' is there already and was not built by this command; nothing was \
                 changed",
                path.display()
            ),
            Self::Unfetched { what, source, reason } => {
                write!(f, "{what} could not be fetched from the {source}: {reason}")
            }
            Self::OtherBytes { name, dir, found, expected } => {
                write!(f, "{name}: '{}' has the digest {found}, expected {expected}", dir.display())
            }
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for BuildError {}
