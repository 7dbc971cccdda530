//! What is backed up to the fixtures: every kind of entry that needs no rights, and what a tree holds.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use onefold_fingerprint::Fingerprinter;
use onefold_testkit::{random, text};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps};

/// Makes the source in its first or its second state: every kind of entry that needs no rights.
pub(super) fn make_source(root: &Path, state: u64) {
    let write = |name: &str, bytes: &[u8]| {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    write("text", &text(1, 30_000 * state as usize));
    let mut bytes = random(2, 40_000);
    if state == 2 {
        bytes.splice(21_000..21_000, *b"put in later");
        write("new/file", b"new");
    } else {
        write("empty", b"");
    }
    write("random", &bytes);
    write("copy", &bytes);
    write("deep/er/and/deeper/file", b"at the end of a path");
    write("grüße 😀", "a name in UTF-8".as_bytes());
    fs::write(root.join(OsStr::from_bytes(b"no utf-8: \xff\xfe")), "a name in no encoding")
        .unwrap();
    // So many that the directory is a tree of its own.
    for number in 0..120 {
        write(&format!("many/{number:03}"), format!("number {number}").as_bytes());
    }
    let sparse = File::create(root.join("sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    sparse.write_all_at(&random(3, 5_000), 500_000).unwrap();
    fs::hard_link(root.join("text"), root.join("second name of text")).unwrap();
    symlink("text", root.join("link")).unwrap();
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::mknodat(CWD, root.join("pipe"), FileType::Fifo, mode, 0).unwrap();
    for (at, path) in (0..).zip(below(root).iter().rev()) {
        set_facts(&root.join(path), at);
    }
}

/// Gives the `at`-th entry a mode and a time that follow from its kind and number.
fn set_facts(path: &Path, at: i64) {
    let kind = path.symlink_metadata().unwrap().file_type();
    if !kind.is_symlink() {
        let mode = match at % 3 {
            _ if kind.is_dir() => 0o755,
            0 => 0o644,
            1 => 0o600,
            _ => 0o751,
        };
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let time = Timespec { tv_sec: 1_600_000_000 + 86_400 * at, tv_nsec: 1_000_003 * at };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// The paths of all that is below `root`, and its own, sorted.
pub(super) fn below(root: &Path) -> Vec<PathBuf> {
    let (mut paths, mut open) = (Vec::new(), vec![PathBuf::from(".")]);
    while let Some(path) = open.pop() {
        if root.join(&path).symlink_metadata().unwrap().is_dir() {
            let names =
                fs::read_dir(root.join(&path)).unwrap().map(|entry| entry.unwrap().file_name());
            open.extend(names.map(|name: OsString| path.join(name)));
        }
        paths.push(path);
    }
    paths.sort();
    paths
}

/// What a tree holds: a line for each entry, with kind, mode, time of the last change, names, length,
/// SHA-256 or where a link leads, and the path.
pub(super) fn manifest_of(root: &Path) -> String {
    let line = |path: PathBuf| {
        let full = root.join(&path);
        let metadata = full.symlink_metadata().unwrap();
        let kind = FileType::from_raw_mode(metadata.mode());
        let (kind, content) = match kind {
            FileType::RegularFile => {
                let digest = Fingerprinter::sha256().fingerprint(&fs::read(&full).unwrap());
                ("file", format!("{} {} {digest}", metadata.nlink(), metadata.len()))
            }
            FileType::Directory => ("directory", "- - -".into()),
            FileType::Symlink => {
                let target = fs::read_link(&full).unwrap();
                ("link", format!("- - {}", target.as_os_str().as_bytes().escape_ascii()))
            }
            FileType::Fifo => ("pipe", "- - -".into()),
            other => panic!("{other:?} in the source"),
        };
        let mode = metadata.mode() & 0o7777;
        let (seconds, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
        let name = path.as_os_str().as_bytes().escape_ascii();
        format!("{kind} {mode:o} {seconds}.{nanoseconds:09} {content} {name}\n")
    };
    below(root).into_iter().map(line).collect()
}

/// Copies a folder with all that is in it.
pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for path in below(from) {
        match from.join(&path).is_dir() {
            true => fs::create_dir_all(to.join(&path)).unwrap(),
            false => drop(fs::copy(from.join(&path), to.join(&path)).unwrap()),
        }
    }
}
