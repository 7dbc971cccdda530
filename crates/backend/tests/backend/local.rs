//! What only real directories do: fill up, vanish, forbid, and keep what killed puts left.

use std::ffi::CStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use bytes::Bytes;
use onefold_backend::{
    BackendError, Folder, LocalFolder, LocalLog, LocalObjects, LocalPages, Log, Objects, Pages,
};
use onefold_testkit::skip;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_remount, unmount};

/// A small file system in memory, mounted on a folder of its own.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts 1 MiB, or says why the test is skipped.
    fn mount() -> Option<Self> {
        Self::mount_with(c"size=1m")
    }

    fn mount_with(size: &CStr) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        match mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), Some(size)) {
            Ok(()) => Some(Self { folder }),
            Err(errno) => {
                skip(&format!("cannot mount a small tmpfs: {errno}"));
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn make_read_only(&self) {
        mount_remount(self.path(), MountFlags::RDONLY, "size=1m").unwrap();
    }

    fn unmount(&self) {
        unmount(self.path(), UnmountFlags::DETACH).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Fails only if the test has unmounted it already.
        let _ = unmount(self.path(), UnmountFlags::DETACH);
    }
}

/// Names of all files below a directory.
fn files_below(root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                files.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    files.sort();
    files
}

#[test]
fn a_full_disk_is_told_and_leaves_nothing() {
    let Some(disk) = SmallDisk::mount() else { return };
    let place = LocalObjects::open(disk.path()).unwrap();
    place.put("a/first", Bytes::from(vec![1; 300_000])).unwrap();
    let error = place.put("a/second", Bytes::from(vec![2; 900_000])).unwrap_err();
    assert!(error.is_full() && !error.may_retry(), "{error:?}");
    assert!(error.to_string().contains("a/second"), "{error}");
    assert!(error.to_string().contains(disk.path().to_str().unwrap()), "{error}");
    assert_eq!(files_below(disk.path()), ["a/first"]);
    assert!(place.get("a/second").unwrap_err().is_not_found());
    place.put("a/second", Bytes::from(vec![2; 500_000])).expect("the space is free again");
}

#[test]
fn a_log_survives_a_full_disk() {
    let Some(disk) = SmallDisk::mount() else { return };
    let path = disk.path().join("journal");
    let mut log = LocalLog::open(&path).unwrap();
    log.append(&[1; 300_000]).unwrap();
    let error = log.append(&[2; 900_000]).unwrap_err();
    assert!(error.is_full(), "{error:?}");
    assert_eq!(log.len(), 300_000);
    assert_eq!(fs::metadata(&path).unwrap().len(), 300_000, "no part of it is left");
    assert_eq!(log.append(&[3; 1_000]).unwrap(), 300_000);
    log.sync().unwrap();
}

#[test]
fn pages_survive_a_full_disk() {
    let Some(disk) = SmallDisk::mount() else { return };
    let mut pages = LocalPages::open(&disk.path().join("table"), 4_096).unwrap();
    pages.set_count(300).unwrap();
    let error = (0..300).find_map(|page| pages.write(page, &[1; 4_096]).err());
    assert!(error.expect("a sparse file is larger than the disk").is_full());
    pages.set_count(10).unwrap();
    pages.write(9, &[2; 4_096]).unwrap();
    pages.sync().unwrap();
}

#[test]
fn a_read_only_disk_is_read_and_refuses_the_rest() {
    let Some(disk) = SmallDisk::mount() else { return };
    let place = LocalObjects::open(disk.path()).unwrap();
    place.put("a/first", Bytes::from_static(b"1")).unwrap();
    disk.make_read_only();
    assert_eq!(place.get("a/first").unwrap(), "1");
    assert_eq!(place.list("").unwrap().len(), 1);
    let errors = [
        place.put("a/second", Bytes::new()).unwrap_err(),
        place.put("b/first", Bytes::new()).unwrap_err(),
        place.delete("a/first").unwrap_err(),
        LocalLog::open(&disk.path().join("journal")).unwrap_err(),
    ];
    for error in errors {
        let cause = std::error::Error::source(&error).expect("the cause is kept");
        assert!(matches!(error, BackendError::Io { .. }), "{error:?}");
        assert!(format!("{cause}: {:?}", cause).contains("ead-only"), "{cause:?}");
        assert!(!error.may_retry());
    }
}

#[test]
fn an_unmounted_disk_is_no_empty_repository() {
    let Some(disk) = SmallDisk::mount() else { return };
    let place = LocalObjects::open(disk.path()).unwrap();
    place.put("a/first", Bytes::from_static(b"1")).unwrap();
    disk.unmount();
    every_call_finds_the_root_gone(&place);
    assert!(files_below(disk.path()).is_empty(), "nothing is written below the mount point");
}

#[test]
fn a_removed_root_is_not_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let place = LocalObjects::create(&root).unwrap();
    place.put("a/first", Bytes::from_static(b"1")).unwrap();
    fs::rename(&root, folder.path().join("elsewhere")).unwrap();
    every_call_finds_the_root_gone(&place);
    assert!(!root.exists());
    fs::create_dir(&root).unwrap();
    every_call_finds_the_root_gone(&place);
    assert!(LocalLog::open(&folder.path().join("gone/journal")).unwrap_err().is_not_found());
}

fn every_call_finds_the_root_gone(place: &LocalObjects) {
    let errors = [
        place.put("a/second", Bytes::new()).unwrap_err(),
        place.get("a/first").unwrap_err(),
        place.get_range("a/first", 0..1).unwrap_err(),
        place.size("a/first").unwrap_err(),
        place.list("").unwrap_err(),
        place.list("a/").unwrap_err(),
        place.list_names("a/").unwrap_err(),
        place.delete("a/first").unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, BackendError::RootGone { .. }), "{error:?}");
    }
}

#[test]
fn only_directories_are_roots() {
    let folder = tempfile::tempdir().unwrap();
    let file = tempfile::NamedTempFile::new_in(&folder).unwrap();
    let reason = |result: Result<LocalObjects, BackendError>| match result.unwrap_err() {
        BackendError::BadRoot { reason, .. } => reason,
        other => panic!("{other:?}"),
    };
    assert_eq!(reason(LocalObjects::open(&folder.path().join("none"))), "it cannot be opened");
    assert_eq!(reason(LocalObjects::open(file.path())), "it is no directory");
    assert_eq!(reason(LocalObjects::create(&file.path().join("below"))), "it cannot be made");
    let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    assert_eq!(reason(LocalObjects::create(&odd)), "its path is not UTF-8");
}

#[test]
fn roots_may_have_any_utf8_path() {
    let folder = tempfile::tempdir().unwrap();
    for root in ["with space", "100%25", "a#1", "ünï/köd", "?query"] {
        let root = folder.path().join(root);
        let place = LocalObjects::create(&root).unwrap();
        place.put("a/b", Bytes::from_static(b"1")).unwrap();
        assert_eq!(place.get("a/b").unwrap(), "1");
        assert_eq!(place.list("").unwrap().len(), 1, "{}", root.display());
        assert_eq!(files_below(&root), ["a/b"]);
    }
}

#[test]
fn staging_files_of_killed_puts_are_neither_listed_nor_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let place = LocalObjects::open(folder.path()).unwrap();
    place.put("a/b", Bytes::from_static(b"1")).unwrap();
    for left in ["a/c#1", "a/b#1", "a/c#2"] {
        fs::copy(folder.path().join("a/b"), folder.path().join(left)).unwrap();
    }
    place.put("a/c", Bytes::from_static(b"22")).unwrap();
    assert_eq!(place.get("a/c").unwrap(), "22");
    let names: Vec<_> = place.list("").unwrap().into_iter().map(|object| object.name).collect();
    assert_eq!(names, ["a/b", "a/c"]);
    assert_eq!(files_below(folder.path()), ["a/b", "a/b#1", "a/c", "a/c#1", "a/c#2"]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "files that no put made")]
fn a_listing_follows_links_and_leaves_out_what_no_put_made() {
    let (root, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let place = LocalObjects::open(root.path()).unwrap();
    place.put("a/b", Bytes::from_static(b"12")).unwrap();
    let at = |name: &str| root.path().join(name);
    fs::create_dir(elsewhere.path().join("d")).unwrap();
    fs::write(elsewhere.path().join("d/e"), "12345").unwrap();
    symlink(elsewhere.path(), at("c")).unwrap();
    symlink(elsewhere.path().join("d/e"), at("a/link")).unwrap();
    symlink(at("nothing"), at("a/to-nothing")).unwrap();
    fs::create_dir(at("a/empty")).unwrap();
    fs::create_dir(at("lost+found")).unwrap();
    for name in ["lost+found/file", "UPPER", "a/b#1"] {
        fs::write(at(name), "1").unwrap();
    }
    fs::write(root.path().join(std::ffi::OsStr::from_bytes(b"\xff")), "1").unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let listed = place.list("").unwrap();
    let listed: Vec<_> = listed.iter().map(|one| (one.name.as_str(), one.size)).collect();
    assert_eq!(listed, [("a/b", 2), ("a/link", 5), ("c/d/e", 5)]);
    assert_eq!(place.list_names("").unwrap(), ["a/b", "a/link", "c/d/e"]);
    assert_eq!(place.list_names("c/d/").unwrap(), ["c/d/e"]);
    symlink(root.path(), at("a/up")).unwrap();
    for error in [place.list("").unwrap_err(), place.list_names("a/").unwrap_err()] {
        assert!(format!("{error:?}").contains("leads back"), "{error:?}");
    }
}

#[test]
fn no_put_leaves_a_staging_file() {
    let folder = tempfile::tempdir().unwrap();
    let place = LocalObjects::open(folder.path()).unwrap();
    place.put("a", Bytes::from_static(b"1")).unwrap();
    place.put("a", Bytes::from_static(b"1")).unwrap();
    place.put("a", Bytes::from_static(b"2")).unwrap_err();
    assert_eq!(files_below(folder.path()), ["a"]);
}

#[test]
fn local_files_are_found_as_they_were_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    LocalLog::open(&path).unwrap().append(b"abc").unwrap();
    let mut log = LocalLog::open(&path).unwrap();
    assert_eq!(log.append(b"d").unwrap(), 3);

    let path = folder.path().join("table");
    let mut pages = LocalPages::open(&path, 2).unwrap();
    pages.set_count(2).unwrap();
    pages.write(1, b"xy").unwrap();
    drop(pages);
    let pages = LocalPages::open(&path, 2).unwrap();
    let mut page = [0; 2];
    pages.read(1, &mut page).unwrap();
    assert_eq!((pages.count(), &page), (2, b"xy"));
}

#[test]
fn the_lock_of_a_file_goes_with_it_when_it_is_renamed() {
    let directory = tempfile::tempdir().unwrap();
    let folder = LocalFolder::create(directory.path()).unwrap();
    let in_use = |name: &str| matches!(folder.log(name), Err(BackendError::InUse { .. }));
    let (old, new) = (folder.log("pool").unwrap(), folder.log("new").unwrap());
    folder.rename("new", "pool").unwrap();
    drop(old);
    assert!(in_use("pool"), "the new one is locked by who made it");
    drop(new);
    let newest = folder.log("newer").unwrap();
    let _new = folder.log("pool").unwrap();
    folder.rename("newer", "pool").unwrap();
    drop(newest);
    assert!(!in_use("pool"), "what was replaced keeps nobody out");
}

#[test]
fn whoever_gets_a_log_has_the_file_that_the_name_leads_to() {
    const ROUNDS: u32 = 50;
    let directory = tempfile::tempdir().unwrap();
    let folder = LocalFolder::create(directory.path()).unwrap();
    let replace = || {
        let Ok(old) = folder.log("pool") else { return false };
        let mut number = [0; 4];
        if !old.is_empty() {
            old.read(0, &mut number).unwrap();
        }
        let mut new = folder.log("new").unwrap();
        new.truncate(0).unwrap();
        new.append(&(u32::from_le_bytes(number) + 1).to_le_bytes()).unwrap();
        folder.rename("new", "pool").unwrap();
        drop(old);
        true
    };
    // a thread that went on with a file that was replaced would count twice from the same number
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..ROUNDS).for_each(|_| while !replace() {}));
        }
    });
    let mut number = [0; 4];
    folder.reader("pool").unwrap().read(0, &mut number).unwrap();
    assert_eq!(u32::from_le_bytes(number), 2 * ROUNDS);
}

#[test]
fn a_log_that_a_symbolic_link_leads_to_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let logs = LocalFolder::create(folder.path()).unwrap();
    logs.log("real").unwrap().append(b"abc").unwrap();
    std::os::unix::fs::symlink("real", folder.path().join("link")).unwrap();
    fs::create_dir(folder.path().join("directory")).unwrap();
    for name in ["link", "directory"] {
        let error = logs.reader(name).err().expect("it is no file of its own");
        assert!(error.to_string().contains(name), "{error}");
        assert!(!error.is_not_found());
    }
    assert_eq!(logs.reader("real").unwrap().len(), 3);
}

#[test]
fn nothing_that_a_symbolic_link_leads_to_is_opened_written_or_removed() {
    let folder = tempfile::tempdir().unwrap();
    let kept = LocalFolder::create(&folder.path().join("kept")).unwrap();
    let victim = folder.path().join("victim");
    LocalLog::open(&victim).unwrap().append(b"precious").unwrap();
    symlink(&victim, kept.path().join("to-file")).unwrap();
    symlink(folder.path().join("new"), kept.path().join("to-nothing")).unwrap();
    symlink(folder.path(), kept.path().join("to-folder")).unwrap();
    for name in ["to-file", "to-nothing", "to-folder"] {
        let errors = [
            kept.log(name).err(),
            kept.pages(name, 8).err(),
            kept.reader(name).err(),
            kept.folder(name).err(),
            LocalFolder::create_private(&kept.path().join(name)).err(),
        ];
        for error in errors {
            let error = error.expect("it is a link");
            assert!(matches!(error, BackendError::Untrusted { .. }), "{name}: {error:?}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
    assert_eq!(kept.names().unwrap(), [""; 0]);
    kept.rename("to-file", "as-it-is").unwrap();
    kept.rename("as-it-is", "to-nothing").unwrap();
    assert!(!folder.path().join("new").exists());
    kept.remove("to-nothing").unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
    assert!(!folder.path().join("new").exists());
    // A folder that is opened stays the one that it was.
    fs::rename(kept.path(), folder.path().join("moved")).unwrap();
    fs::create_dir(folder.path().join("trap")).unwrap();
    symlink(folder.path().join("trap"), kept.path()).unwrap();
    kept.log("journal").unwrap().append(b"x").unwrap();
    assert_eq!(kept.names().unwrap(), ["journal"]);
    assert_eq!(fs::read_dir(folder.path().join("trap")).unwrap().count(), 0);
}

#[test]
fn a_private_folder_is_not_one_that_others_own_or_exchange() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    let open = || LocalFolder::create_private(&root).and_then(|root| root.folder("below"));
    let refused = |what: &str| match open().map(|below| below.log("journal").map(drop)) {
        Err(BackendError::Untrusted { reason, .. })
        | Ok(Err(BackendError::Untrusted { reason, .. })) => {
            assert!(reason.contains(what), "{reason}")
        }
        other => panic!("{other:?}"),
    };
    let below = root.join("below");
    open().unwrap().log("journal").unwrap();
    for path in [&root, &below] {
        let set = |mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        set(0o777);
        refused("every user may write to it");
        // It is the caller's choice to use a folder without caring for that.
        LocalFolder::create(&root).unwrap().folder("below").unwrap().log("journal").unwrap();
        for mode in [0o1777, 0o775, 0o700] {
            set(mode);
            open().unwrap().log("journal").unwrap();
        }
    }
    for path in [&root, &below, &below.join("journal")] {
        match chown(path, Some(54321), None) {
            Ok(()) => {}
            Err(error) => return skip(&format!("cannot give a folder to another user: {error}")),
        }
        refused("user 54321");
        chown(path, Some(0), None).unwrap();
    }
}

#[test]
fn part_of_a_page_at_the_end_is_no_page_and_is_zeroed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table");
    LocalLog::open(&path).unwrap().append(b"aaaabbbbcc").unwrap();
    let mut pages = LocalPages::open(&path, 4).unwrap();
    assert_eq!(pages.count(), 2);
    pages.set_count(3).unwrap();
    let mut page = [1; 4];
    pages.read(2, &mut page).unwrap();
    assert_eq!(page, [0; 4]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a copy that another program made")]
fn only_what_frees_space_gets_the_room_that_is_kept() {
    let Some(disk) = SmallDisk::mount_with(c"size=12m") else { return };
    let objects = LocalObjects::open(disk.path()).unwrap();
    assert!(objects.keep_reserve().unwrap());
    assert!(objects.keep_reserve().unwrap(), "it is whole");
    assert_eq!(objects.list("").unwrap(), [], "it is no object");
    let reserve = disk.path().join("RESERVE");
    let mut puts = (0..).map(|number| format!("a/{number}"));
    let mut put = |objects: &LocalObjects, len: usize| {
        objects.put(&puts.next().unwrap(), Bytes::from(vec![1; len]))
    };
    while put(&objects, 64 << 10).is_ok() {}
    while put(&objects, 1).is_ok() {}
    assert_eq!(fs::metadata(&reserve).unwrap().len(), 8 << 20);

    let frees = LocalObjects::open(disk.path()).unwrap();
    frees.use_reserve();
    assert!(put(&frees, 2 << 20).unwrap_err().is_full(), "too long to be what frees space");
    put(&frees, 100).unwrap();
    let len = fs::metadata(&reserve).unwrap().len();
    assert!((6 << 20..7 << 20).contains(&len), "{len}");
    put(&objects, 100).unwrap();
    assert!(!frees.keep_reserve().unwrap(), "others have some of it");
    while put(&frees, 1 << 20).is_ok() {}
    assert!(!reserve.exists(), "all of it is used");
    frees.list("a/").unwrap().iter().for_each(|object| frees.delete(&object.name).unwrap());
    assert!(frees.keep_reserve().unwrap());

    let copied = File::options().write(true).open(&reserve).unwrap();
    copied.set_len(0).unwrap();
    copied.set_len(8 << 20).unwrap();
    assert!(frees.keep_reserve().unwrap());
    assert!(copied.metadata().unwrap().blocks() * 512 >= 8 << 20, "a copy without its blocks");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what the reserve is not to change")]
fn a_reserve_is_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let objects = LocalObjects::create(&folder.path().join("root")).unwrap();
    let (other, reserve) = (folder.path().join("other"), folder.path().join("root/RESERVE"));
    fs::write(&other, "precious").unwrap();
    std::os::unix::fs::symlink(&other, &reserve).unwrap();
    objects.keep_reserve().unwrap_err();
    fs::remove_file(&reserve).unwrap();
    fs::hard_link(&other, &reserve).unwrap();
    let error = objects.keep_reserve().unwrap_err();
    assert!(error.to_string().contains("RESERVE"), "{error}");
    assert_eq!(fs::read(&other).unwrap(), b"precious");
}
