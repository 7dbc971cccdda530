//! Random overwriting with little room, by several clients of the server: at a quota of three times the
//! volume, and on a disk of four times the volume. No write is refused, and every block is what was
//! written there last. `cargo xtask campaign room` goes on for an hour.

use std::env;
use std::thread;
use std::time::{Duration, Instant};

use onefold_lab::nbd::Client;
use onefold_testkit::{SplitMix64, random};
use rustix::process::Signal;

use crate::lab::Lab;
use crate::mount::may_mount;
use crate::served::Served;
use crate::serving::MountedAt;

const BLOCK: usize = 4096;
/// The length of the volume.
const LEN: usize = 32 << 20;
/// Connections that write, each its own blocks.
const WRITERS: usize = 4;
/// The number of writes between two flushes of a client.
const FLUSH_EVERY: u64 = 500;

/// Writes of each client at least: all of them together are six times the volume.
const WRITES: u64 = (6 * LEN / BLOCK / WRITERS) as u64;

/// How long at least; longer by the environment, for the campaign.
fn seconds() -> u64 {
    env::var("ONEFOLD_ROOM_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(0)
}

/// What one client did.
#[derive(Default)]
struct Done {
    writes: u64,
    longest: Duration,
}

/// Overwrites the blocks of client `number` at random, until `end` or longer, and reads all of them then.
fn overwrite(mut client: Client, number: usize, end: Instant) -> Done {
    let count = LEN / BLOCK / WRITERS;
    let offset = |block: usize| ((block * WRITERS + number) * BLOCK) as u64;
    let mut seeds = vec![None; count];
    let mut numbers = SplitMix64::new(number as u64);
    let mut done = Done::default();
    while done.writes < WRITES || Instant::now() < end {
        let (block, seed) = (numbers.below(count), numbers.next_u64());
        let begun = Instant::now();
        client.write(offset(block), &random(seed, BLOCK)).unwrap();
        done.longest = done.longest.max(begun.elapsed());
        seeds[block] = Some(seed);
        done.writes += 1;
        if done.writes.is_multiple_of(FLUSH_EVERY) {
            client.flush().unwrap();
        }
    }
    let mut found = vec![0; BLOCK];
    for (block, seed) in seeds.iter().enumerate() {
        client.read(offset(block), &mut found).unwrap();
        let expected = seed.map_or_else(|| vec![0; BLOCK], |seed| random(seed, BLOCK));
        assert!(found == expected, "block {block} of client {number}");
    }
    done
}

/// Lets all clients write to a volume of the pool at `pool`; `more` are options of the server.
fn overwritten(lab: &Lab, pool: &str, more: &str, place: &str) {
    lab.ok(&format!("volume create --pool {pool} --size {LEN} disk"));
    let line = format!("serve --pool {pool} --unix socket {more}");
    let mut served = Served::start_with(lab, &line).unwrap();
    let begun = Instant::now();
    let end = begun + Duration::from_secs(seconds());
    let done: Vec<Done> = thread::scope(|scope| {
        let write = |number| {
            let client = served.client("disk");
            scope.spawn(move || overwrite(client, number, end))
        };
        let writers: Vec<_> = (0..WRITERS).map(write).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    let took = begun.elapsed().as_secs();
    assert_eq!(served.signal(Signal::TERM), 0);
    assert!(lab.ok(&format!("volume check --pool {pool}")).stdout.contains("no problems"));
    let writes: u64 = done.iter().map(|one| one.writes).sum();
    let longest = done.iter().map(|one| one.longest).max().unwrap_or_default();
    println!(
        "room: {place}: {writes} writes of 4 KiB at random over {} MiB in {took} s, none refused, the longest {:.2} s",
        LEN >> 20,
        longest.as_secs_f64(),
    );
}

#[test]
fn a_quota_of_three_times_the_volume_is_enough() {
    overwritten(
        &Lab::new(),
        "pool",
        &format!("--quota {}", 3 * LEN),
        "quota of three times the volume",
    );
}

#[test]
fn a_disk_of_four_times_the_volume_is_enough() {
    if !may_mount() {
        return;
    }
    let lab = Lab::new();
    let size = format!("size={}", 4 * LEN);
    let _mounted = MountedAt::new(lab.path("small"), &["-t", "tmpfs", "-o", &size, "none"]);
    overwritten(&lab, "small/pool", "", "disk (tmpfs) of four times the volume");
}
