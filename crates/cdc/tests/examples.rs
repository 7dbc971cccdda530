//! The example for readers runs.

use onefold_testkit::example;

#[test]
fn the_example_finds_what_two_inputs_have_in_common() {
    let output = example("chunks").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let new_bytes: Vec<usize> = printed
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            words[words.len() - 4].parse().unwrap()
        })
        .collect();
    assert_eq!(new_bytes[0], 500_000, "{printed}");
    assert!(new_bytes[1] > 0 && new_bytes[1] < 50_000, "{printed}");
}
