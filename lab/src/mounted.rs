//! What a folder lies on, as the kernel mounted it: a file system of memory takes a page of 4 KiB at a
//! time or a huge one, which a record has to say.

use std::path::Path;

/// The type of the file system that `folder` is on, and its options; `None` if that is not known here.
pub fn mounted(folder: &Path) -> Option<String> {
    let folder = folder.canonicalize().ok()?;
    of(&std::fs::read_to_string("/proc/self/mountinfo").ok()?, &folder)
}

/// The same by a list of mounts as proc(5) describes it: of those above the folder the deepest, and
/// of several at one place the last.
fn of(mounts: &str, folder: &Path) -> Option<String> {
    let above = mounts.lines().filter_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let place = mount.split(' ').nth(4)?;
        folder.starts_with(place).then_some((place.len(), system))
    });
    let (_, system) = above.max_by_key(|(depth, _)| *depth)?;
    let mut fields = system.split(' ');
    let (kind, options) = (fields.next()?, fields.nth(1)?);
    Some(format!("{kind} ({options})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_counts_and_of_several_the_last() {
        let mounts = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
                      25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=1k\n\
                      26 24 0:24 / /dev/shm rw shared:1 - tmpfs tmpfs rw,huge=always\n\
                      a line of another kind\n";
        let of = |folder: &str| of(mounts, Path::new(folder));
        assert_eq!(of("/dev/shm/e").as_deref(), Some("tmpfs (rw,huge=always)"));
        assert_eq!(of("/dev/shmem").as_deref(), Some("ext4 (rw,discard)"));
        assert_eq!(of("relative"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_folder_is_on_something() {
        let found = mounted(Path::new(".")).unwrap();
        assert!(found.ends_with(')'), "{found}");
    }
}
