//! The example for readers runs.

use onefold_testkit::example;

#[test]
fn the_example_reads_what_it_wrote_and_is_refused_beyond_the_end() {
    let output = example("device").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.starts_with("1048576 bytes, of which \"some bytes\" lie at 4096\n"),
        "{printed}"
    );
    assert!(printed.contains("Read of 1048576..1048586 failed: "), "{printed}");
}
