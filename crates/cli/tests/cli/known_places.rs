//! A repository that is not the one that was at its place before stops a command until it is
//! accepted.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::lab::Lab;

/// The id of the repository in `place`, seen by a client that remembers nothing of it.
fn id_of(lab: &Lab, place: &str) -> String {
    let ran = lab.ok(&format!("snapshots --repo {place} --state-dir fresh -v"));
    fs::remove_dir_all(lab.path("fresh")).unwrap();
    let (_, id) = ran.stderr.split_once("repository ").unwrap_or_else(|| panic!("{ran:#?}"));
    id[..32].to_owned()
}

fn rename(lab: &Lab, from: &str, to: &str) {
    fs::rename(lab.path(from), lab.path(to)).unwrap();
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// A lab with a repository that was used in `disk`, and another one in `other`.
fn with_another() -> Lab {
    let lab = Lab::new();
    lab.write("source/file", "content");
    lab.ok("init disk --no-encryption");
    lab.ok("init other --no-encryption --state-dir elsewhere");
    lab.ok("backup --repo disk source");
    lab
}

#[test]
fn another_repository_at_the_same_place_stops_until_it_is_accepted() {
    let lab = with_another();
    let (first, second) = (id_of(&lab, "disk"), id_of(&lab, "other"));
    rename(&lab, "disk", "first");
    rename(&lab, "other", "disk");
    for line in ["snapshots", "backup source", "check", "prune", "forget --keep-last 1"] {
        for place in ["disk", "./source/../disk/"] {
            let ran = lab.run(&format!("{line} --repo {place}")).expect(1);
            ran.says(&[
                "another repository",
                "disk",
                &first,
                &second,
                "hint:",
                "--accept-repository",
            ]);
        }
    }
    assert!(!lab.path("disk/snapshots").exists(), "nothing was backed up to it");
    let ran = lab.run("snapshots --repo disk --json").expect(1);
    let error: serde_json::Value = serde_json::from_str(ran.stderr.trim()).unwrap();
    assert_eq!(error["type"], "error");
    // Only the repository that is meant is accepted.
    lab.run(&format!("snapshots --repo disk --accept-repository {first}"))
        .expect(1)
        .says(&[&second]);
    lab.run("snapshots --repo disk --accept-repository yes").expect(1).says(&["32 hexadecimal"]);
    lab.ok(&format!("backup --repo disk source --accept-repository {second}"));
    // Once accepted, both alternate freely.
    for _ in 0..2 {
        lab.ok("backup --repo disk source");
        rename(&lab, "disk", "second");
        rename(&lab, "first", "disk");
        lab.ok("backup --repo disk source");
        rename(&lab, "disk", "first");
        rename(&lab, "second", "disk");
    }
    // A place that was not seen before is no reason to ask.
    lab.ok("snapshots --repo first");
    // A client without memory knows of nothing.
    rename(&lab, "disk", "second");
    lab.ok("init third --no-encryption --state-dir elsewhere");
    rename(&lab, "third", "disk");
    lab.write("no-folder", "x");
    lab.ok("snapshots --repo disk --state-dir no-folder").says(&["not remembered"]);
    lab.run("snapshots --repo disk").expect(1);
}

#[test]
fn a_clear_repository_where_an_encrypted_one_was_is_refused_without_the_flag() {
    let lab = Lab::new();
    lab.write("secret", "a password\n");
    lab.write("source/file", "content");
    lab.ok("init disk --password-file secret");
    lab.ok("init clear --no-encryption --state-dir elsewhere");
    let id = id_of(&lab, "clear");
    fs::remove_dir_all(lab.path("disk")).unwrap();
    rename(&lab, "clear", "disk");
    // As for a user who types the password, and is not asked for it.
    lab.run("backup --repo disk source").expect(1).says(&[
        "another repository",
        "encrypted",
        "not encrypted",
        "its host can read",
        &id,
    ]);
    assert!(!lab.path("disk/snapshots").exists());
    lab.ok(&format!("backup --repo disk source --accept-repository {id}"));
    lab.ok("backup --repo disk source");
}

#[test]
fn an_encrypted_repository_is_told_from_another_before_it_is_given_a_password() {
    let lab = Lab::new();
    for name in ["one", "two"] {
        lab.write(name, format!("{name}\n"));
        lab.ok(&format!("init {name}-disk --password-file {name}"));
    }
    rename(&lab, "one-disk", "away");
    rename(&lab, "two-disk", "one-disk");
    lab.run("snapshots --repo one-disk").expect(1).says(&["another repository"]);
    // A wrong password accepts nothing.
    let listed = lab.run("snapshots --repo one-disk --password-file one").expect(1);
    let (_, id) = listed.stderr.split_once("--accept-repository ").unwrap();
    let accepting = format!("snapshots --repo one-disk --accept-repository {}", &id[..32]);
    lab.run(&format!("{accepting} --password-file one")).expect(12);
    lab.run("snapshots --repo one-disk --password-file two")
        .expect(1)
        .says(&["another repository"]);
    lab.ok(&format!("{accepting} --password-file two"));
    lab.ok("snapshots --repo one-disk --password-file two");
}

#[test]
fn a_repository_that_is_made_where_one_was_is_accepted() {
    let lab = with_another();
    fs::remove_dir_all(lab.path("disk")).unwrap();
    lab.ok("init disk --no-encryption");
    lab.ok("backup --repo disk source");
    let made = lab.path("disk");
    fs::remove_dir_all(made).unwrap();
    lab.ok("backup --init --no-encryption --repo disk source");
    lab.ok("backup --repo disk source");
    rename(&lab, "other", "other-away");
    copy(&lab.path("other-away"), &lab.path("other"));
    lab.ok("copy --repo disk --from-repo other");
    // The one that a copy reads from is looked at as well.
    fs::remove_dir_all(lab.path("other")).unwrap();
    lab.ok("init other --no-encryption --state-dir elsewhere");
    lab.run("copy --repo disk --from-repo other").expect(1).says(&["another repository", "other"]);
}

#[test]
fn a_repaired_copy_is_named_when_its_original_seems_to_have_gone_back() {
    let lab = Lab::with_repository();
    lab.write("source/file", "content");
    lab.ok("backup --repo repo source");
    let id = lab.ok("snapshots --repo repo --json").json()[0]["id"].as_str().unwrap().to_owned();
    copy(&lab.path("repo"), &lab.path("copy"));
    for below in ["snapshots", "receipts"] {
        fs::remove_file(lab.path(format!("copy/{below}/{id}"))).unwrap();
    }
    lab.run("check --repo copy --repair").expect(0);
    let state = lab.path("state");
    lab.run("snapshots --repo repo").expect(13).says(&[
        "older than it was",
        "a copy",
        lab.path("copy").canonicalize().unwrap().to_str().unwrap(),
        "--state-dir",
        state.to_str().unwrap(),
    ]);
    lab.run("prune --repo repo").expect(1).says(&["nothing is pruned", "a copy"]);
    // The way out that is named.
    let memory = fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path());
    let memory = memory.filter(|path| path.file_name().unwrap().len() == 32).collect::<Vec<_>>();
    let [memory] = &memory[..] else { panic!("{memory:?}") };
    fs::remove_dir_all(memory).unwrap();
    lab.ok("snapshots --repo repo");
    lab.ok("prune --repo repo");
}
