//! A pool whose operations are counted.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Answer, OnUpdated, PoolKind, Query, RadosError, RadosPool, Update};

/// Counters of the operations of one or several pools, since the start.
#[derive(Debug, Default)]
pub struct RadosCounters {
    updates: AtomicU64,
    queries: AtomicU64,
    lists: AtomicU64,
    written: AtomicU64,
    read: AtomicU64,
}

/// What [`RadosCounters`] had at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RadosCounts {
    /// Updates that were sent, also those that were refused or got no answer.
    pub updates: u64,
    /// Queries that were sent, also those that were refused or got no answer.
    pub queries: u64,
    /// Lists of all objects that were begun.
    pub lists: u64,
    /// Bytes that the updates write: data, attributes and omaps, once and not for each copy.
    pub written_bytes: u64,
    /// Bytes that answers of queries had: data, attributes and omaps.
    pub read_bytes: u64,
}

impl RadosCounters {
    /// What they have now.
    pub fn counts(&self) -> RadosCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RadosCounts {
            updates: of(&self.updates),
            queries: of(&self.queries),
            lists: of(&self.lists),
            written_bytes: of(&self.written),
            read_bytes: of(&self.read),
        }
    }
}

/// A pool whose operations are counted.
pub struct CountedRados {
    inner: Arc<dyn RadosPool>,
    counters: Arc<RadosCounters>,
}

impl CountedRados {
    /// The pool `inner`, whose operations are added to `counters`. Several pools may share them.
    pub fn new(inner: Arc<dyn RadosPool>, counters: Arc<RadosCounters>) -> Self {
        Self { inner, counters }
    }
}

impl RadosPool for CountedRados {
    fn kind(&self) -> &PoolKind {
        self.inner.kind()
    }

    fn start_update(&self, object: &str, update: Update, done: OnUpdated) {
        self.counters.updates.fetch_add(1, Ordering::Relaxed);
        self.counters.written.fetch_add(update.bytes(), Ordering::Relaxed);
        self.inner.start_update(object, update, done);
    }

    fn update(&self, object: &str, update: Update) -> Result<u64, RadosError> {
        self.counters.updates.fetch_add(1, Ordering::Relaxed);
        self.counters.written.fetch_add(update.bytes(), Ordering::Relaxed);
        self.inner.update(object, update)
    }

    fn query(&self, object: &str, query: &Query) -> Result<Answer, RadosError> {
        self.counters.queries.fetch_add(1, Ordering::Relaxed);
        let answer = self.inner.query(object, query)?;
        self.counters.read.fetch_add(bytes(&answer), Ordering::Relaxed);
        Ok(answer)
    }

    fn list(&self, each: &mut dyn FnMut(&str) -> ControlFlow<()>) -> Result<(), RadosError> {
        self.counters.lists.fetch_add(1, Ordering::Relaxed);
        self.inner.list(each)
    }
}

/// The bytes of an answer.
fn bytes(answer: &Answer) -> u64 {
    let xattrs = answer.xattrs.values().map(|value| value.len());
    let omap = answer.omap.iter().map(|(key, value)| key.len() + value.len());
    (answer.bytes.len() + xattrs.sum::<usize>() + omap.sum::<usize>()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rados::{MemoryRados, OmapRange, Step};
    use bytes::Bytes;

    #[test]
    fn operations_and_their_bytes_are_counted_also_those_that_are_refused() {
        let counters = Arc::<RadosCounters>::default();
        let pool = CountedRados::new(Arc::new(MemoryRados::replicated()), Arc::clone(&counters));
        let entries = vec![("key".to_owned(), Bytes::from_static(b"value"))];
        let update = Update::creating()
            .then(Step::Append(Bytes::from_static(b"0123456789")))
            .set("name", "abc")
            .then(Step::SetOmap(entries));
        pool.update("object", update.clone()).unwrap();
        pool.update("object", update).unwrap_err();
        let query = Query {
            range: Some(2..6),
            xattrs: true,
            omap: Some(OmapRange { after: String::new(), limit: 9 }),
            ..Query::default()
        };
        pool.query("object", &query).unwrap();
        pool.query("absent", &query).unwrap_err();
        pool.list(&mut |_| ControlFlow::Continue(())).unwrap();
        let expected = RadosCounts {
            updates: 2,
            queries: 2,
            lists: 1,
            written_bytes: 2 * (10 + 3 + 8),
            read_bytes: 4 + 3 + 8,
        };
        assert_eq!(counters.counts(), expected);
    }
}
