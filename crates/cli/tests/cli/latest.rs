//! Which snapshot `latest` is, and what is said of one that a write-only key signed.

use std::fs;

use serde_json::json;

use crate::lab::Lab;

/// A lab with two snapshots of host `atlas`, the first with tag `weekly`, and then one of `rhea`.
fn of_two_hosts() -> (Lab, Vec<String>) {
    let lab = Lab::with_repository();
    for (name, line) in [
        ("first", "first --host atlas --tag weekly"),
        ("second", "second --host atlas"),
        ("third", "third --host rhea"),
    ] {
        lab.write(format!("{name}/{name}"), name);
        lab.settle();
        lab.ok(&format!("backup --repo repo {line}"));
    }
    let listed = lab.ok("snapshots --repo repo --json").json();
    let id = |one: &serde_json::Value| one["id"].as_str().unwrap().to_owned();
    let ids = listed.as_array().unwrap().iter().map(id).collect();
    (lab, ids)
}

#[test]
fn latest_is_narrowed_by_host_path_and_tag_in_every_command() {
    let (lab, ids) = of_two_hosts();
    let path = format!("--path {}", lab.path("first").display());
    for (narrowed, name) in [
        ("", "third"),
        ("--host atlas", "second"),
        ("--host atlas --tag weekly", "first"),
        (&path, "first"),
        ("--tag weekly,other --tag weekly", "first"),
    ] {
        let listed = lab.ok(&format!("ls --repo repo latest {narrowed}")).stdout;
        assert_eq!(listed, format!("{name}\n"), "{narrowed}");
        let target = lab.path("out");
        lab.ok(&format!("restore --repo repo latest --target out {narrowed}"));
        assert_eq!(fs::read_to_string(target.join(name)).unwrap(), name, "{narrowed}");
        fs::remove_dir_all(target).unwrap();
    }
    let changed = lab.ok(&format!("diff --repo repo {} latest --host atlas", ids[2])).stdout;
    assert!(changed.contains("+ second") && changed.contains("- third"), "{changed}");
    lab.ok("init second-repo --no-encryption");
    let copy = "copy --repo second-repo --from-repo repo --json";
    let copied = lab.ok(&format!("{copy} latest --host atlas")).summary();
    assert_eq!(copied["copied"][0]["from"], *ids[1]);
    let copied = lab.ok(&format!("{copy} --host atlas")).summary();
    assert_eq!(copied["copied"][0]["from"], *ids[0]);
    assert_eq!(
        (copied["copied"].as_array().unwrap().len(), &copied["there"][0]["from"]),
        (1, &json!(ids[1]))
    );
    let listed = lab.ok(&format!("snapshots --repo repo --json {path}")).json();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["id"]), (1, &json!(ids[0])));
    // An id names its snapshot, whatever narrows `latest`.
    assert_eq!(lab.ok(&format!("ls --repo repo --host atlas {}", ids[2])).stdout, "third\n");
    lab.run("ls --repo repo latest --host nobody")
        .expect(1)
        .says(&["no snapshot 'latest'", "none of 3 snapshots"]);
    lab.ok("forget --repo repo latest --host atlas");
    let left = lab.ok("snapshots --repo repo --json").json();
    let left: Vec<_> = left.as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert_eq!(left, [json!(ids[0]), json!(ids[2])]);
}

#[test]
fn a_snapshot_that_a_write_only_key_signed_says_so() {
    let lab = Lab::new();
    lab.write("secret", "a password\n");
    let repository = "--repo repo --password-file secret";
    lab.ok("init repo --password-file secret");
    lab.ok(&format!("key add {repository} --write-only client.key --label laptop"));
    let keys = lab.ok(&format!("key list {repository} --json")).json();
    let client = keys[1]["id"].as_str().unwrap().to_owned();
    lab.write("mine/file", "mine");
    let own = lab.ok(&format!("backup {repository} --host atlas mine --json")).summary();
    lab.write("forged/file", "forged");
    lab.ok("backup --repo repo --key-file client.key --host atlas forged");

    let says = ["warning:", &client, "'laptop'", "write-only key"];
    let forged = format!("{repository} latest --host atlas");
    lab.ok(&format!("restore {forged} --target out")).says(&says);
    let done = lab.ok(&format!("restore {forged} --target out --json")).summary();
    let fields = |done: &serde_json::Value| {
        ["from_client", "client", "client_label"].map(|field| done[field].clone())
    };
    assert_eq!(fields(&done), [json!(true), json!(client), json!("laptop")]);
    lab.ok(&format!("ls {forged}")).says(&says);
    lab.ok(&format!("diff {} {forged}", own["snapshot"].as_str().unwrap())).says(&says);

    let line =
        format!("restore {repository} {} --target out --json", own["snapshot"].as_str().unwrap());
    let ran = lab.ok(&line);
    assert_eq!(fields(&ran.summary()), [json!(false), json!(null), json!(null)]);
    assert!(!ran.stderr.contains("write-only"), "{ran:#?}");

    // Of a copy, which the owner signed, the client is no longer known.
    lab.ok("init second --no-encryption");
    lab.ok("copy --repo second --from-repo repo --from-password-file secret");
    let ran = lab.ok("restore --repo second latest --target out --json").says(&["write-only key"]);
    assert_eq!(fields(&ran.summary()), [json!(true), json!(null), json!(null)]);
}
