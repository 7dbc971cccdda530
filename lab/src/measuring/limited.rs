//! A control group that bounds and counts the memory of a program, the kernel's cache of files included.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail, ensure};

/// A control group of its own; removed when it is dropped.
pub(crate) struct Limited {
    group: PathBuf,
}

/// Where groups lie that can bound memory, and the file that does: version 2, then version 1.
const HIERARCHIES: [(&str, &str); 2] =
    [("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")];

/// The files that have the peak, by the same versions. Kernels before Linux 5.19 have none of version 2.
const PEAKS: [&str; 2] = ["memory.peak", "memory.max_usage_in_bytes"];

/// Which processes are in a group; the kernel makes it with the group.
const PROCESSES: &str = "cgroup.procs";

impl Limited {
    /// A group that has at most `bytes` of memory. Fails where this process may not make one.
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        Self::in_any_hierarchy(Some(bytes))
    }

    /// A group that counts memory and does not bound it. Fails where this process may not make one.
    pub(crate) fn counting() -> Result<Self> {
        Self::in_any_hierarchy(None)
    }

    fn in_any_hierarchy(bytes: Option<u64>) -> Result<Self> {
        let mut reasons = Vec::new();
        for (root, file) in HIERARCHIES {
            match Self::below(Path::new(root), file, bytes) {
                Ok(limited) => return Ok(limited),
                Err(error) => reasons.push(format!("{root}: {error:#}")),
            }
        }
        bail!("no control group can bound memory here: {}", reasons.join("; "))
    }

    fn below(root: &Path, file: &str, bytes: Option<u64>) -> Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let group = root.join(format!("onefold-{}-{number}", process::id()));
        fs::create_dir(&group).context("a group cannot be made")?;
        let limited = Self { group };
        // In a folder that is none of the kernel's any file can be written, and bounds nothing.
        ensure!(limited.group.join(PROCESSES).exists(), "no control groups are here");
        ensure!(limited.group.join(file).exists(), "memory is not among what groups bound");
        if let Some(bytes) = bytes {
            let written = fs::write(limited.group.join(file), bytes.to_string());
            written.context("memory is not bounded")?;
        }
        Ok(limited)
    }

    /// The most memory that the programs of the group had at once, in bytes, with the kernel's cache of the
    /// files that they read and wrote; `None` where the kernel does not tell.
    pub(crate) fn peak(&self) -> Option<u64> {
        let read = |file| fs::read_to_string(self.group.join(file)).ok()?.trim().parse().ok();
        PEAKS.into_iter().find_map(read)
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
        let Err(error) = Limited::below(folder.path(), "memory.max", Some(1 << 20)) else {
            panic!("a plain folder bounds nothing");
        };
        assert!(error.to_string().contains("no control groups"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn two_groups_of_a_process_count_apart() {
        let (Ok(small), Ok(large)) = (Limited::counting(), Limited::counting()) else {
            onefold_testkit::skip("no control group can be made here");
            return;
        };
        let hold = |group: &Limited, mebibytes: u64| {
            let script = format!("x=$(head -c {} /dev/zero | tr '\\0' a)", mebibytes << 20);
            let mut command = group.command(Path::new("sh"), &["-c".into(), script]);
            assert!(command.status().unwrap().success());
        };
        hold(&small, 1);
        hold(&large, 64);
        let Some((small, large)) = small.peak().zip(large.peak()) else {
            onefold_testkit::skip("this kernel keeps no peak");
            return;
        };
        assert!(large > 64 << 20 && small < large, "{small} and {large} bytes");
    }
}
