//! The program that froze the format goes on from what this one wrote.

use std::env;
use std::path::PathBuf;

use onefold_testkit::skip;

/// The earlier program, which `cargo xtask test` and `cargo xtask compat --old` build.
fn old_program() -> Option<PathBuf> {
    let program = env::var_os("ONEFOLD_OLD_PROGRAM").map(PathBuf::from);
    if program.is_none() {
        skip("ONEFOLD_OLD_PROGRAM names no earlier program; `cargo xtask test` builds one");
    }
    program
}

#[test]
fn the_program_that_froze_the_format_goes_on_from_what_this_one_wrote() {
    let Some(program) = old_program() else { return };
    let lab = tempfile::tempdir().unwrap();
    let (folder, root) = (lab.path().join("made"), lab.path().join("source"));
    super::make(&folder, &root);
    super::expect_usable(&folder, &program);
}
