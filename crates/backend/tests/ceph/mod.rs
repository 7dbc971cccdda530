//! Ceph itself: one cluster of its own for all of these tests.

mod conforming;
mod connecting;
mod faults;
mod pools;

use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use onefold_backend::rados::{CephError, CephOptions, CephPool, RadosCluster, RadosPool, Refusal};
use onefold_testkit::ceph::Ceph;
use onefold_testkit::skip;

/// Longer than any answer takes, however busy the machine is.
const LONG: Duration = Duration::from_secs(300);

static CEPH: LazyLock<Result<RwLock<Ceph>, String>> =
    LazyLock::new(|| Ceph::start().map(RwLock::new));

/// The cluster, or `None` and a skip. Other tests use it at the same time.
fn ceph() -> Option<RwLockReadGuard<'static, Ceph>> {
    match &*CEPH {
        Ok(ceph) => Some(ceph.read().unwrap_or_else(PoisonError::into_inner)),
        Err(reason) => {
            skip(reason);
            None
        }
    }
}

/// The cluster for this test alone, or `None` and a skip.
fn ceph_alone() -> Option<RwLockWriteGuard<'static, Ceph>> {
    match &*CEPH {
        Ok(ceph) => Some(ceph.write().unwrap_or_else(PoisonError::into_inner)),
        Err(reason) => {
            skip(reason);
            None
        }
    }
}

fn options(ceph: &Ceph) -> CephOptions {
    CephOptions {
        conf: Some(ceph.conf()),
        connect_limit: LONG,
        operation_limit: LONG,
        ..CephOptions::default()
    }
}

/// A connection as the user `admin`.
fn connect(ceph: &Ceph) -> RadosCluster {
    RadosCluster::connect(&options(ceph)).unwrap()
}

/// The error of connecting with these options, or `None` and a skip where the library is missing.
fn connect_error(options: &CephOptions) -> Option<CephError> {
    match RadosCluster::connect(options).unwrap_err() {
        absent @ CephError::LibraryAbsent { .. } => {
            skip(&absent.to_string());
            None
        }
        error => Some(error),
    }
}

#[track_caller]
fn expect_text(error: &CephError, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[track_caller]
fn expect_refusal<T: std::fmt::Debug>(
    result: Result<T, onefold_backend::rados::RadosError>,
    why: Refusal,
) {
    let found = result.as_ref().err().and_then(|error| error.refusal());
    assert_eq!(found, Some(why), "{result:?}");
}

/// The length of an object.
fn length(pool: &CephPool, object: &str) -> u64 {
    pool.query(object, &Default::default()).unwrap().length
}
