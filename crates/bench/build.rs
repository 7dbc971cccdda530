//! Tells the crate which commit and which compiler it is built from, for its records.

use std::env;
use std::path::Path;
use std::process::Command;

/// What is measured, and what measures: seen from this folder.
const SOURCES: [&str; 7] = [
    ".",
    "../../lab/src",
    "../cdc",
    "../fingerprint",
    "../../bench/rivals/src",
    "../../Cargo.toml",
    "../../Cargo.lock",
];

/// Where this folder lies in the repository.
const PLACE: &str = "crates/bench/";

fn main() {
    for source in SOURCES {
        watch(source);
    }
    let compiler = env::var("RUSTC").expect("cargo names the compiler");
    let compiler = words_of(Command::new(compiler).arg("--version"));
    tell("COMPILER", &compiler.unwrap_or_else(|| "unknown".to_owned()));

    // what is built for tests makes no records, and need not be built again for each commit
    let is_optimized = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    // a copy without its history may lie in the repository of something else
    let is_ours =
        is_optimized && git(&["rev-parse", "--show-prefix"]).is_some_and(|place| place == PLACE);
    if is_ours {
        // a commit moves the branch, and a switch of branches moves HEAD
        for place in ["HEAD", "refs/heads", "packed-refs"] {
            git(&["rev-parse", "--git-path", place]).iter().for_each(|path| watch(path));
        }
    }
    let commit = git(&["rev-parse", "HEAD"]).filter(|_| is_ours);
    let status = ["--no-optional-locks", "status", "--porcelain", "--untracked-files=no", "--"];
    let changed = git(&[&status[..], &SOURCES[..]].concat()).filter(|_| is_ours);
    tell("COMMIT", &commit.unwrap_or_else(|| "unknown".to_owned()));
    tell("IS_DIRTY", &changed.is_none_or(|changed| !changed.is_empty()).to_string());
}

fn tell(name: &str, value: &str) {
    println!("cargo::rustc-env=ONEFOLD_BENCH_{name}={value}");
}

/// What is not there would count as changed each time.
fn watch(path: &str) {
    if Path::new(path).exists() {
        println!("cargo::rerun-if-changed={path}");
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    words_of(Command::new("git").args(arguments))
}

/// What a command prints, or `None` if it cannot be run or fails.
fn words_of(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
