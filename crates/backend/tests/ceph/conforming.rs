//! Ceph is held to the contract, and so is the model that stands for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use onefold_backend::rados::{RadosPool, conformance};
use onefold_testkit::ceph::{ERASURE_CODED, REPLICATED};

use super::{ceph, connect};

fn conforms(name: &str) {
    let Some(ceph) = ceph() else { return };
    let cluster = connect(&ceph);
    let count = AtomicU32::new(0);
    conformance::pool(|| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        let pool: Arc<dyn RadosPool> =
            Arc::new(cluster.pool(name, &format!("conform-{number}")).unwrap());
        pool
    });
}

#[test]
fn a_replicated_pool_conforms() {
    conforms(REPLICATED);
}

#[test]
fn an_erasure_coded_pool_conforms() {
    conforms(ERASURE_CODED);
}

#[test]
fn an_erasure_coded_pool_that_takes_overwrites_conforms() {
    let Some(ceph) = ceph() else { return };
    let name = "conforming";
    ceph.command(&["osd", "pool", "create", name, "4", "4", "erasure", "two-and-one"]);
    ceph.command(&["osd", "pool", "set", name, "allow_ec_overwrites", "true"]);
    let kind = connect(&ceph).pool(name, "").unwrap().kind().clone();
    assert_eq!((kind.has_omap, kind.alignment), (false, 1));
    // Others may wait to have the cluster for themselves.
    drop(ceph);
    conforms(name);
}
