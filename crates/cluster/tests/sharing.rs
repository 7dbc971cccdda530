//! Shards of one namespace that share containers.

#[path = "common/shards.rs"]
mod shards;

use std::sync::Arc;

use onefold_backend::rados::MemoryRados;
use onefold_block::{BlockDevice, Durability};
use onefold_cluster::hints::ContainerName;
use shards::{Space, expect, expect_sound, id, image, put};

#[test]
fn equal_images_of_three_shards_are_stored_once_and_all_space_comes_back() {
    let bytes = image(1, 600);
    let alone = Space::new();
    put(&alone.add(1), "a", &bytes);
    let space = Space::new();
    let shards = [1, 2, 3].map(|n| space.add(n));
    for shard in &shards {
        put(shard, "a", &bytes);
    }
    assert!(space.hints.len() >= 600);
    let (found, expected) = (space.stored(), alone.stored());
    assert!(found as f64 <= 1.02 * expected as f64, "{found} bytes, {expected} in one pool");
    for shard in &shards {
        expect(shard, "a", &bytes);
        expect_sound(shard);
    }
    // as every successor finds it
    drop(shards);
    let shards = [1, 2, 3].map(|n| space.open(n));
    for shard in &shards {
        expect(shard, "a", &bytes);
        expect_sound(shard);
        shard.pool().checkpoint().unwrap();
    }
    drop(shards);
    let shards = [1, 2, 3].map(|n| space.open(n));
    let gone = |n: usize| {
        shards[n].pool().delete_volume("a").unwrap();
        shards[n].maintain().unwrap();
    };
    gone(0);
    gone(1);
    expect(&shards[2], "a", &bytes);
    expect_sound(&shards[2]);
    gone(2);
    assert_eq!(space.left(), Vec::<String>::new(), "{:?}", space.guards());
}
