//! What the threads of a gateway share.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};

use super::gateway::OnControl;
use super::options::{Counts, HintCounters, count};
use crate::hints::{GatewayId, Hint, Key, Ranges, Store};
use crate::peers::outbox::Outbox;
use crate::peers::{Answers, Asker, Peer, Traffic};

/// Another gateway.
pub(super) struct Other {
    pub(super) peer: Arc<Peer>,
    pub(super) outbox: Outbox,
}

/// Who holds what, at one moment.
pub(super) struct View {
    pub(super) ranges: Ranges,
    pub(super) others: HashMap<GatewayId, Arc<Other>>,
}

/// The store, the other gateways, and counters. It holds nothing before the first look at the members.
pub(super) struct State {
    pub(super) own: GatewayId,
    pub(super) store: Store,
    pub(super) view: RwLock<Arc<View>>,
    pub(super) counts: Counts,
    pub(super) traffic: Arc<Traffic>,
    pub(super) on_control: OnControl,
}

impl State {
    pub(super) fn new(own: GatewayId, store: Store, on_control: OnControl) -> Self {
        let view = View { ranges: Ranges::new([]), others: HashMap::new() };
        Self {
            own,
            store,
            view: RwLock::new(Arc::new(view)),
            counts: Counts::default(),
            traffic: Arc::default(),
            on_control,
        }
    }

    pub(super) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn counters(&self) -> HintCounters {
        let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.counts;
        HintCounters {
            lookups: of(&counts.lookups),
            hits: of(&counts.hits),
            late: of(&counts.late),
            added: of(&counts.added),
            dropped: of(&counts.dropped),
            asked: of(&counts.asked),
            answered: of(&counts.answered),
            footers: of(&counts.footers),
            filled: of(&counts.filled),
            passed_over: self.store.passed_over(),
            sent_bytes: of(&self.traffic.sent),
            received_bytes: of(&self.traffic.received),
            finds: of(&self.traffic.finds),
            tells: of(&self.traffic.adds),
        }
    }
}

impl Answers for State {
    fn find(&self, keys: &[Key]) -> Vec<Option<Hint>> {
        let hints: Vec<_> = keys.iter().map(|key| self.store.find(key)).collect();
        count(&self.counts.asked, keys.len());
        count(&self.counts.answered, hints.iter().flatten().count());
        hints
    }

    fn add(&self, pages: &[(Key, Hint)]) {
        self.store.add(pages);
    }

    fn control(&self, request: &[u8], asker: &Asker) -> Vec<u8> {
        (self.on_control)(request, asker)
    }
}
