//! Gateways that sleep, die and lose answers, and clients that never read what is stale.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use onefold_backend::rados::{Fate, FatedRados, RadosPool};
use onefold_cluster::{Reached, Shards};
use onefold_testkit::SplitMix64;

use super::domain::{Moved, Node, domain, read, try_node, write};

const NODES: usize = 3;
const VOLUMES: usize = 2;
const STEPS: u64 = 400;

/// What happened, so that a test sees that it was tried.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) took: usize,
    pub(crate) broke: usize,
    pub(crate) lost: usize,
    pub(crate) reads: usize,
    /// Reads that were not answered.
    pub(crate) unread: usize,
    pub(crate) writes: usize,
}

/// A gateway, and its connection.
struct Player {
    node: Node,
    client: Arc<FatedRados>,
}

/// Plays one game; panics if a client reads what it must not.
pub(crate) fn play(seed: u64, tally: &mut Tally) {
    let (pool, clock) = (domain(), Arc::<Moved>::default());
    let numbers = Arc::new(Mutex::new(SplitMix64::new(seed)));
    let below = {
        let numbers = Arc::clone(&numbers);
        move |bound: u64| numbers.lock().unwrap().next_u64() % bound
    };
    let players: Vec<Player> =
        (0..NODES).map(|n| player(&pool, &clock, &format!("node-{n}"), below.clone())).collect();
    let first = try_node(&pool, &clock, "first").unwrap();
    for n in 0..VOLUMES {
        let id = first.create(&format!("disk-{n}")).id();
        first.gateway.give_back(id).unwrap();
    }
    first.gateway.end().unwrap();
    // what the block of each volume may have
    let mut may_be: Vec<BTreeSet<u8>> = vec![BTreeSet::from([0]); VOLUMES];
    let (mut next, mut asleep_until) = (0_u8, [0; NODES]);
    for step in 0..STEPS {
        let at = below(NODES as u64) as usize;
        clock.pass(Duration::from_millis(below(700)));
        let player = &players[at];
        if player.client.undelivered() > 0 && below(4) == 0 {
            // nobody waits for it any more
            let _ = player.client.deliver(below(player.client.undelivered() as u64) as usize);
        }
        // clients of a gateway that sleeps may still have requests in it when it wakes
        let mut volume = below(VOLUMES as u64) as usize;
        for open in player.node.clients.open() {
            volume = (volume + 1) % VOLUMES;
            let name = format!("disk-{volume}");
            if open.device(&name).is_err() {
                continue;
            }
            if below(2) == 0 {
                next = next % 250 + 1;
                if write(&open, &name, 0, next) {
                    may_be[volume] = BTreeSet::from([next]);
                    tally.writes += 1;
                } else {
                    may_be[volume].insert(next);
                }
            }
            match read(&open, &name, 0) {
                Some(byte) => {
                    let may_be = &may_be[volume];
                    assert!(may_be.contains(&byte), "seed {seed}, step {step}: {byte}, {may_be:?}");
                    tally.reads += 1;
                }
                None => tally.unread += 1,
            }
        }
        let current = |player: &Player, id| {
            let open = player.node.clients.open();
            open.iter().any(|open| open.id() == id && open.tenure().is_current())
        };
        for (id, _) in Shards::new(&pool).all().unwrap() {
            let count = players.iter().filter(|player| current(player, id)).count();
            assert!(count <= 1, "seed {seed}, step {step}: {count} gateways answer reads");
        }
        if asleep_until[at] > step {
            continue;
        }
        match below(40) {
            0 => asleep_until[at] = step + below(120),
            1 => {
                let to = players[below(NODES as u64) as usize].node.gateway.lease().id();
                let (id, _) = Shards::new(&pool).all().unwrap()[below(VOLUMES as u64) as usize];
                Shards::new(&pool).want(id, to).unwrap();
            }
            2..=5 => {
                let name = format!("disk-{}", below(VOLUMES as u64));
                let record = player.node.gateway.names().find(&name).unwrap().unwrap();
                if let Ok(Reached::Here(open)) = player.node.gateway.reach(record.shard) {
                    assert_eq!(open.id(), record.shard);
                }
            }
            6..=22 => player.node.gateway.renew(),
            _ => player.node.gateway.poll(),
        }
    }
    for player in &players {
        tally.took += player.node.clients.told("Took");
        tally.broke += player.node.clients.told("Broke");
        tally.lost += player.node.clients.told("Lost");
    }
}

fn player(
    pool: &Arc<dyn RadosPool>,
    clock: &Arc<Moved>,
    host: &str,
    below: impl Fn(u64) -> u64 + Send + Sync + Clone + 'static,
) -> Player {
    let is_troubled = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let trouble = Arc::clone(&is_troubled);
    let client = Arc::new(FatedRados::new(Arc::clone(pool), move |object, update| {
        let is_record = ["gateways", "shards"].contains(&object);
        if !is_record || update.is_none() || !trouble.load(Ordering::Relaxed) {
            return Fate::Answered;
        }
        match below(12) {
            0 | 1 => Fate::Lost,
            2 => Fate::AnswerLost,
            3 => Fate::Late,
            4 => Fate::Twice,
            _ => Fate::Answered,
        }
    }));
    let seen: Arc<dyn RadosPool> = Arc::<FatedRados>::clone(&client);
    let node = try_node(&seen, clock, host).unwrap();
    is_troubled.store(true, Ordering::Relaxed);
    Player { node, client }
}

/// A gateway begins and takes a shard while another one has read the leases and not yet the records of shards.
pub(crate) fn begin_while_another_looks() {
    let (pool, clock) = (domain(), Arc::<Moved>::default());
    let first = try_node(&pool, &clock, "first").unwrap();
    let id = first.create("disk").id();
    first.gateway.end().unwrap();
    let begun: Arc<Mutex<Option<Node>>> = Arc::default();
    let is_armed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let begin = {
        let (pool, clock, begun) = (Arc::clone(&pool), Arc::clone(&clock), Arc::clone(&begun));
        let is_armed = Arc::clone(&is_armed);
        move |object: &str, update: Option<&onefold_backend::rados::Update>| {
            if object == "shards" && update.is_none() && is_armed.swap(false, Ordering::Relaxed) {
                let node = try_node(&pool, &clock, "begun").unwrap();
                node.here("disk");
                *begun.lock().unwrap() = Some(node);
            }
            Fate::Answered
        }
    };
    let seen: Arc<dyn RadosPool> = Arc::new(FatedRados::new(Arc::clone(&pool), begin));
    let looks = try_node(&seen, &clock, "looks").unwrap();
    is_armed.store(true, Ordering::Relaxed);
    clock.pass(Duration::from_secs(2));
    looks.live();
    let begun = begun.lock().unwrap().take().expect("it read the records of shards");
    assert!(looks.clients.open().is_empty(), "it took the shard of a gateway that lives");
    assert_eq!(begun.clients.open()[0].id(), id);
}
