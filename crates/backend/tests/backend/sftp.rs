//! Objects behind OpenSSH's own server, over a way that is reliable and over one that is cut.

use std::cell::Cell;
use std::fs;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use onefold_backend::{
    BackendError, ErrorKind, LocalObjects, Objects, RateLimit, RemoteOptions, Request, RetryPolicy,
    Retrying, SftpLocation, SftpObjects, Span, conformance,
};
use onefold_testkit::{Cutter, SshServer, make_key, random};

const POLICY: RetryPolicy = RetryPolicy {
    first: Duration::from_millis(5),
    longest: Duration::from_millis(20),
    // a machine that is busy takes long over twelve attempts at 20 MiB
    total: Duration::from_secs(600),
};

const SERVER: &str = "/usr/lib/openssh/sftp-server";

fn options(config: &Path) -> RemoteOptions {
    RemoteOptions { ssh_config: Some(config.to_owned()), ..RemoteOptions::from_environment() }
}

fn open(root: &Path, options: &RemoteOptions) -> SftpObjects {
    let location = SftpLocation::parse(&format!("sftp:target:{}", root.display())).unwrap();
    SftpObjects::open(&location, options).unwrap()
}

/// The whole of an error, with its causes.
fn told(error: &BackendError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

/// Every file below `folder` that no object has the name of.
fn leftovers(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(leftovers(&path)),
            false if path.to_str().unwrap().contains('#') => found.push(path.display().to_string()),
            false => {}
        }
    }
    found
}

#[test]
fn objects_by_sftp_conform() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_server) = SshServer::start(folder.path()) else { return };
    let (options, count) = (options(&folder.path().join("config")), Cell::new(0));
    conformance::objects(|| {
        count.set(count.get() + 1);
        Box::new(open(&folder.path().join(format!("new/root{}", count.get())), &options))
    });
    assert_eq!(leftovers(&folder.path().join("new")), [""; 0]);
}

#[test]
fn objects_conform_by_a_program_that_speaks_sftp() {
    if !Path::new(SERVER).exists() {
        return onefold_testkit::skip("there is no sftp-server; `cargo xtask test` installs it");
    }
    let (folder, count) = (tempfile::tempdir().unwrap(), Cell::new(0));
    let options =
        RemoteOptions { sftp_command: Some(SERVER.into()), ..RemoteOptions::from_environment() };
    conformance::objects(|| {
        count.set(count.get() + 1);
        Box::new(open(&folder.path().join(count.get().to_string()), &options))
    });
}

#[test]
fn objects_by_sftp_conform_over_a_way_that_is_cut_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = SshServer::start(folder.path()) else { return };
    let cutter = Cutter::start(server.address());
    let options = options(&server.write_config("cut", cutter.address()));
    // up to twice what the suite's largest object takes, which then passes
    cutter.cut_after_each((0..12).map(|doubled| 20_000 << doubled).cycle());
    let count = Cell::new(0);
    conformance::objects(|| {
        count.set(count.get() + 1);
        let objects = open(&folder.path().join(format!("root{}", count.get())), &options);
        Box::new(Retrying::new(objects, "target", POLICY))
    });
    assert!(cutter.connections() > count.get() + 10, "{} connections", cutter.connections());
}

#[test]
fn a_put_succeeds_wherever_the_connection_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = SshServer::start(folder.path()) else { return };
    let cutter = Cutter::start(server.address());
    let whole_way = options(&server.write_config("cut", cutter.address()));
    let bytes = Bytes::from(random(1, 100_000));
    let root = folder.path().join("whole");
    open(&root, &whole_way).put("a/b", bytes.clone()).unwrap();
    let whole = cutter.passed();
    assert!(whole > 100_000, "{whole}");
    // Every phase: the handshake, the probe, directories, the write, the link, what is removed.
    let cuts: Vec<u64> =
        (0..10).map(|part| part * 600).chain((0..=30).map(|part| whole * part / 30)).collect();
    // They wait for the server most of the time.
    thread::scope(|scope| {
        for (number, cuts) in cuts.chunks(cuts.len().div_ceil(4)).enumerate() {
            let (server, folder, bytes) = (&server, folder.path(), &bytes);
            scope.spawn(move || {
                let cutter = Cutter::start(server.address());
                let config = server.write_config(&format!("cut{number}"), cutter.address());
                let options = options(&config);
                for cut in cuts {
                    cutter.cut_after(*cut);
                    put_and_look(&folder.join(format!("root{cut}")), &options, bytes, *cut);
                }
            });
        }
    });
}

/// Puts an object over a way that is cut after `cut` bytes: it is there in the end, and nothing else.
fn put_and_look(root: &Path, options: &RemoteOptions, bytes: &Bytes, cut: u64) {
    let objects = Retrying::new(open(root, options), "target", POLICY);
    objects.put("a/b", bytes.clone()).unwrap_or_else(|error| panic!("{cut}: {}", told(&error)));
    assert!(objects.get("a/b").unwrap() == bytes, "cut after {cut} bytes");
    assert_eq!(objects.list("").unwrap().len(), 1, "cut after {cut} bytes");
    objects.discard_unfinished(Duration::ZERO).unwrap();
    assert_eq!(leftovers(root), [""; 0], "cut after {cut} bytes");
}

#[test]
fn the_files_are_those_of_a_local_repository() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_server) = SshServer::start(folder.path()) else { return };
    let (options, root) = (options(&folder.path().join("config")), folder.path().join("root"));
    let remote = open(&root, &options);
    remote.put("a/b", "1".into()).unwrap();
    assert_eq!(remote.is_durable(), Some(true), "OpenSSH syncs directories");
    let local = LocalObjects::open(&root).unwrap();
    local.put("a/c", "2".into()).unwrap();
    assert_eq!(local.list("").unwrap(), remote.list("").unwrap());
    assert_eq!((local.get("a/b").unwrap(), remote.get("a/c").unwrap()), ("1".into(), "2".into()));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(root.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn what_a_killed_put_leaves_is_discarded_once_it_is_old() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_server) = SshServer::start(folder.path()) else { return };
    let (options, root) = (options(&folder.path().join("config")), folder.path().join("root"));
    let objects = open(&root, &options);
    objects.put("a/b", "1".into()).unwrap();
    let leave = |name: &str| {
        #[expect(clippy::disallowed_methods, reason = "a test makes a file")]
        fs::write(root.join(name), "part").unwrap();
    };
    for name in ["a/c#0123456789abcdef", "PROBE#0123456789abcdef", "notes#1.txt"] {
        leave(name);
    }
    assert_eq!(objects.list("").unwrap().len(), 1);
    assert_eq!(objects.discard_unfinished(Duration::from_secs(86_400)).unwrap(), 0);
    assert_eq!(objects.discard_unfinished(Duration::ZERO).unwrap(), 2);
    assert!(root.join("notes#1.txt").exists(), "what is not ours stays");
    assert_eq!(objects.get("a/b").unwrap(), "1");
}

#[test]
fn a_root_that_vanishes_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_server) = SshServer::start(folder.path()) else { return };
    let (options, root) = (options(&folder.path().join("config")), folder.path().join("root"));
    let objects = open(&root, &options);
    assert!(objects.get("a").unwrap_err().is_not_found());
    assert!(objects.list("").unwrap().is_empty());
    objects.put("a", "1".into()).unwrap();
    fs::rename(&root, folder.path().join("elsewhere")).unwrap();
    for error in [objects.get("a").unwrap_err(), objects.list("").unwrap_err()] {
        assert!(matches!(error, BackendError::RootGone { .. }), "{error:?}");
    }
}

#[test]
fn many_reads_share_the_sessions() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_server) = SshServer::start(folder.path()) else { return };
    let options =
        RemoteOptions { connections: NonZero::new(3), ..options(&folder.path().join("config")) };
    let objects = open(&folder.path().join("root"), &options);
    let long = Bytes::from(random(2, 3_000_000));
    objects.put("long", long.clone()).unwrap();
    let names: Vec<String> = (0..300).map(|number| format!("d/{number:03}")).collect();
    thread::scope(|scope| {
        for part in names.chunks(50) {
            let objects = &objects;
            scope.spawn(move || {
                part.iter().for_each(|name| objects.put(name, name.clone().into()).unwrap());
            });
        }
    });
    let mut requests =
        names.iter().map(|name| Request { name: name.clone(), span: Span::Whole { max: 100 } });
    let mut answers = 0;
    let flow = objects.get_many(&mut requests, &mut |at, answer| {
        assert_eq!(answer.unwrap(), names[at].as_bytes());
        answers += 1;
        ControlFlow::Continue(())
    });
    assert_eq!((flow, answers), (ControlFlow::Continue(()), 300));
    // Reads that nobody waits for any more leave no files open.
    for _ in 0..100 {
        let mut requests =
            names.iter().map(|name| Request { name: name.clone(), span: Span::Whole { max: 100 } });
        let flow = objects.get_many(&mut requests, &mut |_, _| ControlFlow::Break(()));
        assert_eq!(flow, ControlFlow::Break(()));
    }
    assert!(objects.get("long").unwrap() == long);
    assert_eq!(
        objects.get_range("long", 100_000..2_000_000).unwrap(),
        long.slice(100_000..2_000_000)
    );
    assert!(objects.delete_each(&names).is_empty());
    assert_eq!(objects.list_names("").unwrap(), ["long"]);
}

#[test]
fn a_host_that_is_not_known_is_refused_with_the_command_that_accepts_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = SshServer::start(folder.path()) else { return };
    let config = folder.path().join("config");
    let options = options(&config);
    let known = folder.path().join("config.known_hosts");
    let root = folder.path().join("root");
    fs::remove_file(&known).unwrap();
    let error = open(&root, &options).list("").unwrap_err();
    let text = told(&error);
    let port = server.address().port();
    assert!(text.contains("is not known: ssh-ed25519 SHA256:"), "{text}");
    assert!(text.contains(&format!("ssh -p {port} ")) && !error.may_retry(), "{text}");

    make_key(&folder.path().join("other"), "ed25519");
    let other = fs::read_to_string(folder.path().join("other.pub")).unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test makes a file")]
    fs::write(&known, format!("[127.0.0.1]:{port} {other}")).unwrap();
    let error = open(&root, &options).list("").unwrap_err();
    let text = told(&error);
    assert!(text.contains("pretends to be it") && text.contains("ssh-keygen -R"), "{text}");
    assert_eq!(error.kind(), ErrorKind::Refused);
}

#[test]
fn keys_that_are_not_accepted_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_server) = SshServer::start(folder.path()) else { return };
    let key = folder.path().join("key");
    fs::remove_file(&key).unwrap();
    make_key(&key, "ecdsa");
    let error = open(&folder.path().join("root"), &options(&folder.path().join("config")))
        .list("")
        .unwrap_err();
    let text = told(&error);
    assert!(text.contains("accepts none of the keys: no agent is set; SHA256:"), "{text}");
    assert_eq!(error.kind(), ErrorKind::Refused);
}

#[test]
fn every_kind_of_key_logs_in() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_server) = SshServer::start(folder.path()) else { return };
    for kind in ["ecdsa", "rsa"] {
        let key = folder.path().join("key");
        fs::remove_file(&key).unwrap();
        fs::remove_file(folder.path().join("key.pub")).unwrap();
        make_key(&key, kind);
        fs::copy(folder.path().join("key.pub"), folder.path().join("authorized_keys")).unwrap();
        let objects = open(&folder.path().join("root"), &options(&folder.path().join("config")));
        assert!(objects.list("").unwrap().is_empty(), "{kind}");
    }
}

#[test]
fn a_host_is_reached_through_another() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = SshServer::start(folder.path()) else { return };
    let config = folder.path().join("config");
    let text = fs::read_to_string(&config).unwrap();
    // The cutter counts the connections: the last one is made by the first host.
    let cutter = Cutter::start(server.address());
    let jump = text.replace("Host target", "Host first");
    let behind = format!("{text}  ProxyJump first\n{jump}");
    let port = format!("Port {}", server.address().port());
    let behind = behind.replacen(&port, &format!("Port {}", cutter.address().port()), 1);
    let key = fs::read_to_string(folder.path().join("host_key.pub")).unwrap();
    let known = folder.path().join("config.known_hosts");
    let mut hosts = fs::read_to_string(&known).unwrap();
    hosts += &format!("[127.0.0.1]:{} {key}", cutter.address().port());
    #[expect(clippy::disallowed_methods, reason = "a test makes files")]
    {
        fs::write(&known, hosts).unwrap();
        fs::write(folder.path().join("behind"), behind).unwrap();
    }
    let objects = open(&folder.path().join("root"), &options(&folder.path().join("behind")));
    objects.put("a", "1".into()).unwrap();
    assert_eq!((objects.get("a").unwrap(), cutter.connections()), ("1".into(), 1));
}

#[test]
fn a_server_that_is_gone_is_out_of_reach_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = SshServer::start(folder.path()) else { return };
    let cutter = Cutter::start(server.address());
    let options = options(&server.write_config("cut", cutter.address()));
    let policy = RetryPolicy { total: Duration::from_millis(300), ..POLICY };
    let objects = open(&folder.path().join("root"), &options);
    objects.put("a", "1".into()).unwrap();
    cutter.set_gone(true);
    let retrying = Retrying::new(&objects, "target", policy);
    assert_eq!(retrying.get("a").unwrap_err().kind(), ErrorKind::Unreachable);
    cutter.set_gone(false);
    assert_eq!(objects.get("a").unwrap(), "1");
}

#[test]
fn a_limit_holds_back_what_is_sent_and_received() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_server) = SshServer::start(folder.path()) else { return };
    let limit = || NonZero::new(1 << 20).map(RateLimit::new);
    let options = RemoteOptions {
        upload_limit: limit(),
        download_limit: limit(),
        ..options(&folder.path().join("config"))
    };
    let objects = open(&folder.path().join("root"), &options);
    let bytes = Bytes::from(random(3, 1 << 20));
    for work in
        [&(|| objects.put("a", bytes.clone())) as &dyn Fn() -> Result<(), BackendError>, &|| {
            objects.get("a").map(|found| assert!(found == bytes))
        }]
    {
        let start = Instant::now();
        work().unwrap();
        // A tenth of a second may have been saved up.
        assert!(start.elapsed() > Duration::from_millis(800), "{:?}", start.elapsed());
    }
    let requests = options.usage.requests();
    assert!(requests.sent_bytes > 1 << 20 && requests.received_bytes > 1 << 20, "{requests:?}");
    assert_eq!((requests.put, requests.get), (1, 1));
}

#[test]
fn a_server_without_links_is_probed() {
    let folder = tempfile::tempdir().unwrap();
    // OpenSSH can leave requests out; its rename refuses a name that is taken.
    let program = |denied: &str| format!("{SERVER} -P {denied}");
    for (denied, is_durable) in [("hardlink", true), ("hardlink,fsync", false)] {
        let place = folder.path().join(denied);
        fs::create_dir(&place).unwrap();
        let Some(_server) = SshServer::start_with(&place, &program(denied)) else { return };
        let options = options(&place.join("config"));
        let objects = open(&place.join("root"), &options);
        objects.put("a", "1".into()).unwrap();
        let error = objects.put("a", "2".into()).unwrap_err();
        assert!(matches!(error, BackendError::AlreadyExists { .. }), "{error:?}");
        assert_eq!(objects.get("a").unwrap(), "1");
        assert_eq!(objects.is_durable(), Some(is_durable), "{denied}");
        assert_eq!(leftovers(&place.join("root")), [""; 0]);
    }
    let place = folder.path().join("none");
    fs::create_dir(&place).unwrap();
    let Some(_server) = SshServer::start_with(&place, &program("hardlink,rename")) else { return };
    let error = open(&place.join("root"), &options(&place.join("config"))).put("a", "1".into());
    assert!(matches!(error, Err(BackendError::NoConditionalPut { .. })), "{error:?}");
}

#[test]
fn one_of_two_writers_of_a_name_wins() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_server) = SshServer::start(folder.path()) else { return };
    let options = options(&folder.path().join("config"));
    let root = folder.path().join("root");
    for round in 0..20 {
        let name = format!("a/{round}");
        let put = |content: u8| open(&root, &options).put(&name, Bytes::from(vec![content; 5_000]));
        let [one, other] = thread::scope(|scope| {
            [1, 2].map(|content| scope.spawn(move || put(content))).map(|t| t.join().unwrap())
        });
        assert_ne!(one.is_ok(), other.is_ok(), "{one:?} {other:?}");
        let winner = if one.is_ok() { 1 } else { 2 };
        assert_eq!(open(&root, &options).get(&name).unwrap(), vec![winner; 5_000]);
    }
}
