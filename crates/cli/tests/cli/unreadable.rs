//! A file that cannot be read is told of, left out, and known by the exit code.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use onefold_testkit::skip;

use crate::lab::{Lab, unprivileged};

#[test]
fn a_file_that_nobody_can_read_is_left_out_with_3() {
    let Some(unreadable) = write_only_file() else {
        return skip("/sys/bus has no drivers_probe, which even root cannot read");
    };
    let lab = Lab::with_repository();
    lab.write("src/a", "x");
    let line = format!("src {}", unreadable.display());
    let ran = lab.run(&format!("backup --repo repo {line}")).expect(3);
    let ran = ran.says(&["error: cannot open '/sys/", "warning: 1 could not be read"]);
    assert!(ran.stdout.contains("snapshot "), "{ran:#?}");
    assert_eq!(lab.ok("ls --repo repo latest").stdout, "src\nsrc/a\n");
    let ran = lab.run(&format!("backup --repo repo --json {line}")).expect(3);
    let issue = &ran.json_lines()[0];
    assert_eq!((&issue["type"], &issue["loss"]), (&"issue".into(), &true.into()));
    assert_eq!(ran.summary()["unreadable"], 1);
    assert!(ran.stderr.is_empty(), "{ran:#?}");
}

/// A regular file of some size that the kernel lets nobody open for reading.
fn write_only_file() -> Option<PathBuf> {
    let buses = fs::read_dir("/sys/bus").ok()?.map(|bus| bus.unwrap().path());
    let mut probes = buses.map(|bus| bus.join("drivers_probe"));
    probes.find(|path| path.is_file() && fs::File::open(path).is_err())
}

#[test]
fn what_permissions_forbid_is_left_out_with_3() {
    let lab = Lab::new();
    lab.write("src/open", "x");
    lab.write("src/forbidden", "x");
    lab.write("src/closed/below", "x");
    let forbid = |name: &str, mode| {
        fs::set_permissions(lab.path(name), Permissions::from_mode(mode)).unwrap();
    };
    forbid("src/forbidden", 0);
    forbid("src/closed", 0);
    forbid("", 0o777);
    let Some(run) = unprivileged(&lab) else { return };
    run("init repo --no-encryption").expect(0);
    let ran = run("backup --repo repo src").expect(3);
    ran.says(&["src/forbidden'", "src/closed'", "Permission denied", "warning: 2 could not"]);
    assert_eq!(run("ls --repo repo latest").stdout, "open\n");
    forbid("src/closed", 0o755);
}
