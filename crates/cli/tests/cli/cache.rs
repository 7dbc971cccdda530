//! `cache`: what is kept outside repositories.

use std::fs;

use onefold_testkit::random;

use crate::lab::{Lab, number};

#[test]
fn what_is_kept_is_listed_and_removed_and_learnt_again() {
    let lab = Lab::with_repository();
    assert_eq!(lab.ok("cache list --json").json().as_array().unwrap().len(), 0);
    lab.ok("init other --no-encryption");
    lab.write("src/a", random(1, 300_000));
    lab.ok("backup --repo repo src");
    lab.ok("backup --repo other src");
    // What commands do not keep is no repository's.
    lab.write("cache/notes/a", "mine");

    let kept = lab.ok("cache list --json").json();
    let kept = kept.as_array().unwrap();
    assert_eq!(kept.len(), 2, "{kept:?}");
    for one in kept {
        assert!(number(one, "bytes") > 0, "{one}");
        assert!(fs::exists(one["path"].as_str().unwrap()).unwrap(), "{one}");
    }
    let id = kept[0]["id"].as_str().unwrap();
    assert!(lab.ok("cache list").stdout.contains(id));

    let removed = lab.ok(&format!("cache remove {} --json", &id[..8])).json();
    assert_eq!(number(&removed, "removed"), 1);
    assert_eq!(removed["bytes"], kept[0]["bytes"]);
    assert!(!fs::exists(kept[0]["path"].as_str().unwrap()).unwrap());
    assert_eq!(number(&lab.ok("cache remove --all --json").json(), "removed"), 1);
    assert!(fs::exists(lab.path("cache/notes/a")).unwrap());

    for repository in ["repo", "other"] {
        let line = format!("backup --repo {repository} --force --json src");
        assert_eq!(number(&lab.ok(&line).summary(), "new_bytes"), 0);
    }
}

#[test]
fn what_is_not_there_or_not_told_apart_is_refused() {
    let lab = Lab::with_repository();
    lab.run("cache remove abc").expect(1).says(&["nothing is cached", "'abc'"]);
    lab.run("cache remove").expect(1).says(&["--all"]);
    for id in ["1", "2"] {
        fs::create_dir_all(lab.path(format!("cache/{id:0>32}"))).unwrap();
    }
    lab.run("cache remove 00").expect(1).says(&["the ids of 2 repositories begin with '00'"]);
    assert_eq!(lab.ok("cache list --json").json().as_array().unwrap().len(), 2);
}
