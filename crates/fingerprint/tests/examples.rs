//! The example for readers runs.

use onefold_fingerprint::Fingerprinter;
use onefold_testkit::example;

#[test]
fn the_example_names_files_by_their_content() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let output = example("names").args([file, file]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let name = Fingerprinter::blake3().fingerprint(&std::fs::read(file).unwrap());
    let line = format!("{name} {file}\n");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{line}{line}"));
}
