//! `check --repair`.

use std::fs;
use std::path::PathBuf;

use onefold_testkit::random;

use crate::lab::{Lab, number};

fn containers(lab: &Lab) -> Vec<PathBuf> {
    let folders = fs::read_dir(lab.path("repo/containers")).unwrap();
    let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn what_was_lost_is_named_and_the_rest_is_kept() {
    let lab = Lab::with_repository();
    for number in 0..4 {
        lab.write(format!("src/{number}"), random(number, 400_000));
    }
    lab.ok("backup --repo repo src");
    let repaired = lab.ok("check --repo repo --repair --json").json();
    assert_eq!(repaired["repaired"]["snapshots"].as_array().unwrap().len(), 0);
    let largest = containers(&lab).into_iter().max_by_key(|path| path.metadata().unwrap().len());
    let largest = largest.unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    bytes[100_000] ^= 1;
    fs::write(&largest, bytes).unwrap();
    lab.run("check --repo repo --read-data").expect(1);
    let ran = lab.run("check --repo repo --repair --json").expect(1);
    let repaired = &ran.json()["repaired"];
    let [snapshot] = &repaired["snapshots"].as_array().unwrap()[..] else { panic!("{ran:#?}") };
    let lost = snapshot["lost"].as_array().unwrap();
    assert!(!lost.is_empty() && lost.len() < 4, "{ran:#?}");
    assert!(number(repaired, "saved_chunks") > 0 && number(repaired, "lost_chunks") > 0);
    let (old, new) = (snapshot["old"].as_str().unwrap(), snapshot["new"].as_str().unwrap());
    lab.ok(&format!("restore --repo repo {new} --target out"));
    for number in 0..4 {
        let name = number.to_string();
        let is_lost = lost.iter().any(|one| one["path"] == name);
        assert_eq!(lab.path(format!("out/{name}")).exists(), !is_lost, "{name}");
        if !is_lost {
            assert!(fs::read(lab.path(format!("out/{name}"))).unwrap() == random(number, 400_000));
        }
    }
    let again = lab.run("check --repo repo --repair").expect(1);
    assert!(again.stdout.contains("an earlier repair made snapshot"), "{again:#?}");
    lab.ok(&format!("forget --repo repo {old} --prune"));
    lab.ok("check --repo repo --read-data");
    assert!(lab.ok("snapshots --repo repo --tag repaired --json").stdout.contains(new));
}
