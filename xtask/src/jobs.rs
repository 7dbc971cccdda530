//! The tests of the folder `jvm`, which Maven builds and runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::checks::LEFT;
use crate::tally::Tally;
use crate::workspace::{self, Cargo};
use crate::{natives, programs};

/// The name of these tests in the counts.
const NAME: &str = "jobs";

/// The name of those on HDFS and YARN together.
const ON_YARN: &str = "jobs on YARN";

/// The name of those that are repeated on a newer Java.
const ON_NEWER: &str = "jobs on a newer Java";

/// The Java that pom.xml names.
const COMPILED_FOR: u32 = 17;

/// Runs the tests, and reads off the counts that Maven's test runner prints for each class; true if
/// all passed. With `all`, jobs run on YARN too, and what touches the runtime most is repeated on a newer Java. `tell` says
/// where an S3 server is.
pub(crate) fn run(
    cargo: Cargo,
    all: bool,
    tally: &mut Tally,
    tell: impl Fn(&mut Command),
    mut stream: impl FnMut(&mut Command, &mut dyn FnMut(&str)) -> std::io::Result<bool>,
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
    let mut everything = vec!["--fail-at-end".to_owned(), "package".to_owned()];
    match all {
        true => everything.extend(["--activate-profiles", "cluster"].map(String::from)),
        false => tally.note_skip(ON_YARN, LEFT),
    }
    let mut runs = vec![everything];
    match all.then(newer_java) {
        Some(Some(java)) => runs.push(of_newer(&java)),
        Some(None) => tally.note_skip(ON_NEWER, "none in /usr/lib/jvm"),
        None => tally.note_skip(ON_NEWER, LEFT),
    }
    for arguments in runs {
        let mut command = Command::new("mvn");
        command.args(["--batch-mode", "--no-transfer-progress"]).args(arguments);
        if cargo.offline {
            command.arg("--offline");
        }
        tell(&mut command);
        // Maven itself; the tests' own limit is in pom.xml
        command
            .current_dir(workspace::root().join("jvm"))
            .env("MAVEN_OPTS", "-Xmx1g -XX:+UseSerialGC");
        let succeeded = stream(&mut command, &mut |line| counts.read_maven_line(line));
        if !succeeded.unwrap_or_else(|error| {
            println!("test: mvn: {error}");
            false
        }) {
            counts.note_unexplained_failure();
        }
    }
    let passed = counts.counts().failed == 0;
    tally.add(NAME, counts);
    passed
}

/// The arguments that run what touches the runtime most on `java`.
fn of_newer(java: &Path) -> Vec<String> {
    let java = format!("-Djvm={}", java.display());
    let tests = "-Dtest=GearTest,HdfsTest,LocalRunTest#results*,MemoTest";
    let arguments = ["-pl", "core,hadoop", &java, tests, "package"];
    arguments.map(String::from).to_vec()
}

/// The newest Java here that is newer than the one that the jobs are compiled for.
fn newer_java() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib/jvm").ok()?;
    let newest = folders
        .filter_map(|folder| {
            let folder = folder.ok()?.path();
            let release = fs::read_to_string(folder.join("release")).ok()?;
            let java = folder.join("bin/java");
            java.exists().then_some((major_version(&release)?, java))
        })
        .max()?;
    (newest.0 > COMPILED_FOR).then_some(newest.1)
}

/// Reads 17 from `JAVA_VERSION="17.0.15"`.
fn major_version(release: &str) -> Option<u32> {
    let version = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=\""))?;
    version.split(['.', '"', '-', '+']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_java_is_read_from_its_release() {
        let release = |version| format!("IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"{version}\"\nA=\"b\"\n");
        for (version, major) in [("17.0.15", 17), ("25", 25), ("26-ea", 26)] {
            assert_eq!(major_version(&release(version)), Some(major));
        }
        assert_eq!(major_version("A=1"), None);
    }
}
