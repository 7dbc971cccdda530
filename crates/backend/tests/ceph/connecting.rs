//! What is said if a cluster or a pool cannot be used.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use onefold_backend::rados::{CephError, CephOptions, RadosCluster};
use onefold_testkit::ceph::{ERASURE_CODED, OSD_BYTES, REPLICATED};
use tempfile::TempDir;

use super::{LONG, ceph, connect, connect_error, expect_text, options};

/// A configuration without a cluster.
struct Nowhere {
    folder: TempDir,
}

impl Nowhere {
    /// One whose monitor is at `address`.
    fn new(address: &str) -> Self {
        let nowhere = Self { folder: tempfile::tempdir().unwrap() };
        let keyring = nowhere.file("keyring");
        let text = format!("[global]\nmon_host = {address}\nkeyring = {}\n", keyring.display());
        put(&nowhere.file("ceph.conf"), &text);
        nowhere
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn options(&self) -> CephOptions {
        CephOptions {
            conf: Some(self.file("ceph.conf")),
            connect_limit: LONG,
            ..CephOptions::default()
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a file of a test")]
fn put(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
}

/// What a key looks like.
const KEY: &str = "AQBAeRxpAAAAABAAn5fnEoPmzX5ROTcAvpkTOw==";

#[test]
fn an_absent_configuration_is_named() {
    let conf = PathBuf::from("/nowhere/ceph.conf");
    let options = CephOptions { conf: Some(conf), ..CephOptions::default() };
    let Some(error) = connect_error(&options) else { return };
    assert!(matches!(error, CephError::NoConfiguration { .. }), "{error}");
    expect_text(&error, &["/nowhere/ceph.conf (No such file or directory"]);
}

#[test]
fn a_configuration_that_is_none_is_named() {
    let nowhere = Nowhere::new("127.0.0.1:1");
    let conf = nowhere.file("ceph.conf");
    put(&conf, "[global\nmon_host = 127.0.0.1:1\n");
    let Some(error) = connect_error(&nowhere.options()) else { return };
    assert!(matches!(error, CephError::BadConfiguration { .. }), "{error}");
    expect_text(&error, &[conf.to_str().unwrap()]);
}

#[test]
fn a_configuration_without_monitors_is_named() {
    let nowhere = Nowhere::new("");
    put(&nowhere.file("keyring"), &format!("[client.admin]\nkey = {KEY}\n"));
    let Some(error) = connect_error(&nowhere.options()) else { return };
    assert!(matches!(error, CephError::BadConfiguration { .. }), "{error}");
    expect_text(&error, &["mon_host", nowhere.file("ceph.conf").to_str().unwrap()]);
}

#[test]
fn a_monitor_that_does_not_answer_is_named() {
    // Takes connections, and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let nowhere = Nowhere::new(&format!("[v2:{address}]"));
    put(&nowhere.file("keyring"), &format!("[client.admin]\nkey = {KEY}\n"));
    let limit = Duration::from_millis(1500);
    let options = CephOptions { connect_limit: limit, ..nowhere.options() };
    let Some(error) = connect_error(&options) else { return };
    assert!(
        matches!(error, CephError::Unreachable { limit, .. } if limit == Duration::from_secs(2)),
        "{error}"
    );
    let conf = nowhere.file("ceph.conf");
    expect_text(&error, &[&address.to_string(), "2s", conf.to_str().unwrap()]);
}

#[test]
fn a_missing_key_is_told_with_the_files_that_were_tried() {
    let nowhere = Nowhere::new("127.0.0.1:1");
    let keyring = nowhere.file("keyring");
    let shown = keyring.display();
    let Some(error) = connect_error(&nowhere.options()) else { return };
    assert!(matches!(error, CephError::NoKey { .. }), "{error}");
    expect_text(&error, &["client.admin", &format!("{shown} (No such file or directory")]);

    put(&keyring, &format!("[client.other]\nkey = {KEY}\n"));
    let error = connect_error(&nowhere.options()).unwrap();
    expect_text(&error, &["client.admin", &format!("{shown} (it has no [client.admin])")]);

    let own = nowhere.file("own");
    let options = CephOptions { keyring: Some(own.clone()), ..nowhere.options() };
    let error = connect_error(&options).unwrap();
    expect_text(&error, &[&format!("{} (No such file or directory", own.display())]);
}

#[test]
fn a_name_that_is_none_is_refused() {
    for user in ["", "a\0b"] {
        let options = CephOptions { user: user.to_owned(), ..CephOptions::default() };
        let Some(error) = connect_error(&options) else { return };
        assert!(matches!(error, CephError::BadName { .. }), "{error}");
    }
}

#[test]
fn a_connection_knows_the_cluster_and_itself() {
    let Some(ceph) = ceph() else { return };
    let (cluster, other) = (connect(&ceph), connect(&ceph));
    assert_eq!(cluster.fsid(), ceph.command(&["fsid"]).trim());
    assert_ne!(cluster.instance(), other.instance());
    assert_ne!(cluster.address().unwrap(), other.address().unwrap());
    let address = cluster.address().unwrap();
    assert!(address.contains("127."), "{address}");
    let error = cluster.fence("nowhere", Duration::from_secs(1)).unwrap_err();
    assert!(matches!(error, CephError::Failed { .. }), "{error}");
    expect_text(&error, &["blocklist nowhere", "Invalid argument"]);
    let space = cluster.space().unwrap();
    // There are three servers.
    assert_eq!(space.total, 3 * OSD_BYTES);
    assert_eq!(space.used + space.available, space.total);
}

#[test]
fn a_key_that_is_not_the_users_is_refused() {
    let Some(ceph) = ceph() else { return };
    ceph.add_user("client.known", &["mon", "allow r"]);
    let folder = tempfile::tempdir().unwrap();
    for user in ["known", "unknown"] {
        let keyring = folder.path().join(user);
        put(&keyring, &format!("[client.{user}]\nkey = {KEY}\n"));
        let own = CephOptions { user: user.to_owned(), keyring: Some(keyring), ..options(&ceph) };
        let error = RadosCluster::connect(&own).unwrap_err();
        assert!(matches!(error, CephError::Forbidden { .. }), "{error}");
        expect_text(&error, &[&format!("ceph auth get client.{user}")]);
    }
}

#[test]
fn a_pool_that_is_missing_or_forbidden_is_named() {
    let Some(ceph) = ceph() else { return };
    let error = connect(&ceph).pool("absent", "").unwrap_err();
    assert!(matches!(error, CephError::NoPool { .. }), "{error}");
    expect_text(&error, &["no pool absent", "ceph osd pool create absent"]);

    let may = format!("allow rw pool={REPLICATED} namespace=mine");
    let keyring = ceph.add_user("client.limited", &["mon", "allow r", "osd", &may]);
    let own = CephOptions { user: "limited".to_owned(), keyring: Some(keyring), ..options(&ceph) };
    let cluster = RadosCluster::connect(&own).unwrap();
    cluster.pool(REPLICATED, "mine").unwrap();
    for (pool, namespace) in [(REPLICATED, "other"), (ERASURE_CODED, "mine")] {
        let error = cluster.pool(pool, namespace).unwrap_err();
        assert!(matches!(error, CephError::Forbidden { .. }), "{error}");
        expect_text(&error, &["client.limited", &format!("write to the pool {pool}")]);
    }
    let error = cluster.fence("127.0.0.1:0/1", Duration::from_secs(1)).unwrap_err();
    assert!(matches!(error, CephError::Forbidden { .. }), "{error}");
}
