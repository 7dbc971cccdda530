//! How much memory a process may use.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Bytes: all that the machine has, or less if a control group allows less; seen from `root`, below
/// which /proc and /sys lie.
///
/// A group is bound by its own limit and by those of all that it is part of, in version 2 of control
/// groups and in version 1. 0 if nothing is known.
pub(crate) fn allowed(root: &Path, machine: u64) -> u64 {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let limits = groups.lines().flat_map(|line| limits_of(root, line));
    let known = limits.chain((machine > 0).then_some(machine));
    known.min().unwrap_or(0)
}

/// Of one hierarchy: `number:controllers:path`, with neither number nor controllers in version 2.
fn limits_of(root: &Path, line: &str) -> Vec<u64> {
    let mut fields = line.splitn(3, ':');
    let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next())
    else {
        return Vec::new();
    };
    let (mounts, file): (&[&str], &str) = match controllers {
        "" => (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], "memory.max"),
        _ if controllers.split(',').any(|one| one == "memory") => {
            (&["sys/fs/cgroup/memory"], "memory.limit_in_bytes")
        }
        _ => return Vec::new(),
    };
    // whoever is inside of a container may see a path that begins outside of it
    let is_name = |part: &Component| matches!(part, Component::Normal(_));
    let group: PathBuf = Path::new(path).components().filter(is_name).collect();
    let mut limits = Vec::new();
    for mount in mounts {
        for group in group.ancestors() {
            let limit = fs::read_to_string(root.join(mount).join(group).join(file));
            // no limit is the word `max`, or nearly 2^63
            limits.extend(limit.ok().and_then(|text| text.trim().parse::<u64>().ok()));
        }
    }
    limits
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the tests make their own files")]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    /// What is allowed on a machine of 16 GiB with these files.
    fn with(files: &[(&str, &str)]) -> u64 {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        allowed(root.path(), 16 * GIB)
    }

    #[test]
    fn without_groups_it_is_all_of_the_machine() {
        assert_eq!(with(&[]), 16 * GIB);
        assert_eq!(with(&[("proc/self/cgroup", "0::/\n")]), 16 * GIB);
        assert_eq!(with(&[("proc/self/cgroup", "nonsense")]), 16 * GIB);
        assert_eq!(allowed(Path::new("/nowhere"), 0), 0);
    }

    #[test]
    fn the_least_limit_from_the_group_up_counts() {
        let group = ("proc/self/cgroup", "0::/a/b\n");
        let at = |path, limit| (path, limit);
        let none = at("sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(with(&[group, none]), 16 * GIB);
        let own = at("sys/fs/cgroup/a/b/memory.max", "1073741824\n");
        assert_eq!(with(&[group, own]), GIB);
        let above = at("sys/fs/cgroup/a/memory.max", "536870912\n");
        assert_eq!(with(&[group, own, above]), GIB / 2);
        assert_eq!(with(&[group, none, above]), GIB / 2);
        let another = at("sys/fs/cgroup/c/memory.max", "1\n");
        assert_eq!(with(&[group, own, another]), GIB);
        let more_than_there_is = at("sys/fs/cgroup/a/b/memory.max", "1099511627776\n");
        assert_eq!(with(&[group, more_than_there_is]), 16 * GIB);
        // in a container whose own group is mounted at the root
        let outside = ("proc/self/cgroup", "0::/../../x\n");
        assert_eq!(with(&[outside, at("sys/fs/cgroup/memory.max", "1073741824\n")]), GIB);
    }

    #[test]
    fn version_1_counts_as_well() {
        let groups = ("proc/self/cgroup", "5:devices:/\n4:cpu,memory:/a/b\n0::/\n");
        let file = "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes";
        assert_eq!(with(&[groups, (file, "2147483648\n")]), 2 * GIB);
        assert_eq!(with(&[groups, (file, "9223372036854771712\n")]), 16 * GIB);
        let above = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
        assert_eq!(with(&[groups, (file, "2147483648\n"), above]), GIB);
        let of_devices = ("proc/self/cgroup", "5:devices:/a/b\n");
        assert_eq!(with(&[of_devices, (file, "2147483648\n")]), 16 * GIB);
    }
}
