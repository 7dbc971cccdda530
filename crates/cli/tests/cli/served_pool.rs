//! What can be seen and changed of a pool while `onefold serve` has it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use onefold_testkit::{flip_bit, random, text};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::lab::{Lab, number};
use crate::nbd::{EIO, ENOSPC, EPERM, Nbd};
use crate::served::Served;

const BLOCK: usize = 4096;

/// `onefold serve` with metrics.
struct Server {
    served: Served,
    /// Host and port of the metrics.
    metrics: String,
}

impl Server {
    /// Serves `pool` of `lab` with further arguments.
    fn start(lab: &Lab, pool: &str, more: &str) -> Self {
        let line = format!("serve --pool {pool} --unix socket --metrics 127.0.0.1:0 {more}");
        let served = Served::start_with(lab, &line).unwrap();
        let line = served.hears("/metrics");
        let (_, rest) = line.split_once("http://").expect("it says where its metrics are");
        let metrics = rest.split_once("/metrics").unwrap().0.to_owned();
        Self { served, metrics }
    }

    fn open(&self, name: &str) -> Nbd {
        Nbd::open(self.served.socket(), name)
    }

    fn get(&self, path: &str) -> (String, String) {
        let head = format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n");
        http(&self.metrics, head.as_bytes())
    }

    /// Values by names with labels.
    fn metrics(&self) -> BTreeMap<String, f64> {
        let (head, page) = self.get("/metrics");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("application/openmetrics-text"), "{head}");
        assert!(page.ends_with("# EOF\n"), "{page}");
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let value = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        };
        lines.map(value).collect()
    }

    /// Ends it; its exit code, or -1 if the signal ended it, and what it said.
    fn end(mut self, signal: Signal) -> (i32, Vec<String>) {
        let code = self.served.signal(signal);
        (code, self.served.said())
    }

    /// Waits until it has said a line with `words`; that line.
    fn hears(&self, words: &str) -> String {
        self.served.hears(words)
    }
}

/// Head and body of what is answered to `request`.
fn http(address: &str, request: &[u8]) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    // one that is refused may be cut off
    let _ = stream.read_to_string(&mut answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    (head.to_owned(), body.to_owned())
}

/// Bytes of what the frames of all journals have, but for the 36 that each begins with.
fn batches_len(pool: &Path) -> usize {
    let names = fs::read_dir(pool).unwrap().map(|entry| entry.unwrap().path());
    let journals = names.filter(|path| path.to_string_lossy().contains("journal-"));
    let mut bytes = 0;
    for journal in journals.map(|path| fs::read(path).unwrap()) {
        let mut rest = &journal[..];
        while let Some(len) = rest.first_chunk() {
            let len = u32::from_le_bytes(*len) as usize;
            bytes += len;
            rest = &rest[36 + len..];
        }
    }
    bytes
}

#[test]
fn metrics_are_what_was_done() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 8MiB disk");
    lab.ok("volume create --pool pool --size 1MiB other");
    lab.ok("volume snapshot --pool pool other monday");
    let server = Server::start(&lab, "pool", "");
    let mut disk = server.open("disk");
    let pages = text(1, 10 * BLOCK);
    disk.write(0, &pages).unwrap();
    disk.write(20 * BLOCK as u64, &pages).unwrap();
    disk.write(40 * BLOCK as u64, &[0; 3 * BLOCK]).unwrap();
    // of a block that is there, a part, which makes it a new page
    disk.write(100, b"a part").unwrap();
    assert!(disk.read(20 * BLOCK as u64, 2 * BLOCK).unwrap() == pages[..2 * BLOCK]);
    disk.trim(21 * BLOCK as u64, 2 * BLOCK).unwrap();
    disk.zeroes(23 * BLOCK as u64, BLOCK).unwrap();
    disk.flush().unwrap();
    disk.flush().unwrap();
    let found = server.metrics();
    let expect = |name: &str, value: f64| {
        assert_eq!(found.get(&format!("onefold_{name}")), Some(&value), "{name} in {found:#?}");
    };
    expect("volumes", 3.0);
    expect("snapshots", 1.0);
    expect("connections", 1.0);
    expect("stopped", 0.0);
    expect("written_pages_total{kind=\"new\"}", 11.0);
    expect("written_pages_total{kind=\"known\"}", 10.0);
    expect("written_pages_total{kind=\"zero\"}", 3.0);
    expect("written_pages_total{kind=\"over_quota\"}", 0.0);
    // ten blocks, and seven of the other ten
    expect("mapped_bytes", 17.0 * BLOCK as f64);
    expect("pages", 11.0);
    expect("deduplication_ratio", 17.0 / 11.0);
    expect("new_page_bytes_total", 11.0 * BLOCK as f64);
    let stored = found["onefold_new_page_stored_bytes_total"];
    expect("page_bytes", stored);
    expect("compression_ratio", 11.0 * BLOCK as f64 / stored);
    assert!(stored > 0.0 && stored < 11.0 * BLOCK as f64);
    expect("reclaimable_bytes", 0.0);
    let containers: u64 = fs::read_dir(lab.path("pool"))
        .unwrap()
        .map(Result::unwrap)
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("container-"))
        .map(|entry| entry.metadata().unwrap().len())
        .sum();
    expect("container_bytes", containers as f64);
    expect("total_reduction", 17.0 * BLOCK as f64 / containers as f64);
    expect("journal_bytes", batches_len(&lab.path("pool")) as f64);
    expect("table_entries", 11.0);
    assert!(found["onefold_table_capacity"] > 1e6 && found["onefold_table_buckets"] > 1e5);
    // of 4,096 chains that are told of one or two have a page, if any has, and none is long
    let chains = |length: &str| found[&format!("onefold_table_chains{{length=\"{length}\"}}")];
    let lengths: f64 = (0..24).map(|length| chains(&length.to_string())).sum();
    assert_eq!((lengths, chains("24+")), (4096.0, 0.0));
    assert!(chains("0") >= 4096.0 - 11.0);
    expect("unindexed_pages_total", 0.0);
    expect("table_one_in", 1.0);
    expect("neighbour_pages_total", 0.0);
    expect("directories_read_total", 0.0);
    expect("cached_directories", 0.0);
    expect("cached_directory_bytes", 0.0);
    expect("table_false_positives_total", 0.0);
    assert!(found["onefold_commits_total"] >= 1.0);
    assert!(!found.contains_key("onefold_quota_bytes"));
    for (operation, count, bytes) in [
        ("read", 1.0, 2 * BLOCK),
        ("write", 4.0, 23 * BLOCK + 6),
        ("erase", 1.0, 2 * BLOCK),
        ("zeroes", 1.0, BLOCK),
        ("flush", 2.0, 0),
    ] {
        let label = format!("{{operation=\"{operation}\"}}");
        expect(&format!("request_bytes_total{label}"), bytes as f64);
        expect(&format!("request_duration_seconds_count{label}"), count);
        let sum = found[&format!("onefold_request_duration_seconds_sum{label}")];
        assert!(sum > 0.0 && sum < 600.0, "{operation}: {sum} s");
        // each bucket counts those before it as well
        let of = |le: &str| {
            let labels = [
                format!("{{le=\"{le}\",operation=\"{operation}\"}}"),
                format!("{{operation=\"{operation}\",le=\"{le}\"}}"),
            ];
            let names = labels.map(|l| format!("onefold_request_duration_seconds_bucket{l}"));
            names.iter().find_map(|name| found.get(name)).copied().expect("a bucket")
        };
        assert_eq!(of("+Inf"), count);
        assert!(of("0.001") <= of("0.1") && of("0.1") <= of("5.0") && of("5.0") <= count);
        for error in ["io", "no_space", "refused"] {
            let name =
                format!("request_errors_total{{operation=\"{operation}\",error=\"{error}\"}}");
            expect(&name, 0.0);
        }
    }
    assert_eq!(server.end(Signal::TERM).0, 0);
}

#[test]
fn requests_that_no_volume_could_do_are_counted() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB disk");
    lab.ok("volume snapshot --pool pool disk fixed");
    let server = Server::start(&lab, "pool", "");
    let (mut disk, mut fixed) = (server.open("disk"), server.open("fixed"));
    let end = disk.size;
    disk.write(end, &[1; BLOCK]).unwrap_err();
    disk.read(end - 1, 2).unwrap_err();
    disk.trim(end, 1).unwrap_err();
    fixed.write(0, &[1; BLOCK]).unwrap_err();
    fixed.zeroes(0, BLOCK).unwrap_err();
    let found = server.metrics();
    for (operation, count) in
        [("read", 1.0), ("write", 2.0), ("erase", 1.0), ("zeroes", 1.0), ("flush", 0.0)]
    {
        let labels = format!("{{operation=\"{operation}\",error=\"refused\"}}");
        assert_eq!(found[&format!("onefold_request_errors_total{labels}")], count, "{operation}");
        // no volume was asked
        let calls = format!("onefold_request_duration_seconds_count{{operation=\"{operation}\"}}");
        assert_eq!(found[&calls], 0.0, "{operation}");
    }
    assert_eq!(server.end(Signal::TERM).0, 0);
}

#[test]
fn every_metric_is_explained() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/volumes.md");
    let guide = fs::read_to_string(guide).unwrap();
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB disk");
    let server = Server::start(&lab, "pool", "--quota 1GiB");
    let (_, page) = server.get("/metrics");
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names: Vec<(&str, &str)> = types.map(|line| line.split_once(' ').unwrap()).collect();
    assert!(names.len() > 20, "{page}");
    for (name, kind) in names {
        let total = if kind == "counter" { "_total" } else { "" };
        assert!(guide.contains(&format!("`{name}{total}")), "{name}{total} is not in the guide");
    }
}

#[test]
fn who_asks_for_metrics_wrongly_or_not_at_all_harms_nobody() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB disk");
    let server = Server::start(&lab, "pool", "");
    assert!(server.get("/").0.starts_with("HTTP/1.1 404"));
    let (head, _) =
        http(&server.metrics, b"POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 405"), "{head}");
    assert!(http(&server.metrics, b"nonsense\r\n\r\n").0.starts_with("HTTP/1.1 400"));
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    let mut stream = TcpStream::connect(&server.metrics).unwrap();
    // it need not be taken whole
    let _ = stream.write_all(long.as_bytes());
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
    // as many as there may be, and they say nothing
    let silent: Vec<TcpStream> =
        (0..8).map(|_| TcpStream::connect(&server.metrics).unwrap()).collect();
    assert!(server.metrics()["onefold_volumes"] == 1.0);
    drop(silent);
    server.open("disk").flush().unwrap();
}

#[test]
fn volumes_come_change_and_go_while_they_are_served() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB first");
    let server = Server::start(&lab, "pool", "");
    let socket = fs::symlink_metadata(lab.path("pool/control")).unwrap();
    assert!(socket.file_type().is_socket());
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);

    lab.ok("volume create --pool pool --size 4MiB disk");
    lab.run("volume create --pool pool --size 4MiB disk").expect(1).says(&["'disk' already"]);
    lab.run("volume create --pool pool --size 4MiB --fingerprint sha3-256 x").expect(1);
    lab.run("volume create --pool pool --size 1000 x").expect(1).says(&["a multiple of 4096"]);
    let mut disk = server.open("disk");
    assert_eq!(disk.size, 4 << 20);
    let pages = random(1, 100 * BLOCK);
    disk.write(0, &pages).unwrap();
    lab.ok("volume snapshot --pool pool disk monday");
    disk.write(0, &[7; BLOCK]).unwrap();
    assert!(server.open("monday").read(0, BLOCK).unwrap() == pages[..BLOCK]);
    assert!(server.open("monday").write(0, &[1]).is_err());
    lab.ok("volume clone --pool pool monday again");
    server.open("again").write(0, &[9; BLOCK]).unwrap();

    lab.run("volume resize --pool pool --size 1MiB disk").expect(1).says(&["--shrink"]);
    lab.ok("volume resize --pool pool --size 8MiB disk");
    assert_eq!(server.open("disk").size, 8 << 20);
    // who has it open may write there at once
    disk.write(7 << 20, &[3; 10]).unwrap();

    let listed = lab.ok("volume list --pool pool --json").json();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["again", "disk", "first", "monday"]);
    let info = lab.ok("volume info --pool pool --json disk").json();
    assert_eq!((number(&info, "size"), number(&info, "mapped_bytes")), (8 << 20, 101 * 4096));
    // the sevens, the threes; and a hundred that the snapshot has as well, but for the first
    assert_eq!((number(&info, "own_pages"), number(&info, "shared_pages")), (2, 99));
    assert_eq!(info["copies"], serde_json::json!(["monday"]));
    assert_eq!(lab.ok("volume info --pool pool --json again").json()["source"], "monday");
    assert!(lab.ok("volume info --pool pool disk").stdout.contains("shared pages"));
    lab.run("volume info --pool pool nothing").expect(1).says(&["no volume 'nothing'"]);
    assert!(lab.ok("volume check --pool pool").stdout.contains("no problems"));
    let sums = lab.ok("volume stats --pool pool --json").json();
    assert_eq!(number(&sums, "pages"), 103);
    assert_eq!(number(&lab.ok("volume scrub --pool pool --json").json(), "pages"), 103);
    lab.ok("volume compact --pool pool");

    // one that is open stays, unless it has to go
    lab.run("volume delete --pool pool disk").expect(1).says(&["is open", "--force"]);
    assert!(disk.read(0, BLOCK).unwrap() == [7; BLOCK]);
    lab.ok("volume delete --pool pool --force disk");
    assert!(disk.is_closed());
    lab.run("volume delete --pool pool disk").expect(1).says(&["no volume 'disk'"]);
    lab.ok("volume delete --pool pool again");
    // a name can be used again
    lab.ok("volume create --pool pool --size 2MiB disk");
    let mut disk = server.open("disk");
    assert!(disk.read(0, BLOCK).unwrap() == [0; BLOCK]);

    // another server has no chance
    lab.run("serve --pool pool --unix other").expect(11);
    assert!(!server.hears("a volume was changed").is_empty());
    assert_eq!(server.end(Signal::TERM).0, 0);
    assert!(!lab.path("pool/control").exists());
    assert!(lab.ok("volume list --pool pool").stdout.contains("monday"));
}

#[test]
fn a_volume_is_renamed_and_rolled_back_unless_clients_have_it_open() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 4MiB disk");
    let server = Server::start(&lab, "pool", "");
    let mut disk = server.open("disk");
    disk.write(0, &[1; BLOCK]).unwrap();
    lab.ok("volume snapshot --pool pool disk monday");
    disk.write(0, &[2; BLOCK]).unwrap();
    for change in ["rename --pool pool disk root", "rollback --pool pool disk monday"] {
        lab.run(&format!("volume {change}")).expect(1).says(&["is open", "--force"]);
        assert!(disk.read(0, BLOCK).unwrap() == [2; BLOCK]);
    }
    lab.ok("volume rollback --pool pool --force disk monday");
    assert!(disk.is_closed());
    let mut disk = server.open("disk");
    assert!(disk.read(0, BLOCK).unwrap() == [1; BLOCK]);
    lab.ok("volume rename --pool pool --force disk root");
    assert!(disk.is_closed());
    let mut root = server.open("root");
    root.write(0, &[3; BLOCK]).unwrap();
    drop(root);
    // what is refused leaves all volumes offered
    lab.run("volume rename --pool pool root monday").expect(1).says(&["'monday' already"]);
    lab.run("volume rollback --pool pool root root").expect(1).says(&["expected a snapshot"]);
    assert!(server.open("root").read(0, BLOCK).unwrap() == [3; BLOCK]);
    assert_eq!(server.end(Signal::TERM).0, 0);
    // and without a server
    let shown = lab.ok("volume rename --pool pool --json root disk").json();
    assert_eq!(shown["name"], "disk");
    let shown = lab.ok("volume rollback --pool pool --json disk monday").json();
    assert_eq!(shown["source"], "monday");
    assert!(lab.ok("volume check --pool pool").stdout.contains("no problems"));
}

#[test]
fn a_port_that_is_taken_is_known_before_the_pool_is_opened() {
    let lab = Lab::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let line = format!("serve --pool there-is-none --listen {address}");
    lab.run(&line).expect(1).says(&[&format!("cannot listen on {address}")]);
}

#[test]
fn the_help_of_an_action_shows_the_options_that_matter_to_it() {
    let lab = Lab::new();
    let has = |action: &str| {
        let help = lab.ok(&format!("{action} --help")).stdout;
        ["--index-memory", "--verify", "--quota", "--compression"].map(|name| help.contains(name))
    };
    assert_eq!(has("serve"), [true; 4]);
    assert_eq!(has("volume create"), [false, false, false, true]);
    assert_eq!(has("volume list"), [false; 4]);
}

#[test]
fn what_was_done_is_one_document_whoever_does_it() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB first");
    for is_served in [false, true] {
        let server = is_served.then(|| Server::start(&lab, "pool", ""));
        let done = |line: &str| lab.ok(&format!("volume {line} --pool pool --json")).json();
        let made = done("create --size 2MiB --compression zstd disk");
        assert_eq!((&made["name"], number(&made, "size")), (&"disk".into(), 2 << 20));
        assert_eq!(done("info disk"), made);
        let kept = done("snapshot disk monday");
        assert_eq!((&kept["name"], &kept["source"]), (&"monday".into(), &"disk".into()));
        assert_eq!(kept["is_read_only"], true);
        let cloned = done("clone monday again");
        assert_eq!((&cloned["name"], &cloned["is_read_only"]), (&"again".into(), &false.into()));
        let longer = done("resize --size 4MiB again");
        assert_eq!((&longer["name"], number(&longer, "size")), (&"again".into(), 4 << 20));
        for name in ["again", "monday", "disk"] {
            assert_eq!(done(&format!("delete {name}")), serde_json::json!({ "name": name }));
        }
        assert_eq!(done("compact"), serde_json::json!({ "gave_back_bytes": 0 }));
        assert_eq!(done("list")[0]["name"], "first");
        if let Some(server) = server {
            assert_eq!(server.end(Signal::TERM).0, 0);
        }
    }
}

#[test]
fn a_unix_socket_lets_in_whom_its_mode_does() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB disk");
    for (more, expected) in [("", 0o600), ("--unix-mode 0660", 0o660), ("--unix-mode 777", 0o777)] {
        // the one before left its socket behind
        let server = Server::start(&lab, "pool", more);
        let found = fs::symlink_metadata(lab.path("socket")).unwrap().permissions().mode();
        assert_eq!(found & 0o777, expected, "{more}");
        server.open("disk").flush().unwrap();
        server.end(Signal::KILL);
    }
    for mode in ["rw", "1777", "8"] {
        let refused = lab.run(&format!("serve --pool pool --unix socket --unix-mode {mode}"));
        refused.expect(1).says(&["permissions in octal"]);
    }
    // a server that is killed leaves its socket behind, which the next one could not ask
    for mode in ["0060", "0444", "0277", "0"] {
        let refused = lab.run(&format!("serve --pool pool --unix socket --unix-mode {mode}"));
        refused.expect(1).says(&["the owner must be able to read and write"]);
    }
}

#[test]
fn a_pool_without_volumes_is_served_and_gets_some() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB a");
    lab.ok("volume delete --pool pool a");
    let server = Server::start(&lab, "pool", "");
    lab.ok("volume create --pool pool --size 1MiB b");
    assert_eq!(server.open("b").size, 1 << 20);
}

#[test]
fn what_was_asked_of_a_server_is_durable_when_it_is_answered() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB a");
    let page = random(5, BLOCK);
    for round in 0..5 {
        let server = Server::start(&lab, "pool", "");
        server.open("a").write(round * BLOCK as u64, &page).unwrap();
        lab.ok(&format!("volume snapshot --pool pool a s{round}"));
        lab.ok(&format!("volume create --pool pool --size 1MiB b{round}"));
        lab.ok(&format!("volume resize --pool pool --size {}MiB a", round + 2));
        if round > 0 {
            lab.ok(&format!("volume delete --pool pool b{}", round - 1));
        }
        server.end(Signal::KILL);
        // what it left behind is in nobody's way
        assert!(lab.path("pool/control").exists());
        let listed = lab.ok("volume list --pool pool --json").json();
        let names: Vec<&str> =
            listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
        let mut expected = vec!["a".to_owned(), format!("b{round}")];
        expected.extend((0..=round).map(|n| format!("s{n}")));
        assert_eq!(names, expected);
        assert_eq!(number(&listed[0], "size"), (round + 2) << 20);
    }
    let server = Server::start(&lab, "pool", "");
    for round in 0..5 {
        // what was written before a snapshot is in it, and durable with it
        let mut snapshot = server.open(&format!("s{round}"));
        assert!(snapshot.read(round * BLOCK as u64, BLOCK).unwrap() == page);
    }
}

#[test]
fn strange_requests_are_refused_and_the_server_goes_on() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB disk");
    let server = Server::start(&lab, "pool", "");
    let control = lab.path("pool/control");
    let says = |request: &[u8]| {
        let mut stream = UnixStream::connect(&control).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // the rest of one that is too long is not taken
        let _ = stream.write_all(request);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    };
    for request in [
        &b"garbage\n"[..],
        b"\n",
        b"\xff\xfe\n",
        b"{\"request\":\"destroy\"}\n",
        b"{\"request\":\"info\",\"name\":\"disk\",\"and\":1}\n",
        &[b'['; 60_000],
        &[b'x'; 200_000],
    ] {
        let mut request = request.to_vec();
        if request.len() == 60_000 {
            request.push(b'\n');
        }
        let answer = says(&request);
        assert!(answer.is_empty() || answer.contains("refused"), "{answer}");
        assert!(answer.len() < 1000);
    }
    assert!(says(b"{\"request\":\"list\"}\n").contains("disk"));
    // as many as there may be say nothing; whoever comes next waits for one of them to be let go
    let silent: Vec<UnixStream> = (0..16).map(|_| UnixStream::connect(&control).unwrap()).collect();
    assert!(lab.ok("volume list --pool pool").stdout.contains("disk"));
    drop(silent);
    server.open("disk").flush().unwrap();
    assert_eq!(server.end(Signal::TERM).0, 0);
}

#[test]
fn options_of_which_a_running_server_hears_nothing_are_refused() {
    let lab = Lab::new();
    // where nobody serves the pool they have their effect
    lab.ok("volume create --pool pool --size 1MiB --quota 1GiB --index-memory 1MiB disk");
    let server = Server::start(&lab, "pool", "");
    for (options, named) in [
        ("--quota 5GiB", "--quota"),
        ("--verify --index compact", "--index, --verify"),
        ("--index-memory 1GiB", "--index-memory"),
        ("--compression lz4", "--compression"),
    ] {
        let refused = lab.run(&format!("volume list --pool pool {options}")).expect(1);
        refused.says(&["an `onefold serve` that is running", &format!("{named} has no effect")]);
    }
    lab.run("volume create --pool pool --size 1MiB --quota 5GiB other").expect(1);
    // this one is what the pool is held against
    lab.ok("volume create --pool pool --size 1MiB --compression zstd third");
    let listed = lab.ok("volume list --pool pool --json").json();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["disk", "third"]);
    assert_eq!(server.end(Signal::TERM).0, 0);
}

#[test]
fn a_pool_at_a_long_path_can_be_asked() {
    let lab = Lab::new();
    let pool = format!("{}/pool", "a-long-name-of-a-folder/".repeat(8));
    lab.ok(&format!("volume create --pool {pool} --size 1MiB disk"));
    let server = Server::start(&lab, &pool, "");
    lab.ok(&format!("volume create --pool {pool} --size 1MiB other"));
    assert_eq!(server.open("other").size, 1 << 20);
    assert_eq!(server.end(Signal::TERM).0, 0);
    assert!(!lab.path(&pool).join("control").exists());
}

#[test]
fn a_quota_is_a_full_disk_until_there_is_room() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 64MiB --compression none disk");
    let server = Server::start(&lab, "pool", "--quota 2MiB");
    let mut disk = server.open("disk");
    let mut kept = 0;
    let page = |n: u64| random(n, BLOCK);
    let errno = loop {
        match disk.write(kept * BLOCK as u64, &page(kept)) {
            Ok(()) => kept += 1,
            Err(errno) => break errno,
        }
    };
    assert_eq!(errno, ENOSPC);
    assert!((450..512).contains(&kept), "{kept} pages in 2 MiB");
    let found = server.metrics();
    assert_eq!(found["onefold_quota_bytes"], f64::from(2 << 20));
    assert_eq!(found["onefold_written_pages_total{kind=\"over_quota\"}"], 1.0);
    let errors = "onefold_request_errors_total{operation=\"write\",error=\"no_space\"}";
    assert_eq!(found[errors], 1.0);
    assert!(found["onefold_container_bytes"] <= found["onefold_quota_bytes"]);
    server.hears("quota");
    // what is known needs no room, and nothing was lost
    disk.write(60 << 20, &page(3)).unwrap();
    disk.flush().unwrap();
    for n in 0..kept {
        assert!(disk.read(n * BLOCK as u64, BLOCK).unwrap() == page(n), "page {n}");
    }
    // room is made by itself, once there can be some
    disk.trim(0, 40 << 20).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while disk.write(0, &page(9999)).is_err() {
        assert!(Instant::now() < end, "there is no room");
        thread::sleep(Duration::from_millis(100));
    }
    assert!(disk.read(60 << 20, BLOCK).unwrap() == page(3));
    assert_eq!(server.end(Signal::TERM).0, 0);
    assert!(lab.ok("volume check --pool pool").stdout.contains("no problems"));
}

#[test]
fn pages_are_compressed_as_the_pool_or_the_server_says() {
    let lab = Lab::new();
    let bytes = text(1, 64 * BLOCK);
    let mut stored = Vec::new();
    for how in ["none", "lz4", "gzip", "zstd"] {
        lab.ok(&format!("volume create --pool {how} --size 4MiB --compression {how} disk"));
        lab.run(&format!("volume create --pool {how} --size 4MiB --compression none other"))
            .expect(if how == "none" { 0 } else { 1 });
        let server = Server::start(&lab, how, "");
        server.open("disk").write(0, &bytes).unwrap();
        assert_eq!(server.end(Signal::TERM).0, 0);
        let sums = lab.ok(&format!("volume stats --pool {how} --json")).json();
        stored.push(number(&sums, "page_bytes"));
    }
    assert_eq!(stored[0], bytes.len() as u64);
    assert!(stored[1] < stored[0] && stored[2] < stored[1] && stored[3] < stored[1], "{stored:?}");
    // for as long as it is served otherwise, new pages are; old ones stay as they are
    let server = Server::start(&lab, "zstd", "--compression none");
    let mut disk = server.open("disk");
    disk.write(2 << 20, &text(2, 64 * BLOCK)).unwrap();
    assert!(disk.read(0, bytes.len()).unwrap() == bytes);
    assert!(disk.read(2 << 20, bytes.len()).unwrap() == text(2, 64 * BLOCK));
    assert_eq!(server.metrics()["onefold_page_bytes"] as u64, stored[3] + bytes.len() as u64);
    assert_eq!(server.end(Signal::TERM).0, 0);
    assert!(lab.ok("volume scrub --pool zstd").stdout.contains("0 are not"));
}

#[test]
fn what_happens_is_told_line_by_line_and_nothing_of_pages() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB --compression none disk");
    let secret = &b"nobody is to read this ".repeat(200)[..BLOCK];
    {
        let server = Server::start(&lab, "pool", "");
        let mut disk = server.open("disk");
        disk.write(0, secret).unwrap();
        drop(disk);
        server.hears("a client disconnected");
        assert_eq!(server.end(Signal::TERM).0, 0);
    }
    flip_bit(&lab.path("pool/container-00000001"), 100);
    let server = Server::start(&lab, "pool", "--log-format json");
    let mut disk = server.open("disk");
    for _ in 0..30 {
        assert_eq!(disk.read(0, BLOCK).unwrap_err(), EIO);
    }
    let failed: Value = serde_json::from_str(&server.hears("a request failed")).unwrap();
    assert_eq!((&failed["level"], &failed["volume"]), (&"WARN".into(), &"disk".into()));
    assert_eq!((number(&failed, "offset"), number(&failed, "len")), (0, BLOCK as u64));
    assert!(failed["error"].as_str().unwrap().contains("container-00000001"), "{failed}");
    let errors = "onefold_request_errors_total{operation=\"read\",error=\"io\"}";
    assert_eq!(server.metrics()[errors], 30.0);
    lab.ok("volume snapshot --pool pool disk monday");
    server.hears("a volume was changed");
    // a client that breaks the rules
    UnixStream::connect(server.served.socket()).unwrap().write_all(&[0xff; 100]).unwrap();
    server.hears("a connection ended");
    drop(disk);
    server.hears("a client disconnected");
    let (code, said) = server.end(Signal::TERM);
    assert_eq!(code, 0);
    // all of them are told or counted, however long they took
    let (mut told, mut silent) = (0, 0);
    for line in &said {
        let event: Value = serde_json::from_str(line).expect(line);
        told += u64::from(event["message"] == "a request failed");
        silent += event["silent"].as_u64().unwrap_or(0);
        assert!(event["timestamp"].is_string() && event["level"].is_string(), "{line}");
        assert!(!line.contains("nobody is to"), "{line}");
    }
    assert!(told >= 10, "{said:#?}");
    assert_eq!(told + silent, 30, "{said:#?}");
    for words in ["serving on", "a client uses a volume", "stopping", "shut down"] {
        assert!(said.iter().any(|line| line.contains(words)), "{words} in {said:#?}");
    }
    // less is said where less is wanted
    let mut child = lab
        .command("serve --pool pool --unix socket --log-level error")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while UnixStream::connect(lab.path("socket")).is_err() {
        assert!(Instant::now() < end, "it does not serve");
        thread::sleep(Duration::from_millis(20));
    }
    Nbd::open(&lab.path("socket"), "disk").flush().unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""));
}

#[test]
fn a_damaged_page_is_mended_by_writing_it_again_at_once_with_verify() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB --compression none disk");
    let page = random(1, BLOCK);
    let served = |options: &str| {
        let server = Server::start(&lab, "pool", options);
        let mut disk = server.open("disk");
        disk.write(0, &page).unwrap();
        let read = disk.read(0, BLOCK);
        drop(disk);
        assert_eq!(server.end(Signal::TERM).0, 0);
        read
    };
    assert!(served("") == Ok(page.clone()));
    flip_bit(&lab.path("pool/container-00000001"), 100);
    // it counts as known, until a read has met the damage
    assert!(served("") == Err(EIO));
    assert!(served("--verify") == Ok(page.clone()));
    assert!(lab.ok("volume scrub --pool pool").stdout.contains(" 0 are not"));
}

#[test]
fn a_start_that_fails_is_told_once_in_the_words_that_were_asked_for() {
    let lab = Lab::new();
    lab.run("serve --pool pool --unix socket").expect(10).says(&["there is no pool", "hint="]);
    lab.ok("volume create --pool pool --size 1MiB disk");
    let server = Server::start(&lab, "pool", "");
    let line = "serve --pool pool --unix other";
    let events = |options: &str| -> Vec<Value> {
        let ran = lab.run(&format!("{line} {options}")).expect(11);
        assert_eq!(ran.stdout, "");
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{ran:#?}"));
        ran.stderr.lines().map(parse).collect()
    };
    for options in ["--log-format json", "--log-format json --json"] {
        let said = events(options);
        let [said] = &said[..] else { panic!("{said:#?}") };
        assert_eq!((&said["level"], &said["message"]), (&"ERROR".into(), &"serving ended".into()));
        assert!(said["error"].as_str().unwrap().contains("pool 'pool': "), "{said}");
        assert!(said["hint"].as_str().unwrap().contains("one process"), "{said}");
        assert_eq!(number(said, "code"), 11);
    }
    let said = events("--json");
    let [said] = &said[..] else { panic!("{said:#?}") };
    assert_eq!((&said["type"], number(said, "code")), (&"error".into(), 11));
    let text = lab.run(line).expect(11).stderr;
    assert_eq!(text.matches("one process uses a pool at a time").count(), 1, "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert_eq!(server.end(Signal::TERM).0, 0);
}

#[test]
fn nothing_is_there_for_clients_where_a_start_fails() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB disk");
    Server::start(&lab, "pool", "").end(Signal::KILL);
    // a start that goes as far as to let clients in replaces what the killed one left
    let inodes = || {
        ["socket", "pool/control"].map(|name| fs::symlink_metadata(lab.path(name)).unwrap().ino())
    };
    let left = inodes();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let line = format!("serve --pool pool --unix socket --metrics {address}");
    lab.run(&line).expect(1).says(&[&format!("cannot listen on {address}")]);
    assert_eq!(inodes(), left);
}

#[test]
fn who_serves_the_network_without_tls_is_warned() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB disk");
    for (address, is_warned) in [("0.0.0.0:0", true), ("127.0.0.1:0", false), ("[::1]:0", false)] {
        let server = Server::start(&lab, "pool", &format!("--listen {address}"));
        let said = server.end(Signal::TERM).1;
        let warned = said.iter().any(|line| line.contains("WARN") && line.contains("--tls-cert"));
        assert_eq!(warned, is_warned, "{address}: {said:#?}");
    }
}

#[test]
fn strangers_cannot_fill_the_log() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 1MiB disk");
    let server = Server::start(&lab, "pool", "--log-format json");
    let begun = Instant::now();
    for _ in 0..100 {
        let mut stream = UnixStream::connect(server.served.socket()).unwrap();
        stream.write_all(&[0xff; 100]).unwrap();
        // until the server has had enough of it
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let spans = begun.elapsed().as_secs() / 10 + 1;
    let (code, said) = server.end(Signal::TERM);
    assert_eq!(code, 0);
    let (mut told, mut silent) = (0, 0);
    for line in said
        .iter()
        .filter(|line| line.contains("connections ended") || line.contains("a connection ended"))
    {
        let event: Value = serde_json::from_str(line).expect(line);
        told += u64::from(event["message"] == "a connection ended");
        silent += number(&event, "silent");
    }
    assert!((10..=10 * spans).contains(&told), "{told} lines: {said:#?}");
    assert_eq!(told + silent, 100, "{said:#?}");
}

#[test]
fn clients_resize_volumes_where_they_may() {
    let lab = Lab::new();
    lab.ok("volume create --pool pool --size 4MiB disk");
    lab.ok("volume snapshot --pool pool disk monday");
    let server = Server::start(&lab, "pool", "");
    let mut disk = server.open("disk");
    assert!(!disk.may_resize);
    assert_eq!(disk.resize(8 << 20), Err(EPERM));
    drop(disk);
    assert_eq!(server.end(Signal::TERM).0, 0);
    let server = Server::start(&lab, "pool", "--allow-resize");
    let mut disk = server.open("disk");
    assert!(disk.may_resize && disk.size == 4 << 20);
    disk.resize(8 << 20).unwrap();
    let page = random(1, BLOCK);
    disk.write((8 << 20) - BLOCK as u64, &page).unwrap();
    disk.write(0, &page).unwrap();
    assert_eq!(server.open("disk").size, 8 << 20);
    // shorter as well, and what lay beyond does not come back
    disk.resize(1 << 20).unwrap();
    assert!(disk.read(1 << 20, BLOCK).is_err());
    disk.resize(8 << 20).unwrap();
    assert!(disk.read((8 << 20) - BLOCK as u64, BLOCK).unwrap() == [0; BLOCK]);
    // to nothing, or to a part of a block, it is not
    assert!(disk.resize(0).is_err() && disk.resize((2 << 20) + 1).is_err());
    let mut monday = server.open("monday");
    assert!(!monday.may_resize);
    assert_eq!(monday.resize(8 << 20), Err(EPERM));
    // durable at once
    disk.resize(2 << 20).unwrap();
    server.end(Signal::KILL);
    let listed = lab.ok("volume list --pool pool --json").json();
    assert_eq!((number(&listed[0], "size"), number(&listed[1], "size")), (2 << 20, 4 << 20));
    assert_eq!(number(&lab.ok("volume stats --pool pool --json").json(), "pages"), 1);
}
