//! Volumes in a cluster of Ceph, and gateways that serve them together.

use std::fs::File;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use onefold_testkit::ceph::{Ceph, ERASURE_CODED, REPLICATED};
use onefold_testkit::skip;
use rustix::process::Signal;

use crate::cluster_lab::{
    BLOCK, TAKEN_OVER, at, expect_pages, init, lab, metric, page, start, try_client, wait_for,
};
use crate::lab::{Lab, Ran};

/// A command of another user.
fn elsewhere(lab: &Lab, line: &str) -> Output {
    let mut command: Command = lab.command(line);
    command.env("XDG_STATE_HOME", lab.path("elsewhere"));
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn each_gateway_serves_every_volume_whichever_has_it() {
    let ceph = match Ceph::start() {
        Ok(ceph) => ceph,
        Err(reason) => return skip(&reason),
    };
    let (lab, at) = (lab(), at(&ceph));
    // what is not there, and what cannot hold volumes
    lab.run(&format!("volume list {at}")).expect(10).says(&["no volumes", "cluster init"]);
    lab.run(&init(&ceph, "absent/volumes")).expect(1).says(&["absent"]);
    lab.run(&init(&ceph, ERASURE_CODED)).expect(1).says(&["erasure-coded", "replicated pool"]);
    lab.ok(&init(&ceph, &format!("{REPLICATED}/volumes")));
    lab.run(&init(&ceph, &format!("{REPLICATED}/volumes"))).expect(1).says(&["exists"]);
    lab.run(&format!("volume info {at} disk")).expect(1).says(&["no volume 'disk'"]);

    // commands need no gateway
    lab.ok(&format!("volume create {at} --size 4MiB disk"));
    lab.ok(&format!("volume create {at} --size 4MiB other"));
    lab.run(&format!("volume create {at} --size 4MiB disk")).expect(1).says(&["disk"]);
    let (first, mut second) = (start(&lab, &ceph, "first"), start(&lab, &ceph, "second"));
    let mut here = first.client("disk");
    let mut through = second.client("disk");
    for n in 0..100 {
        here.write(n * BLOCK as u64, &page(n)).unwrap();
        through.write((100 + n) * BLOCK as u64, &page(100 + n)).unwrap();
    }
    expect_pages(&mut here, (100..200).map(|n| (n, n)));
    expect_pages(&mut through, (0..100).map(|n| (n, n)));
    let mut other = second.client("other");
    other.write(0, &page(7)).unwrap();

    // commands ask the gateway that has the volume
    lab.ok(&format!("volume snapshot {at} disk monday"));
    lab.ok(&format!("volume clone {at} monday tried"));
    lab.run(&format!("volume snapshot {at} disk other")).expect(1).says(&["other"]);
    lab.ok(&format!("volume resize {at} --size 8MiB disk"));
    lab.ok(&format!("volume rename {at} tried try"));
    let listed = lab.ok(&format!("volume list {at} --json")).json();
    let names: Vec<_> = listed.as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["disk", "monday", "other", "try"]);
    assert_eq!((&listed[0]["size"], &listed[0]["mapped_blocks"]), (&(8 << 20).into(), &200.into()));
    lab.ok(&format!("volume check {at}"));
    lab.ok(&format!("volume scrub {at}"));
    let stats = lab.ok(&format!("volume stats {at} --json")).json();
    assert_eq!(stats["pages"], 201, "{stats}");
    // also one that cannot reach its control socket, as on another machine
    for line in ["volume snapshot disk tuesday", "volume delete tuesday", "volume check"] {
        let done = elsewhere(&lab, &format!("{line} {at}"));
        assert!(done.status.success(), "{line}: {}", said(&done));
    }
    let refused = elsewhere(&lab, &format!("volume snapshot {at} disk other"));
    assert!(said(&refused).contains("other"), "{}", said(&refused));
    let listed = elsewhere(&lab, &format!("volume list {at} --json"));
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed[0]["mapped_blocks"], 200);
    // the gateways have found one another
    first.hears("connected to another gateway");
    let status =
        format!("cluster status ceph:{REPLICATED}/volumes --ceph-conf {}", ceph.conf().display());
    let shown = lab.ok(&format!("{status} --json")).json();
    let gateways = shown["gateways"].as_array().unwrap();
    assert_eq!(gateways.len(), 2, "{shown}");
    assert!(gateways.iter().all(|one| one["is_alive"] == true && one["shards"] == 1), "{shown}");
    let text = lab.ok(&status).stdout;
    assert!(text.contains("disk, monday, try") && text.contains(first.place()), "{text}");

    // a move, under a client that connects again
    lab.run(&format!("volume move {at} disk --to nobody")).expect(1).says(&["no gateway 'nobody'"]);
    lab.ok(&format!("volume move {at} disk --to {}", second.place()));
    let mut found = vec![0; BLOCK];
    assert!(here.read(0, &mut found).is_err(), "its connection ended");
    let mut here = first.client("disk");
    expect_pages(&mut here, (0..200).map(|n| (n, n)));
    here.write(0, &page(1000)).unwrap();
    let shown = lab.ok(&format!("{status} --json")).json();
    let has = |place: &str| {
        let gateways = shown["gateways"].as_array().unwrap();
        gateways.iter().find(|one| one["address"] == place).unwrap()["shards"].clone()
    };
    assert_eq!((has(first.place()), has(second.place())), (0.into(), 2.into()), "{shown}");

    // one that ends gives all back, and nobody waits
    let ended = Instant::now();
    assert_eq!(second.signal(Signal::TERM), 0);
    let mut here = first.client("disk");
    expect_pages(&mut here, [(0, 1000), (1, 1), (199, 199)]);
    println!("after the end of a gateway: {:?}", ended.elapsed());
    assert!(ended.elapsed() < Duration::from_secs(7), "{:?}", ended.elapsed());
    drop(here);
    // a move to one that dies: the volume is left to the first gateway that is asked
    let mut third = start(&lab, &ceph, "third");
    third.signal(Signal::KILL);
    let refused = lab.run(&format!("volume move {at} disk --to {}", third.place())).expect(1);
    refused.says(&["did not move: "]);
    let shown = lab.ok(&format!("{status} --json")).json();
    assert!(
        shown["shards"].as_array().unwrap().iter().all(|one| one["wanted"].is_null()),
        "{shown}"
    );
    let mut first = first;
    assert_eq!(first.signal(Signal::TERM), 0);
    // volumes go one by one, and all objects with the last
    for name in ["monday", "disk", "try", "other"] {
        lab.ok(&format!("volume delete {at} {name}"));
    }
    assert_eq!(lab.ok(&format!("volume list {at} --json")).json(), serde_json::json!([]));
    let shown = lab.ok(&format!("{status} --json")).json();
    assert_eq!(
        (shown["shards"].clone(), shown["gateways"].clone()),
        (serde_json::json!([]), serde_json::json!([]))
    );
}

#[test]
fn others_take_over_what_a_dead_gateway_acknowledged() {
    let ceph = match Ceph::start() {
        Ok(ceph) => ceph,
        Err(reason) => return skip(&reason),
    };
    let (lab, at) = (lab(), at(&ceph));
    lab.ok(&init(&ceph, &format!("{REPLICATED}/volumes --compression lz4")));
    for n in 0..3 {
        lab.ok(&format!("volume create {at} --size 4MiB disk-{n}"));
    }
    let (mut first, second) = (start(&lab, &ceph, "first"), start(&lab, &ceph, "second"));
    for volume in 0..3_u64 {
        let mut client = first.client(&format!("disk-{volume}"));
        for n in 0..50 {
            client.write(n * BLOCK as u64, &page(volume * 1000 + n)).unwrap();
        }
    }
    let mut through = second.client("disk-0");
    expect_pages(&mut through, [(3, 3)]);
    // nothing is flushed: what was acknowledged must be there all the same
    first.signal(Signal::KILL);
    let killed = Instant::now();
    assert!(through.read(0, &mut vec![0; BLOCK]).is_err(), "its connection ended");
    let mut client = loop {
        if let Some(client) = try_client(&second, "disk-0") {
            break client;
        }
        assert!(killed.elapsed() < TAKEN_OVER, "nobody serves the volume");
    };
    expect_pages(&mut client, [(0, 0)]);
    println!("served again after a kill: {:?}", killed.elapsed());
    assert!(killed.elapsed() < TAKEN_OVER, "{:?}", killed.elapsed());
    for volume in 0..3_u64 {
        let mut client = second.client(&format!("disk-{volume}"));
        expect_pages(&mut client, (0..50).map(|n| (n, volume * 1000 + n)));
    }
    // what the dead gateway told of its pages is in no dump, and is found in footers of its containers
    second.hears("found in footers of containers");
    // those of the other shards may be complete later
    wait_for("all pages are known", || metric(&second, "onefold_hints") >= Some(150.0));
    lab.ok(&format!("volume create {at} --size 4MiB again"));
    let stored = || {
        let stats = lab.ok(&format!("volume stats {at} --json")).json();
        stats["container_bytes"].as_u64().unwrap()
    };
    let (before, mut again) = (stored(), second.client("again"));
    for n in 0..150 {
        again.write(n * BLOCK as u64, &page(n / 50 * 1000 + n % 50)).unwrap();
    }
    expect_pages(&mut again, (0..150).map(|n| (n, n / 50 * 1000 + n % 50)));
    assert_eq!(stored(), before, "pages were stored again");
    // a gateway that slept past its lease answers nothing from before
    let third = start(&lab, &ceph, "third");
    let mut old = second.client("disk-1");
    rustix::process::kill_process(second.pid(), Signal::STOP).unwrap();
    let stopped = Instant::now();
    let mut new = loop {
        if let Some(client) = try_client(&third, "disk-1") {
            break client;
        }
        assert!(stopped.elapsed() < 2 * TAKEN_OVER, "nobody serves the volume");
    };
    new.write(0, &page(5000)).unwrap();
    println!("served again after a stop: {:?}", stopped.elapsed());
    rustix::process::kill_process(second.pid(), Signal::CONT).unwrap();
    // an error or the end of the connection, but never what was there
    assert!(old.read(0, &mut vec![0; BLOCK]).is_err());
    assert!(old.write(0, &page(3)).is_err());
    // it goes on by itself, and passes its clients on; one that comes while it lets go of the volume may have to
    // come again
    second.hears("broke the lease of this one");
    let awake = Instant::now();
    let mut found = vec![0; BLOCK];
    let mut reads = || {
        let client = try_client(&second, "disk-1");
        client.is_some_and(|mut client| client.read(0, &mut found).is_ok())
    };
    while !reads() {
        assert!(awake.elapsed() < TAKEN_OVER, "it passes nobody on");
    }
    assert!(found == page(5000));
    expect_pages(&mut second.client("disk-1"), [(0, 5000), (1, 1001)]);
}

#[test]
fn volumes_travel_as_streams_in_and_out_of_a_cluster() {
    let ceph = match Ceph::start() {
        Ok(ceph) => ceph,
        Err(reason) => return skip(&reason),
    };
    let (lab, at) = (lab(), at(&ceph));
    lab.ok(&init(&ceph, &format!("{REPLICATED}/volumes")));
    lab.ok(&format!("volume create {at} --size 1MiB disk"));
    let mut served = start(&lab, &ceph, "first");
    let mut client = served.client("disk");
    client.write(0, &page(1)).unwrap();
    lab.ok(&format!("volume snapshot {at} disk one"));
    client.write(BLOCK as u64, &page(2)).unwrap();
    lab.ok(&format!("volume snapshot {at} disk two"));
    drop(client);
    lab.run(&format!("volume export {at} one")).expect(11).says(&["has it"]);
    assert_eq!(served.signal(Signal::TERM), 0);
    let export = |line: &str, to: &str| {
        let out = File::create(lab.path(to)).unwrap();
        let mut command = lab.command(&format!("volume export {at} {line}"));
        assert!(command.stdout(out).status().unwrap().success(), "{line}");
    };
    export("one", "whole");
    export("--from one two", "changes");
    let import = |line: &str, from: &str| {
        let mut command = lab.command(&format!("volume import {at} {line}"));
        command.stdin(File::open(lab.path(from)).unwrap());
        Ran::of(line, command.output().unwrap()).expect(0)
    };
    import("one-again", "whole");
    let shown = import("--json --onto one-again two-again", "changes").json();
    assert_eq!(shown["name"], "two-again");
    let served = start(&lab, &ceph, "second");
    expect_pages(&mut served.client("two-again"), [(0, 1), (1, 2)]);
    expect_pages(&mut served.client("one-again"), [(0, 1)]);
}

/// A pool that was copied, as a restore makes one, has the same names and objects, and is another pool.
#[test]
fn a_copy_of_a_pool_is_refused_until_it_is_adopted() {
    let ceph = match Ceph::start() {
        Ok(ceph) => ceph,
        Err(reason) => return skip(&reason),
    };
    let (lab, at) = (lab(), at(&ceph));
    lab.ok(&init(&ceph, &format!("{REPLICATED}/volumes")));
    lab.ok(&format!("volume create {at} --size 1MiB disk"));
    let adopt = |pool: &str| {
        format!("cluster adopt ceph:{pool}/volumes --ceph-conf {}", ceph.conf().display())
    };
    lab.run(&adopt(REPLICATED)).expect(0).says(&["nothing to adopt"]);

    ceph.command(&["osd", "pool", "create", "copied", "8", "8", "replicated"]);
    let mut copy = Command::new("rados");
    copy.arg("--conf").arg(ceph.conf());
    copy.args(["cppool", REPLICATED, "copied", "--yes-i-really-mean-it"]);
    assert!(copy.output().unwrap().status.success());
    let at_copy = at.replace(REPLICATED, "copied");
    let refused = lab.run(&format!("volume list {at_copy}")).expect(1);
    refused.says(&["belong elsewhere", "expected", "found", "onefold cluster adopt"]);

    let adopted = lab.ok(&format!("{} --json", adopt("copied"))).json();
    assert!(adopted["before"].is_string() && adopted["now"] != adopted["before"], "{adopted}");
    let listed = lab.ok(&format!("volume list {at_copy} --json")).json();
    assert_eq!(listed[0]["name"], "disk");
    lab.ok(&format!("volume list {at}"));
}
