//! What `onefold find` finds, where, and what it need not read for it.

use std::fs::File;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::json;

use crate::lab::{Lab, number};

/// Two snapshots, of which the second has one file more.
fn lab() -> Lab {
    let lab = Lab::with_repository();
    for name in ["a.conf", "etc/a.conf", "etc/deep/b.conf", "etc/deep/B.CONF", "etc/c.txt"] {
        lab.write(format!("src/{name}"), name);
        let file = File::options().write(true).open(lab.path(format!("src/{name}"))).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(86_400 * 365)).unwrap();
    }
    lab.ok("backup --repo repo --host atlas src");
    lab.write("src/new/a.conf", "new");
    lab.ok("backup --repo repo --host boreas src");
    lab
}

/// The paths that were found, snapshot by snapshot.
fn found(lab: &Lab, line: &str) -> Vec<Vec<String>> {
    let text = lab.ok(&format!("find --repo repo {line}")).stdout;
    let blocks = text.split("\n\n").map(|block| block.lines().map(str::to_owned).collect());
    blocks.filter(|block: &Vec<String>| !block.is_empty()).collect()
}

/// The paths alone.
fn paths(lab: &Lab, line: &str) -> Vec<String> {
    let blocks = found(lab, line);
    blocks.into_iter().flat_map(|block| block.into_iter().skip(1)).collect()
}

#[test]
fn what_matches_is_listed_by_snapshot() {
    let lab = lab();
    let blocks = found(&lab, "*.conf");
    assert_eq!(blocks.len(), 2, "{blocks:?}");
    assert!(blocks[0][0].starts_with("in snapshot "), "{blocks:?}");
    assert_eq!(blocks[0][1..], ["a.conf", "etc/a.conf", "etc/deep/b.conf"]);
    assert_eq!(blocks[1][1..], ["a.conf", "etc/a.conf", "etc/deep/b.conf", "new/a.conf"]);
    assert_eq!(found(&lab, "nothing"), [[""; 0]; 0]);
}

#[test]
fn names_paths_kinds_times_and_snapshots_narrow_it() {
    let lab = lab();
    let first = "--host atlas";
    let paths = |line: &str| paths(&lab, line);
    assert_eq!(paths(&format!("{first} /*.conf")), ["a.conf"]);
    assert_eq!(paths(&format!("{first} deep/*")), ["etc/deep/B.CONF", "etc/deep/b.conf"]);
    assert_eq!(paths(&format!("{first} /etc/**/*.conf")), ["etc/a.conf", "etc/deep/b.conf"]);
    assert_eq!(paths(&format!("{first} -i B.*")), ["etc/deep/B.CONF", "etc/deep/b.conf"]);
    assert_eq!(paths(&format!("{first} c.txt b.conf")), ["etc/c.txt", "etc/deep/b.conf"]);
    assert_eq!(paths(&format!("{first} --type d *")), ["etc", "etc/deep"]);
    assert_eq!(paths("--snapshot latest new"), ["new"]);
    assert_eq!(paths("--oldest 2000-01-01 --type f *"), ["new/a.conf"]);
    assert_eq!(paths(&format!("{first} --newest 2000-01-01 --type f /*")), ["a.conf"]);
    assert_eq!(paths(&format!("{first} --oldest 1970-01-01 --newest 1970-06-01 *")), [""; 0]);
    let long = lab.ok("find --repo repo --long --snapshot latest c.txt").stdout;
    assert!(long.contains("\n-rw") && long.ends_with(" etc/c.txt\n\n"), "{long}");
    lab.run("find --repo repo a[").expect(1).says(&["'a['"]);
    lab.run("find --repo repo --oldest soon x").expect(1).says(&["2026-01-31"]);
}

#[test]
fn programs_get_a_line_for_each_and_a_summary() {
    let lab = lab();
    let ran = lab.ok("find --repo repo --json c.txt");
    let lines = ran.json_lines();
    let ids = lab.ok("snapshots --repo repo --json").json();
    assert_eq!(lines.len(), 3);
    for at in [0, 1] {
        assert_eq!((&lines[at]["snapshot"], &lines[at]["type"]), (&ids[at]["id"], &json!("entry")));
        assert_eq!((&lines[at]["path"], number(&lines[at], "size")), (&json!("etc/c.txt"), 9));
    }
    let summary = ran.summary();
    assert_eq!([number(&summary, "snapshots"), number(&summary, "matches")], [2, 2]);
}

#[test]
fn a_tree_without_a_find_is_read_once_for_all_snapshots() {
    let lab = Lab::with_repository();
    // Enough names that no tree stands in its directory's entry.
    for number in 0..200 {
        lab.write(format!("src/one/two/{number:030}"), "");
        lab.write(format!("src/one/{number:030}"), "");
        lab.write(format!("src/{number:030}"), "");
    }
    for number in 0..4 {
        lab.write("src/changing", number.to_string());
        lab.ok("backup --repo repo src");
    }
    let read = |pattern: &str| {
        let said = lab.ok(&format!("find --repo repo -v {pattern}")).stderr;
        said.lines().last().unwrap().split(' ').next().unwrap().to_owned()
    };
    // The root of each, and what is below it once.
    assert_eq!(read("nothing"), "6");
    assert_eq!(read("one/nothing"), "6");
    assert_eq!(read("/one/two/nothing"), "6");
    // In each snapshot something is found in each of the three.
    assert_eq!(read(&"0".repeat(30)), "12");
}
