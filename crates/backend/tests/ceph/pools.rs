//! What Ceph does beyond the contract of a pool, or unlike other engines.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::channel;

use onefold_backend::rados::{RadosPool, Refusal, Step, Update};
use onefold_testkit::ceph::{ERASURE_CODED, REPLICATED};

use super::{ceph, connect, expect_refusal};

#[test]
fn the_kind_of_a_pool_is_found_out_and_nothing_is_left_behind() {
    let Some(ceph) = ceph() else { return };
    let cluster = connect(&ceph);
    for (name, has_omap, alignment) in [(REPLICATED, true, 1), (ERASURE_CODED, false, 8192)] {
        let pool = cluster.pool(name, "kind").unwrap();
        let kind = pool.kind();
        assert_eq!((&*kind.name, kind.has_omap, kind.alignment), (name, has_omap, alignment));
        assert_eq!((kind.max_object, kind.max_update), (128 << 20, 90 << 20));
        assert_eq!(kind.identity.cluster, cluster.fsid());
        // a line for each pool, its number first
        let listed = ceph.command(&["osd", "lspools"]);
        let line = format!("{} {name}", kind.identity.number);
        assert!(listed.lines().any(|one| one == line), "{line}: {listed}");
        pool.list(&mut |object| -> ControlFlow<()> { panic!("{object} was made") }).unwrap();
    }
}

#[test]
fn the_last_owner_of_a_connection_may_be_an_update_that_ends() {
    let Some(ceph) = ceph() else { return };
    let cluster = connect(&ceph);
    let pool = Arc::new(cluster.pool(REPLICATED, "last").unwrap());
    let (tell, told) = channel();
    for number in 0..8 {
        let (tell, owned) = (tell.clone(), pool.clone());
        let update = Update::creating().then(Step::Append("1".into()));
        let done = move |result: Result<u64, _>| {
            drop(owned);
            tell.send(result.map(drop)).unwrap();
        };
        pool.start_update(&format!("object{number}"), update, Box::new(done));
    }
    drop((pool, cluster, tell));
    let results: Vec<_> = told.iter().collect();
    assert_eq!(results.len(), 8);
    results.into_iter().for_each(|result| result.unwrap());
}

#[test]
fn a_name_that_is_too_long_is_refused() {
    let Some(ceph) = ceph() else { return };
    let pool = connect(&ceph).pool(REPLICATED, "names").unwrap();
    let name = |length| "n".repeat(length);
    expect_refusal(pool.update(&name(2049), Update::creating()), Refusal::TooLarge);
    pool.update(&name(1024), Update::creating()).unwrap();
    let attribute = |length| Update::existing().set(&name(length), "1");
    expect_refusal(pool.update(&name(1024), attribute(101)), Refusal::TooLarge);
    pool.update(&name(1024), attribute(100)).unwrap();
}
