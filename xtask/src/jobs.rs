//! The tests of the folder `jvm`, which Maven builds and runs.

use std::process::Command;

use crate::tally::Tally;
use crate::{natives, programs};
use crate::workspace::{self, Cargo};

/// The name of these tests in the counts.
const NAME: &str = "jobs";

/// Runs the tests, and reads off the counts that Maven's test runner prints for each class; true if
/// all passed. `tell` says where an S3 server is.
pub(crate) fn run(
    cargo: Cargo,
    tally: &mut Tally,
    tell: impl FnOnce(&mut Command),
    stream: impl FnOnce(&mut Command, &mut dyn FnMut(&str)) -> std::io::Result<bool>,
) -> bool {
    let missing: Vec<&str> =
        ["java", "mvn"].into_iter().filter(|p| !programs::on_path(p)).collect();
    if !missing.is_empty() {
        tally.note_skip(NAME, &format!("not installed: {}", missing.join(", ")));
        return true;
    }
    let mut counts = Tally::default();
    if let Err(error) = natives::build(cargo) {
        println!("test: {error:#}");
        counts.note_unexplained_failure();
    }
    let mut command = Command::new("mvn");
    command.args(["--batch-mode", "--no-transfer-progress", "--fail-at-end", "--activate-profiles"]);
    command.args(["cluster", "package"]);
    tell(&mut command);
    if cargo.offline {
        command.arg("--offline");
    }
    // Maven itself; the tests' own limit is in pom.xml
    command.current_dir(workspace::root().join("jvm")).env("MAVEN_OPTS", "-Xmx1g");
    let succeeded = stream(&mut command, &mut |line| counts.read_maven_line(line));
    if !succeeded.unwrap_or_else(|error| {
        println!("test: mvn: {error}");
        false
    }) {
        counts.note_unexplained_failure();
    }
    let passed = counts.counts().failed == 0;
    tally.add(NAME, counts);
    passed
}
