//! What the tests of all object stores share.

use std::cell::Cell;
use std::time::Duration;

use onefold_backend::{RemoteObjects, RetryPolicy, Retrying, conformance};
use onefold_testkit::s3::{Fate, Mishaps, Proxy};

pub(crate) const NO_MISHAPS: Mishaps = Mishaps { seed: 0, one_in: 0 };

/// Every fourth request is lost.
pub(crate) const MISHAPS: Mishaps = Mishaps { seed: 5, one_in: 4 };

pub(crate) const POLICY: RetryPolicy = RetryPolicy {
    first: Duration::from_millis(5),
    longest: Duration::from_millis(20),
    total: Duration::from_secs(30),
};

/// Checks the objects that `open` gives for each new prefix.
pub(crate) fn conform(open: impl Fn(&str) -> RemoteObjects) {
    let count = Cell::new(0);
    conformance::objects(|| {
        count.set(count.get() + 1);
        Box::new(open(&format!("conform/{}", count.get())))
    });
}

/// The same with retries over `proxy`, which has [`MISHAPS`], each kind of them at least once.
pub(crate) fn conform_over_mishaps(proxy: &Proxy, open: impl Fn(&str) -> RemoteObjects) {
    let count = Cell::new(0);
    conformance::objects(|| {
        count.set(count.get() + 1);
        let remote = open(&format!("faulty/{}", count.get()));
        Box::new(Retrying::new(remote, &proxy.url(), POLICY))
    });
    let fates = proxy.fates();
    for mishap in Fate::MISHAPS {
        assert!(fates.contains_key(&mishap), "{mishap:?} never happened: {fates:?}");
    }
}
