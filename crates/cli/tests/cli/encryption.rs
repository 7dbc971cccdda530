//! Nothing is encrypted yet, and nobody is left to believe otherwise.

use crate::lab::{Lab, Ran};

#[test]
fn a_new_repository_says_that_it_is_not_encrypted() {
    let lab = Lab::new();
    let ran = lab.ok("init plain");
    assert!(ran.stdout.contains("not encrypted"), "{ran:#?}");
    ran.says(&["warning: nothing in this repository is encrypted", "--no-encryption"]);
    let ran = lab.ok("init known --no-encryption");
    assert!(ran.stdout.contains("not encrypted") && ran.stderr.is_empty(), "{ran:#?}");
    lab.write("src/a", "x");
    lab.ok("backup --repo new --init src").says(&["nothing in this repository is encrypted"]);
    let ran = lab.ok("backup --repo newer --init --no-encryption src");
    assert!(ran.stderr.contains("not encrypted") && !ran.stderr.contains("warning"), "{ran:#?}");
    let ran = lab.ok("backup --repo newer --init src");
    assert!(ran.stderr.is_empty(), "it was there already: {ran:#?}");
}

#[test]
fn a_password_for_a_new_repository_is_refused() {
    let lab = Lab::new();
    lab.write("src/a", "x");
    for line in [
        "init repo --password-file secret",
        "init repo --password-command pass",
        "backup --repo repo --init --password-file secret src",
    ] {
        let ran = lab.run(line).expect(1);
        ran.says(&["cannot encrypt", "--password", "hint: --no-encryption"]);
    }
    let mut command = lab.command("init repo");
    let ran = Ran::of("init", command.env("ONEFOLD_PASSWORD", "secret").output().unwrap());
    ran.expect(1).says(&["ONEFOLD_PASSWORD", "cannot encrypt"]);
    assert!(!lab.path("repo").exists());
}

#[test]
fn a_password_that_is_not_used_is_told_of() {
    let lab = Lab::new();
    let mut command = lab.command("init repo --no-encryption");
    let ran = Ran::of("init", command.env("ONEFOLD_PASSWORD", "secret").output().unwrap());
    ran.expect(0).says(&["ONEFOLD_PASSWORD is not used"]);
    let ran = lab.ok("snapshots --repo repo --password-file secret");
    ran.says(&["not encrypted", "--password-file is not used"]);
}
