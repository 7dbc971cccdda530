//! A control group that bounds the memory of a program, the kernel's cache of files included.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use anyhow::{Context, Result, bail, ensure};

/// A control group of its own; removed when it is dropped.
pub(crate) struct Limited {
    group: PathBuf,
}

/// Where groups lie that can bound memory, and the file that does: version 2, then version 1.
const HIERARCHIES: [(&str, &str); 2] =
    [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];

/// Which processes are in a group; the kernel makes it with the group.
const PROCESSES: &str = "cgroup.procs";

impl Limited {
    /// A group that has at most `bytes` of memory. Needs to be allowed to make one.
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        let mut reasons = Vec::new();
        for (root, file) in HIERARCHIES {
            match Self::below(Path::new(root), file, bytes) {
                Ok(limited) => return Ok(limited),
                Err(error) => reasons.push(format!("{root}: {error:#}")),
            }
        }
        bail!("no control group can bound memory here: {}", reasons.join("; "))
    }

    fn below(root: &Path, file: &str, bytes: u64) -> Result<Self> {
        let group = root.join(format!("onefold-{}", process::id()));
        fs::create_dir(&group).context("a group cannot be made")?;
        let limited = Self { group };
        // In a folder that is none of the kernel's any file can be written, and bounds nothing.
        ensure!(limited.group.join(PROCESSES).exists(), "no control groups are here");
        fs::write(limited.group.join(file), bytes.to_string()).context("memory is not bounded")?;
        Ok(limited)
    }

    /// Runs `program` with `arguments` in the group.
    pub(crate) fn command(&self, program: &Path, arguments: &[String]) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg("echo $$ > \"$0\" && exec \"$@\"");
        command.arg(self.group.join(PROCESSES)).arg(program).args(arguments);
        command
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // An empty group does no harm.
        let _ = fs::remove_dir(&self.group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_no_control_group_is_refused_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let Err(error) = Limited::below(folder.path(), "memory.max", 1 << 20) else {
            panic!("a plain folder bounds nothing");
        };
        assert!(error.to_string().contains("no control groups"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
