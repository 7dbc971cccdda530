//! Look-ups and pages, by the gateway that holds them.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

use onefold_backend::rados::RadosPool;
use onefold_fingerprint::Fingerprint;
use tokio::runtime::{Builder, Runtime};

use super::options::{HintCounters, Notice, PooledOptions, Tell, count};
use super::state::State;
use super::upkeep::Upkeep;
use crate::hints::{GatewayId, Hint, Hints, Key, Slice, Store, key_of};
use crate::peers::{
    Asker, Authority, Identity, Limits, MAX_PAGES, Members, PeerError, Server, name,
};

/// Answers control requests that come from other machines: opaque bytes of at most
/// [`MAX_CONTROL`](crate::peers::MAX_CONTROL), answered by at most
/// [`MAX_CONTROL_ANSWER`](crate::peers::MAX_CONTROL_ANSWER). Called from a thread that may block.
pub type OnControl = Arc<dyn Fn(&[u8], &Asker) -> Vec<u8> + Send + Sync>;

/// Threads that move bytes of messages.
const THREADS: usize = 2;

/// A gateway's part of the pooled index: it holds the hints of some ranges, answers other gateways, and asks them.
///
/// It answers until it is dropped, which also writes what was not dumped yet, within
/// [`last_dumps`](PooledOptions::last_dumps).
pub struct PooledHints {
    state: Arc<State>,
    options: PooledOptions,
    server: Server,
    // dropped before the threads of the connections
    upkeep: Option<Upkeep>,
    runtime: Option<Runtime>,
}

/// A place where other gateways will connect, and who this one is.
pub struct PeerPlace {
    /// This gateway.
    pub gateway: GatewayId,
    /// Where it listens.
    pub listener: TcpListener,
    /// The key of the cluster.
    pub authority: Arc<Authority>,
}

/// Where the objects of a cluster are; both may be the same.
#[derive(Clone)]
pub struct Pools {
    /// Everything but containers.
    pub meta: Arc<dyn RadosPool>,
    /// Containers.
    pub data: Arc<dyn RadosPool>,
}

impl PooledHints {
    /// Shares the index with `members`, whose dumps and containers are in `pools`. Before the first look at the members,
    /// which takes a moment, nothing is found.
    ///
    /// # Errors
    /// [`PeerError`] if there is too little memory, or no thread, socket or certificate.
    pub fn start(
        place: PeerPlace,
        pools: Pools,
        members: Arc<dyn Members>,
        options: PooledOptions,
        on_control: OnControl,
        tell: impl Fn(Notice<'_>) + Send + Sync + 'static,
    ) -> Result<Self, PeerError> {
        let PeerPlace { gateway, listener, authority } = place;
        let system = |what, source| PeerError::System { what, source };
        let store = Store::new(options.memory)
            .map_err(|error| system("take memory for hints", std::io::Error::other(error)))?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("peers")
            .enable_all()
            .build()
            .map_err(|source| system("start threads for other gateways", source))?;
        let tell: Tell = Arc::new(tell);
        let state = Arc::new(State::new(gateway, store, on_control));
        let identity = Identity::new(&authority, name(gateway));
        let refused = Arc::clone(&tell);
        let on_refused = Arc::new(move |from, why: &str| refused(Notice::Refused { from, why }));
        let answers = Arc::<State>::clone(&state);
        let limits = Limits::default();
        let server = Server::start(
            runtime.handle(),
            listener,
            gateway,
            &identity,
            answers,
            limits,
            on_refused,
        )?;
        let config = identity.client()?;
        let upkeep = Upkeep::start(
            Arc::clone(&state),
            (members, pools),
            options.clone(),
            (runtime.handle().clone(), config),
            tell,
        );
        let upkeep = Some(upkeep.map_err(|source| system("start a thread for hints", source))?);
        Ok(Self { state, options, server, upkeep, runtime: Some(runtime) })
    }

    /// Where other gateways connect.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// This gateway.
    pub fn gateway(&self) -> GatewayId {
        self.state.own
    }

    /// Counters since the start.
    pub fn counters(&self) -> HintCounters {
        self.state.counters()
    }

    /// How many pages this gateway knows, by a full count.
    pub fn count(&self) -> usize {
        self.state.store.count()
    }

    /// The other gateways, and whether there is a connection to each.
    pub fn others(&self) -> Vec<(GatewayId, SocketAddr, bool)> {
        let view = self.state.view();
        let shown = view.others.iter();
        shown.map(|(id, other)| (*id, other.peer.address(), other.peer.is_up())).collect()
    }

    /// How many slices this gateway holds.
    pub fn slices(&self) -> usize {
        self.state.view().ranges.of(self.state.own).count()
    }

    /// Asks the other gateways for `asked`, and enters what comes in time into `hints`.
    fn ask(&self, asked: HashMap<GatewayId, Vec<(usize, Key)>>, hints: &mut [Option<Hint>]) {
        let Some(runtime) = &self.runtime else { return };
        let view = self.state.view();
        let end = Instant::now() + self.options.deadline;
        let (tell, told) = channel();
        let mut unanswered: usize = asked.values().map(Vec::len).sum();
        for (gateway, keys) in asked {
            let Some(other) = view.others.get(&gateway) else { continue };
            for batch in keys.chunks(MAX_PAGES) {
                let (places, keys): (Vec<usize>, Vec<Key>) = batch.iter().copied().unzip();
                let (peer, tell) = (Arc::clone(&other.peer), tell.clone());
                let deadline = self.options.deadline;
                runtime.spawn(async move {
                    if let Some(found) = peer.find(&keys, deadline).await {
                        // nobody may wait any more
                        let _ = tell.send((places, found));
                    }
                });
            }
        }
        drop(tell);
        while let Ok((places, found)) =
            told.recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            unanswered -= places.len();
            places.into_iter().zip(found).for_each(|(place, hint)| hints[place] = hint);
        }
        // an answer that comes after this is as good as none
        count(&self.state.counts.late, unanswered);
    }
}

impl Hints for PooledHints {
    /// Waits for other gateways no longer than [`PooledOptions::deadline`].
    fn find(&self, fingerprints: &[Fingerprint]) -> Vec<Option<Hint>> {
        let view = self.state.view();
        let mut hints = vec![None; fingerprints.len()];
        let mut asked = HashMap::<GatewayId, Vec<(usize, Key)>>::new();
        for (place, fingerprint) in fingerprints.iter().enumerate() {
            let key = key_of(fingerprint);
            match view.ranges.holder(Slice::of(fingerprint)) {
                Some(holder) if holder != self.state.own => {
                    asked.entry(holder).or_default().push((place, key));
                }
                _ => hints[place] = self.state.store.find(&key),
            }
        }
        if !asked.is_empty() {
            self.ask(asked, &mut hints);
        }
        count(&self.state.counts.lookups, fingerprints.len());
        count(&self.state.counts.hits, hints.iter().flatten().count());
        hints
    }

    /// Never waits: pages for other gateways are queued, as far as there is room.
    fn add(&self, pages: &[(Fingerprint, Hint)]) {
        let view = self.state.view();
        let (mut own, mut told) = (Vec::new(), HashMap::<GatewayId, Vec<(Key, Hint)>>::new());
        for (fingerprint, hint) in pages {
            let page = (key_of(fingerprint), *hint);
            match view.ranges.holder(Slice::of(fingerprint)) {
                Some(holder) if holder != self.state.own => {
                    told.entry(holder).or_default().push(page);
                }
                _ => own.push(page),
            }
        }
        self.state.store.add(&own);
        for (gateway, pages) in told {
            match view.others.get(&gateway) {
                Some(other) => other.outbox.push(&pages),
                None => count(&self.state.counts.dropped, pages.len()),
            }
        }
        count(&self.state.counts.added, pages.len());
    }
}

impl Drop for PooledHints {
    fn drop(&mut self) {
        // the last dumps
        drop(self.upkeep.take());
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
