//! Everything that a file system can hold comes back as it was.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use onefold_testkit::{random, skip};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, makedev, mknodat,
};

use crate::lab::{Lab, number};
use crate::tree_equality::{assert_same_tree, differences};

#[test]
fn a_tree_with_every_oddity_comes_back_as_it_was() {
    let lab = Lab::with_repository();
    let root = lab.path("src");
    fs::create_dir(&root).unwrap();
    make_names(&root);
    make_content(&root);
    make_links(&root);
    make_specials(&root);
    make_devices(&root);
    make_xattrs(&root);
    make_modes(&root);
    make_times(&root);
    lab.settle();
    let made = lab.ok("backup --repo repo --json src");
    assert_eq!(number(&made.summary(), "unreadable"), 0, "{}", made.stdout);
    let restored = lab.ok("restore --repo repo latest --target out --verify");
    assert!(restored.stderr.is_empty(), "{restored:#?}");
    assert_same_tree(&root, &lab.path("out"));
    let (sparse, back) = (root.join("sparse"), lab.path("out/sparse"));
    let blocks = |path: &Path| path.metadata().unwrap().blocks();
    assert!(blocks(&back) <= blocks(&sparse) + 64, "{} blocks", blocks(&back));
    let again = lab.ok("backup --repo repo --json src").summary();
    assert_eq!(number(&again, "unchanged_files"), number(&again, "files"), "{again}");
    assert_eq!(number(&again, "new_bytes"), 0, "{again}");
    lab.ok("check --repo repo --read-data");
}

#[test]
fn the_comparison_sees_what_it_is_for() {
    let lab = Lab::new();
    let make = |name: &str| {
        let root = lab.path(name);
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a"), "a").unwrap();
        set_mtime(&root.join("a"), 1, 1);
        set_mtime(&root, 1, 1);
        root
    };
    let expected = make("expected");
    assert_eq!(differences(&expected, &make("same")), [""; 0]);
    type Alter = fn(&Path);
    let alterations: [(&str, Alter); 6] = [
        ("bytes", |root| fs::write(root.join("a"), "b").unwrap()),
        ("nanosecond", |root| set_mtime(&root.join("a"), 1, 2)),
        ("mode", |root| {
            fs::set_permissions(root.join("a"), Permissions::from_mode(0o600)).unwrap()
        }),
        ("extra", |root| fs::write(root.join("b"), "").unwrap()),
        ("missing", |root| fs::remove_file(root.join("a")).unwrap()),
        ("directory's time", |root| set_mtime(root, 2, 1)),
    ];
    for (what, alter) in alterations {
        let found = make(what);
        alter(&found);
        if what == "bytes" {
            set_mtime(&found.join("a"), 1, 1);
        }
        assert!(!differences(&expected, &found).is_empty(), "{what}");
    }
}

pub(crate) fn make_names(root: &Path) {
    let names: [&[u8]; 8] = [
        b"caf\xe9",
        b"\xff\xfe",
        b"new\nline",
        b"\x1b[31m",
        b" space ",
        b"-dash",
        "é".as_bytes(),
        b"#1",
    ];
    for name in names {
        fs::write(root.join(OsStr::from_bytes(name)), name).unwrap();
    }
    fs::write(root.join("x".repeat(255)), "long").unwrap();
    let mut deep = root.join("deep");
    for level in 0..60 {
        deep.push(format!("level-{level:03}"));
    }
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("bottom"), "deep").unwrap();
    fs::create_dir(root.join("many")).unwrap();
    for number in 0..3000_u32 {
        fs::write(root.join(format!("many/{number}")), number.to_le_bytes()).unwrap();
    }
}

fn make_content(root: &Path) {
    fs::write(root.join("empty"), "").unwrap();
    fs::create_dir(root.join("empty-directory")).unwrap();
    fs::write(root.join("random"), random(5, 20 << 20)).unwrap();
    fs::write(root.join("zeros"), vec![0; 3 << 20]).unwrap();
    // A hole before, between and behind the data.
    let sparse = File::create(root.join("sparse")).unwrap();
    sparse.set_len(64 << 20).unwrap();
    sparse.write_all_at(&random(6, 100_000), 4 << 20).unwrap();
    sparse.write_all_at(&random(7, 8192), 40 << 20).unwrap();
    File::create(root.join("hole")).unwrap().set_len(5 << 20).unwrap();
}

pub(crate) fn make_links(root: &Path) {
    symlink("nowhere/at/all", root.join("dangling")).unwrap();
    symlink("empty-directory", root.join("to-directory")).unwrap();
    symlink("/", root.join("absolute")).unwrap();
    symlink(OsStr::from_bytes(b"\xff"), root.join("to-bytes")).unwrap();
    fs::write(root.join("linked"), "one inode, three names").unwrap();
    fs::create_dir(root.join("links")).unwrap();
    fs::hard_link(root.join("linked"), root.join("also-linked")).unwrap();
    fs::hard_link(root.join("linked"), root.join("links/below")).unwrap();
}

fn make_specials(root: &Path) {
    mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::from(0o640), 0).unwrap();
    UnixListener::bind(root.join("socket")).unwrap();
}

pub(crate) fn make_devices(root: &Path) {
    let devices = [
        ("null", FileType::CharacterDevice, makedev(1, 3)),
        ("loop", FileType::BlockDevice, makedev(7, 200)),
        ("large", FileType::CharacterDevice, makedev(300, 70_000)),
    ];
    for (name, kind, rdev) in devices {
        if let Err(errno) = mknodat(CWD, root.join(name), kind, Mode::from(0o600), rdev) {
            return skip(&format!("no device nodes in the tree: {errno}"));
        }
    }
}

pub(crate) fn make_xattrs(root: &Path) {
    let set = |name: &str, attribute: &str, value: &[u8]| {
        rustix::fs::setxattr(root.join(name), attribute, value, XattrFlags::empty())
    };
    if let Err(errno) = set("empty", "user.one", b"value") {
        return skip(&format!("no extended attributes in the tree: {errno}"));
    }
    set("empty", "user.empty", b"").unwrap();
    set("linked", "user.bytes", b"\0\xff\n").unwrap();
    set("empty-directory", "user.large", &random(8, 1500)).unwrap();
}

pub(crate) fn make_modes(root: &Path) {
    fs::create_dir(root.join("modes")).unwrap();
    for mode in [0o400, 0o644, 0o777, 0o4755, 0o2755, 0o6711] {
        let path = root.join(format!("modes/{mode:o}"));
        fs::write(&path, "x").unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(&path, Some(1234), Some(4321)).unwrap();
        }
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(root.join("modes/sticky")).unwrap();
    fs::set_permissions(root.join("modes/sticky"), Permissions::from_mode(0o1777)).unwrap();
    fs::set_permissions(root.join("modes"), Permissions::from_mode(0o2750)).unwrap();
}

pub(crate) fn make_times(root: &Path) {
    fs::create_dir(root.join("times")).unwrap();
    let times =
        [(0, 0), (0, 1), (-1, 999_999_999), (-86_400 * 365, 5), (4_000_000_000, 123_456_789)];
    for (secs, nanos) in times {
        let path = root.join(format!("times/{secs}.{nanos}"));
        fs::write(&path, "x").unwrap();
        set_mtime(&path, secs, nanos);
    }
    symlink("x", root.join("times/link")).unwrap();
    set_mtime(&root.join("times/link"), 77, 88);
    set_mtime(&root.join("empty-directory"), 1_000_000_000, 999_999_999);
    set_mtime(&root.join("times"), 5, 6);
    set_mtime(root, 123, 456);
}

fn set_mtime(path: &Path, tv_sec: i64, tv_nsec: i64) {
    let time = Timespec { tv_sec, tv_nsec };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}
