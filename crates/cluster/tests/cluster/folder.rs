//! Files of a shard in a pool of RADOS, and pools of volumes whose files and journal are there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use onefold_backend::rados::{Fate, FatedRados, MemoryRados, RadosPool, Refusal, Step};
use onefold_backend::{BackendError, Folder, Log, conformance};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_cluster::{RadosFolder, WAITING};
use onefold_seal::ObjectId;
use onefold_testkit::{SplitMix64, random};
use onefold_volume::{Hash, Options, Pool, VolumeError};

const SHARD: ObjectId = ObjectId::from_bytes([7; ObjectId::LEN]);

fn rados() -> Arc<dyn RadosPool> {
    Arc::new(MemoryRados::replicated())
}

fn take(pool: &Arc<dyn RadosPool>) -> RadosFolder {
    RadosFolder::take(Arc::clone(pool), SHARD).unwrap()
}

fn all_of(log: &dyn Log) -> Vec<u8> {
    let mut bytes = vec![0; log.len() as usize];
    log.read(0, &mut bytes).unwrap();
    bytes
}

#[track_caller]
fn expect_in_use<T: std::fmt::Debug>(result: Result<T, BackendError>) {
    assert!(matches!(result, Err(BackendError::InUse { .. })), "{result:?}");
}

#[test]
fn a_log_keeps_the_contract() {
    conformance::log(|| Box::new(take(&rados()).log("log").unwrap()));
}

#[test]
fn files_have_their_names_and_are_removed_when_the_last_handle_is_gone() {
    let pool = rados();
    let folder = take(&pool);
    for name in ["b", "a"] {
        folder.log(name).unwrap();
    }
    assert_eq!(folder.names().unwrap(), ["a", "b"]);
    let mut log = folder.log("a").unwrap();
    log.append(b"abc").unwrap();
    log.sync().unwrap();
    let reader = folder.reader("a").unwrap();
    folder.remove("a").unwrap();
    folder.remove("absent").unwrap();
    assert_eq!(folder.names().unwrap(), ["b"]);
    drop(log);
    let mut found = [0; 3];
    reader.read(0, &mut found).unwrap();
    assert_eq!(&found, b"abc");
    drop(reader);
    assert!(folder.reader("a").err().unwrap().is_not_found());
    // as a file that nobody has open
    folder.remove("b").unwrap();
    assert_eq!(take(&pool).names().unwrap(), Vec::<String>::new());
    for name in ["", "a/b", "A", "\n"] {
        assert!(matches!(folder.log(name).err(), Some(BackendError::BadName { .. })), "{name}");
    }
}

#[test]
fn a_file_that_is_renamed_takes_the_place_of_another() {
    let folder = take(&rados());
    for (name, bytes) in [("old", &b"the old one"[..]), ("new", b"new")] {
        let mut log = folder.log(name).unwrap();
        log.append(bytes).unwrap();
        log.sync().unwrap();
    }
    folder.rename("new", "old").unwrap();
    assert_eq!(folder.names().unwrap(), ["old"]);
    assert_eq!(all_of(&*folder.log("old").unwrap()), b"new");
    assert!(folder.rename("new", "old").unwrap_err().is_not_found());
}

#[test]
fn a_successor_sees_what_was_synced_and_its_predecessor_changes_nothing_more() {
    let pool = rados();
    let first = take(&pool);
    let mut log = first.log("log").unwrap();
    log.append(b"synced").unwrap();
    log.sync().unwrap();
    log.append(b", not synced").unwrap();
    first.log("other").unwrap();
    let second = take(&pool);
    let mut taken = second.log("log").unwrap();
    assert_eq!(all_of(&*taken), b"synced");
    // the first one wakes
    expect_in_use(log.sync());
    assert!(matches!(log.append(b"x"), Err(BackendError::Poisoned { .. })));
    expect_in_use(first.log("log").map(|_| ()));
    drop(log);
    expect_in_use(first.remove("log"));
    expect_in_use(first.rename("other", "log"));
    taken.append(b", and more").unwrap();
    taken.sync().unwrap();
    assert_eq!(all_of(&*taken), b"synced, and more");
}

#[test]
fn what_waits_is_sent_before_it_is_much() {
    let pool = rados();
    let folder = take(&pool);
    let mut log = folder.log("log").unwrap();
    let piece = random(1, WAITING / 4);
    for _ in 0..9 {
        log.append(&piece).unwrap();
    }
    let reader = take(&pool).reader("log").unwrap();
    assert_eq!(reader.len(), 2 * WAITING as u64);
    let mut found = vec![0; piece.len()];
    log.read(piece.len() as u64 / 2, &mut found).unwrap();
    let twice = [&piece[..], &piece].concat();
    assert!(found == twice[piece.len() / 2..][..piece.len()]);
}

#[test]
fn a_file_is_no_longer_than_an_object_may_be() {
    let folder = take(&rados());
    let mut log = folder.log("log").unwrap();
    let max = 128 << 20;
    let result = log.append(&vec![0; max + 1]);
    assert!(matches!(result, Err(BackendError::TooLong { .. })), "{result:?}");
    assert_eq!(log.len(), 0);
}

/// What goes wrong with one operation of so many.
struct Trouble {
    numbers: Mutex<SplitMix64>,
    client: OnceLock<Weak<FatedRados>>,
    one_of: u64,
}

impl Trouble {
    fn client(seed: u64, pool: &Arc<dyn RadosPool>, one_of: u64) -> Arc<FatedRados> {
        let numbers = Mutex::new(SplitMix64::new(seed));
        let trouble = Arc::new(Self { numbers, client: OnceLock::new(), one_of });
        let chosen = Arc::clone(&trouble);
        let client = Arc::new(FatedRados::new(Arc::clone(pool), move |_, update| {
            chosen.fate(update.is_some_and(|update| update.steps()[0] == Step::Create))
        }));
        trouble.client.set(Arc::downgrade(&client)).expect("it is set once");
        client
    }

    fn below(&self, bound: u64) -> u64 {
        self.numbers.lock().unwrap().next_u64() % bound
    }

    fn fate(&self, is_making: bool) -> Fate {
        if let Some(client) = self.client.get().and_then(Weak::upgrade)
            && client.undelivered() > 0
            && self.below(3) == 0
        {
            // whoever sent it waits no more
            let _ = client.deliver(self.below(client.undelivered() as u64) as usize);
        }
        match self.below(self.one_of) {
            0 => Fate::Lost,
            1 => Fate::AnswerLost,
            2 => Fate::Late,
            3 if !is_making => Fate::Twice,
            _ => Fate::Answered,
        }
    }
}

#[test]
fn lost_and_late_answers_change_nothing() {
    for seed in 0..300 {
        let pool = rados();
        let client: Arc<dyn RadosPool> = Trouble::client(seed, &pool, 12);
        let mut numbers = SplitMix64::new(seed);
        let folder = RadosFolder::take(client, SHARD).unwrap();
        let mut expected = BTreeMap::<String, Vec<u8>>::new();
        for step in 0..40_u64 {
            let name = format!("file-{}", numbers.next_u64() % 3);
            match numbers.next_u64() % 6 {
                0 => {
                    folder.remove(&name).unwrap();
                    expected.remove(&name);
                }
                1 => {
                    let mut log = folder.log(&name).unwrap();
                    let len = numbers.next_u64() % (log.len() + 1);
                    log.truncate(len).unwrap();
                    expected.entry(name).or_default().truncate(len as usize);
                }
                _ => {
                    let mut log = folder.log(&name).unwrap();
                    for part in 0..numbers.next_u64() % 3 {
                        let bytes =
                            random(100 * step + part, 1 + (numbers.next_u64() % 50) as usize);
                        log.append(&bytes).unwrap();
                        log.sync().unwrap();
                        expected.entry(name.clone()).or_default().extend(bytes);
                    }
                    expected.entry(name).or_default();
                }
            }
        }
        let names: Vec<&String> = expected.keys().collect();
        // a creation that came late may have made a file again that was removed: an empty one
        let found = folder.names().unwrap();
        assert!(names.iter().all(|name| found.contains(name)), "seed {seed}: {found:?}");
        for name in &found {
            let bytes = all_of(&*folder.log(name).unwrap());
            assert_eq!(Some(&bytes), expected.get(name).or(Some(&vec![])), "seed {seed}, {name}");
        }
    }
}

const BLOCK: usize = 4096;
const BLOCKS: u64 = 200;

fn options() -> Options {
    let small = Options { table_bytes: 64 << 10, container_len: 60_000, ..Options::default() };
    Options { node_bytes: 0, least_nodes: 20, ..small }
}

fn create(pool: &Arc<dyn RadosPool>) -> Result<(), VolumeError> {
    onefold_cluster::create_shard(pool, SHARD, Hash::Blake3)
}

fn open(
    pool: &Arc<dyn RadosPool>,
    options: Options,
) -> Result<(Pool, Vec<VolumeError>), VolumeError> {
    let opened = onefold_cluster::open_shard(pool, pool, SHARD, Arc::new(()), options);
    opened.map(|(shard, damage)| (shard.pool().clone(), damage))
}

fn write(pool: &Pool, at: u64, n: u64) -> Result<(), onefold_block::BlockError> {
    let volume = pool.volume("disk").unwrap();
    volume.write(at * BLOCK as u64, &random(n, BLOCK), Durability::OnFlush)
}

#[test]
fn a_pool_in_rados_is_taken_over_with_all_that_was_flushed() {
    let rados = rados();
    assert!(open(&rados, options()).is_err());
    create(&rados).unwrap();
    assert!(create(&rados).is_err());
    let (first, damage) = open(&rados, options()).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    first.create_volume("disk", BLOCKS * BLOCK as u64, BlockSize::B4096).unwrap();
    let mut blocks = vec![0; BLOCKS as usize];
    let mut numbers = SplitMix64::new(1);
    let mut earlier = first;
    for turn in 0..6 {
        for _ in 0..150 {
            let (at, n) = (numbers.next_u64() % BLOCKS, 1 + numbers.next_u64() % 300);
            write(&earlier, at, n).unwrap();
            blocks[at as usize] = n;
        }
        match turn % 3 {
            0 => earlier.checkpoint().unwrap(),
            1 => drop(earlier.compact().unwrap()),
            _ => {}
        }
        earlier.flush().unwrap();
        // another gateway takes it while the first one lives
        let (later, damage) = open(&rados, options()).unwrap();
        assert!(damage.is_empty(), "{damage:?}");
        let volume = later.volume("disk").unwrap();
        for (at, n) in (0..).zip(&blocks) {
            let mut found = vec![1; BLOCK];
            volume.read(at * BLOCK as u64, &mut found).unwrap();
            let page = if *n == 0 { vec![0; BLOCK] } else { random(*n, BLOCK) };
            assert!(found == page, "turn {turn}, block {at}");
        }
        // what the first one writes from now on is never acknowledged, nor in the other's way, though it
        // may begin containers
        for n in 0..40 {
            let _ = write(&earlier, n, 1_000_000 + 100 * turn + n);
        }
        assert!(earlier.flush().is_err(), "turn {turn}");
        assert!(earlier.stopped().is_some(), "turn {turn}");
        earlier = later;
        assert_eq!(earlier.check(), Vec::<String>::new());
        assert_eq!(earlier.scrub().bad, []);
    }
    earlier.delete_volume("disk").unwrap();
    earlier.flush().unwrap();
    earlier.compact().unwrap();
    earlier.flush().unwrap();
    assert_eq!(earlier.statistics().pages, 0);
}

#[test]
fn a_pool_in_rados_holds_what_was_flushed_whatever_becomes_of_answers() {
    for seed in 0..15 {
        let rados = rados();
        create(&rados).unwrap();
        let (mut blocks, mut numbers) = ([0; 64], SplitMix64::new(seed));
        let mut is_there = false;
        for round in 0..6 {
            let client: Arc<dyn RadosPool> = Trouble::client(100 * seed + round, &rados, 40);
            let Ok((pool, damage)) = open(&client, options()) else { continue };
            assert!(damage.is_empty(), "{damage:?}");
            if !is_there {
                let made = pool.create_volume("disk", 64 * BLOCK as u64, BlockSize::B4096);
                is_there = made.is_ok() || pool.volume("disk").is_ok();
            }
            let Ok(volume) = pool.volume("disk") else { continue };
            // one whose flush failed may be either
            let mut unsure = blocks.map(|n| vec![n]);
            for _ in 0..30 {
                let (at, n) = ((numbers.next_u64() % 64) as usize, 1 + numbers.next_u64() % 40);
                let offset = (at * BLOCK) as u64;
                if volume.write(offset, &random(n, BLOCK), Durability::OnFlush).is_err() {
                    break;
                }
                unsure[at].push(n);
                if numbers.next_u64() % 4 == 0 && pool.flush().is_ok() {
                    unsure.iter_mut().for_each(|all| drop(all.drain(..all.len() - 1)));
                }
            }
            drop((volume, pool));
            let (pool, damage) = open(&rados, options()).unwrap();
            assert!(damage.is_empty(), "seed {seed}: {damage:?}");
            assert_eq!(pool.check(), Vec::<String>::new(), "seed {seed}");
            let volume = pool.volume("disk").unwrap();
            for (at, may_be) in unsure.iter().enumerate() {
                let mut found = vec![1; BLOCK];
                volume.read((at * BLOCK) as u64, &mut found).unwrap();
                let page = |n: u64| if n == 0 { vec![0; BLOCK] } else { random(n, BLOCK) };
                let is = may_be.iter().find(|n| page(**n) == found);
                blocks[at] = *is.unwrap_or_else(|| panic!("seed {seed}, block {at}: {may_be:?}"));
            }
        }
        assert!(is_there, "seed {seed}");
    }
}

/// Reads every block of the volume, and fails unless it has what `blocks` says.
fn expect_blocks(pool: &Pool, blocks: &[u64]) {
    let volume = pool.volume("disk").unwrap();
    for (at, n) in (0..).zip(blocks) {
        let mut found = vec![1; BLOCK];
        volume.read(at * BLOCK as u64, &mut found).unwrap();
        let page = if *n == 0 { vec![0; BLOCK] } else { random(*n, BLOCK) };
        assert!(found == page, "block {at}");
    }
}

#[test]
fn a_full_pool_refuses_writes_takes_erases_and_goes_on_when_there_is_room() {
    let model = Arc::new(MemoryRados::replicated());
    let rados: Arc<dyn RadosPool> = Arc::<MemoryRados>::clone(&model);
    create(&rados).unwrap();
    let mut pool = open(&rados, options()).unwrap().0;
    pool.create_volume("disk", BLOCKS * BLOCK as u64, BlockSize::B4096).unwrap();
    let durably = |pool: &Pool, at: u64, n: u64| {
        let volume = pool.volume("disk").unwrap();
        volume.write(at * BLOCK as u64, &random(n, BLOCK), Durability::OnReturn)
    };
    let mut blocks = vec![0; BLOCKS as usize];
    for n in 0..100 {
        durably(&pool, n % BLOCKS, 1 + n).unwrap();
        blocks[(n % BLOCKS) as usize] = 1 + n;
    }
    for round in 0..3 {
        model.set_full(true);
        // the reserve takes one more, which is durable: another gateway finds it
        durably(&pool, 50, 900 + round).unwrap();
        blocks[50] = 900 + round;
        let later = open(&rados, options()).unwrap().0;
        expect_blocks(&later, &blocks);
        drop(std::mem::replace(&mut pool, later));
        let mut refused = 0;
        for n in 0..30 {
            let (at, number) = (n % BLOCKS, 1000 + 100 * round + n);
            match durably(&pool, at, number) {
                // the first ones may use the reserve
                Ok(()) => blocks[at as usize] = number,
                Err(error) => {
                    assert!(matches!(error, onefold_block::BlockError::NoSpace { .. }), "{error}");
                    refused += 1;
                    // it may be there or not: it is written again later
                    blocks[at as usize] = 0;
                    let volume = pool.volume("disk").unwrap();
                    let range = at * BLOCK as u64..(at + 1) * BLOCK as u64;
                    volume.erase(range, Durability::OnReturn).unwrap();
                }
            }
        }
        assert!(refused > 0, "round {round}");
        assert_eq!(pool.stopped(), None, "round {round}");
        expect_blocks(&pool, &blocks);
        // another gateway takes the pool while the first one lives, reads it and makes room
        let later = open(&rados, options()).unwrap().0;
        expect_blocks(&later, &blocks);
        drop(std::mem::replace(&mut pool, later));
        expect_blocks(&pool, &blocks);
        assert!(durably(&pool, 0, 7).is_err(), "round {round}: there is no room");
        pool.volume("disk").unwrap().erase(0..BLOCK as u64, Durability::OnReturn).unwrap();
        blocks[0] = 0;
        pool.checkpoint().unwrap();
        pool.compact().unwrap();
        expect_blocks(&pool, &blocks);
        model.set_full(false);
        pool.maintain().unwrap();
        for n in 0..30 {
            let number = 5000 + 100 * round + n;
            durably(&pool, n % BLOCKS, number).unwrap();
            blocks[(n % BLOCKS) as usize] = number;
        }
        expect_blocks(&pool, &blocks);
        assert_eq!(pool.check(), Vec::<String>::new());
    }
}

#[test]
fn a_compaction_is_what_first_meets_a_full_pool_and_gives_room_back() {
    for is_taken_over in [false, true] {
        let model = Arc::new(MemoryRados::replicated());
        let rados: Arc<dyn RadosPool> = Arc::<MemoryRados>::clone(&model);
        create(&rados).unwrap();
        let mut pool = open(&rados, options()).unwrap().0;
        pool.create_volume("disk", BLOCKS * BLOCK as u64, BlockSize::B4096).unwrap();
        let mut blocks = vec![0; BLOCKS as usize];
        for n in 0..BLOCKS {
            write(&pool, n, 1 + n).unwrap();
            blocks[n as usize] = 1 + n;
        }
        // one block of each five is left
        for n in (0..BLOCKS).filter(|n| n % 5 > 0) {
            let range = n * BLOCK as u64..(n + 1) * BLOCK as u64;
            pool.volume("disk").unwrap().erase(range, Durability::OnFlush).unwrap();
            blocks[n as usize] = 0;
        }
        pool.flush().unwrap();
        let stored = || {
            let mut count = 0;
            let counted = &mut |name: &str| {
                count += usize::from(name.contains(".container."));
                std::ops::ControlFlow::Continue(())
            };
            model.list(counted).unwrap();
            count
        };
        let before = stored();
        model.set_full(true);
        if is_taken_over {
            // so that it has no container to go on with
            pool = open(&rados, options()).unwrap().0;
        }
        for _ in 0..5 {
            assert!(pool.compact().unwrap(), "taken over: {is_taken_over}");
        }
        pool.flush().unwrap();
        pool.flush().unwrap();
        assert!(stored() < before, "taken over: {is_taken_over}, {} of {before}", stored());
        expect_blocks(&pool, &blocks);
        expect_blocks(&open(&rados, options()).unwrap().0, &blocks);
    }
}

#[test]
fn a_log_that_a_full_pool_refused_keeps_its_bytes() {
    let model = Arc::new(MemoryRados::replicated());
    let folder = RadosFolder::take(Arc::<MemoryRados>::clone(&model), SHARD).unwrap();
    let mut log = folder.log("container-00000001").unwrap();
    log.append(b"abc").unwrap();
    log.sync().unwrap();
    model.set_full(true);
    log.append(b"def").unwrap();
    for _ in 0..2 {
        let error = log.sync().unwrap_err();
        assert!(error.is_full() && error.may_sync_again(), "{error}");
        assert_eq!(all_of(&*log), b"abcdef");
    }
    log.append(b"ghi").unwrap();
    assert!(folder.log("container-00000002").err().unwrap().is_full());
    // what is no page is taken, and lets a pool be taken over and emptied
    let mut other = folder.log("nodes-1").unwrap();
    other.append(b"123").unwrap();
    other.sync().unwrap();
    model.set_full(false);
    log.sync().unwrap();
    drop(log);
    let log = take(&(model as Arc<dyn RadosPool>)).log("container-00000001").unwrap();
    assert_eq!(all_of(&*log), b"abcdefghi");
}

#[test]
fn a_log_does_not_believe_a_refusal_after_a_lost_answer() {
    // the append is sent twice: the first answer is lost, and the append itself is late
    let fates = Arc::new(Mutex::new(Vec::new()));
    let chosen = Arc::clone(&fates);
    let client = Arc::new(FatedRados::new(rados(), move |_, update| {
        let is_append = update
            .is_some_and(|update| update.steps().iter().any(|s| matches!(s, Step::Append(_))));
        let fate = if is_append { chosen.lock().unwrap().pop() } else { None };
        fate.unwrap_or(Fate::Answered)
    }));
    let pool: Arc<dyn RadosPool> = Arc::<FatedRados>::clone(&client);
    let folder = take(&pool);
    let mut log = folder.log("container-00000001").unwrap();
    log.append(b"abc").unwrap();
    fates.lock().unwrap().extend([Fate::Refused(Refusal::Full), Fate::Late]);
    let error = log.sync().unwrap_err();
    assert!(!error.may_sync_again(), "{error}");
    client.deliver(0).unwrap();
    // more bytes, of which a late append must not be taken for
    assert!(matches!(log.append(b"def"), Err(BackendError::Poisoned { .. })));
    drop(log);
    assert_eq!(all_of(&*take(&pool).log("container-00000001").unwrap()), b"abc");
}
