//! A gateway with hundreds of small shards.

mod common;

use std::fs;
use std::sync::Arc;
use std::time::Instant;

use common::domain::{Moved, domain, node, read, write};

const SHARDS: u64 = 300;

/// A number of `/proc/self/status`, in its unit.
fn status(field: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn an_open_shard_takes_no_thread_and_little_memory() {
    let (pool, clock) = (domain(), Arc::<Moved>::default());
    let first = node(&pool, &clock, "first");
    let name = |n: u64| format!("disk-{n}");
    for n in 0..SHARDS {
        assert!(write(&first.create(&name(n)), &name(n), n % 16, 7));
    }
    first.gateway.end().unwrap();
    drop(first);
    let node = node(&pool, &clock, "second");
    let (threads, before, begun) = (status("Threads:"), status("VmRSS:"), Instant::now());
    for n in 0..SHARDS {
        node.here(&name(n));
    }
    let (each, took) = ((status("VmRSS:").saturating_sub(before)) / SHARDS, begun.elapsed());
    println!("{SHARDS} shards: {each} KiB of memory each, opened in {took:?}");
    assert_eq!((status("Threads:"), node.gateway.open_shards().len()), (threads, SHARDS as usize));
    assert!(each < 2_048, "{each} KiB");
    for n in 0..SHARDS {
        assert_eq!(read(&node.here(&name(n)), &name(n), n % 16), Some(7));
    }
}
