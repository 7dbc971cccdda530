//! A file that cannot be read is told of, left out, and known by the exit code.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use onefold_testkit::skip;

use crate::lab::{Lab, ONEFOLD, Ran};

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

/// Runs `onefold` as a user whom permissions bind.
pub(crate) fn unprivileged(lab: &Lab) -> Option<impl Fn(&str) -> Ran> {
    let is_root = rustix::process::geteuid().is_root();
    // The build's own directory may be closed to other users.
    let binary = lab.path("onefold");
    fs::copy(ONEFOLD, &binary).unwrap();
    let start = move || match is_root {
        true => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]).arg(&binary);
            command
        }
        false => Command::new(&binary),
    };
    if let Err(error) = start().arg("--version").output() {
        skip(&format!("root reads everything, and setpriv: {error}"));
        return None;
    }
    let directory = lab.path("");
    Some(move |line: &str| {
        let output = start().args(line.split_whitespace()).current_dir(&directory).output();
        Ran::of(line, output.unwrap())
    })
}
