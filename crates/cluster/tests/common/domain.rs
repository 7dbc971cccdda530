//! Gateways of one process over a pool in memory, by a clock that the test moves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use onefold_backend::rados::{MemoryRados, RadosPool};
use onefold_block::{BlockDevice, BlockSize};
use onefold_cluster::{
    About, Audience, Domain, Gateway, GatewayEvent, LeaseClock, OpenShard, Reached, Settings,
    Shards,
};
use onefold_seal::ObjectId;
use onefold_volume::{Codec, Hash, Options, VolumeError};

pub(crate) const BLOCK: u64 = 4096;

/// A clock that a test moves.
#[derive(Default)]
pub(crate) struct Moved(AtomicU64);

impl Moved {
    pub(crate) fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl LeaseClock for Moved {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// The clients of one gateway: they use the shards that are open there until they are told to stop.
#[derive(Default)]
pub(crate) struct Clients {
    open: Mutex<Vec<Arc<OpenShard>>>,
    events: Mutex<Vec<String>>,
}

impl Audience for Clients {
    fn opened(&self, shard: &Arc<OpenShard>, damage: Vec<VolumeError>) {
        assert!(damage.is_empty(), "{damage:?}");
        self.open.lock().unwrap().push(Arc::clone(shard));
    }

    fn closing(&self, shard: &Arc<OpenShard>) {
        self.open.lock().unwrap().retain(|open| !Arc::ptr_eq(open, shard));
    }

    fn tell(&self, event: GatewayEvent) {
        self.events.lock().unwrap().push(format!("{event:?}"));
    }
}

impl Clients {
    /// The shards that clients use.
    pub(crate) fn open(&self) -> Vec<Arc<OpenShard>> {
        self.open.lock().unwrap().clone()
    }

    /// How many events were of this kind.
    pub(crate) fn told(&self, kind: &str) -> usize {
        self.events.lock().unwrap().iter().filter(|event| event.starts_with(kind)).count()
    }
}

/// A gateway and its clients.
pub(crate) struct Node {
    pub(crate) gateway: Gateway,
    pub(crate) clients: Arc<Clients>,
}

/// A new domain in memory.
pub(crate) fn domain() -> Arc<dyn RadosPool> {
    let pool: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
    Domain::create(&pool, Hash::Blake3, Codec::Zstd).unwrap();
    pool
}

pub(crate) fn about(host: &str) -> About {
    let nbd = format!("{host}:10809");
    About {
        process: ObjectId::random(),
        is_serving: true,
        host: host.into(),
        nbd,
        rpc: Bytes::new(),
    }
}

pub(crate) fn node(pool: &Arc<dyn RadosPool>, clock: &Arc<Moved>, host: &str) -> Node {
    try_node(pool, clock, host).unwrap()
}

pub(crate) fn try_node(
    pool: &Arc<dyn RadosPool>,
    clock: &Arc<Moved>,
    host: &str,
) -> Result<Node, VolumeError> {
    let options = Options { table_bytes: 1 << 20, container_len: 64 << 10, ..Options::default() };
    let clients = Arc::<Clients>::default();
    let clock: Arc<dyn LeaseClock> = Arc::<Moved>::clone(clock);
    let settings = Settings::new(about(host), options);
    let gateway = Gateway::begin(pool, &clock, settings, Arc::<Clients>::clone(&clients))?;
    Ok(Node { gateway, clients })
}

impl Node {
    /// Renews and looks around, as the threads of a gateway do.
    pub(crate) fn live(&self) {
        self.gateway.renew();
        self.gateway.poll();
    }

    pub(crate) fn create(&self, name: &str) -> Arc<OpenShard> {
        let made = self
            .gateway
            .create(name, |pool| pool.create_volume(name, 16 * BLOCK, BlockSize::B4096));
        made.unwrap()
    }

    /// Where a volume is.
    pub(crate) fn reach(&self, name: &str) -> Reached {
        match self.gateway.names().find(name).unwrap() {
            Some(record) => self.gateway.reach(record.shard).unwrap(),
            None => Reached::Absent,
        }
    }

    #[track_caller]
    pub(crate) fn here(&self, name: &str) -> Arc<OpenShard> {
        match self.reach(name) {
            Reached::Here(shard) => shard,
            other => panic!("{name}: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn is_there(&self, name: &str, host: &str) {
        match self.reach(name) {
            Reached::There { record, .. } => assert_eq!(record.unwrap().about.host, host),
            other => panic!("{name}: {other:?}"),
        }
    }
}

pub(crate) fn write(shard: &OpenShard, name: &str, block: u64, byte: u8) -> bool {
    let Ok(device) = shard.device(name) else { return false };
    device.write(block * BLOCK, &[byte; BLOCK as usize], onefold_block::Durability::OnFlush).is_ok()
}

/// The byte of a block; none if it is not answered.
pub(crate) fn read(shard: &OpenShard, name: &str, block: u64) -> Option<u8> {
    let mut found = [0; BLOCK as usize];
    shard.device(name).ok()?.read(block * BLOCK, &mut found).ok()?;
    assert!(found.iter().all(|byte| *byte == found[0]), "a torn block");
    Some(found[0])
}

/// The gateway that has a shard by its record, and the one that is to have it.
pub(crate) fn owner(
    pool: &Arc<dyn RadosPool>,
    shard: ObjectId,
) -> Option<(Option<ObjectId>, Option<ObjectId>)> {
    let record = Shards::new(pool).find(shard).unwrap()?.record;
    Some((record.gateway, record.wanted))
}

/// A gateway over `pool`, with containers in `data` if there is one.
pub(crate) fn begin(
    pool: &Arc<dyn RadosPool>,
    data: Option<&Arc<dyn RadosPool>>,
) -> Result<Gateway, VolumeError> {
    let clock: Arc<dyn LeaseClock> = Arc::<Moved>::default();
    let options = Options { table_bytes: 1 << 20, ..Options::default() };
    let settings = Settings { data: data.cloned(), ..Settings::new(about("a"), options) };
    Gateway::begin(pool, &clock, settings, Arc::new(()))
}

/// The error of what must be refused, with all its causes.
pub(crate) fn told<T>(result: Result<T, VolumeError>) -> String {
    let error = result.err().expect("it is refused");
    let mut causes = vec![error.to_string()];
    let mut next = std::error::Error::source(&error);
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    causes.join(": ")
}
