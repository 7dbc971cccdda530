//! What gateways of a cluster look after together: volumes that nobody uses, the quota, damage, and clones whose
//! gateway is killed.

use std::ffi::OsStr;
use std::fs;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use onefold_lab::nbd::Client;
use onefold_testkit::ceph::{Ceph, REPLICATED};
use onefold_testkit::skip;
use rustix::process::Signal;

use crate::cluster_lab::{
    BLOCK, at, containers, expect_pages, init, lab, metric, page, rados, start_with, try_client,
    wait_for,
};
use crate::lab::Lab;
use crate::served::Served;

/// A gateway that looks after space and damage all the time.
fn start(lab: &Lab, ceph: &Ceph, socket: &str) -> Served {
    start_with(lab, ceph, socket, "--check-every 1 --scrub-every 0h")
}

fn fill(client: &mut Client, first: u64, pages: u64) {
    for n in 0..pages {
        client.write(n * BLOCK as u64, &page(first + n)).unwrap();
    }
}

#[test]
fn space_comes_back_from_volumes_that_nobody_uses_and_the_quota_is_kept() {
    let ceph = match Ceph::start() {
        Ok(ceph) => ceph,
        Err(reason) => return skip(&reason),
    };
    let (lab, at) = (lab(), at(&ceph));
    let place = format!("{REPLICATED}/volumes");
    lab.ok(&init(&ceph, &format!("{place} --quota 64MiB")));
    let cluster = |line: &str| {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        format!("cluster {command} ceph:{place} --ceph-conf {} {rest}", ceph.conf().display())
    };
    let stored = || containers(&ceph, REPLICATED).iter().map(|(_, size)| size).sum::<u64>();
    for name in ["a", "b"] {
        lab.ok(&format!("volume create {at} --size 4MiB {name}"));
    }
    let (mut first, mut second) = (start(&lab, &ceph, "first"), start(&lab, &ceph, "second"));
    let mut here = first.client("a");
    fill(&mut here, 0, 400);
    first.hears("connected to another gateway");
    // so that the hints have come
    thread::sleep(Duration::from_secs(2));
    let mut there = second.client("b");
    fill(&mut there, 0, 400);
    for client in [&mut here, &mut there] {
        for from in (0..400).step_by(10) {
            client.trim(from * BLOCK as u64, 9 * BLOCK as u32).unwrap();
        }
        client.flush().unwrap();
    }
    drop((here, there));
    // nobody has the volumes any more
    assert_eq!((first.signal(Signal::TERM), second.signal(Signal::TERM)), (0, 0));
    let before = stored();
    assert!(before > 300 * BLOCK as u64, "{before}");
    let third = start(&lab, &ceph, "third");
    third.hears("opened a shard that nobody uses");
    wait_for("space comes back", || stored() * 3 < before);
    // and the gateway gives them back
    let gateways = |shown: &serde_json::Value| {
        let shards = shown["shards"].as_array().unwrap();
        shards.iter().filter(|one| !one["gateway"].is_null()).count()
    };
    wait_for("volumes are given back", || gateways(&lab.ok(&cluster("status --json")).json()) == 0);
    println!("{before} bytes became {}", stored());
    let tens = || (9..400).step_by(10).map(|n| (n, n));
    expect_pages(&mut third.client("a"), tens());
    expect_pages(&mut third.client("b"), tens());
    let checked = lab.ok(&cluster("fsck --json")).json();
    assert_eq!(checked["problems"], serde_json::json!([]));

    // what is stored is shown, and by volume what only it has
    wait_for("what is stored is counted", || {
        let shown = lab.ok(&cluster("status --json")).json();
        let counted = shown["stored"]["stored_bytes"].as_u64() == Some(stored());
        counted
            && shown["shards"].as_array().unwrap().iter().all(|one| one["unique_bytes"].is_u64())
    });
    assert!(metric(&third, "onefold_cluster_stored_bytes").is_some_and(|bytes| bytes > 0.0));
    assert_eq!(metric(&third, "onefold_cluster_quota_bytes"), Some((64 << 20) as f64));
    let listed = lab.ok(&format!("volume list {at} --json")).json();
    assert!(listed[0]["shard_unique_bytes"].is_u64(), "{listed}");
    let text = lab.ok(&format!("volume list {at}")).stdout
        + &lab.ok(&format!("volume info {at} a")).stdout;
    assert_eq!(text.matches("only its shard's").count(), 2, "{text}");
    let stats = lab.ok(&format!("volume stats {at} --json")).json();
    assert_eq!(stats["cluster"]["quota"], 64 << 20, "{stats}");

    // a quota that is used up: new pages are refused, others are not, and frees bring room
    lab.ok(&cluster("quota 2MiB"));
    assert!(lab.ok(&cluster("quota")).stdout.contains("2.00 MiB"));
    let mut here = third.client("a");
    let mut refused = None;
    for n in 0..900 {
        if let Err(error) = here.write(n * BLOCK as u64, &page(10_000 + n)) {
            refused = Some((n, error.to_string()));
            break;
        }
    }
    let (at_block, error) = refused.expect("the quota is used up");
    println!("block {at_block} was refused: {error}");
    assert!(error.contains("28") || error.contains("space"), "{error}");
    third.hears("onefold cluster quota");
    assert!(stored() < (2 << 20) + (1 << 20), "{}", stored());
    here.write(950 * BLOCK as u64, &page(10_000)).unwrap();
    here.trim(0, (900 * BLOCK) as u32).unwrap();
    here.flush().unwrap();
    wait_for("there is room again", || here.write(0, &page(20_000)).is_ok());
    lab.ok(&cluster("quota none"));
    for n in 0..600 {
        wait_for("no quota", || here.write(n * BLOCK as u64, &page(30_000 + n)).is_ok());
    }
    expect_pages(&mut here, (0..600).map(|n| (n, 30_000 + n)));
}

#[test]
fn damage_that_one_gateway_finds_all_users_of_the_container_are_told() {
    let ceph = match Ceph::start() {
        Ok(ceph) => ceph,
        Err(reason) => return skip(&reason),
    };
    let (lab, at, status) = with_two_volumes(&ceph);
    let (mut first, mut second) = (start(&lab, &ceph, "first"), start(&lab, &ceph, "second"));
    fill(&mut first.client("a"), 0, 300);
    first.hears("connected to another gateway");
    thread::sleep(Duration::from_secs(2));
    fill(&mut second.client("b"), 0, 300);
    assert_eq!((first.signal(Signal::TERM), second.signal(Signal::TERM)), (0, 0));
    // some bytes of the largest container are others
    let (name, size) =
        containers(&ceph, REPLICATED).into_iter().max_by_key(|(_, size)| *size).unwrap();
    assert!(size > 200 * BLOCK as u64, "both have their pages there");
    let copy = lab.path("container");
    let arguments = |verb: &str| [verb.into(), name.clone().into(), copy.clone().into_os_string()];
    let run = |verb: &str| {
        let all: [std::ffi::OsString; 3] = arguments(verb);
        rados(&ceph, REPLICATED, &all.each_ref().map(|one| one.as_os_str()))
    };
    run("get");
    let mut bytes = fs::read(&copy).unwrap();
    bytes[size as usize / 2..][..50].fill(0xaa);
    fs::write(&copy, bytes).unwrap();
    run("put");

    let (first, second) = (start(&lab, &ceph, "first"), start(&lab, &ceph, "second"));
    // one at each gateway
    let (a, b) = (first.client("a"), second.client("b"));
    let shown = || lab.ok(&format!("{status} --json")).json();
    wait_for("the damage is found", || !shown()["damage"].as_array().unwrap().is_empty());
    let text = lab.ok(&status).stdout;
    assert!(text.contains("damage  ") && text.contains("damaged page"), "{text}");
    for (gateway, volume) in [(&first, "a"), (&second, "b")] {
        let lost = format!("onefold_lost_blocks{{volume=\"{volume}\"}}");
        wait_for(volume, || metric(gateway, &lost).is_some_and(|blocks| blocks >= 1.0));
        gateway.hears("blocks of a volume are lost");
    }
    let ran = lab.run(&format!("volume check {at}")).expect(1);
    assert!(
        ["volume 'a'", "volume 'b'", "lost"].iter().all(|part| ran.stdout.contains(part)),
        "{ran:#?}"
    );
    let stats = lab.ok(&format!("volume stats {at} --json")).json();
    assert_eq!(stats["damaged_volumes"], serde_json::json!(["a", "b"]), "{stats}");
    let scrubbed = lab.run(&format!("volume scrub {at} --json")).expect(1).json();
    assert!(scrubbed["cycle"]["cycle"].as_u64() >= Some(1), "{scrubbed}");
    wait_for("a cycle ends", || shown()["scrub"]["ended"].is_u64());
    assert!(
        lab.run(&format!("volume scrub {at}"))
            .expect(1)
            .stdout
            .contains("last scrub by gateways: ended")
    );
    // written again, the pages are stored again
    drop((a, b));
    fill(&mut first.client("a"), 0, 300);
    fill(&mut second.client("b"), 0, 300);
    lab.ok(&format!("volume check {at}"));
    expect_pages(&mut first.client("b"), (0..300).map(|n| (n, n)));
}

#[test]
fn a_gateway_that_is_killed_while_it_detaches_a_clone_leaves_nothing_that_dangles() {
    let ceph = match Ceph::start() {
        Ok(ceph) => ceph,
        Err(reason) => return skip(&reason),
    };
    let (lab, at) = (lab(), at(&ceph));
    let place = format!("{REPLICATED}/volumes");
    lab.ok(&init(&ceph, &place));
    let fsck = format!("cluster fsck ceph:{place} --ceph-conf {}", ceph.conf().display());
    const PAGES: u64 = 2_000;
    lab.ok(&format!("volume create {at} --size 16MiB disk"));
    let mut served = start(&lab, &ceph, "first");
    let all: Vec<u8> = (0..PAGES).flat_map(page).collect();
    let mut client = served.client("disk");
    for (at, part) in (0_u64..).zip(all.chunks(64 * BLOCK)) {
        client.write(at * (64 * BLOCK) as u64, part).unwrap();
    }
    drop(client);
    let names = || -> Vec<String> {
        let listed = lab.ok(&format!("volume list {at} --json")).json();
        let all = listed.as_array().unwrap();
        all.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let (mut landed, mut made) = (0, 0);
    for (round, delay) in [80, 140, 200, 260, 320, 400].into_iter().enumerate() {
        let clone = format!("clone-{round}");
        let mut command = lab.command(&format!("volume clone {at} --detach disk {clone}"));
        let mut child = command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        // from before the temporary snapshot to after the end
        thread::sleep(Duration::from_millis(delay));
        served.signal(Signal::KILL);
        let is_done = child.wait().unwrap().success();
        landed += usize::from(!is_done);
        made += usize::from(is_done);
        // nothing dangles before anything is looked after
        let problems = lab.run(&format!("{fsck} --json")).json()["problems"].clone();
        let is_leak = |one: &serde_json::Value| one["is_leak"] == true;
        assert!(problems.as_array().unwrap().iter().all(is_leak), "{problems}");
        lab.ok(&format!("{fsck} --repair"));
        let left = lab.ok(&format!("{fsck} --json")).json();
        assert_eq!(left["problems"], serde_json::json!([]), "{left}");
        served = start(&lab, &ceph, &format!("gateway-{round}"));
        wait_for("somebody serves it", || try_client(&served, "disk").is_some());
        expect_pages(&mut served.client("disk"), (0..PAGES).step_by(37).map(|n| (n, n)));
        wait_for("the temporary snapshot goes", || {
            !names().iter().any(|name| name.starts_with(".detach-"))
        });
        // all of it, or nothing
        if names().contains(&clone) {
            expect_pages(&mut served.client(&clone), (0..PAGES).map(|n| (n, n)));
            lab.ok(&format!("volume delete {at} {clone}"));
        } else {
            assert!(!is_done, "a clone that was made is gone");
        }
        assert_eq!(names(), ["disk"]);
    }
    println!("{landed} kills came before the clone was made, {made} after");
    assert!(landed > 0, "no kill came in the middle");
    expect_pages(&mut served.client("disk"), (0..PAGES).map(|n| (n, n)));
    // and all space comes back
    lab.ok(&format!("volume delete {at} disk"));
    wait_for("all space comes back", || containers(&ceph, REPLICATED).is_empty());
}

#[test]
fn a_read_only_gateway_offers_snapshots_and_leaves_volumes_to_others() {
    let ceph = match Ceph::start() {
        Ok(ceph) => ceph,
        Err(reason) => return skip(&reason),
    };
    let (lab, at) = (lab(), at(&ceph));
    lab.ok(&init(&ceph, &format!("{REPLICATED}/volumes")));
    lab.ok(&format!("volume create {at} --size 4MiB disk"));
    let mut writer = start(&lab, &ceph, "writer");
    fill(&mut writer.client("disk"), 0, 20);
    lab.ok(&format!("volume snapshot {at} disk monday"));
    let line = format!("serve {at} --read-only --listen 127.0.0.1:0 --unix reader");
    let reader = Served::start_at(&lab, &line, "reader").unwrap();
    // passed on, and refused
    let mut snapshot = reader.client("monday");
    assert!(snapshot.is_read_only());
    expect_pages(&mut snapshot, (0..20).map(|n| (n, n)));
    assert!(try_client(&reader, "disk").is_none());
    // what nobody has it takes, and leaves to the first client that writes
    assert_eq!(writer.signal(Signal::TERM), 0);
    drop(snapshot);
    expect_pages(&mut reader.client("monday"), [(3, 3)]);
    lab.ok(&format!("volume snapshot {at} disk tuesday"));
    expect_pages(&mut reader.client("tuesday"), [(4, 4)]);
    let writer = start(&lab, &ceph, "writer-again");
    let mut disk = writer.client("disk");
    disk.write(0, &page(100)).unwrap();
    expect_pages(&mut reader.client("monday"), (0..20).map(|n| (n, n)));
    expect_pages(&mut disk, [(0, 100), (1, 1)]);
    assert!(try_client(&reader, "disk").is_none());
    disk.write(BLOCK as u64, &page(101)).unwrap();
}

/// A domain with the volumes a and b; the options that name it, and the command that shows its state.
fn with_two_volumes(ceph: &Ceph) -> (Lab, String, String) {
    let (lab, at) = (lab(), at(ceph));
    let place = format!("{REPLICATED}/volumes");
    lab.ok(&init(ceph, &place));
    for name in ["a", "b"] {
        lab.ok(&format!("volume create {at} --size 4MiB {name}"));
    }
    (lab, at, format!("cluster status ceph:{place} --ceph-conf {}", ceph.conf().display()))
}

/// Changes bytes of an object of the namespace.
fn spoil(lab: &Lab, ceph: &Ceph, object: &str, change: impl Fn(&mut Vec<u8>)) {
    let copy = lab.path("object");
    let run = |verb: &str| {
        rados(ceph, REPLICATED, &[verb.as_ref(), object.as_ref(), copy.as_os_str()]);
    };
    run("get");
    let mut bytes = fs::read(&copy).unwrap();
    change(&mut bytes);
    fs::write(&copy, bytes).unwrap();
    run("put");
}

#[test]
fn commands_repair_what_no_gateway_serves_and_tell_others_of_damage() {
    let ceph = match Ceph::start() {
        Ok(ceph) => ceph,
        Err(reason) => return skip(&reason),
    };
    let (lab, at, status) = with_two_volumes(&ceph);
    // a name that was claimed when its shard had been removed
    lab.ok(&format!("volume create {at} --size 4MiB late"));
    let (key, record) = ("late\u{1}", lab.path("record"));
    let name = |verb: &str, rest: &[&OsStr]| {
        let arguments = [&[verb.as_ref(), "names".as_ref(), key.as_ref()], rest].concat();
        rados(&ceph, REPLICATED, &arguments)
    };
    name("getomapval", &[record.as_os_str()]);
    lab.ok(&format!("volume delete {at} late"));
    name("setomapval", &["--input-file".as_ref(), record.as_os_str()]);
    for request in ["check", "scrub", "stats", "compact"] {
        lab.ok(&format!("volume {request} {at}"));
    }
    assert!(!lab.ok(&format!("volume list {at}")).stdout.contains("late"));
    lab.run(&format!("volume delete {at} late")).expect(1).says(&["no volume 'late'"]);
    lab.ok(&format!("volume create {at} --size 4MiB late"));
    lab.ok(&format!("volume delete {at} late"));
    let line = format!("serve {at} --listen 127.0.0.1:0 --check-every 1 --unix");
    let mut first = Served::start_at(&lab, &format!("{line} first"), "first").unwrap();
    fill(&mut first.client("a"), 0, 300);
    fill(&mut first.client("b"), 0, 100);
    // the last batch of its journal is damaged: no gateway can open it
    assert_eq!(first.signal(Signal::TERM), 0);
    let mut first = Served::start_at(&lab, &format!("{line} again"), "again").unwrap();
    let mut client = first.client("a");
    for n in 0..20 {
        client.write(n * BLOCK as u64, &page(1000 + n)).unwrap();
    }
    first.signal(Signal::KILL);
    let listed = lab.ok(&format!("volume list {at} --json")).json();
    let shard = listed[0]["shard"].as_str().unwrap().to_owned();
    let segments = rados(&ceph, REPLICATED, &["ls".as_ref()]);
    let segments = segments.lines().filter(|name| name.starts_with(&format!("{shard}.segment.")));
    let sizes = segments.map(|name| {
        let shown = rados(&ceph, REPLICATED, &["stat".as_ref(), name.as_ref()]);
        (shown.trim().rsplit(' ').next().unwrap().parse::<u64>().unwrap(), name.to_owned())
    });
    let (size, segment) = sizes.max().unwrap();
    assert!(size > 0, "{segment} has no batch");
    spoil(&lab, &ceph, &segment, |bytes| *bytes.last_mut().unwrap() ^= 1);
    let ran = lab.run(&format!("volume check {at}")).expect(1);
    assert!(ran.stderr.contains(&segment), "{ran:#?}");
    // which keeps no other shard from being asked
    for (request, field) in [
        ("check", "pages"),
        ("scrub", "pages"),
        ("stats", "mapped_bytes"),
        ("compact", "gave_back_bytes"),
    ] {
        let ran = lab.run(&format!("volume {request} {at} --json")).expect(1);
        assert!(ran.stderr.contains(&segment) && ran.stderr.contains("1 of 2 shards"), "{ran:#?}");
        assert!(ran.json()[field].is_u64(), "{ran:#?}");
    }
    let fsck = status.replace("status", "fsck");
    let found = lab.run(&format!("{fsck} --json")).expect(1).json();
    assert_eq!(found["shards"], serde_json::json!([listed[1]["shard"]]), "{found}");
    let is_named = |one: &serde_json::Value| {
        let problem = one["problem"].as_str().unwrap();
        problem.contains(&format!("{shard} (volumes a)")) && problem.contains(&segment)
    };
    assert!(found["problems"].as_array().unwrap().iter().any(is_named), "{found}");
    let told = lab.ok(&format!("{status} --full")).stdout;
    assert!(told.contains(&segment) && told.contains("1 other problem"), "{told}");

    // a gateway serves the other volume, and that one is left alone
    let mut second = Served::start_at(&lab, &format!("{line} second"), "second").unwrap();
    wait_for("b is served", || try_client(&second, "b").is_some());
    assert!(try_client(&second, "a").is_none());
    let ran = lab.ok(&format!("volume check {at} --repair --json"));
    assert!(ran.stderr.contains("because gateways serve them: b (gateway "), "{ran:#?}");
    let done = ran.json();
    assert!(done["settled"][0].as_str().unwrap().starts_with("a: gave up changes"), "{done}");
    let kept = done["kept"][0].as_str().unwrap();
    assert_eq!(rados(&ceph, REPLICATED, &["ls".as_ref()]).matches(kept).count(), 1, "{done}");
    lab.ok(&format!("volume check {at}"));
    wait_for("a is served", || try_client(&second, "a").is_some());
    expect_pages(&mut second.client("a"), (0..19).map(|n| (n, 1000 + n)));
    expect_pages(&mut second.client("a"), (20..300).map(|n| (n, n)));
    let ran = lab.run(&format!("volume check {at} --repair")).expect(1);
    assert!(ran.stderr.contains("stop their gateways"), "{ran:#?}");
    let told = lab.ok(&format!("{status} --full --json")).json();
    assert_eq!((&told["leaks"], &told["problems"]), (&0.into(), &0.into()), "{told}");
    let serving = told["gateways"].as_array().unwrap().iter().find(|one| one["is_serving"] == true);
    assert_eq!(serving.unwrap()["index_ranges"], serde_json::json!(["000-fff"]), "{told}");
    wait_for("the ratio over all is counted", || {
        let told = lab.ok(&format!("{status} --json")).json();
        told["stored"]["logical_bytes"].as_u64() == Some(400 * BLOCK as u64)
            && told["stored"]["total_reduction"].as_f64() > Some(1.0)
    });
    let text = lab.ok(&format!("{status} --full")).stdout;
    for part in ["ratio over all", "100.0 %", "leaked  ", "0 other problems"] {
        assert!(text.contains(part), "{part}: {text}");
    }

    // damage that a command finds is noted for all
    assert_eq!(second.signal(Signal::TERM), 0);
    let (container, size) =
        containers(&ceph, REPLICATED).into_iter().max_by_key(|(_, size)| *size).unwrap();
    spoil(&lab, &ceph, &container, |bytes| bytes[size as usize / 2..][..50].fill(0xaa));
    let found = lab.run(&format!("volume scrub {at} --json")).expect(1).json();
    assert!(!found["bad"].as_array().unwrap().is_empty(), "{found}");
    let noted = lab.ok(&format!("{status} --json")).json();
    assert_eq!(noted["damage"].as_array().unwrap().len(), 1, "{noted}");
    assert_eq!(noted["scrub"]["damaged"], 0, "{noted}: no gateway found it");
}
