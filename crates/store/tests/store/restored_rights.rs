//! What a restore may not do to its target: rights that nobody gave, files that are not its own.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::thread;

use onefold_store::backup::backup;
use onefold_store::restore::{Options, Overwrite};
use onefold_store::{Cancel, Progress};
use onefold_testkit::{random, skip};
use rustix::fs::XattrFlags;
use rustix::thread::{Gid, Uid, set_thread_res_gid, set_thread_res_uid};
use tempfile::TempDir;

use crate::common::{back_up, in_memory, options, restore_over, small_chunks, try_restore, write};

const NOBODY: u32 = 65534;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o7777
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip("only root can change owners");
    }
    is_root
}

#[test]
fn a_snapshot_of_several_sources_leaves_mode_and_owner_of_the_target() {
    let sources = folder();
    write(sources.path().join("a/file"), "a");
    write(sources.path().join("b/file"), "b");
    let (_, repository) = in_memory(small_chunks());
    let paths = [sources.path().join("a"), sources.path().join("b")];
    let (_, snapshot) =
        backup(&repository, &paths, &options(), &Progress::default(), &Cancel::default()).unwrap();
    for before in [0o700, 0o1777] {
        let target = folder();
        set_mode(target.path(), before);
        if rustix::process::geteuid().is_root() {
            chown(target.path(), Some(1000), Some(1001)).unwrap();
        }
        let owner = |path: &Path| path.metadata().map(|stat| (stat.uid(), stat.gid())).unwrap();
        let owned = owner(target.path());
        let (report, issues) =
            restore_over(&repository, &snapshot, target.path(), &Options::default());
        assert_eq!((report.files, report.failed), (2, 0), "{issues:?}");
        assert_eq!(mode(target.path()), before);
        assert_eq!(owner(target.path()), owned);
    }
}

#[test]
fn set_id_bits_are_left_off_where_the_owner_could_not_be_set() {
    if !is_root() {
        return;
    }
    let source = folder();
    set_mode(source.path(), 0o755);
    for name in ["program", "own", "group"] {
        write(source.path().join(name), name);
    }
    fs::create_dir(source.path().join("directory")).unwrap();
    chown(source.path().join("own"), Some(NOBODY), Some(NOBODY)).unwrap();
    chown(source.path().join("group"), Some(0), Some(NOBODY)).unwrap();
    for name in ["program", "own", "group", "directory"] {
        set_mode(&source.path().join(name), 0o6755);
    }
    let (_, repository) = in_memory(small_chunks());
    let (_, snapshot) = back_up(&repository, source.path());
    let target = folder();
    set_mode(target.path(), 0o777);
    chown(target.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let (report, issues) = thread::scope(|scope| {
        let restored = scope.spawn(|| {
            // Only of this thread, and of those that it starts.
            let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
            set_thread_res_gid(group, group, group).unwrap();
            set_thread_res_uid(user, user, user).unwrap();
            restore_over(&repository, &snapshot, target.path(), &Options::default())
        });
        restored.join().unwrap()
    });
    assert_eq!((report.files, report.failed), (3, 0), "{issues:?}");
    let found =
        ["program", "own", "group", "directory"].map(|name| mode(&target.path().join(name)));
    assert_eq!(found.map(|mode| format!("{mode:o}")), ["755", "6755", "2755", "755"]);
    let said = issues.iter().filter(|issue| issue.contains("set-user-id bit was left off")).count();
    assert_eq!(said, 3, "{issues:?}");
}

#[test]
fn files_that_only_look_like_temporary_ones_stay() {
    let like = |digit: &str| format!(".onefold-restore-{}", digit.repeat(16));
    let source = folder();
    write(source.path().join("file"), random(1, 1000));
    write(source.path().join(like("1f")), "of the snapshot");
    let (_, repository) = in_memory(small_chunks());
    let (_, snapshot) = back_up(&repository, source.path());
    let target = folder();
    write(target.path().join(like("0f")), "of the user");
    for _ in 0..2 {
        let (report, issues) =
            restore_over(&repository, &snapshot, target.path(), &Options::default());
        assert_eq!((report.files, report.failed), (2, 0), "{issues:?}");
        assert_eq!(fs::read(target.path().join(like("1f"))).unwrap(), b"of the snapshot");
        assert_eq!(fs::read(target.path().join(like("0f"))).unwrap(), b"of the user");
        assert_eq!(fs::read_dir(target.path()).unwrap().count(), 3);
    }
}

#[test]
fn a_default_acl_of_the_target_does_not_stay_on_what_is_restored() {
    let source = folder();
    write(source.path().join("short"), "x");
    write(source.path().join("long"), random(1, 9 << 20));
    write(source.path().join("sub/file"), "y");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        source.path().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    for name in ["short", "long", "sub/file", "pipe"] {
        set_mode(&source.path().join(name), 0o640);
    }
    let (_, repository) = in_memory(small_chunks());
    let (_, snapshot) = back_up(&repository, source.path());
    let target = folder();
    if let Err(errno) =
        rustix::fs::setxattr(target.path(), DEFAULT_ACL, &acl_for(1234), XattrFlags::empty())
    {
        return skip(&format!("no access control lists here: {errno}"));
    }
    let (report, issues) = restore_over(&repository, &snapshot, target.path(), &Options::default());
    assert_eq!((report.files, report.failed), (3, 0), "{issues:?}");
    for name in ["short", "long", "sub", "sub/file", "pipe"] {
        let path = target.path().join(name);
        for acl in [ACCESS_ACL, DEFAULT_ACL] {
            let found = rustix::fs::getxattr(&path, acl, &mut [0; 64][..]);
            assert!(found.is_err(), "{name} has {acl}: {found:?}");
        }
        if name != "sub" {
            assert_eq!(mode(&path), 0o640, "{name}");
        }
    }
}

const ACCESS_ACL: &str = "system.posix_acl_access";
const DEFAULT_ACL: &str = "system.posix_acl_default";

/// A list that gives user `id` all rights, as Linux encodes it: version 2, then tag, rights and id
/// of each entry.
fn acl_for(id: u32) -> Vec<u8> {
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in
        [(1u16, 7u16, u32::MAX), (2, 7, id), (4, 5, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)]
    {
        acl.extend([&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    acl
}

#[test]
fn what_if_changed_keeps_is_verified_and_replaced_if_it_differs() {
    let source = folder();
    for (name, len) in [("same", 5000), ("altered", 5000), ("long", 9 << 20)] {
        write(source.path().join(name), random(7, len));
    }
    let (_, repository) = in_memory(small_chunks());
    let (_, snapshot) = back_up(&repository, source.path());
    let restored = try_restore(&repository, &snapshot, &Options::default()).unwrap();
    let target = restored.folder.path();
    for name in ["altered", "long"] {
        // Another byte, and the length and times of before.
        let path = target.join(name);
        let mut bytes = fs::read(&path).unwrap();
        bytes[4000] ^= 1;
        write(&path, bytes);
        let of = source.path().join(name);
        let touched = Command::new("touch").arg("-r").arg(of).arg(&path).status().unwrap();
        assert!(touched.success());
    }
    let if_changed = Options { overwrite: Overwrite::IfChanged, ..Options::default() };
    let (report, _) = restore_over(&repository, &snapshot, target, &if_changed);
    assert_eq!((report.kept, report.files, report.verified), (3, 0, 0), "without verify they stay");
    let verified = Options { verify: true, ..if_changed };
    let (report, issues) = restore_over(&repository, &snapshot, target, &verified);
    assert_eq!(issues, [] as [&str; 0]);
    assert_eq!((report.kept, report.files, report.verified), (1, 2, 3));
    for name in ["same", "altered", "long"] {
        assert!(
            fs::read(target.join(name)).unwrap() == fs::read(source.path().join(name)).unwrap()
        );
    }
}
