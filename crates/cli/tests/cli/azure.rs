//! Repositories in an emulator of Azure Blob Storage, and as in Google Cloud Storage.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use onefold_testkit::s3::{Fate, Mishaps, Proxy, Rules, S3Server};
use onefold_testkit::{AzureServer, random};

use crate::lab::{Lab, Ran, number};
use crate::tree::make_version;
use crate::tree_equality::assert_same_tree;

/// A directory in which `onefold` is run, and what it is told of a service.
struct Remote {
    lab: Lab,
    settings: Vec<(&'static str, String)>,
}

impl Remote {
    fn azure(url: String) -> Self {
        let settings = vec![
            ("ONEFOLD_REPOSITORY", "azure:bucket:/backups/laptop".to_owned()),
            (
                "AZURE_STORAGE_CONNECTION_STRING",
                format!(
                    "AccountName={};AccountKey={};BlobEndpoint={url}",
                    AzureServer::ACCOUNT,
                    AzureServer::KEY
                ),
            ),
        ];
        Self { lab: Lab::new(), settings }
    }

    fn google(url: String) -> Self {
        let settings = vec![
            ("ONEFOLD_REPOSITORY", "gs:bucket:/backups/laptop".to_owned()),
            ("STORAGE_EMULATOR_HOST", url),
        ];
        Self { lab: Lab::new(), settings }
    }

    fn command(&self, line: &str) -> Command {
        let mut command = self.lab.command(line);
        command.envs(self.settings.iter().map(|(name, value)| (*name, value.as_str())));
        command
    }

    fn ok(&self, line: &str) -> Ran {
        Ran::of(line, self.command(line).output().unwrap()).expect(0)
    }
}

fn a_repository_is_used_over_an_unreliable_way(remote: &Remote, proxy: &Proxy) {
    for version in [0, 1] {
        make_version(&remote.lab.path(format!("v{version}")), version);
    }
    remote.ok("init --no-encryption");
    remote.ok("backup v0");
    remote.ok("backup v1");
    assert_eq!(number(&remote.ok("check --read-data --json").json(), "snapshots"), 2);
    remote.ok("forget --keep-last 1 --group-by host --prune");
    remote.ok("check --read-data");
    remote.ok("restore latest --target out");
    assert_same_tree(&remote.lab.path("v1"), &remote.lab.path("out"));
    let fates = proxy.fates();
    let mishaps: u64 = Fate::MISHAPS.iter().filter_map(|fate| fates.get(fate)).sum();
    assert!(mishaps >= 10, "{fates:?}");
}

#[test]
fn a_repository_in_azure_is_used_over_a_way_that_loses_every_fifth_request() {
    let Some(server) = AzureServer::start() else { return };
    let proxy = Proxy::start(server.address(), Rules::Conditions, Mishaps { seed: 21, one_in: 5 });
    let remote = Remote::azure(AzureServer::url_at(&proxy.url()));
    a_repository_is_used_over_an_unreliable_way(&remote, &proxy);
}

#[test]
fn a_repository_of_google_is_used_over_a_way_that_loses_every_fifth_request() {
    let Some(server) = S3Server::start() else { return };
    let proxy = Proxy::start(server.address(), Rules::Conditions, Mishaps { seed: 22, one_in: 5 });
    let remote = Remote::google(proxy.url());
    a_repository_is_used_over_an_unreliable_way(&remote, &proxy);
}

/// Backups that are killed and go on, and two at the same time as a prune.
fn a_repository_stays_whole(remote: &Remote) {
    remote.ok("init --no-encryption");
    for number in 0..20 {
        remote.lab.write(format!("one/{number}"), random(number, 1 << 20));
        remote.lab.write(format!("two/{number}"), random(100 + number, 500_000));
    }
    for delay in [200, 600] {
        let mut command = remote.command("backup one --limit-upload 10M");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let start = |line: &str| {
        let mut command = remote.command(line);
        command.env("ONEFOLD_CACHE_DIR", remote.lab.path(format!("cache-{line}")));
        command.env("ONEFOLD_STATE_DIR", remote.lab.path(format!("state-{line}")));
        (line.to_owned(), command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    for (line, child) in
        [start("backup one --host one"), start("backup two --host two"), start("prune")]
    {
        Ran::of(&line, child.wait_with_output().unwrap()).expect(0);
    }
    remote.ok("check --read-data");
    for name in ["one", "two"] {
        remote.ok(&format!("restore latest --host {name} --target out-{name}"));
        assert_same_tree(&remote.lab.path(name), &remote.lab.path(format!("out-{name}")));
    }
}

#[test]
fn kills_two_writers_and_a_prune_leave_azure_whole() {
    let Some(server) = AzureServer::start() else { return };
    a_repository_stays_whole(&Remote::azure(server.url()));
}

#[test]
fn kills_two_writers_and_a_prune_leave_google_whole() {
    let Some(server) = S3Server::start() else { return };
    let proxy = Proxy::start(server.address(), Rules::Conditions, Mishaps { seed: 0, one_in: 0 });
    a_repository_stays_whole(&Remote::google(proxy.url()));
}
