//! The manual is made from what `--help` shows.

use std::fs;
use std::path::Path;

use crate::lab::Lab;

#[test]
fn the_document_of_all_commands_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let written = fs::read_to_string(&path).unwrap();
    let lab = Lab::new();
    let made = lab.ok("manual").stdout;
    let differs = made.lines().zip(written.lines()).position(|(made, written)| made != written);
    assert!(
        made.trim_end() == written.trim_end(),
        "docs/commands.md differs from --help, at line {differs:?}: run `cargo run -- manual > docs/commands.md`"
    );
}

#[test]
fn the_document_does_not_depend_on_the_machine() {
    let lab = Lab::new();
    let made = lab.ok("manual").stdout;
    let mut elsewhere = lab.command("manual");
    elsewhere
        .env("COLUMNS", "40")
        .env("ONEFOLD_POOL", "/secret")
        .env("ONEFOLD_REPOSITORY", "/secret");
    let elsewhere = elsewhere.output().unwrap();
    assert_eq!(made, String::from_utf8(elsewhere.stdout).unwrap());
    assert!(!made.contains("/secret"));
}

#[test]
fn pages_are_written_to_a_folder_that_is_made() {
    let lab = Lab::new();
    let said = lab.ok("manual --man share/man1");
    assert!(said.stdout.is_empty() && said.stderr.contains("wrote man pages to 'share/man1'"));
    let page = fs::read_to_string(lab.path("share/man1/onefold-key-add.1")).unwrap();
    assert!(page.contains(".TH onefold-key-add 1"), "{page}");
    lab.run("manual --man /dev/null/x").expect(1).says(&["cannot write to '/dev/null/x'"]);
}
