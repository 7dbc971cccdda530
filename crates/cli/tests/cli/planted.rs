//! What others plant in the folders that commands keep for themselves is not followed.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use onefold_testkit::skip;

use crate::lab::{Lab, Ran};

/// A user who is neither root nor the one that runs the tests.
const OTHER: u32 = 54321;

/// A lab in whose repository something was backed up, so that state and cache hold what they do, and
/// a folder and a file of somebody else.
fn with_victim() -> Lab {
    let lab = Lab::with_repository();
    lab.write("source/file", "content");
    lab.ok("backup --repo repo source");
    lab.write("victim/file", "precious");
    lab
}

/// Everything at and below `path` but what a folder holds that is a link, deepest last.
fn below(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            all.extend(below(&entry.unwrap().path()));
        }
    }
    all
}

fn expect_unharmed(lab: &Lab, ran: &Ran) {
    assert_eq!(fs::read(lab.path("victim/file")).unwrap(), b"precious", "{ran:#?}");
    let names: Vec<_> = below(&lab.path("victim"));
    assert_eq!(names.len(), 2, "{names:?} after {ran:#?}");
}

#[test]
fn no_symbolic_link_in_the_state_or_the_cache_is_followed() {
    let pattern = with_victim();
    for folder in ["state", "cache"] {
        let names: Vec<_> = below(&pattern.path(folder));
        let names = names.iter().map(|path| path.strip_prefix(pattern.path("")).unwrap());
        let mut planted = 0;
        for name in names {
            let lab = with_victim();
            // The other lab's repository has another id.
            let Some(path) = counterpart(&pattern, &lab, name) else { continue };
            let is_folder = path.is_dir();
            match is_folder {
                true => fs::remove_dir_all(&path).unwrap(),
                false => fs::remove_file(&path).unwrap(),
            }
            symlink(lab.path(if is_folder { "victim" } else { "victim/file" }), &path).unwrap();
            let ran = lab.ok("backup --repo repo source").says(&["warning:", "symbolic link"]);
            expect_unharmed(&lab, &ran);
            planted += 1;
        }
        assert!(planted >= 4, "{planted} links were planted in {folder}");
    }
}

/// The place in `lab` that `name` has in `pattern`: ids of repositories exchanged.
fn counterpart(pattern: &Lab, lab: &Lab, name: &Path) -> Option<PathBuf> {
    let id = |lab: &Lab| {
        let names = fs::read_dir(lab.path("cache")).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).next().unwrap()
    };
    let name = name.to_str().unwrap().replace(&id(pattern), &id(lab));
    Some(lab.path(name)).filter(|path| path.symlink_metadata().is_ok())
}

#[test]
fn folders_that_others_may_write_to_are_not_used() {
    for folder in ["state", "cache"] {
        let lab = with_victim();
        let set = |mode| {
            fs::set_permissions(lab.path(folder), Permissions::from_mode(mode)).unwrap();
        };
        set(0o777);
        let says = ["warning:", "every user may write to it", folder];
        lab.ok("backup --repo repo source").says(&says);
        // As in /tmp: what others put there has other names, or other owners.
        set(0o1777);
        assert!(!lab.ok("backup --repo repo source").stderr.contains("warning"));
        if !rustix::process::geteuid().is_root() {
            skip("only root can give folders to others");
            return;
        }
        for path in below(&lab.path(folder)) {
            set(0o755);
            chown(&path, Some(OTHER), None).unwrap();
            let says = ["warning:", &format!("user {OTHER}")];
            lab.ok("backup --repo repo source").says(&says);
            chown(&path, Some(0), None).unwrap();
        }
    }
}

#[test]
fn nothing_is_kept_in_a_home_that_is_anothers() {
    if !rustix::process::geteuid().is_root() {
        skip("only root can give folders to others");
        return;
    }
    let lab = Lab::with_repository();
    lab.write("source/file", "content");
    fs::create_dir(lab.path("home")).unwrap();
    let run = || {
        let mut command = lab.command("backup --repo repo source");
        for name in ["ONEFOLD_STATE_DIR", "ONEFOLD_CACHE_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME"] {
            command.env_remove(name);
        }
        Ran::of("backup", command.env("HOME", lab.path("home")).output().unwrap()).expect(0)
    };
    chown(lab.path("home"), Some(OTHER), None).unwrap();
    run().says(&["HOME", &format!("user {OTHER}"), "sudo -H", "--state-dir", "--cache-dir"]);
    assert_eq!(fs::read_dir(lab.path("home")).unwrap().count(), 0);
    chown(lab.path("home"), Some(0), None).unwrap();
    assert!(!run().stderr.contains("warning"));
    assert_eq!(fs::read_dir(lab.path("home")).unwrap().count(), 2);
}
