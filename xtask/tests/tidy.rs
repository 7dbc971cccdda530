//! `cargo xtask tidy` on small workspaces that break one rule each.

#![allow(clippy::disallowed_methods, reason = "writes fixtures to a temporary folder")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

const DOCUMENTED: &str = "//! A crate.\n\n/// Does nothing.\npub fn nothing() {}\n";
const UNDOCUMENTED: &str = "//! A crate.\n\npub fn nothing() {}\n";

/// A workspace of `onefold-cdc` and `onefold-block`.
struct Workspace(TempDir);

impl Workspace {
    fn clean() -> Self {
        let workspace = Self(tempfile::tempdir().unwrap());
        workspace.write(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\"cdc\", \"block\"]\n\n\
             [workspace.lints.rust]\nmissing_docs = \"warn\"\n",
        );
        for name in ["cdc", "block"] {
            workspace.write(&format!("{name}/Cargo.toml"), &manifest(name, ""));
            workspace.write(&format!("{name}/src/lib.rs"), DOCUMENTED);
        }
        // No workspace is whole without the fixtures of the frozen formats.
        let compat = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compat");
        symlink(compat, workspace.0.path().join("compat")).unwrap();
        workspace
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// What tidy printed, if its verdict was `expected`.
    fn tidy(&self, expected: bool) -> String {
        let output = self.run_tidy();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), expected, "{text}\n{errors}");
        text
    }

    fn run_tidy(&self) -> Output {
        let root: &Path = self.0.path();
        Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(["tidy", "--manifest-path"])
            .arg(root.join("Cargo.toml"))
            .env("CARGO_TARGET_DIR", root.join("target"))
            .env("CARGO_NET_OFFLINE", "true")
            .output()
            .unwrap()
    }
}

fn manifest(name: &str, dependencies: &str) -> String {
    format!(
        "[package]\nname = \"onefold-{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [lints]\nworkspace = true\n\n[dependencies]\n{dependencies}"
    )
}

#[test]
fn a_workspace_without_the_frozen_fixtures_fails() {
    let workspace = Workspace::clean();
    fs::remove_file(workspace.0.path().join("compat")).unwrap();
    assert!(workspace.tidy(false).contains("compat/digests: v1 is frozen"));
}

#[test]
fn a_clean_workspace_passes() {
    assert!(Workspace::clean().tidy(true).contains("2 crates, nothing wrong"));
}

#[test]
fn a_forbidden_edge_fails() {
    let workspace = Workspace::clean();
    workspace
        .write("cdc/Cargo.toml", &manifest("cdc", "onefold-block = { path = \"../block\" }\n"));
    let text = workspace.tidy(false);
    assert!(text.contains("error: cdc/Cargo.toml: `cdc` uses `block`"), "{text}");
}

#[test]
fn an_edge_of_tests_passes() {
    let workspace = Workspace::clean();
    let dependencies = "\n[dev-dependencies]\nonefold-block = { path = \"../block\" }\n";
    workspace.write("cdc/Cargo.toml", &manifest("cdc", dependencies));
    workspace.tidy(true);
}

#[test]
fn an_undocumented_item_fails_the_second_time_too() {
    let workspace = Workspace::clean();
    workspace.write("block/src/lib.rs", UNDOCUMENTED);
    // The second run finds everything built.
    for _ in 0..2 {
        let text = workspace.tidy(false);
        assert!(text.contains("block/src/lib.rs:3: missing documentation"), "{text}");
    }
    workspace.write("block/src/lib.rs", DOCUMENTED);
    workspace.tidy(true);
}

#[test]
fn an_undocumented_item_fails_where_the_lint_is_an_error() {
    let workspace = Workspace::clean();
    let root = fs::read_to_string(workspace.0.path().join("Cargo.toml")).unwrap();
    workspace.write("Cargo.toml", &root.replace("warn", "deny"));
    workspace.write("block/src/lib.rs", UNDOCUMENTED);
    assert!(workspace.tidy(false).contains("block/src/lib.rs:3: missing documentation"));
}

#[test]
fn a_crate_that_does_not_compile_fails() {
    let workspace = Workspace::clean();
    workspace.write("block/src/lib.rs", "//! A crate.\n\nfn nothing() -> u8 {}\n");
    let output = workspace.run_tidy();
    assert!(!output.status.success());
    let reason = String::from_utf8_lossy(&output.stderr);
    assert!(reason.contains("block/src/lib.rs:3"), "{reason}");
}

#[test]
fn a_crate_without_the_shared_lints_fails() {
    let workspace = Workspace::clean();
    workspace.write("block/Cargo.toml", &manifest("block", "").replace("[lints]\n", "[other]\n"));
    let text = workspace.tidy(false);
    assert!(
        text.contains("error: block/Cargo.toml: `onefold-block` has lints of its own"),
        "{text}"
    );
}

#[test]
fn a_workspace_that_does_not_ask_for_docstrings_fails() {
    let workspace = Workspace::clean();
    let root = fs::read_to_string(workspace.0.path().join("Cargo.toml")).unwrap();
    workspace.write("Cargo.toml", &root.replace("warn", "allow"));
    assert!(workspace.tidy(false).contains("the workspace does not ask for docstrings"));
}

#[test]
fn a_long_file_is_a_warning_only() {
    let workspace = Workspace::clean();
    workspace.write("block/src/lib.rs", &format!("{DOCUMENTED}{}", "// A line.\n".repeat(900)));
    let text = workspace.tidy(true);
    assert!(text.contains("warning: block/src/lib.rs: 904 lines"), "{text}");
}
