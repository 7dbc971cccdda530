//! What is said in which words, and where.

use std::fs;

use onefold_testkit::random;
use serde_json::{Value, json};

use crate::lab::Lab;

#[test]
fn wrong_arguments_are_an_error_in_json_where_json_was_wanted() {
    let lab = Lab::new();
    for line in [
        "ls --nonsense --json",
        "--json ls --nonsense",
        "bench run --json --nonsense",
        "--json nosuch --nonsense",
    ] {
        let ran = lab.run(line).expect(1);
        assert!(ran.stdout.is_empty(), "{ran:#?}");
        let error: Value = serde_json::from_str(&ran.stderr).unwrap_or_else(|_| panic!("{ran:#?}"));
        assert_eq!((&error["type"], &error["code"]), (&json!("error"), &json!(1)), "{ran:#?}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("--nonsense") || message.contains("nosuch"), "{ran:#?}");
        assert!(!message.starts_with("error"), "{ran:#?}");
        assert!(error["hint"].as_str().unwrap().contains("Usage: onefold"), "{ran:#?}");
    }
    let missing = lab.run("chunk --json").expect(1).stderr;
    assert!(
        serde_json::from_str::<Value>(&missing).unwrap()["message"]
            .as_str()
            .unwrap()
            .contains("<FILE>")
    );
    lab.run("ls --nonsense").expect(1).says(&["error: unexpected argument '--nonsense' found\n"]);
    assert!(lab.ok("ls --help --json").stdout.contains("Global options"));
}

#[test]
fn one_of_a_thing_is_singular() {
    let lab = Lab::new();
    lab.write("one", "x");
    lab.run("chunk --summary one").expect(0).says(&["1 B in 1 chunk, 1 byte in the mean"]);
    lab.write("two", random(1, 40_000));
    lab.run("chunk --summary two --algorithm fixed --avg 20000").expect(0).says(&[" in 2 chunks"]);
}

#[test]
fn a_large_ratio_is_a_whole_number() {
    let lab = Lab::with_repository();
    lab.write("src/zeros", vec![0; 64 << 20]);
    let said = lab.ok("backup --repo repo src").stdout;
    let ratio = said.split("dedup ").nth(1).unwrap().lines().next().unwrap();
    assert!(ratio.len() > 3 && ratio.ends_with('x') && !ratio.contains('.'), "{said}");
    let stats = lab.ok("stats --repo repo").stdout;
    let line = stats.lines().find(|line| line.starts_with("dedup ratio")).unwrap();
    assert!(line.ends_with('x') && !line.contains('.'), "{stats}");
}

#[test]
fn asked_twice_a_backup_names_every_file_and_what_became_of_it() {
    let lab = Lab::with_repository();
    lab.write("src/a", "a");
    lab.write("src/b", "b");
    lab.write("src/large", random(1, 9 << 20));
    std::os::unix::fs::symlink("a", lab.path("src/link")).unwrap();
    lab.settle();
    let named = |more: &str| {
        let said = lab.ok(&format!("backup --repo repo src {more}")).stderr;
        let src = lab.path("src").canonicalize().unwrap();
        let of = |line: &str| {
            let (outcome, path) = line.split_once(' ')?;
            let name = path.trim_start().strip_prefix(src.to_str()?)?.strip_prefix('/')?;
            Some(format!("{outcome} {name}"))
        };
        let mut named: Vec<String> = said.lines().filter_map(of).collect();
        named.sort();
        named
    };
    assert_eq!(named("-v -v"), ["new a", "new b", "new large", "new link"]);
    fs::write(lab.path("src/b"), "changed").unwrap();
    fs::write(lab.path("src/c"), "c").unwrap();
    lab.settle();
    let second = ["changed b", "new c", "unchanged a", "unchanged large", "unchanged link"];
    assert_eq!(named("--verbose=2"), second);
    assert!(named("-v").is_empty() && named("").is_empty());
    let events = lab.ok("backup --repo repo --json -vv src").json_lines();
    let files = events.iter().filter(|event| event["type"] == "file");
    assert!(files.clone().all(|file| file["outcome"] == "unchanged"), "{events:#?}");
    assert_eq!(files.count(), 5);
}
