//! Repositories in a real S3 server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use onefold_testkit::s3::{Fate, Mishaps, Proxy, Rules, S3Server};

use crate::lab::{Lab, Ran, number};
use crate::tree::make_version;
use crate::tree_equality::assert_same_tree;

const REPO: &str = "s3://bucket/backups/laptop";

const NO_MISHAPS: Mishaps = Mishaps { seed: 0, one_in: 0 };

/// A directory in which `onefold` is run, and the service that it is told of.
pub(crate) struct Remote {
    pub(crate) lab: Lab,
    endpoint: String,
}

impl Remote {
    pub(crate) fn new(endpoint: String) -> Self {
        Self { lab: Lab::new(), endpoint }
    }

    /// `onefold` with the words of `line` for arguments and the repository in the environment.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = self.lab.command(line);
        for variable in ["AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"] {
            command.env_remove(variable);
        }
        command
            .env("ONEFOLD_REPOSITORY", REPO)
            .env("AWS_ENDPOINT_URL", &self.endpoint)
            .env("AWS_ACCESS_KEY_ID", "test")
            .env("AWS_SECRET_ACCESS_KEY", "test");
        command
    }

    fn run(&self, line: &str) -> Ran {
        Ran::of(line, self.command(line).output().unwrap())
    }

    pub(crate) fn ok(&self, line: &str) -> Ran {
        self.run(line).expect(0)
    }
}

#[test]
fn a_tree_comes_back_over_a_way_that_loses_every_fifth_request() {
    let Some(server) = S3Server::start() else { return };
    let proxy = Proxy::start(server.address(), Rules::Conditions, Mishaps { seed: 11, one_in: 5 });
    let remote = Remote::new(proxy.url());
    for version in [0, 1] {
        make_version(&remote.lab.path(format!("v{version}")), version);
    }
    remote.ok("init --no-encryption");
    let first = remote.ok("backup --json v0").summary();
    let second = remote.ok("backup --json v1").summary();
    assert!(number(&first, "new_bytes") > 10 * number(&second, "new_bytes"), "{first} {second}");
    let checked = remote.ok("check --read-data --json").json();
    assert_eq!(number(&checked, "snapshots"), 2);

    let listed = remote.ok("snapshots --json").json();
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
    let ids = [&first, &second].map(|made| made["snapshot"].as_str().unwrap().to_owned());
    assert!(remote.ok(&format!("ls {}", ids[0])).stdout.contains("only-in-0"));
    assert!(remote.ok(&format!("diff {} {}", ids[0], ids[1])).stdout.contains("only-in-1"));
    assert!(number(&remote.ok("stats --json").json(), "containers") > 0);
    for (version, id) in ids.iter().enumerate() {
        let target = remote.lab.path(format!("out{version}"));
        remote.ok(&format!("restore {id} --target {}", target.display()));
        assert_same_tree(&remote.lab.path(format!("v{version}")), &target);
        fs::remove_dir_all(target).unwrap();
    }

    let fates = proxy.fates();
    let mishaps: u64 = Fate::MISHAPS.iter().filter_map(|fate| fates.get(fate)).sum();
    assert!(mishaps >= 10, "{fates:?}");
}

#[test]
fn a_service_that_puts_over_what_is_there_is_refused_unless_that_is_wanted() {
    let Some(server) = S3Server::start() else { return };
    let proxy = Proxy::start(server.address(), Rules::NoConditions, NO_MISHAPS);
    let remote = Remote::new(proxy.url());
    remote.lab.write("src/a", "x");
    remote.run("init --no-encryption").expect(1).says(&[
        "overwrites objects",
        "If-None-Match",
        "--no-conditional-put",
    ]);
    remote.run("snapshots").expect(10).says(&["there is no repository in", REPO]);

    let unsafely = "--s3-no-conditional-put";
    remote.ok(&format!("init --no-encryption {unsafely}"));
    remote.run("init --no-encryption").expect(1).says(&["there is a repository already"]);
    remote.run("backup src").expect(1).says(&["--no-conditional-put"]);
    remote.ok(&format!("backup src {unsafely}"));
    remote.run(&format!("prune {unsafely}")).expect(1).says(&["--unsafe-no-conditional-put"]);
    remote.ok(&format!("prune {unsafely} --dry-run"));
    remote.ok(&format!("prune {unsafely} --unsafe-no-conditional-put"));
    // Reading puts nothing.
    remote.ok("check --read-data");
    remote.ok("restore latest --target out");
    assert_same_tree(&remote.lab.path("src"), &remote.lab.path("out"));
}

#[test]
fn what_cannot_be_reached_is_named() {
    let remote = Remote::new("http://127.0.0.1:9".into());
    remote.run("snapshots --s3-retry-for 0").expect(1).says(&[
        "cannot open the repository in 's3://bucket/backups/laptop'",
        "s3://bucket/backups/laptop at http://127.0.0.1:9 cannot be reached",
    ]);
    remote.run("snapshots --repo s3://Bad").expect(1).says(&["s3://Bad", "name of a bucket"]);
}

#[test]
fn a_client_that_may_neither_delete_nor_overwrite_backs_up_and_restores() {
    let Some(server) = S3Server::start() else { return };
    let proxy = Proxy::start(server.address(), Rules::AppendOnly, NO_MISHAPS);
    let remote = Remote::new(proxy.url());
    remote.lab.write("src/a", "x");
    remote.ok("init --append-only --no-encryption");
    for content in ["y", "z"] {
        remote.lab.write("src/b", content);
        remote.lab.settle();
        remote.ok("backup --append-only src");
    }
    remote.ok("check --append-only --read-data");
    remote.ok("restore latest --target out");
    assert_same_tree(&remote.lab.path("src"), &remote.lab.path("out"));
}

#[test]
fn an_encrypted_repository_is_pruned_over_a_way_that_loses_every_fifth_request() {
    let Some(server) = S3Server::start() else { return };
    let proxy = Proxy::start(server.address(), Rules::Conditions, Mishaps { seed: 12, one_in: 5 });
    let remote = Remote::new(proxy.url());
    remote.lab.write("secret", "correct horse battery staple\n");
    let ok = |line: &str| remote.ok(&format!("{line} --password-file secret"));
    for version in [0, 1] {
        make_version(&remote.lab.path(format!("v{version}")), version);
    }
    ok("init --padding");
    let first = ok("backup --json v0").summary();
    ok("key rotate");
    ok("backup v1");
    let before = number(&ok("stats --json").json(), "stored_bytes");
    ok(&format!("forget {}", first["snapshot"].as_str().unwrap()));
    let pruned = ok("prune --max-unused 0 --json").json();
    assert!(number(&pruned, "deleted_containers") > 0, "{pruned}");
    assert!(number(&ok("stats --json").json(), "stored_bytes") < before);
    let checked = ok("check --read-data --json").json();
    assert_eq!((number(&checked, "snapshots"), &checked["findings"]), (1, &serde_json::json!([])));
    ok("restore latest --target out");
    assert_same_tree(&remote.lab.path("v1"), &remote.lab.path("out"));
    let again = ok("prune --max-unused 0 --json").json();
    assert_eq!(number(&again, "deleted_containers"), 0, "{again}");
    remote.run("snapshots").expect(1).says(&["a password is needed"]);
    let fates = proxy.fates();
    let mishaps: u64 = Fate::MISHAPS.iter().filter_map(|fate| fates.get(fate)).sum();
    assert!(mishaps >= 10, "{fates:?}");
}

#[test]
fn a_prune_that_may_not_delete_is_refused_or_harms_nothing() {
    let Some(server) = S3Server::start() else { return };
    let limited = Proxy::start(server.address(), Rules::AppendOnly, NO_MISHAPS);
    let free = Remote::new(server.url());
    let client = Remote { lab: Lab::new(), endpoint: limited.url() };
    free.ok("init --no-encryption");
    make_version(&client.lab.path("v"), 0);
    client.ok("backup v");
    fs::remove_dir_all(client.lab.path("v")).unwrap();
    make_version(&client.lab.path("v"), 1);
    client.lab.settle();
    client.ok("backup v");
    for line in ["prune --append-only", "forget --keep-last 1 --append-only"] {
        free.run(line)
            .expect(1)
            .says(&["deletes objects, which --append-only forbids", "--dry-run"]);
        free.ok(&format!("{line} --dry-run"));
    }
    // The policy of the bucket forbids it, whatever the client asks for.
    client.run("forget --keep-last 1").expect(1).says(&["cannot delete", "intents/"]);
    assert_eq!(free.ok("snapshots --json").json().as_array().unwrap().len(), 2);
    free.ok("forget --keep-last 1");
    client.run("prune --max-unused 0").expect(1).says(&["cannot delete"]);
    free.ok("check --read-data");
    client.ok("backup v");
    let pruned = free.ok("prune --max-unused 0 --json").json();
    assert!(number(&pruned, "deleted_containers") > 0, "{pruned}");
    free.ok("check --read-data");
    free.ok("restore latest --target out");
    assert_same_tree(&client.lab.path("v"), &free.lab.path("out"));
}

/// Every copy that the cache of `lab` has.
fn copies(lab: &Lab) -> Vec<PathBuf> {
    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for path in entries.map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => below(&path, found),
                false => found.push(path),
            }
        }
    }
    let mut found = Vec::new();
    for repository in fs::read_dir(lab.path("cache")).unwrap() {
        below(&repository.unwrap().path().join("objects"), &mut found);
    }
    found
}

#[test]
fn what_never_changes_is_kept_is_shown_and_may_be_damaged_or_removed() {
    let Some(server) = S3Server::start() else { return };
    let remote = Remote::new(server.url());
    make_version(&remote.lab.path("v0"), 0);
    remote.ok("init --no-encryption");
    for line in ["backup v0 --no-cache", "ls latest --no-cache"] {
        let mut command = remote.command(line);
        command.env_remove("ONEFOLD_CACHE_DIR").env("XDG_CACHE_HOME", remote.lab.path("xdg"));
        Ran::of(line, command.output().unwrap()).expect(0);
    }
    assert!(!fs::exists(remote.lab.path("xdg")).unwrap());
    let restore = |options: &str| {
        remote.ok(&format!("restore latest --target out {options}"));
        assert_same_tree(&remote.lab.path("v0"), &remote.lab.path("out"));
        fs::remove_dir_all(remote.lab.path("out")).unwrap();
    };

    restore("");
    let kept = copies(&remote.lab);
    let bytes: u64 = kept.iter().map(|copy| copy.metadata().unwrap().len()).sum();
    let listed = remote.ok("cache list --json").json();
    assert!(bytes > 0);
    assert_eq!(number(&listed[0], "copy_bytes"), bytes);
    assert!(number(&listed[0], "bytes") > bytes);
    assert!(remote.ok("cache list").stdout.contains("copies"));

    for copy in &kept {
        fs::write(copy, "damaged").unwrap();
    }
    let ran = remote.ok("restore latest --target out");
    assert_eq!(ran.stderr.lines().filter(|line| line.contains("warning")).count(), 0, "{ran:?}");
    assert_same_tree(&remote.lab.path("v0"), &remote.lab.path("out"));
    fs::remove_dir_all(remote.lab.path("out")).unwrap();
    let again: u64 = kept.iter().map(|copy| copy.metadata().unwrap().len()).sum();
    assert_eq!(again, bytes, "each was fetched anew");

    remote.ok("cache remove --all");
    assert_eq!(copies(&remote.lab).len(), 0);
    restore("--cache-size 1KiB");
    assert_eq!(copies(&remote.lab).len(), 0, "a shard of 16 bytes holds nothing");
    restore("");
    assert_eq!(copies(&remote.lab).len(), kept.len());
}

#[test]
fn a_removed_password_opens_nothing_whatever_was_copied() {
    let Some(server) = S3Server::start() else { return };
    let remote = Remote::new(server.url());
    remote.lab.write("first", "correct horse battery staple\n");
    remote.lab.write("second", "of somebody who leaves\n");
    make_version(&remote.lab.path("v0"), 0);
    remote.ok("init --password-file first");
    remote.ok("key add --password-file first --new-password-file second --label leaver");
    remote.ok("backup v0 --password-file second");
    remote.ok("restore latest --target out --password-file second");
    assert!(!copies(&remote.lab).is_empty());

    // Somebody else removes it, with another cache.
    let other = Remote { lab: Lab::new(), endpoint: server.url() };
    other.lab.write("first", "correct horse battery staple\n");
    let keys = other.ok("key list --password-file first --json").json();
    let keys = keys.as_array().unwrap();
    let leaver = keys.iter().find(|key| key["label"] == "leaver").unwrap();
    let id = leaver["id"].as_str().unwrap();
    other.ok(&format!("key remove {id} --password-file first"));
    remote.run("snapshots --password-file second").expect(12);
    remote.ok("snapshots --password-file first");
    remote.ok("ls latest --password-file first");
}
