//! Documents say what is true of the repository.

#![allow(clippy::disallowed_methods, reason = "reads documents")]

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::Command;

fn read(path: &str) -> String {
    let path = xtask::workspace::root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names of all functions in sources that git knows, or would take.
fn functions() -> HashSet<String> {
    let root = xtask::workspace::root();
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]);
    git.args(["*.rs", "*.py", "*.c"]).current_dir(root);
    let names = String::from_utf8(git.output().unwrap().stdout).unwrap();
    let mut found = HashSet::new();
    for name in names.split('\0').filter(|name| !name.is_empty() && root.join(name).exists()) {
        let text = fs::read_to_string(Path::new(root).join(name)).unwrap();
        for begin in ["fn ", "def ", "void "] {
            for rest in text.split(begin).skip(1) {
                let is_word = |one: &char| one.is_alphanumeric() || *one == '_';
                found.insert(rest.chars().take_while(is_word).collect());
            }
        }
    }
    found
}

#[test]
fn every_test_that_the_comparison_names_exists() {
    let (text, functions) = (read("docs/compared.md"), functions());
    let mut named = 0;
    for line in text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 7, "{line}");
        let (ours, test) = (cells[5], cells[6]);
        if ["Onefold", "no", "not yet"].contains(&ours) {
            assert!(test.is_empty() || test == "test", "{line}: what is not there has no test");
            continue;
        }
        let test = test.strip_prefix('`').and_then(|test| test.strip_suffix('`'));
        let test = test.unwrap_or_else(|| panic!("{line}: expected a test in the last cell"));
        assert!(functions.contains(test), "{line}: there is no test {test}");
        named += 1;
    }
    assert!(named > 30, "only {named} tests are named");
}

#[test]
fn the_oldest_rust_is_the_same_everywhere() {
    let manifest = read("Cargo.toml");
    let line = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    let oldest = line.unwrap().trim_matches('"');
    for document in ["README.md", "docs/install.md"] {
        let text = read(document);
        assert!(text.contains(&format!("Rust {oldest} or later")), "{document}, expected {oldest}");
        assert_eq!(text.matches(" or later and a C compiler").count(), 1, "{document}");
    }
}

#[test]
fn forges_run_every_area_of_the_tests() {
    let help = Command::new(env!("CARGO_BIN_EXE_xtask")).args(["test", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let areas: Vec<&str> = help
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- "))
        .filter_map(|line| line.split(':').next())
        .collect();
    assert!(areas.contains(&"core") && areas.contains(&"packages"), "{help}");
    for file in [".github/workflows/ci.yml", ".gitlab-ci.yml"] {
        let text = read(file);
        assert!(text.contains(&format!("[{}]", areas.join(", "))), "{file}, expected {areas:?}");
        assert!(text.contains(".ci/run --area"), "{file}");
    }
}
