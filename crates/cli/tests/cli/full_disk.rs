//! A disk that a repository has filled is freed by `onefold forget` and `onefold prune` alone.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::MetadataExt;

use onefold_testkit::random;
use rustix::fs::statvfs;

use crate::lab::{Lab, number};
use crate::mount::may_mount;
use crate::served::run;
use crate::serving::{MountedAt, has_loop_devices};

const RESERVE: u64 = 8 << 20;

/// A lab in which `disk` is a file system of 40 MiB, with a repository on it.
struct SmallDisk {
    // Unmounted before the lab is removed.
    _mounted: MountedAt,
    lab: Lab,
}

impl SmallDisk {
    fn in_memory() -> Option<Self> {
        may_mount().then(|| Self::mount(Lab::new(), &["-t", "tmpfs", "-o", "size=40M", "none"]))
    }

    fn ext4() -> Option<Self> {
        if !may_mount() || !has_loop_devices() {
            return None;
        }
        let lab = Lab::new();
        let image = lab.path("image");
        File::create(&image).unwrap().set_len(40 << 20).unwrap();
        let image = image.to_str().unwrap();
        run("mkfs.ext4", &["-q", "-m", "0", image]);
        Some(Self::mount(lab, &["-o", "loop", image]))
    }

    fn mount(lab: Lab, arguments: &[&str]) -> Self {
        let mounted = MountedAt::new(lab.path("disk"), arguments);
        lab.ok("init disk/repo --no-encryption");
        Self { _mounted: mounted, lab }
    }

    /// Backs up other data, until there is no room for them.
    fn back_up_until_full(&self) {
        for version in 0.. {
            self.lab.write("source/file", random(version, 3 << 20));
            self.lab.settle();
            let ran = self.lab.run("backup --repo disk/repo source");
            if ran.code != 0 {
                assert!(version > 2, "{ran:#?}");
                ran.expect(1).says(&["is full"]);
                break;
            }
        }
        self.take_the_rest();
    }

    /// Takes what is left of the disk, to the last byte.
    fn take_the_rest(&self) {
        let mut other = File::create(self.lab.path("disk/other")).unwrap();
        for piece in [vec![7; 1 << 20], vec![7; 512]] {
            let full = loop {
                if let Err(error) = other.write_all(&piece).and_then(|()| other.sync_all()) {
                    break error;
                }
            };
            assert_eq!(full.kind(), ErrorKind::StorageFull);
        }
    }

    fn free(&self) -> u64 {
        let found = statvfs(self.lab.path("disk").as_path()).unwrap();
        found.f_bavail * found.f_frsize
    }

    /// Bytes of the disk that the reserve has, or none.
    fn reserve(&self) -> u64 {
        fs::metadata(self.lab.path("disk/repo/RESERVE")).map_or(0, |file| file.blocks() * 512)
    }

    fn snapshots(&self) -> usize {
        let listed = self.lab.ok("snapshots --repo disk/repo --json").json();
        listed.as_array().unwrap().len()
    }
}

fn small_disks() -> impl Iterator<Item = SmallDisk> {
    [SmallDisk::in_memory, SmallDisk::ext4].into_iter().filter_map(|make| make())
}

#[test]
fn a_full_disk_is_freed_by_forget_and_prune() {
    for disk in small_disks() {
        let lab = &disk.lab;
        assert!(disk.reserve() >= RESERVE, "init made it");
        disk.back_up_until_full();
        lab.run("backup --repo disk/repo source").expect(1).says(&["is full"]);
        assert!(disk.reserve() >= RESERVE, "no backup uses it");
        let taken = disk.free();
        assert!(taken < 64 << 10, "{taken} bytes");

        lab.ok("forget --repo disk/repo --keep-last 1");
        assert_eq!(disk.snapshots(), 1);
        let report = lab.ok("prune --repo disk/repo --json").json();
        assert!(number(&report, "deleted_containers") > 2, "{report}");
        assert!(disk.free() > 6 << 20, "{} bytes are free", disk.free());
        assert!(disk.reserve() >= RESERVE, "it is whole again");
        lab.ok("check --repo disk/repo --read-data");
        lab.ok("backup --repo disk/repo source");
        lab.ok("restore --repo disk/repo latest --target out");
        assert!(
            fs::read(lab.path("out/file")).unwrap() == fs::read(lab.path("source/file")).unwrap()
        );
    }
}

#[test]
fn without_its_reserve_a_full_disk_stays_full_and_a_prune_with_room_makes_one() {
    for disk in small_disks() {
        let lab = &disk.lab;
        for version in [100, 101] {
            lab.write("source/file", random(version, 1 << 20));
            lab.settle();
            lab.ok("backup --repo disk/repo source");
        }
        lab.ok("forget --repo disk/repo --keep-last 1");
        fs::remove_file(lab.path("disk/repo/RESERVE")).unwrap();
        disk.back_up_until_full();
        let before = disk.snapshots();
        for line in ["forget --keep-last 1", "prune"] {
            lab.run(&format!("{line} --repo disk/repo")).expect(1).says(&["is full", "hint: free"]);
        }
        assert_eq!((disk.snapshots(), disk.reserve()), (before, 0));
        fs::remove_file(lab.path("disk/other")).unwrap();
        lab.ok("forget --repo disk/repo --keep-last 1");
        lab.ok("prune --repo disk/repo");
        assert!(disk.reserve() >= RESERVE);
    }
}

#[test]
fn a_prune_without_room_for_copies_deletes_what_nobody_needs() {
    let Some(disk) = SmallDisk::in_memory() else { return };
    let lab = &disk.lab;
    let back_up = |files: &[u64]| {
        let _ = fs::remove_dir_all(lab.path("source"));
        for file in files {
            lab.write(format!("source/{file}"), random(*file, 5 << 20));
        }
        lab.settle();
        lab.ok("backup --repo disk/repo source");
    };
    [&[1, 2][..], &[1, 3], &[1]].iter().for_each(|files| back_up(files));
    disk.take_the_rest();
    lab.ok("forget --repo disk/repo --keep-last 1");
    let ran = lab.ok("prune --repo disk/repo --max-unused 0 --json");
    let report = ran.json();
    assert!(number(&report, "deleted_containers") > 0, "{report}");
    assert!(number(&report, "unused_bytes") > 4 << 20, "{report}");
    ran.says(&["warning:", "is full", "prune again"]);
    let report = lab.ok("prune --repo disk/repo --max-unused 0 --json").json();
    assert!(number(&report, "unused_bytes") < 1 << 20, "{report}");
    assert!(number(&report, "copied_bytes") > 4 << 20, "{report}");
    assert!(disk.free() > 8 << 20 && disk.reserve() >= RESERVE, "{} bytes are free", disk.free());
    lab.ok("check --repo disk/repo --read-data");
}
