//! A guest that backs up FAT.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use onefold_testkit::skip;
use serde_json::Value;

use super::{Guest, begun, kernel, modules};
use crate::lab::{Lab, ONEFOLD, number};
use crate::served::{find, have, run};

const INIT: &str = include_str!("fat.sh");

/// What the guest's kernel has to load, what others need first.
const MODULES: [&str; 10] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_legacy_dev",
    "virtio_pci_modern_dev",
    "virtio_pci",
    "virtio_blk",
    "nls_cp437",
    "nls_ascii",
    "fat",
    "vfat",
];

/// The rest of the guest's lines that begin with `word`.
fn lines<'a>(said: &'a str, word: &str) -> Vec<&'a str> {
    let begin = format!("GUEST: {word} ");
    said.lines().filter_map(|line| line.strip_prefix(&begin)).map(str::trim).collect()
}

/// FAT keeps every second second. The guest rewrites files that have times around the backup's and
/// gives them the same times again, as if they had been rewritten within the step.
#[test]
fn a_file_on_fat_that_changed_within_two_seconds_of_its_backup_is_read_again() {
    if !have(&["qemu-system-x86_64", "ldd", "busybox", "mkfs.vfat", "strip"]) {
        return;
    }
    let Some(kernel) = kernel() else { return };
    if std::env::consts::ARCH != "x86_64" {
        return skip("the guest runs programs of this machine and is an x86-64");
    }
    let modules = match modules(&kernel, &MODULES) {
        Ok(modules) => modules,
        Err(why) => return skip(&why),
    };
    let lab = Lab::new();
    let (image, program) = (lab.path("image"), lab.path("onefold"));
    run("mkfs.vfat", &["-C", image.to_str().unwrap(), "16384"]);
    run("strip", &["-o", program.to_str().unwrap(), ONEFOLD]);
    let programs: [PathBuf; 2] = [find("busybox").unwrap(), program];
    let initramfs = begun(INIT, programs.iter().map(PathBuf::as_path), &modules);
    lab.write("initramfs", initramfs.finish());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let settings = format!("now={}", now & !1);
    let image = image.to_str().unwrap();
    let said = Guest::start(&lab, &kernel, &modules, image, &settings).ended(&lab);

    let backups: Vec<Value> = lines(&said, "backup")
        .into_iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let time: Timestamp = backups[0]["time"].as_str().unwrap().parse().unwrap();
    let settled_before = time.as_nanosecond() - 2_010_000_000;
    let files = lines(&said, "restored");
    let mut settled = 0;
    for file in &files {
        let (mtime, content) = file.split_once(' ').unwrap();
        let is_settled = mtime.parse::<i128>().unwrap() * 1_000_000_000 < settled_before;
        settled += u64::from(is_settled);
        let expected = if is_settled { "before" } else { "after." };
        assert_eq!(content, expected, "the file of {mtime}, the backup of {time}: {said}");
    }
    assert!(settled > 0 && settled < files.len() as u64, "of {time}: {said}");
    assert_eq!(number(&backups[1], "unchanged_files"), settled, "{said}");
}
