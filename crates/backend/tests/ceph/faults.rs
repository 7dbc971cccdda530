//! A full pool, a client that was fenced off, and servers that do not answer.

use std::time::Duration;

use onefold_backend::rados::{
    CephError, CephOptions, Query, RadosCluster, RadosError, RadosPool, Refusal, Step, Update,
    conformance,
};
use onefold_testkit::ceph::{ERASURE_CODED, REPLICATED};

use super::{ceph, ceph_alone, connect, expect_refusal, expect_text, length, options};

fn append(bytes: &'static str) -> Update {
    Update::existing().then(Step::Append(bytes.into()))
}

#[test]
fn a_full_pool_refuses_what_it_has_no_room_for_and_takes_removals() {
    let Some(ceph) = ceph() else { return };
    let cluster = connect(&ceph);
    ceph.command(&["osd", "pool", "create", "small", "4", "4", "replicated"]);
    ceph.command(&["osd", "pool", "set-quota", "small", "max_objects", "2"]);
    let pool = cluster.pool("small", "").unwrap();
    for name in ["a", "b", "c"] {
        pool.update(name, Update::creating().set("x", "1").then(Step::Append("1".into()))).unwrap();
    }
    // The monitor counts now and then.
    let full = |name: &str| match pool.update(name, Update::creating()) {
        Ok(_) => {
            pool.update(name, Update::existing().then(Step::Remove)).unwrap();
            false
        }
        Err(error) => {
            assert_eq!(error.refusal(), Some(Refusal::Full), "{error}");
            true
        }
    };
    ceph.wait_until("the pool is full", |_| full("d"));
    expect_refusal(pool.update("a", append("2")), Refusal::Full);
    assert_eq!(length(&pool, "a"), 1);
    pool.update("e", Update::creating().then(Step::Append("1".into())).even_if_full()).unwrap();
    conformance::full_pool(&pool, "e");
    // What takes no room goes on, and what frees some.
    pool.update("a", Update::existing().expect("x", "1").set("x", "2")).unwrap();
    for name in ["a", "b"] {
        pool.update(name, Update::existing().then(Step::Remove)).unwrap();
    }
    ceph.wait_until("the pool is not full", |_| !full("d"));
    pool.update("c", append("2")).unwrap();
}

#[test]
fn a_client_that_was_fenced_off_stays_so() {
    let Some(ceph) = ceph() else { return };
    let (old, successor) = (connect(&ceph), connect(&ceph));
    let pools = |cluster: &RadosCluster| {
        [REPLICATED, ERASURE_CODED].map(|name| cluster.pool(name, "fenced").unwrap())
    };
    let (old_pools, pools_now) = (pools(&old), pools(&successor));
    for pool in &old_pools {
        pool.update("a", Update::creating()).unwrap();
    }
    successor.fence(&old.address().unwrap(), Duration::from_secs(3600)).unwrap();
    for (fenced, pool) in old_pools.iter().zip(&pools_now) {
        // From here on the server knows.
        pool.update("a", Update::existing().set("writer", "2")).unwrap();
        expect_refusal(fenced.update("a", Update::existing().set("writer", "1")), Refusal::Fenced);
        expect_refusal(fenced.query("a", &Query::default()), Refusal::Fenced);
        let query = Query { xattrs: true, ..Query::default() };
        assert_eq!(&pool.query("a", &query).unwrap().xattrs["writer"][..], b"2");
    }
    // A new connection of the same user is another client.
    let again = connect(&ceph);
    for pool in pools(&again) {
        pool.update("a", Update::existing().set("writer", "3")).unwrap();
    }
}

#[test]
fn an_update_without_an_answer_is_done_whole_or_not_at_all() {
    let Some(ceph) = ceph_alone() else { return };
    let impatient = CephOptions { operation_limit: Duration::from_secs(1), ..options(&ceph) };
    let impatient = RadosCluster::connect(&impatient).unwrap();
    let cluster = connect(&ceph);
    let names = [REPLICATED, ERASURE_CODED];
    let pools = names.map(|name| cluster.pool(name, "paused").unwrap());
    for pool in &pools {
        pool.update("a", Update::creating().set("writer", "1").set("next", "0")).unwrap();
    }
    // A busy server may take longer than this one waits.
    let hurried = names.map(|name| {
        let mut tries = (0..1000).map(|_| impatient.pool(name, "paused"));
        tries.find_map(Result::ok).expect("a server answers now and then")
    });
    ceph.pause("osd.");
    let mut found = Vec::new();
    for pool in &hurried {
        let update = Update::existing().expect("writer", "1").expect("next", "0");
        let update = update.set("next", "1").then(Step::Append("page".into()));
        found.push(pool.update("a", update).map(drop));
        found.push(pool.query("a", &Query::default()).map(drop));
        found.push(pool.list(&mut |_| std::ops::ControlFlow::Continue(())));
    }
    ceph.resume("osd.");
    for result in found {
        let error = result.unwrap_err();
        assert!(matches!(error, RadosError::Unknown { .. }), "{error}");
    }
    for pool in &pools {
        // A successor's guard decides it: afterwards nothing changes any more.
        pool.update("a", Update::existing().expect("writer", "1").set("writer", "2")).unwrap();
        let query = Query { range: Some(0..10), xattrs: true, ..Query::default() };
        let decided = pool.query("a", &query).unwrap();
        let next = &decided.xattrs["next"][..];
        match &decided.bytes[..] {
            b"" => assert_eq!(next, b"0"),
            b"page" => assert_eq!(next, b"1"),
            other => panic!("{other:?} was appended"),
        }
    }
    for (pool, hurried) in pools.iter().zip(&hurried) {
        let late = Update::existing().expect("writer", "1").then(Step::Append("late".into()));
        let mut tries = (0..1000).map(|_| hurried.update("a", late.clone()));
        let refusal = tries.find_map(|result| result.unwrap_err().refusal());
        assert_eq!(refusal, Some(Refusal::Guard));
        assert!(length(pool, "a") <= 4);
    }
}

#[test]
fn objects_need_no_monitor_and_a_fence_does() {
    let Some(ceph) = ceph_alone() else { return };
    let impatient = CephOptions { operation_limit: Duration::from_secs(1), ..options(&ceph) };
    let impatient = RadosCluster::connect(&impatient).unwrap();
    let pools = [REPLICATED, ERASURE_CODED].map(|name| connect(&ceph).pool(name, "mon").unwrap());
    ceph.pause("mon.");
    for pool in &pools {
        pool.update("a", Update::creating().then(Step::Append("1".into()))).unwrap();
        assert_eq!(length(pool, "a"), 1);
    }
    let fenced = impatient.fence("127.0.0.1:0/1", Duration::from_secs(1));
    ceph.resume("mon.");
    let error = fenced.unwrap_err();
    assert!(matches!(error, CephError::Failed { .. }), "{error}");
    expect_text(&error, &["blocklist 127.0.0.1:0/1", "timed out"]);
}

#[test]
fn what_was_acknowledged_outlives_a_kill_of_all_servers() {
    let Some(mut ceph) = ceph_alone() else { return };
    let cluster = connect(&ceph);
    let pools = [REPLICATED, ERASURE_CODED].map(|name| cluster.pool(name, "killed").unwrap());
    for pool in &pools {
        for name in ["a", "b", "c"] {
            pool.update(name, Update::creating().set("x", name).then(Step::Append("1".into())))
                .unwrap();
        }
    }
    let hurried = CephOptions { operation_limit: Duration::from_secs(1), ..options(&ceph) };
    let hurried = RadosCluster::connect(&hurried).unwrap();
    ceph.kill_and_start("osd.");
    // The servers are at other addresses, and this one gives up before they are late by default.
    ceph.wait_until("a hurried client finds the servers", |_| {
        hurried.pool(REPLICATED, "killed").is_ok()
    });
    for pool in &pools {
        for name in ["a", "b", "c"] {
            let query = Query { range: Some(0..9), xattrs: true, ..Query::default() };
            let found = pool.query(name, &query).unwrap();
            assert_eq!((&found.bytes[..], &found.xattrs["x"][..]), (&b"1"[..], name.as_bytes()));
        }
    }
}
