//! Three shards that share containers, in random steps: answers are lost, updates arrive late or twice,
//! gateways crash, and superseded ones go on. Every step follows from a seed.

use std::sync::{Arc, Mutex};

use onefold_backend::rados::{Fate, FatedRados, MemoryRados, RadosPool, Step};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_cluster::containers::{Containers, Guards, fsck};
use onefold_cluster::{SharedShard, open_shard};
use onefold_testkit::SplitMix64;

use crate::common::shards::{Space, expect_sound, id, image, options};

const PAGE: usize = 4096;
const BLOCKS: usize = 64;
const SHARDS: usize = 3;

/// One operation of so many meets each kind of trouble.
fn one_in(seed: u64) -> u64 {
    20 + seed % 5 * 40
}

struct Numbers(Mutex<SplitMix64>);

impl Numbers {
    fn below(&self, bound: u64) -> u64 {
        self.0.lock().unwrap().next_u64() % bound
    }
}

/// A gateway, and what it is reached by.
struct Gateway {
    shard: SharedShard,
    clients: [Arc<FatedRados>; 2],
}

/// A shard as its clients know it: what each block may have.
struct Known(Vec<Vec<Vec<u8>>>);

struct Storm {
    seed: u64,
    numbers: Arc<Numbers>,
    space: Space,
    gateways: Vec<Gateway>,
    known: Vec<Known>,
    /// Superseded gateways, which do not know it.
    zombies: Vec<(usize, Gateway)>,
    images: Vec<Vec<u8>>,
    is_calm: Arc<Mutex<bool>>,
    done: Tally,
}

#[derive(Debug, Default)]
struct Tally {
    writes: u64,
    failed: u64,
    opened: u64,
    refused_zombies: u64,
    delivered: u64,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let space = Space::over(
            Arc::new(MemoryRados::replicated()),
            Arc::new(if seed.is_multiple_of(3) {
                MemoryRados::erasure_coded()
            } else {
                MemoryRados::replicated()
            }),
        );
        let mut storm = Self {
            seed,
            numbers: Arc::new(Numbers(Mutex::new(SplitMix64::new(seed)))),
            space,
            gateways: Vec::new(),
            known: Vec::new(),
            zombies: Vec::new(),
            images: (0..3).map(|n| image(n, BLOCKS)).collect(),
            is_calm: Arc::new(Mutex::new(true)),
            done: Tally::default(),
        };
        for n in 0..SHARDS {
            let shard = storm.space.add(n as u8 + 1);
            let size = (BLOCKS * PAGE) as u64;
            shard.pool().create_volume("v", size, BlockSize::B4096).unwrap();
            drop(shard);
            storm.known.push(Known(vec![vec![vec![0; PAGE]]; BLOCKS]));
            let gateway = storm.open(n);
            storm.gateways.push(gateway);
        }
        *storm.is_calm.lock().unwrap() = false;
        storm
    }

    fn below(&self, bound: usize) -> usize {
        self.numbers.below(bound as u64) as usize
    }

    fn client(&self, pool: &Arc<dyn RadosPool>) -> Arc<FatedRados> {
        let (numbers, is_calm) = (Arc::clone(&self.numbers), Arc::clone(&self.is_calm));
        let one_in = one_in(self.seed);
        Arc::new(FatedRados::new(Arc::clone(pool), move |object, update| {
            if *is_calm.lock().unwrap() {
                return Fate::Answered;
            }
            let is_shared =
                Guards::name_of(object).is_some() || Containers::name_of(object).is_some();
            let is_making = update.is_some_and(|update| update.steps()[0] == Step::Create);
            match numbers.below(one_in) {
                0 => Fate::Lost,
                1 => Fate::AnswerLost,
                2 if update.is_some() => Fate::Late,
                3 if update.is_some() && (is_shared || !is_making) => Fate::Twice,
                _ => Fate::Answered,
            }
        }))
    }

    /// Opens shard `n`, however often that takes.
    fn open(&mut self, n: usize) -> Gateway {
        for _ in 0..100 {
            let clients = [&self.space.meta, &self.space.data].map(|pool| self.client(pool));
            let [meta, data] = [0, 1].map(|n| Arc::clone(&clients[n]) as Arc<dyn RadosPool>);
            let hints = Arc::clone(&self.space.hints) as _;
            let opened = open_shard(&meta, &data, id(n as u8 + 1), hints, options());
            self.done.opened += 1;
            if let Ok((shard, damage)) = opened {
                assert!(damage.is_empty(), "seed {}: {damage:?}", self.seed);
                let gateway = Gateway { shard, clients };
                self.settle(n, &gateway);
                return gateway;
            }
        }
        panic!("seed {}: shard {n} cannot be opened", self.seed);
    }

    /// Looks at all blocks of a shard that was just opened: what they have they keep.
    fn settle(&mut self, n: usize, gateway: &Gateway) {
        let was_calm = std::mem::replace(&mut *self.is_calm.lock().unwrap(), true);
        let mut found = vec![0; BLOCKS * PAGE];
        let read = gateway.shard.pool().volume("v").unwrap().read(0, &mut found);
        read.unwrap_or_else(|error| panic!("seed {}: shard {n}: {error:?}", self.seed));
        for (block, page) in found.chunks(PAGE).enumerate() {
            let known = &mut self.known[n].0[block];
            let is_known = known.iter().any(|one| one == page);
            assert!(is_known, "seed {}: shard {n}: block {block} has other bytes", self.seed);
            *known = vec![page.to_vec()];
        }
        *self.is_calm.lock().unwrap() = was_calm;
    }

    /// Changes blocks of shard `n`: to pages of an image, or to zeros.
    fn change(&mut self, n: usize) {
        let (block, count) = (self.below(BLOCKS), 1 + self.below(20));
        let count = count.min(BLOCKS - block);
        let from = self.below(BLOCKS - count + 1);
        let bytes = match self.below(5) {
            0 => vec![0; count * PAGE],
            image => self.images[(image - 1) % 3][from * PAGE..][..count * PAGE].to_vec(),
        };
        let volume = self.gateways[n].shard.pool().volume("v");
        let at = (block * PAGE) as u64;
        let written = match volume {
            Ok(volume) => volume.write(at, &bytes, Durability::OnReturn).map_err(|_| ()),
            Err(_) => Err(()),
        };
        for (known, page) in self.known[n].0[block..].iter_mut().zip(bytes.chunks(PAGE)) {
            match written {
                Ok(()) => *known = vec![page.to_vec()],
                Err(()) => known.push(page.to_vec()),
            }
        }
        self.done.writes += 1;
        if written.is_err() {
            self.done.failed += 1;
            if self.below(2) == 0 {
                self.crash(n);
            }
        }
    }

    fn crash(&mut self, n: usize) {
        let next = self.open(n);
        let before = std::mem::replace(&mut self.gateways[n], next);
        if self.below(2) == 0 {
            self.zombies.push((n, before));
        } else {
            self.let_arrive(&before.clients);
        }
    }

    /// Lets some of what is late arrive.
    fn let_arrive(&mut self, clients: &[Arc<FatedRados>; 2]) {
        for client in clients {
            while client.undelivered() > 0 && self.below(4) > 0 {
                let _ = client.deliver(self.below(client.undelivered()));
                self.done.delivered += 1;
            }
        }
    }

    fn step(&mut self) {
        let n = self.below(SHARDS);
        let shard = &self.gateways[n].shard;
        // what these fail with the next write meets as well
        match self.below(24) {
            0..12 => self.change(n),
            12..15 => drop(shard.maintain()),
            15 => drop(shard.pool().checkpoint()),
            16 => drop(shard.sweep()),
            17 => drop(shard.close_sparse(0.1)),
            18 => self.crash(n),
            19 if !self.zombies.is_empty() => {
                let at = self.below(self.zombies.len());
                let (n, zombie) = self.zombies.swap_remove(at);
                if let Ok(volume) = zombie.shard.pool().volume("v") {
                    let page = &image(9, 1);
                    let written = volume.write(0, page, Durability::OnReturn);
                    assert!(written.is_err(), "seed {}: shard {n} was superseded", self.seed);
                    self.done.refused_zombies += 1;
                }
                let _ = zombie.shard.maintain();
                self.let_arrive(&zombie.clients);
            }
            _ => {
                let clients = self.gateways[n].clients.clone();
                self.let_arrive(&clients);
            }
        }
    }

    fn end(mut self) -> Tally {
        for (_, zombie) in std::mem::take(&mut self.zombies) {
            self.let_arrive(&zombie.clients);
        }
        *self.is_calm.lock().unwrap() = true;
        for n in 0..SHARDS {
            let gateway = self.open(n);
            self.gateways[n] = gateway;
        }
        let open: Vec<&SharedShard> = self.gateways.iter().map(|one| &one.shard).collect();
        let checked = fsck(&open, false).unwrap();
        let lost: Vec<_> = checked.problems.iter().filter(|problem| !problem.is_leak()).collect();
        assert!(lost.is_empty(), "seed {}: {lost:?}", self.seed);
        assert_eq!(checked.unasked, 0);
        for gateway in &self.gateways {
            expect_sound(&gateway.shard);
            gateway.shard.maintain().unwrap();
            expect_sound(&gateway.shard);
        }
        for n in 0..SHARDS {
            let gateway = self.open(n);
            self.gateways[n] = gateway;
            self.gateways[n].shard.pool().delete_volume("v").unwrap();
        }
        for gateway in self.gateways.iter().chain(&self.gateways) {
            gateway.shard.maintain().unwrap();
        }
        let (seed, left) = (self.seed, self.space.left());
        assert_eq!(left, Vec::<String>::new(), "seed {seed}: {:#?}", self.space.guards());
        self.done
    }
}

/// Runs the storm of `seed`.
fn run(seed: u64, steps: u64) -> Tally {
    let mut storm = Storm::new(seed);
    for _ in 0..steps {
        storm.step();
    }
    storm.end()
}

#[test]
fn shards_that_share_containers_lose_and_leave_nothing() {
    let first = std::env::var("ONEFOLD_STORM").ok().and_then(|seed| seed.parse().ok());
    let count = std::env::var("ONEFOLD_STORMS").ok().and_then(|count| count.parse().ok());
    let first = first.unwrap_or(0);
    let mut all = Tally::default();
    for seed in first..first + count.unwrap_or(30) {
        let one = run(seed, 150);
        all.writes += one.writes;
        all.failed += one.failed;
        all.opened += one.opened;
        all.refused_zombies += one.refused_zombies;
        all.delivered += one.delivered;
    }
    println!("{all:?}");
    assert!(all.writes > 0);
}
