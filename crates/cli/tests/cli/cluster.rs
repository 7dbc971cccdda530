//! Pools of volumes in a cluster of Ceph, and gateways that take them over.

use std::process::Command;

use onefold_testkit::ceph::{Ceph, ERASURE_CODED, REPLICATED};
use onefold_testkit::{random, skip};
use rustix::process::Signal;

use crate::lab::Lab;
use crate::served::Served;

const BLOCK: usize = 4096;

/// The options that reach a pool in a cluster.
fn at(ceph: &Ceph) -> String {
    format!("--cluster ceph:{REPLICATED}/volumes --ceph-conf {}", ceph.conf().display())
}

fn page(n: u64) -> Vec<u8> {
    random(n, BLOCK)
}

/// A lab whose state is its own.
fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("state/.there", "");
    lab
}

fn start(lab: &Lab, ceph: &Ceph, socket: &str, more: &str) -> Served {
    Served::start_at(lab, &format!("serve {} --unix {socket} {more}", at(ceph)), socket).unwrap()
}

#[test]
fn a_gateway_takes_over_what_another_one_acknowledged() {
    let ceph = match Ceph::start() {
        Ok(ceph) => ceph,
        Err(reason) => return skip(&reason),
    };
    let lab = lab();
    let at = at(&ceph);
    let conf = ceph.conf();
    let init = |pool: &str| format!("cluster init ceph:{pool} --ceph-conf {}", conf.display());

    // what is not there, and what cannot hold a pool
    lab.run(&format!("volume list {at}")).expect(10).says(&["no pool of volumes", "cluster init"]);
    lab.run(&init("absent/volumes")).expect(1).says(&["absent"]);
    lab.run(&init(ERASURE_CODED)).expect(1).says(&["erasure-coded", "replicated pool"]);
    lab.ok(&init(&format!("{REPLICATED}/volumes")));
    lab.run(&init(&format!("{REPLICATED}/volumes"))).expect(1).says(&["exists"]);

    lab.ok(&format!("volume create {at} --size 4MiB disk"));
    let mut first = start(&lab, &ceph, "first", "");
    let mut client = first.client("disk");
    for n in 0..200 {
        client.write(n * BLOCK as u64, &page(n)).unwrap();
    }
    // A command on the gateway's machine asks the gateway; one elsewhere is told the name of the gateway.
    lab.ok(&format!("volume snapshot {at} disk monday"));
    let status = format!("cluster status ceph:{REPLICATED}/volumes --ceph-conf {}", conf.display());
    let shown = lab.ok(&format!("{status} --json")).json();
    assert!(shown["gateway"].as_str().unwrap().contains("process"), "{shown}");
    let other = |line: &str| {
        let mut command: Command = lab.command(line);
        command.env("XDG_STATE_HOME", lab.path("elsewhere"));
        command.output().unwrap()
    };
    let refused = other(&format!("volume list {at}"));
    assert_eq!(refused.status.code(), Some(11));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("has it") && said.contains("--standby"), "{said}");

    // nothing is flushed: what was acknowledged must be there all the same
    for n in 0..50 {
        client.write(n * BLOCK as u64, &page(1000 + n)).unwrap();
    }
    first.signal(Signal::KILL);
    let second = start(&lab, &ceph, "second", "--standby");
    let mut client = second.client("disk");
    let mut found = vec![0; BLOCK];
    for n in 0..200 {
        client.read(n * BLOCK as u64, &mut found).unwrap();
        assert!(found == page(if n < 50 { 1000 + n } else { n }), "block {n}");
    }
    let mut snapshot = second.client("monday");
    for n in 0..200 {
        snapshot.read(n * BLOCK as u64, &mut found).unwrap();
        assert!(found == page(n), "block {n} of the snapshot");
    }
    drop((client, snapshot));
    let mut second = second;
    assert_eq!(second.signal(Signal::TERM), 0);
    // it gave the pool back: nobody waits
    lab.ok(&format!("volume check {at}"));
    lab.ok(&format!("volume delete {at} monday"));
    let listed = lab.ok(&format!("volume list {at} --json")).json();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    let shown = lab.ok(&format!("{status} --json")).json();
    assert!(shown["gateway"].is_null(), "{shown}");
}

#[test]
fn a_gateway_that_slept_past_its_lease_answers_nothing() {
    let ceph = match Ceph::start() {
        Ok(ceph) => ceph,
        Err(reason) => return skip(&reason),
    };
    let (lab, at) = (lab(), at(&ceph));
    lab.ok(&format!(
        "cluster init ceph:{REPLICATED}/volumes --ceph-conf {}",
        ceph.conf().display()
    ));
    lab.ok(&format!("volume create {at} --size 1MiB disk"));
    let mut first = start(&lab, &ceph, "first", "");
    let mut old = first.client("disk");
    old.write(0, &page(1)).unwrap();
    rustix::process::kill_process(first.pid(), Signal::STOP).unwrap();
    let second = start(&lab, &ceph, "second", "--standby");
    let mut new = second.client("disk");
    new.write(0, &page(2)).unwrap();
    rustix::process::kill_process(first.pid(), Signal::CONT).unwrap();
    // an error or the end of the connection, but never what was there
    let mut found = vec![0; BLOCK];
    assert!(old.read(0, &mut found).is_err());
    assert!(old.write(0, &page(3)).is_err());
    assert_eq!(first.signal(Signal::TERM), 1);
    let said = first.said().join("\n");
    assert!(
        said.contains("another gateway") || said.contains("stopped accepting changes"),
        "{said}"
    );
    new.read(0, &mut found).unwrap();
    assert!(found == page(2));
}
