//! What the tests miss: a sample of small changes of the code, each built and tested by
//! cargo-mutants.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::outcome::Outcome;
use crate::sample_tree::SplitMix64;
use crate::workspace;

/// Where mutants are made, and the tests of the crate that are to notice: the unit tests, and those
/// integration tests that hold the same code to its promises.
const PLACES: &[(&str, &[&str], &[&str])] = &[
    (
        "onefold-store",
        &["src/prune/*.rs", "src/backup/*.rs", "src/restore/*.rs", "src/repair.rs", "src/keys.rs"],
        &["store"],
    ),
    ("onefold-volume", &["src/*.rs"], &["volume"]),
    ("onefold-seal", &["src/*.rs"], &[]),
    ("onefold-container", &["src/*.rs"], &["appended", "codecs", "container", "hostile"]),
    ("onefold-index", &["src/*.rs"], &["index"]),
    ("onefold-nbd", &["src/*.rs"], &["nbd"]),
];

/// A change that cargo-mutants can make.
#[derive(Deserialize)]
struct Mutant {
    name: String,
    package: String,
    file: String,
}

/// Tries at most `count` mutants that `seed` draws, for at most `limit`, and writes which were
/// caught and which survived to `out`.
pub(crate) fn run(count: usize, seed: u64, limit: Duration, out: Option<&Path>) -> Result<()> {
    let installed = Command::new("cargo").args(["mutants", "--version"]).output();
    if !installed.is_ok_and(|output| output.status.success()) {
        println!("campaign: cargo install cargo-mutants --locked");
        let mut install = Command::new("cargo");
        install.args(["install", "cargo-mutants", "--locked"]);
        ensure!(install.status()?.success(), "cargo-mutants cannot be installed");
    }
    let begun = Instant::now();
    let mut outcome = Outcome::begin("cargo xtask")?;
    let all = list()?;
    let sample = draw(all.len(), count, seed);
    outcome.note(&format!("{} of {} mutants, drawn by seed {seed}", sample.len(), all.len()));
    outcome.note("each line is a mutant and what became of it: caught, MISSED, timeout, unviable");
    let mut counts = BTreeMap::<String, u32>::new();
    for number in sample {
        if begun.elapsed() > limit {
            break;
        }
        let mutant = &all[number];
        let fate = try_one(mutant)?;
        println!("{fate}: {}", mutant.name);
        outcome.tell(format!("{fate}: {}", mutant.name));
        *counts.entry(fate).or_default() += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(fate, count)| format!("{count} {fate}")).collect();
    println!("campaign: {}", counts.join(", "));
    outcome.tell(format!("in all: {}", counts.join(", ")));
    outcome.write(out)
}

/// `count` different numbers below `all`, in the order in which they are drawn.
fn draw(all: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut random = SplitMix64(seed);
    let mut numbers: Vec<usize> = (0..all).collect();
    for at in 0..count.min(all) {
        let other = at + random.draw() as usize % (all - at);
        numbers.swap(at, other);
    }
    numbers.truncate(count);
    numbers
}

/// Every mutant of [`PLACES`].
fn list() -> Result<Vec<Mutant>> {
    let mut all = Vec::new();
    for (package, files, _) in PLACES {
        let folder = package.strip_prefix("onefold-").expect("every crate is called so");
        let mut command = Command::new("cargo");
        command.args(["mutants", "--list", "--json", "--package", package]);
        for file in *files {
            command.args(["--file", &format!("crates/{folder}/{file}")]);
        }
        let output = command.current_dir(workspace::root()).stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "{command:?} ended with {}", output.status);
        let mutants: Vec<Mutant> = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("what {command:?} printed"))?;
        ensure!(!mutants.is_empty(), "{package} has no mutants, expected some");
        // Bugs that tests switch on are not compiled in.
        all.extend(mutants.into_iter().filter(|mutant| !mutant.file.ends_with("/seeded.rs")));
    }
    Ok(all)
}

/// Builds and tests `mutant`, in the checkout itself: only what depends on it is built again.
fn try_one(mutant: &Mutant) -> Result<String> {
    let (_, _, tests) = PLACES
        .iter()
        .find(|(package, ..)| *package == mutant.package)
        .with_context(|| format!("no place for a mutant of {}", mutant.package))?;
    let mut command = Command::new("cargo");
    command
        .args(["mutants", "--in-place", "--baseline", "skip", "--timeout", "300"])
        .args(["--build-timeout", "600", "--no-shuffle", "--colors", "never"])
        .args(["--package", &mutant.package, "--file", &mutant.file])
        .args(["--re", &format!("^{}$", escaped(&mutant.name))])
        .arg("--output")
        .arg(workspace::target_dir())
        .args(["--", "--lib"]);
    for test in *tests {
        command.args(["--test", test]);
    }
    let output = command.current_dir(workspace::root()).output()?;
    // The exit codes are documented: 0 all caught, 2 some missed, 3 some timed out.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // cargo-mutants also tries the fields of a file's struct expressions, whatever it is asked for.
    let is_told = |word: &str| {
        let mut lines = text.lines().filter(|line| line.starts_with(word));
        lines.any(|line| line.contains(&mutant.name))
    };
    match output.status.code() {
        Some(2 | 3) if is_told("MISSED") => Ok("MISSED".into()),
        Some(2 | 3) if is_told("TIMEOUT") => Ok("timeout".into()),
        Some(0) if text.contains(" unviable") && !text.contains(" caught") => Ok("unviable".into()),
        Some(0 | 2 | 3) if text.contains(" caught") => Ok("caught".into()),
        _ => anyhow::bail!(
            "{command:?} ended with {}: {text}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

/// `text` as a regular expression that matches just it.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        // Not all punctuation: `\<` is the beginning of a word.
        if r"\.+*?()|[]{}^$".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_different_numbers_and_is_the_same_each_time() {
        let sample = draw(1000, 200, 7);
        assert_eq!(sample, draw(1000, 200, 7));
        let mut sorted = sample.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 200);
        assert!(sorted.iter().all(|number| *number < 1000));
        assert_ne!(sample, draw(1000, 200, 8));
        assert_eq!(draw(3, 200, 7).len(), 3);
    }

    #[test]
    fn a_name_is_matched_as_it_is() {
        let name = "a.rs:1: replace * with + in Key<'a>::read -> (bool, [u8; 1])";
        let expected = r"a\.rs:1: replace \* with \+ in Key<'a>::read -> \(bool, \[u8; 1\]\)";
        assert_eq!(escaped(name), expected);
    }
}
