//! `trace`: made-up traces, replayed to a pool and to a server.

use std::collections::HashSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use onefold_backend::LocalFolder;
use onefold_block::BlockSize;
use onefold_nbd::{Config, Export, Listen, Server};
use onefold_volume::{Hash, Options, Pool};

use crate::lab::{Lab, number};

/// The pool `name` of a lab; one that is not there is made.
fn pool(lab: &Lab, name: &str) -> Pool {
    let folder = Arc::new(LocalFolder::create(&lab.path(name)).unwrap());
    // one that is there is not empty
    let _ = Pool::create(&*folder, Hash::Blake3);
    let (pool, damage) = Pool::open(folder, Options::default()).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    pool
}

/// Reads all of a pool, which must be as it was written.
fn assert_sound(pool: &Pool) {
    let scrubbed = pool.scrub();
    assert!(scrubbed.pages > 0 && scrubbed.bad.is_empty() && scrubbed.more == 0, "{scrubbed:?}");
}

/// Serves the volumes of a pool on the socket `socket` of the lab.
fn serve(lab: &Lab, pool: &Pool) -> Server {
    let export = |name: String| {
        let volume = pool.volume(&name).unwrap();
        Export::new(name, Arc::new(volume))
    };
    let exports = pool.volumes().into_iter().map(|one| export(one.name)).collect();
    Server::start(Config::new(vec![Listen::Unix(lab.path("socket"))], exports)).unwrap()
}

/// Makes the trace `name`, and returns its text.
fn generate(lab: &Lab, name: &str, arguments: &str) -> String {
    let made = lab.ok(&format!("trace generate {arguments}")).stdout;
    lab.write(name, &made);
    made
}

/// The distinct contents that a trace writes, and how many it writes.
fn written(trace: &str) -> (u64, u64) {
    let digests: Vec<&str> = trace
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|words| words[5] == "W")
        .flat_map(|words| words[8..].to_vec())
        .collect();
    (digests.iter().collect::<HashSet<_>>().len() as u64, digests.len() as u64)
}

#[test]
fn a_trace_is_replayed_to_a_pool_and_every_read_is_right() {
    let lab = Lab::new();
    for (like, block) in [("mail", 4096), ("web", 4096), ("homes", 512)] {
        let trace = generate(&lab, like, &format!("--like {like} --operations 4000"));
        assert_eq!(trace.lines().count(), 4000);
        let line = format!("trace replay --pool {like}-pool --verify-reads {like} --json");
        let done = lab.ok(&line).json();
        let count = |field| number(&done, field);
        let (distinct, pages) = written(&trace);
        assert_eq!((count("operations"), count("page_bytes")), (4000, block));
        assert_eq!((count("written_pages"), count("depth")), (pages, 16));
        assert_eq!(count("read_pages"), count("verified_pages"));
        assert!(count("initialised_pages") > 0 && count("read_pages") > 0, "{done}");
        assert_eq!(count("new_pages") + count("known_pages"), pages);
        // a content that nothing has any more may be new again
        assert!(count("new_pages") >= distinct, "{} of {distinct}", count("new_pages"));
        let ratio = done["dedup_ratio"].as_f64().unwrap();
        let most = pages as f64 / distinct as f64;
        assert!(ratio > 1.2 && ratio <= most + 1e-9, "{like}: {ratio} of {most}");
        let compression = done["compression_ratio"].as_f64().unwrap();
        assert!((1.5..2.1).contains(&compression), "{compression}");
        assert_eq!(number(&done["reads"], "count") + number(&done["writes"], "count"), 4000);
        assert!(done["writes"]["p99_us"].as_f64() >= done["writes"]["p50_us"].as_f64());
    }
    let homes = pool(&lab, "homes-pool");
    let listed = &homes.volumes()[0];
    assert_eq!((&*listed.name, listed.block_size), ("trace", 512));
    assert_sound(&homes);
    drop(homes);
    // what is there already is initialised anew, and can be replayed to again; not with other blocks
    lab.run("trace replay --pool homes-pool --verify-reads homes")
        .expect(1)
        .says(&["volume 'trace' has data", "--overwrite"]);
    lab.ok("trace replay --pool homes-pool --verify-reads --overwrite homes");
    lab.run("trace replay --pool homes-pool --overwrite web")
        .expect(1)
        .says(&["volume 'trace' has blocks of 512 bytes, expected 4096", "--volume"]);
    let both = lab.ok("trace replay --pool homes-pool --volume web web mail --verify-reads");
    assert!(both.stdout.contains("8,000"), "{}", both.stdout);
    assert!(both.stdout.contains("deduplication ratio"), "{}", both.stdout);
}

#[test]
fn a_trace_is_replayed_to_a_server_and_from_a_compressed_file() {
    let lab = Lab::new();
    let trace = generate(&lab, "web", "--like web --operations 3000 --footprint 4MiB --skew 1.1");
    let mut gzip = Command::new("gzip")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("gzip is everywhere");
    gzip.stdin.take().unwrap().write_all(trace.as_bytes()).unwrap();
    lab.write("web.gz", gzip.wait_with_output().unwrap().stdout);
    let pool = pool(&lab, "pool");
    pool.create_volume("disk", 4 << 20, BlockSize::B4096).unwrap();
    pool.create_volume("small", 1 << 20, BlockSize::B4096).unwrap();
    let served = serve(&lab, &pool);
    let socket = lab.path("socket");
    let uri = |volume: &str| format!("nbd+unix:///{volume}?socket={}", socket.display());
    let [disk, small, none] = ["disk", "small", "none"].map(uri);
    let replay = |uri: &str| {
        let line = "--verify-reads --overwrite --depth 4 web.gz --json";
        lab.run(&format!("trace replay --nbd {uri} {line}"))
    };
    lab.run(&format!("trace replay --nbd {disk} web.gz")).expect(1).says(&["--overwrite"]);
    let done = replay(&disk).expect(0).json();
    assert_eq!((number(&done, "operations"), number(&done, "depth")), (3000, 4));
    assert_eq!(number(&done, "read_pages"), number(&done, "verified_pages"));
    assert!(done["dedup_ratio"].is_null(), "{done}");
    replay(&small).expect(1).says(&["the device has 1048576"]);
    replay(&none).expect(1).says(&["export 'none'"]);
    pool.clone_volume("disk", "monday", true).unwrap();
    let monday = Export::new("monday", Arc::new(pool.volume("monday").unwrap()));
    served.exports().add(monday).unwrap();
    let snapshot = replay(&uri("monday")).expect(1);
    snapshot.says(&["export 'monday' is read-only", "volume clone"]);
    // the pool itself is not to be had
    let hint = ["pool 'pool'", "needs it for itself", "--nbd"];
    lab.run("trace replay --pool pool web.gz").expect(11).says(&hint);
    served.shutdown(Duration::from_secs(60)).unwrap();
    assert_sound(&pool);
    replay(&disk).expect(1).says(&["cannot connect to socket"]);
}

#[test]
fn a_trace_that_is_none_is_refused_by_file_and_line() {
    let lab = Lab::new();
    let trace = generate(&lab, "good", "--like mail --operations 10 --seed 3");
    lab.write("bad", format!("{trace}0 1 x 0 8 X 6 0\n"));
    let line = "trace replay --pool pool good bad";
    lab.run(line).expect(1).says(&["trace 'bad', line 11", "expected R or W, found 'X'"]);
    assert!(!lab.path("pool").exists(), "a pool was made for nothing");
    lab.run("trace replay --pool pool nothing").expect(1).says(&["trace 'nothing'"]);
    lab.run("trace replay good").expect(1).says(&["--pool"]);
    lab.run("trace replay --nbd nbds://localhost/x good").expect(1).says(&["TLS", "nbd://HOST"]);
    let share = "trace generate --like web --write-share 2";
    lab.run(share).expect(1).says(&["the share of writes is 2"]);
}
