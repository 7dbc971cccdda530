//! Repositories are encrypted unless the user says otherwise, and open for their passwords only.

use std::fs;

use crate::lab::{Lab, Ran};
use crate::tree::make_version;
use crate::tree_equality::assert_same_tree;

/// A lab with an encrypted repository `repo` whose password is in `secret`.
fn with_encrypted() -> Lab {
    let lab = Lab::new();
    lab.write("secret", "correct horse battery staple\n");
    let ran = lab.ok("init repo --password-file secret");
    assert!(ran.stdout.contains("encrypted; without a password"), "{ran:#?}");
    lab
}

fn with_variable(lab: &Lab, line: &str, password: &str) -> Ran {
    Ran::of(line, lab.command(line).env("ONEFOLD_PASSWORD", password).output().unwrap())
}

#[test]
fn what_goes_into_an_encrypted_repository_comes_out_as_it_was() {
    let lab = with_encrypted();
    let version = lab.path("version");
    make_version(&version, 1);
    lab.settle();
    let made = lab.ok("backup --repo repo --password-file secret --json version").summary();
    assert_eq!(made["unreadable"], 0, "{made}");
    let again = lab.ok("backup --repo repo --password-file secret --json version").summary();
    assert_eq!((&again["new_bytes"], &again["unchanged_files"]), (&0.into(), &made["files"]));
    lab.ok("check --repo repo --password-file secret --read-data");
    let restored = lab.ok("restore --repo repo --password-file secret latest --target out");
    assert!(restored.stderr.is_empty(), "{restored:#?}");
    assert_same_tree(&version, &lab.path("out"));
    for line in ["snapshots", "stats", "ls latest", "diff latest latest"] {
        lab.ok(&format!("{line} --repo repo --password-file secret"));
    }
}

#[test]
fn a_password_comes_from_a_file_a_command_or_the_environment() {
    let lab = with_encrypted();
    lab.write("lines", "correct horse battery staple\r\nand another line");
    lab.ok("snapshots --repo repo --password-file lines");
    let mut command = lab.command("snapshots --repo repo --password-command");
    let ran = Ran::of("--password-command", command.arg("cat secret").output().unwrap());
    ran.expect(0);
    with_variable(&lab, "snapshots --repo repo", "correct horse battery staple").expect(0);
    // what is said on the command line goes before the environment
    let line = "snapshots --repo repo --password-file secret";
    with_variable(&lab, line, "wrong").expect(0);
    let line = "snapshots --repo repo --password-file secret --password-command x";
    lab.run(line).expect(1).says(&["cannot be used with"]);
}

#[test]
fn a_wrong_password_is_12() {
    let lab = with_encrypted();
    lab.write("wrong", "correct horse");
    lab.write("src/a", "x");
    for line in ["snapshots", "check", "stats", "backup src", "restore latest --target out"] {
        let ran = lab.run(&format!("{line} --repo repo --password-file wrong")).expect(12);
        ran.says(&["wrong password", "'repo'"]);
    }
    assert!(!lab.path("out").exists());
    with_variable(&lab, "snapshots --repo repo", "wrong").expect(12);
    let ran = lab.run("snapshots --repo repo --password-file wrong --json").expect(12);
    let error: serde_json::Value = serde_json::from_str(&ran.stderr).unwrap();
    assert_eq!(error["code"], 12, "{error}");
}

#[test]
fn without_a_password_and_somebody_to_ask_nothing_is_opened_or_made() {
    let lab = with_encrypted();
    lab.write("src/a", "x");
    for line in ["snapshots --repo repo", "init new", "backup --repo new --init src"] {
        lab.run(line).expect(1).says(&["a password is needed", "hint: give it by --password-file"]);
    }
    lab.write("empty", "\nsecond line");
    lab.run("init new --password-file empty").expect(1).says(&["'empty'", "empty"]);
    lab.run("init new --password-file missing").expect(1).says(&["'missing'", "No such file"]);
    lab.run("init new --password-command false").expect(1).says(&["'false'", "failed"]);
    lab.run("init new --password-command true").expect(1).says(&["'true'", "empty"]);
    assert!(!lab.path("new").exists());
}

#[test]
fn a_backup_makes_an_encrypted_repository_unless_told_not_to() {
    let lab = Lab::new();
    lab.write("secret", "one");
    lab.write("src/a", "PLANTED");
    let ran = lab.ok("backup --repo new --init --password-file secret src");
    ran.says(&["made a repository in", ", encrypted;"]);
    lab.run("snapshots --repo new --password-file src/a").expect(12);
    let ran = lab.ok("backup --repo new --init --password-file secret src");
    assert!(ran.stderr.is_empty(), "it was there already: {ran:#?}");
    let ran = lab.ok("backup --repo plain --init --no-encryption src");
    assert!(ran.stderr.contains("not encrypted") && !ran.stderr.contains("warning"), "{ran:#?}");
    let made = lab.ok("init json --password-file secret --json").json();
    let keyed = (&true.into(), &"blake3-keyed".into());
    assert_eq!((&made["encrypted"], &made["fingerprint"]), keyed);
    let made = lab.ok("init json-plain --no-encryption --json").json();
    assert_eq!((&made["encrypted"], &made["fingerprint"]), (&false.into(), &"blake3".into()));
}

#[test]
fn a_chunker_without_anything_to_key_is_warned_of() {
    let lab = Lab::new();
    lab.write("secret", "one");
    lab.ok("init ram --algorithm ram --password-file secret").says(&["ram has nothing to key"]);
    let ran = lab.ok("init aes --algorithm gear-aes --password-file secret");
    assert!(ran.stderr.is_empty(), "{ran:#?}");
}

#[test]
fn a_password_for_a_repository_in_clear_is_refused() {
    let lab = Lab::new();
    lab.ok("init repo --no-encryption");
    lab.write("src/a", "x");
    lab.write("secret", "one");
    // Somebody may have put it where an encrypted one was.
    for line in ["snapshots", "backup src", "backup --init src"] {
        let ran = lab.run(&format!("{line} --repo repo --password-file secret")).expect(1);
        ran.says(&["--password-file", "the repository is not encrypted", "hint:"]);
    }
    assert!(!lab.path("repo/snapshots").exists());
    for line in ["key list", "key rotate", "key add --new-password-file secret", "key remove 12"] {
        let ran = lab.run(&format!("{line} --repo repo")).expect(1);
        ran.says(&["the repository is not encrypted and has no keys"]);
    }
}

#[test]
fn a_password_in_the_environment_and_no_encryption_contradict_each_other_in_every_command() {
    let lab = Lab::new();
    lab.write("src/a", "x");
    for line in ["init new --no-encryption", "backup --repo new --init --no-encryption src"] {
        with_variable(&lab, line, "secret").expect(1).says(&[
            "a password was given by ONEFOLD_PASSWORD",
            "--no-encryption",
            "hint: run it without ONEFOLD_PASSWORD, or without --no-encryption",
        ]);
        assert!(!lab.path("new").exists(), "{line}");
    }
    lab.ok("backup --repo repo --init --no-encryption src");
    for line in ["snapshots", "backup src", "backup --init --no-encryption src", "check"] {
        let ran = with_variable(&lab, &format!("{line} --repo repo"), "secret").expect(1);
        ran.says(&[
            "ONEFOLD_PASSWORD, but the repository is not encrypted",
            "hint: run it without",
        ]);
    }
    with_variable(&lab, "snapshots --repo repo", "").expect(0);
}

#[test]
fn keys_are_added_listed_and_removed() {
    let lab = with_encrypted();
    lab.write("second", "another");
    lab.write("src/a", "x");
    lab.ok("backup --repo repo --password-file secret src");
    let line = "key add --repo repo --password-file secret --new-password-file second --label two";
    let added = lab.ok(&format!("{line} --json")).json();
    let keys = lab.ok("key list --repo repo --password-file second --json").json();
    let fields = |field: &str| [&keys[0][field], &keys[1][field]];
    assert_eq!(fields("label"), [&"".into(), &"two".into()] as [&serde_json::Value; 2]);
    assert_eq!(fields("in_use"), [&false.into(), &true.into()] as [&serde_json::Value; 2]);
    assert_eq!(fields("memory_kib"), [&49152.into(); 2] as [&serde_json::Value; 2]);
    assert_eq!(keys[1]["id"], added["id"]);
    let [first, second] = fields("id").map(|id| id.as_str().unwrap().to_owned());
    let listed = lab.ok("key list --repo repo --password-file second").stdout;
    assert!(listed.contains(&first[..8]) && listed.contains("two"), "{listed}");

    let remove = |with: &str, key: &str| {
        lab.run(&format!("key remove --repo repo --password-file {with} {key}"))
    };
    remove("second", &second).expect(1).says(&["the one that the repository was opened with"]);
    remove("second", "xyz").expect(1).says(&["'xyz' fits 0 keys", "hint: `onefold key list`"]);
    let ran = remove("second", &first[..10]).expect(0);
    ran.says(&["no longer opens the repository", "not locked out"]);
    lab.run("snapshots --repo repo --password-file secret").expect(12);
    remove("second", &second).expect(1).says(&["the last one"]);
    lab.ok("check --repo repo --password-file second --read-data");
    lab.ok("restore --repo repo --password-file second latest --target out");
    assert_eq!(fs::read(lab.path("out/a")).unwrap(), b"x");
}

#[test]
fn a_rotation_keeps_everything_readable() {
    let lab = with_encrypted();
    lab.write("src/a", "first");
    lab.ok("backup --repo repo --password-file secret src");
    let made = lab.ok("key rotate --repo repo --password-file secret --json").json();
    assert_eq!(made["epoch"], 1);
    lab.write("src/b", "second");
    lab.settle();
    let ran = lab.ok("backup --repo repo --password-file secret --verbose src");
    ran.says(&["encrypted, key epoch 1"]);
    lab.ok("check --repo repo --password-file secret --read-data");
    lab.ok("restore --repo repo --password-file secret latest --target out");
    assert_same_tree(&lab.path("src"), &lab.path("out"));
    let ran = lab.ok("key rotate --repo repo --password-file secret");
    assert!(ran.stdout.contains("key epoch 2"), "{ran:#?}");
}

#[test]
fn missing_damaged_and_foreign_keys_are_named() {
    let lab = with_encrypted();
    lab.ok("init other --password-file secret");
    let key_of = |repository: &str| {
        let mut entries = fs::read_dir(lab.path(format!("{repository}/keys"))).unwrap();
        entries.next().unwrap().unwrap().path()
    };
    let (own, foreign) = (key_of("repo"), key_of("other"));
    let whole = fs::read(&own).unwrap();
    let name = own.file_name().unwrap().to_str().unwrap().to_owned();
    fs::write(&own, &whole[..whole.len() / 2]).unwrap();
    let list = "snapshots --repo repo --password-file secret";
    lab.run(list).expect(1).says(&[&name, "damaged"]);
    fs::copy(&foreign, &own).unwrap();
    lab.run(list).expect(1).says(&["there is no key", "1 of other repositories"]);
    fs::remove_file(&own).unwrap();
    lab.run(list).expect(1).says(&["there is no key", "nobody can open it"]);
    fs::write(&own, &whole).unwrap();
    lab.ok(list);
    fs::copy(lab.path("other/config"), lab.path("repo/config")).unwrap();
    lab.run(list).expect(1).says(&["another repository"]);
    let fresh = format!("{list} --state-dir fresh");
    lab.run(&fresh).expect(1).says(&["there is no key of repository"]);
}

#[test]
fn a_write_only_key_backs_up_and_does_nothing_else() {
    let lab = with_encrypted();
    make_version(&lab.path("version"), 0);
    lab.ok("backup --repo repo --password-file secret version");
    lab.ok("key add --repo repo --password-file secret --label laptop --write-only client.key");
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(lab.path("client.key")).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    let again = "key add --repo repo --password-file secret --write-only client.key";
    lab.run(again).expect(1).says(&["cannot write the key to 'client.key'", "exists"]);
    fs::remove_dir_all(lab.path("version")).unwrap();
    make_version(&lab.path("version"), 1);
    lab.settle();
    let made = lab.ok("backup --repo repo --key-file client.key --json version").summary();
    assert_eq!((&made["unchanged_files"], &made["unreadable"]), (&0.into(), &0.into()), "{made}");
    for line in [
        "snapshots",
        "check",
        "stats",
        "ls latest",
        "restore latest --target out",
        "forget --keep-last 1",
        "prune",
        "key list",
        "key rotate",
        "key add --write-only other.key",
    ] {
        let ran = lab.run(&format!("{line} --repo repo --key-file client.key")).expect(1);
        ran.says(&["can back up and do nothing else"]);
    }
    assert!(!lab.path("other.key").exists());
    lab.ok("check --repo repo --password-file secret --read-data");
    lab.ok("restore --repo repo --password-file secret latest --target out");
    assert_same_tree(&lab.path("version"), &lab.path("out"));
    // Its owner takes the key back: what it made stays, and it is told.
    let listed = lab.ok("key list --repo repo --password-file secret --json").json();
    let client = listed.as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        (&client["opened_by"], &client["removed"]),
        (&"write-only key".into(), &"no".into())
    );
    let id = client["id"].as_str().unwrap().to_owned();
    let shown = lab.ok("key list --repo repo --password-file secret").stdout;
    assert!([&id, "laptop", "write-only key"].iter().all(|text| shown.contains(text)), "{shown}");
    let remove = format!("key remove --repo repo --password-file secret --json {id}");
    let removed = lab.ok(&remove).json();
    assert_eq!(removed["kept"], serde_json::json!([made["snapshot"]]));
    assert_eq!(lab.ok(&remove).json(), removed);
    let shown = lab.ok("key list --repo repo --password-file secret").stdout;
    assert!(shown.contains("revoked"), "{shown}");
    let line = "backup --repo repo --key-file client.key version";
    lab.run(line).expect(12).says(&[&id, "was revoked", "hint:", "--write-only"]);
    let listed = lab.ok("snapshots --repo repo --password-file secret --json").json();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    lab.ok("check --repo repo --password-file secret --read-data");
    // A key that is not whole, and one for a repository in clear.
    lab.write("half.key", &fs::read(lab.path("client.key")).unwrap()[..200]);
    let line = "backup --repo repo --key-file half.key version";
    lab.run(line).expect(1).says(&["cannot use 'half.key'", "not a whole write-only key"]);
    lab.ok("init plain --no-encryption");
    // With the repository gone, none is made for a client that can only write.
    for rest in ["", "--no-encryption"] {
        let line = format!("backup --init --repo nothing --key-file client.key {rest} version");
        lab.run(&line).expect(1).says(&["cannot create one", "client.key"]);
        assert!(!lab.path("nothing/config").exists());
    }
    let line = "backup --repo plain --key-file client.key version";
    lab.run(line).expect(1).says(&["the repository is not encrypted"]);
}

#[test]
fn a_removal_that_was_seen_and_is_gone_is_not_settled_by_a_repair() {
    let lab = with_encrypted();
    lab.write("source/file", "content");
    let repository = "--repo repo --password-file secret";
    lab.ok(&format!("key add {repository} --write-only client.key"));
    lab.ok("backup --repo repo --key-file client.key source");
    let listed = lab.ok(&format!("key list {repository} --json")).json();
    let id = listed.as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned();
    lab.ok(&format!("key remove {repository} {id}"));
    lab.ok(&format!("snapshots {repository}"));
    let record = lab.path(format!("repo/clients/00000000{id}0000000000000002"));
    let whole = fs::read(&record).unwrap();
    fs::remove_file(&record).unwrap();
    lab.run(&format!("check {repository} --repair")).expect(1).says(&["nothing is repaired"]);
    lab.run(&format!("snapshots {repository}")).expect(13).says(&["was revoked", "from a copy"]);
    let ran = lab.run(&format!("key list {repository} --json")).expect(13);
    assert_eq!(ran.json().as_array().unwrap().last().unwrap()["removed"], "hidden");
    let remove = format!("key remove {repository} {id}");
    lab.run(&remove).expect(1).says(&["was revoked", "hint:", "--even-damaged"]);
    fs::write(&record, whole).unwrap();
    lab.ok(&format!("check {repository} --repair"));
    lab.ok(&remove);
}

#[test]
fn a_private_key_opens_what_its_file_names() {
    let lab = with_encrypted();
    lab.write("source/file", "content");
    lab.ok("backup --repo repo --password-file secret source");
    let public = lab.ok("key generate pair").stdout;
    assert!(public.starts_with("onefold-public-key-1:"), "{public}");
    lab.run("key generate pair").expect(1).says(&["pair"]);
    lab.write("pair.pub", &public);
    lab.run("snapshots --repo repo --key-file pair").expect(12);
    let line = "key add --repo repo --password-file secret --public-key pair.pub --label laptop";
    let trust = lab.ok(line).stdout;
    lab.run("snapshots --repo repo --key-file pair")
        .expect(1)
        .says(&["of which its file says nothing", "hint: if it is yours"]);
    let private = fs::read_to_string(lab.path("pair")).unwrap();
    lab.write("pair", format!("{private}{trust}"));
    lab.ok("restore --repo repo --key-file pair latest --target out");
    assert_eq!(fs::read(lab.path("out/file")).unwrap(), b"content");
    lab.ok("backup --repo repo --key-file pair source");
    let keys = lab.ok("key list --repo repo --key-file pair --json").json();
    let opened_by: Vec<_> = keys.as_array().unwrap().iter().map(|key| &key["opened_by"]).collect();
    assert_eq!(opened_by, ["password", "private key"]);
    assert_eq!((&keys[1]["label"], &keys[1]["in_use"]), (&"laptop".into(), &true.into()));
    lab.run("snapshots --repo repo --key-file pair.pub").expect(1).says(&["write-only key"]);
    // Only one of the keys may be tried.
    let [of_password, of_pair] = [0, 1].map(|at| keys[at]["id"].as_str().unwrap().to_owned());
    lab.ok(&format!("snapshots --repo repo --key-file pair --key {}", &of_pair[..8]));
    let other = format!("snapshots --repo repo --key-file pair --key {}", &of_password[..8]);
    lab.run(&other).expect(12).says(&["opens none of 0 keys"]);
}

#[test]
fn garbage_among_the_keys_is_named_and_removed() {
    let lab = with_encrypted();
    for number in 0..1100 {
        lab.write(format!("repo/keys/{number:032x}"), "x");
    }
    let own = fs::read_dir(lab.path("repo/keys")).unwrap();
    let own = own.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let own = own.filter(|name| !name.starts_with("0000000000")).collect::<Vec<_>>();
    let [own] = &own[..] else { panic!("{own:?}") };
    lab.run("snapshots --repo repo --password-file secret")
        .expect(1)
        .says(&["were not tried", "hint: name your key with --key"]);
    let with = format!("--repo repo --password-file secret --key {}", &own[..12]);
    lab.ok(&format!("snapshots {with}"));
    let removed = lab.ok(&format!("key remove {with} --unreadable --json")).json();
    assert_eq!(removed["removed"].as_array().unwrap().len(), 1100);
    assert_eq!(removed["left"], serde_json::json!([]));
    lab.ok("snapshots --repo repo --password-file secret");
    // What may be a real key that is damaged takes a word.
    let id = lab.ok(&format!("key add {with} --new-password-file secret --json")).json();
    let path = format!("repo/keys/{}", id["id"].as_str().unwrap());
    let mut damaged = fs::read(lab.path(&path)).unwrap();
    damaged[100] ^= 1;
    fs::write(lab.path(&path), damaged).unwrap();
    let refused = lab.run(&format!("key remove {with} --unreadable")).expect(1);
    refused.says(&[
        "does not open and was not removed",
        "may be damaged",
        "hint:",
        "--even-damaged",
    ]);
    assert!(lab.path(&path).exists());
    lab.ok(&format!("key remove {with} --unreadable --even-damaged"));
    assert!(!lab.path(&path).exists());
}
