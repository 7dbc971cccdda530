//! Shards of one namespace that share containers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use onefold_backend::rados::{
    CountedRados, Fate, FatedRados, MemoryRados, RadosCounters, RadosPool,
};
use onefold_block::{BlockDevice, BlockSize, Durability};
use onefold_cluster::open_shard;
use onefold_testkit::SplitMix64;
use onefold_volume::Options;

use crate::common::scenes;
use crate::common::shards::{self, Space, image};

macro_rules! scenes {
    ($($scene:ident)+) => { $(#[test] fn $scene() { scenes::$scene(); })+ };
}

scenes! {
    equal_images_are_stored_once
    a_closing_container_is_not_adopted
    an_unanswered_registration_is_not_used
    a_late_registration_is_swept
    a_late_drop_takes_nothing_from_the_successor
    a_sweep_leaves_what_begins_meanwhile
    tending_leaves_what_begins_meanwhile
    leaks_are_found_and_repaired
    a_superseded_gateway_repairs_nothing_of_its_successor
    a_detached_clone_that_is_stopped_is_not_there
    a_removed_shard_leaves_nothing
    a_detached_clone_stores_nothing_again
    wrong_hints_cost_space_alone
    sparse_containers_are_closed_and_their_pages_stay_shared
}

/// The guards of updates fence a superseded gateway, so that a write need not ask who has the shard.
#[test]
fn a_new_page_takes_no_query() {
    let (counters, memory) = (Arc::<RadosCounters>::default(), MemoryRados::replicated());
    let pool: Arc<dyn RadosPool> =
        Arc::new(CountedRados::new(Arc::new(memory), Arc::clone(&counters)));
    let shard = Space::over(Arc::clone(&pool), pool).add(1);
    shards::put(&shard, "disk", &image(1, 40));
    let volume = shard.pool().volume("disk").unwrap();
    let (before, pages) = (counters.counts(), shard.pool().statistics().new_pages);
    for (at, page) in (0..).step_by(4096).zip(image(2, 10).chunks(4096)) {
        volume.write(at, page, Durability::OnReturn).unwrap();
    }
    assert_eq!(shard.pool().statistics().new_pages, pages + 10);
    let after = counters.counts();
    assert!(after.updates >= before.updates + 20, "{after:?}: of the container and the journal");
    assert_eq!(after.queries, before.queries, "{after:?}");
}

/// Ceph may give no answer for a while: that says nothing of the pages that were asked for.
#[test]
fn no_answer_makes_no_page_a_lost_one() {
    let inner: Arc<dyn RadosPool> = Arc::new(MemoryRados::replicated());
    let is_silent = Arc::new(AtomicBool::new(false));
    let silent = Arc::clone(&is_silent);
    let data =
        FatedRados::new(Arc::clone(&inner), move |_, _| match silent.load(Ordering::Relaxed) {
            true => Fate::Lost,
            false => Fate::Answered,
        });
    let space = Space::over(inner, Arc::new(data));
    let (image, len) = (image(1, 200), 200 << 12);
    let shard = space.add(1);
    shards::put(&shard, "disk", &image);
    shard.pool().checkpoint().unwrap();
    drop(shard);
    let later = Options { fills_later: true, ..shards::options() };
    let hints = Arc::new(());
    let (shard, damage) =
        open_shard(&space.meta, &space.data, shards::id(1), hints, later).unwrap();
    assert!(damage.is_empty(), "{damage:?}");
    is_silent.store(true, Ordering::Relaxed);
    let unfilled = shard.pool().fill_index(|| true);
    assert!(unfilled.len() > 1, "containers that cannot be read are told: {unfilled:?}");
    let volume = shard.pool().volume("disk").unwrap();
    volume.read(0, &mut vec![0; len]).unwrap_err();
    let scrubbed = shard.pool().scrub();
    assert_eq!((scrubbed.pages, scrubbed.bad.len(), scrubbed.more), (0, 0, 0));
    assert_eq!(scrubbed.unanswered.map(|those| those.pages), Some(200));
    is_silent.store(false, Ordering::Relaxed);
    shards::expect(&shard, "disk", &image);
    assert_eq!(shard.pool().statistics().damaged_containers, 0);
    // pages that are lost would be stored once more
    assert!(shard.pool().fill_index(|| true).is_empty());
    let stored = space.stored();
    shards::put(&shard, "same", &image);
    assert_eq!(space.stored(), stored);
    shards::expect_sound(&shard);
}

/// Threads that write the same pages in all shards, while others maintain them.
#[test]
fn threads_of_all_shards_share_pages_at_the_same_time() {
    const BLOCKS: usize = 150;
    const THREADS: usize = 2;
    let space = Space::new();
    let shards = [1, 2, 3].map(|n| space.add(n));
    let images: Vec<Vec<u8>> = (0..3).map(|n| image(n, BLOCKS)).collect();
    let name = |thread: usize| format!("v{thread}");
    let is_over = AtomicBool::new(false);
    let written: Vec<Vec<Vec<u8>>> = thread::scope(|scope| {
        let (shards, images) = (&shards, &images);
        let is_over = &is_over;
        let name = &name;
        let write = move |n: usize, thread: usize| {
            let pool = shards[n].pool();
            pool.create_volume(&name(thread), (BLOCKS * 4096) as u64, BlockSize::B4096).unwrap();
            let volume = pool.volume(&name(thread)).unwrap();
            let mut numbers = SplitMix64::new((n * THREADS + thread) as u64);
            let mut below = |bound: usize| (numbers.next_u64() % bound as u64) as usize;
            let mut bytes = vec![0; BLOCKS * 4096];
            for _ in 0..60 {
                let (block, count) = (below(BLOCKS), 1 + below(50));
                let range = block * 4096..(block + count).min(BLOCKS) * 4096;
                match below(4) {
                    0 => bytes[range.clone()].fill(0),
                    one => bytes[range.clone()].copy_from_slice(&images[one - 1][range.clone()]),
                }
                volume.write(range.start as u64, &bytes[range], Durability::OnReturn).unwrap();
            }
            bytes
        };
        let writers: Vec<_> = (0..3)
            .map(|n| (0..THREADS).map(|thread| scope.spawn(move || write(n, thread))).collect())
            .collect();
        for shard in shards {
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    shard.maintain().unwrap();
                    shard.close_sparse(0.1).unwrap();
                }
            });
        }
        let join = |threads: Vec<thread::ScopedJoinHandle<'_, Vec<u8>>>| {
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        };
        let written = writers.into_iter().map(join).collect();
        is_over.store(true, Ordering::SeqCst);
        written
    });
    for (shard, written) in shards.iter().zip(&written) {
        for (thread, bytes) in written.iter().enumerate() {
            shards::expect(shard, &name(thread), bytes);
        }
        shards::expect_sound(shard);
    }
    for shard in &shards {
        (0..THREADS).for_each(|thread| shard.pool().delete_volume(&name(thread)).unwrap());
    }
    // the container that takes new pages stays otherwise
    for shard in shards.iter().chain(&shards) {
        shard.vacate().unwrap();
    }
    assert_eq!(space.left(), Vec::<String>::new(), "{:#?}", space.guards());
}
