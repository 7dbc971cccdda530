//! File systems that keep coarse times: what changes within a step of their clock is seen.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use onefold_testkit::skip;
use tempfile::TempDir;

use crate::common::{back_up, in_memory, open, restored, small_chunks, write};

/// A new ext4 in a file, unmounted when dropped.
struct Ext4 {
    folder: TempDir,
}

impl Ext4 {
    /// One whose inodes have so many bytes, or why there is none.
    fn new(inode_len: &str) -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        let made = Self { folder };
        run("mkfs.ext4", &["-q", "-I", inode_len, image.to_str().unwrap(), "16M"])?;
        fs::create_dir(made.root()).unwrap();
        run("mount", &["-o", "loop", image.to_str().unwrap(), made.root().to_str().unwrap()])?;
        Ok(made)
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        // Where it could not be mounted this fails.
        let _ = Command::new("umount").arg(self.root()).output();
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    let tried = Command::new(program).args(arguments).output();
    let output = tried.map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn wait_for_a_new_second() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    thread::sleep(Duration::from_nanos(1_000_000_000 - u64::from(now.subsec_nanos())));
}

fn times(path: &Path) -> [i64; 4] {
    let of = |file: Metadata| [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
    of(path.metadata().unwrap())
}

#[test]
fn a_file_rewritten_in_the_second_of_its_backup_is_read_again() {
    let ext4 = match Ext4::new("128") {
        Ok(ext4) => ext4,
        Err(why) => return skip(&format!("no ext4 with small inodes can be mounted: {why}")),
    };
    let (source, file) = (ext4.root(), ext4.root().join("file"));
    for _ in 0..20 {
        let (objects, repository) = in_memory(small_chunks());
        wait_for_a_new_second();
        write(&file, "as it was");
        let before = times(&file);
        assert_eq!((before[1], before[3]), (0, 0), "the file system keeps finer times");
        back_up(&repository, &source);
        write(&file, "as it is.");
        if times(&file) != before {
            // The second ended before the backup did.
            continue;
        }
        thread::sleep(Duration::from_millis(2100));
        let (_, second) = back_up(&repository, &source);
        assert_eq!(second.summary.unchanged_files, 0);
        assert_eq!(
            restored(&open(&objects), &second).unwrap().bytes("file").unwrap(),
            b"as it is."
        );
        // A backup that begins two seconds after the change needs no other.
        let (_, third) = back_up(&repository, &source);
        assert_eq!(third.summary.unchanged_files, 1);
        return;
    }
    skip("this machine is too slow for a backup within a second");
}

#[test]
fn where_times_are_fine_whole_seconds_of_an_mtime_mean_nothing() {
    let ext4 = match Ext4::new("256") {
        Ok(ext4) => ext4,
        Err(why) => return skip(&format!("no ext4 can be mounted: {why}")),
    };
    let (_, repository) = in_memory(small_chunks());
    // As what comes out of an archive.
    let file = ext4.root().join("extracted");
    write(&file, "an hour old");
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    let seconds = hour_ago.duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mtime = UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(&file).unwrap().set_modified(mtime).unwrap();
    back_up(&repository, &ext4.root());
    let (_, second) = back_up(&repository, &ext4.root());
    assert_eq!(second.summary.unchanged_files, 1);
}
