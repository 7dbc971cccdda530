//! `onefold forget` and `onefold prune`, as users and scripts see them.

use std::fs;

use onefold_testkit::random;
use serde_json::Value;

use crate::lab::{Lab, number};

/// A repository with four snapshots of two hosts, each of data of its own.
fn lab() -> Lab {
    let lab = Lab::with_repository();
    for (version, line) in [
        "--host atlas --tag weekly",
        "--host atlas",
        "--host atlas --tag weekly --tag old",
        "--host rhea",
    ]
    .iter()
    .enumerate()
    {
        lab.write("src/file", random(version as u64, 300_000));
        lab.ok(&format!("backup --repo repo src {line}"));
    }
    lab
}

fn ids(lab: &Lab, host: &str) -> Vec<String> {
    let listed = lab.ok(&format!("snapshots --repo repo --json --host {host}")).json();
    let ids = listed.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned());
    ids.collect()
}

fn stored(lab: &Lab) -> u64 {
    number(&lab.ok("stats --repo repo --json").json(), "stored_bytes")
}

fn listed(group: &Value, list: &str) -> Vec<String> {
    let list = group[list].as_array().unwrap();
    list.iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn rules_keep_by_group_and_prune_gives_space_back() {
    let lab = lab();
    let (atlas, rhea) = (ids(&lab, "atlas"), ids(&lab, "rhea"));
    let before = stored(&lab);
    let dry = lab.ok("forget --repo repo --keep-last 1 --keep-tag old --dry-run --prune --json");
    let dry = dry.json();
    assert_eq!(
        (dry["dry_run"].as_bool(), dry["groups"].as_array().unwrap().len()),
        (Some(true), 2)
    );
    assert_eq!(listed(&dry["groups"][0], "remove"), atlas[..2]);
    assert_eq!(dry["groups"][0]["keep"][0]["reasons"], serde_json::json!(["tag old", "last"]));
    assert_eq!(listed(&dry["groups"][1], "keep"), rhea);
    assert_eq!((ids(&lab, "atlas").len(), stored(&lab)), (3, before), "a dry run changes nothing");

    let table = lab.ok("forget --repo repo --keep-last 1 --keep-tag old");
    assert!(table.stdout.contains("host atlas") && table.stdout.contains("forgot 2 snapshots"));
    assert!(table.stdout.contains("keep") && table.stdout.contains("tag old, last"), "{table:?}");
    assert_eq!(ids(&lab, "atlas"), atlas[2..]);
    assert_eq!(stored(&lab), before, "forgetting alone frees nothing");

    let would = lab.ok("prune --repo repo --dry-run");
    assert!(would.stdout.contains("would be repacked"), "{would:?}");
    assert_eq!(stored(&lab), before);
    let pruned = lab.ok("prune --repo repo --max-unused 0 --json").json();
    assert!(number(&pruned, "deleted_containers") > 0, "{pruned}");
    assert_eq!(number(&pruned, "unused_bytes"), 0);
    let after = stored(&lab);
    assert!((600_000..640_000).contains(&after), "{after} of {before} bytes");
    lab.ok("check --repo repo --read-data");
    lab.ok("restore --repo repo latest --target out");
    assert_eq!(fs::read(lab.path("out/file")).unwrap(), random(3, 300_000));
}

#[test]
fn many_small_backups_are_merged() {
    let lab = Lab::with_repository();
    for version in 0..10 {
        lab.write("src/file", random(version, 3_000));
        lab.ok("backup --repo repo src");
    }
    let would = lab.ok("prune --repo repo --dry-run");
    // The content of each version, and the directory that refers to it.
    assert!(would.stdout.contains("20 small containers"), "{would:?}");
    assert!(would.stdout.contains("would be merged"), "{would:?}");
    let none = lab.ok("prune --repo repo --dry-run --max-repack-size 0 --json").json();
    assert_eq!(number(&none, "merged_containers"), 0);
    let pruned = lab.ok("prune --repo repo --json").json();
    assert_eq!(number(&pruned, "merged_containers"), 20);
    assert!(number(&pruned, "merged_bytes") > 30_000, "{pruned}");
    assert_eq!((number(&pruned, "deleted_containers"), number(&pruned, "deleted_runs")), (20, 10));
    let again = lab.ok("prune --repo repo");
    assert!(!again.stdout.contains("merged"), "{again:?}");
    lab.ok("check --repo repo --read-data");
}

#[test]
fn snapshots_are_forgotten_by_id_and_pruned_at_once() {
    let lab = lab();
    let atlas = ids(&lab, "atlas");
    let before = stored(&lab);
    let line = format!("forget --repo repo {} {} --prune", &atlas[0][..12], atlas[1]);
    let ran = lab.ok(&line);
    assert!(ran.stdout.contains("forgot 2 snapshots") && ran.stdout.contains("deleted"), "{ran:?}");
    assert_eq!(ids(&lab, "atlas"), atlas[2..]);
    assert!(stored(&lab) < before - 500_000);
    lab.run("forget --repo repo ffffffff").expect(1).says(&["no snapshot 'ffffffff'"]);
    let both = format!("forget --repo repo {} --keep-last 1", atlas[2]);
    lab.run(&both).expect(1).says(&["either of the two"]);
}

#[test]
fn snapshots_that_are_forgotten_by_id_are_named() {
    let lab = lab();
    let atlas = ids(&lab, "atlas");
    let source = lab.path("src").display().to_string();
    let line = format!("forget --repo repo {} {}", &atlas[0][..12], atlas[1]);
    let dry = lab.ok(&format!("{line} -n"));
    for text in ["remove", &atlas[0][..8], &atlas[1][..8], "atlas", "weekly", &source] {
        assert!(dry.stdout.contains(text), "{text:?} is not said: {dry:#?}");
    }
    assert!(dry.stdout.contains("would forget 2 snapshots"), "{dry:#?}");
    let dry = lab.ok(&format!("{line} -n --json")).json();
    assert_eq!(listed(&dry, "named"), atlas[..2]);
    assert_eq!(
        (&dry["named"][0]["host"], &dry["named"][0]["paths"][0]),
        (&"atlas".into(), &source.clone().into())
    );
    assert_eq!(ids(&lab, "atlas"), atlas);
    // One that cannot be read is named by its id.
    let damaged = lab.path(format!("repo/snapshots/{}", atlas[1]));
    let mut bytes = fs::read(&damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let dry = lab.ok(&format!("{line} -n"));
    assert!(
        dry.stdout.contains(&atlas[1][..8]) && dry.stdout.contains("cannot be read"),
        "{dry:#?}"
    );
    assert!(lab.ok(&line).stdout.contains(&atlas[0][..8]));
    assert_eq!(ids(&lab, "atlas"), atlas[2..]);
}

#[test]
fn what_would_forget_too_much_is_refused() {
    let lab = lab();
    lab.run("forget --repo repo").expect(1).says(&["no rule says what to keep"]);
    lab.run("forget --repo repo --unsafe-allow-remove-all").expect(1).says(&["no rule says"]);
    lab.run("forget --repo repo --host rhea --keep-tag none")
        .expect(1)
        .says(&["no snapshot of host rhea", "--unsafe-allow-remove-all"]);
    lab.run("forget --repo repo --keep-last 0").expect(1).says(&["a number above 0"]);
    lab.run("forget --repo repo --keep-within 1x").expect(1).says(&["1y6m"]);
    lab.run("prune --repo repo --max-unused 101%").expect(1).says(&["from 0% to 100%"]);
    assert_eq!((ids(&lab, "atlas").len(), ids(&lab, "rhea").len()), (3, 1));
    lab.ok("forget --repo repo --host rhea --unsafe-allow-remove-all");
    assert_eq!((ids(&lab, "atlas").len(), ids(&lab, "rhea").len()), (3, 0));
}

#[test]
fn a_comma_separates_tags_in_every_command_and_none_is_empty() {
    let lab = Lab::with_repository();
    lab.write("src/file", "content");
    lab.ok("backup --repo repo src --tag a,b --tag c");
    lab.ok("backup --repo repo src --tag a");
    let all = lab.ok("snapshots --repo repo --json").json();
    assert_eq!(all[0]["tags"], serde_json::json!(["a", "b", "c"]));
    let count = |line: &str| {
        lab.ok(&format!("snapshots --repo repo --json {line}")).json().as_array().unwrap().len()
    };
    assert_eq!(["--tag a", "--tag a,b", "--tag c,x", "--tag c --tag x"].map(count), [2, 1, 0, 1]);
    for line in ["backup --repo repo src --tag a,", "snapshots --repo repo --tag ,a"] {
        lab.run(line).expect(1).says(&["a tag is empty"]);
    }
}

#[test]
fn a_location_of_an_unknown_kind_is_refused_and_no_folder_is_made() {
    let lab = Lab::new();
    for place in ["rclone:remote:repo", "rest:http://host/", "b2:bucket:/", "file:///tmp/x"] {
        lab.run(&format!("init {place} --no-encryption"))
            .expect(1)
            .says(&["is not a location for a repository", "./"]);
    }
    assert_eq!(fs::read_dir(lab.path("")).unwrap().count(), 0);
    lab.ok("init ./odd:name --no-encryption");
    lab.write("src/file", "content");
    lab.ok("backup --repo ./odd:name src");
}
