//! Space in a cluster of Ceph: containers in an erasure-coded pool, which all shards share.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::thread;
use std::time::{Duration, Instant};

use onefold_testkit::ceph::{Ceph, ERASURE_CODED, REPLICATED};
use onefold_testkit::skip;
use rustix::process::Signal;

use crate::cluster_lab::{
    BLOCK, TAKEN_OVER, at, containers, expect_pages, init, lab, page, rados, start, try_client,
};
use crate::lab::Ran;

const PAGES: u64 = 400;

#[track_caller]
fn shows(ran: Ran, text: &str) {
    assert!(ran.stdout.contains(text), "{text:?} is not shown: {ran:#?}");
}

/// Bytes of all containers.
fn stored(ceph: &Ceph) -> u64 {
    containers(ceph, ERASURE_CODED).iter().map(|(_, size)| size).sum()
}

#[test]
fn shards_share_an_erasure_coded_pool_and_its_space_comes_back() {
    let ceph = match Ceph::start() {
        Ok(ceph) => ceph,
        Err(reason) => return skip(&reason),
    };
    let (lab, at) = (lab(), at(&ceph));
    let place = format!("{REPLICATED}/volumes");
    lab.run(&init(&ceph, &format!("{place} --data-pool absent"))).expect(1).says(&["absent"]);
    let made = lab.ok(&init(&ceph, &format!("{place} --data-pool {ERASURE_CODED} --json"))).json();
    assert_eq!(made["data_pool"], ERASURE_CODED);
    let cluster = |line: &str| {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        format!("cluster {command} ceph:{place} --ceph-conf {} {rest}", ceph.conf().display())
    };
    for name in ["a", "b"] {
        lab.ok(&format!("volume create {at} --size 4MiB {name}"));
    }
    let (mut first, mut second) = (start(&lab, &ceph, "first"), start(&lab, &ceph, "second"));
    let fill = |client: &mut onefold_lab::nbd::Client| {
        for n in 0..PAGES {
            client.write(n * BLOCK as u64, &page(n)).unwrap();
        }
    };
    let mut here = first.client("a");
    fill(&mut here);
    let once = stored(&ceph);
    assert!(once >= PAGES * BLOCK as u64, "{once}");
    first.hears("connected to another gateway");
    let begun = Instant::now();
    // so that the hints have come
    thread::sleep(Duration::from_secs(2));
    let mut there = second.client("b");
    fill(&mut there);
    let both = stored(&ceph);
    println!("one volume takes {once} bytes, two {both}; {:?}", begun.elapsed());
    assert!(both < once + once / 4, "{both} bytes, {once} for one volume");
    expect_pages(&mut there, (0..PAGES).map(|n| (n, n)));
    let status = lab.ok(&cluster("status --json")).json();
    assert_eq!(status["data_pool"], ERASURE_CODED);
    assert!(lab.ok(&cluster("status")).stdout.contains(&format!("pool {ERASURE_CODED}")));

    // a check asks both gateways, and finds what a crash left
    let checked = lab.ok(&cluster("fsck --json")).json();
    assert_eq!(
        (&checked["problems"], checked["shards"].as_array().unwrap().len()),
        (&serde_json::json!([]), 2)
    );
    let leak = format!("{:032x}.guard.{:016x}.{:016x}", 7, 1, 1);
    rados(&ceph, REPLICATED, &["create".as_ref(), leak.as_ref()]);
    let open = OsStr::from_bytes(&[1]);
    rados(&ceph, REPLICATED, &["setxattr".as_ref(), leak.as_ref(), "access".as_ref(), open]);
    shows(lab.run(&cluster("fsck")).expect(1), "no shard needs it");
    shows(lab.run(&cluster("fsck --repair")).expect(0), "repaired: ");
    shows(lab.run(&cluster("fsck")).expect(0), "no problems");
    assert!(!rados(&ceph, REPLICATED, &["ls".as_ref()]).contains(&leak));

    // a clone in a shard of its own outlives its source
    lab.run(&format!("volume clone {at} --detach a b")).expect(1).says(&["b"]);
    lab.ok(&format!("volume clone {at} --detach a c"));
    here.write(0, &page(9999)).unwrap();
    let listed = lab.ok(&format!("volume list {at} --json")).json();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let after = stored(&ceph);
    assert!(after < both + once / 4, "{after} bytes, {both} before the clone");
    drop(here);
    lab.ok(&format!("volume delete {at} --force a"));
    lab.ok(&format!("volume move {at} c --to {}", second.place()));
    expect_pages(&mut first.client("c"), (0..PAGES).map(|n| (n, n)));
    shows(lab.run(&cluster("fsck")).expect(0), "no problems");

    // a take-over, by a gateway that finds the second pool
    first.client("c").write(0, &page(5000)).unwrap();
    second.signal(Signal::KILL);
    let killed = Instant::now();
    let mut client = loop {
        if let Some(client) = try_client(&first, "c") {
            break client;
        }
        assert!(killed.elapsed() < 2 * TAKEN_OVER, "nobody serves the volume");
    };
    expect_pages(&mut client, [(0, 5000), (1, 1), (PAGES - 1, PAGES - 1)]);
    expect_pages(&mut first.client("b"), (0..PAGES).map(|n| (n, n)));
    drop(client);
    assert_eq!(first.signal(Signal::TERM), 0);

    // without gateways the command takes the shards itself
    let checked = lab.ok(&cluster("fsck --repair --json")).json();
    assert_eq!(checked["shards"].as_array().unwrap().len(), 2, "{checked}");
    for name in ["b", "c"] {
        lab.ok(&format!("volume delete {at} {name}"));
    }
    lab.ok(&cluster("fsck --repair"));
    assert_eq!(stored(&ceph), 0);
}
