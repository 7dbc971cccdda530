//! The server is killed under load, and power cut under it: what a flush or FUA acknowledged is
//! there afterwards, and every other block is as some write left it.
//!
//! A register remembers for each block which writes it may have: the last one that is known to be
//! durable, and all that were begun since. After the restart each block must have one of them, whole.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use onefold_bench::nbd::Client;
use onefold_bench::{Commit, Header, Record};
use onefold_testkit::{SplitMix64, random};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::lab::Lab;
use crate::mount::can_mount;
use crate::power_cut::Mounted;
use crate::served::{Served, ended, have, run};
use crate::unsynced::{Disk, NOTHING_KEPT};

const BLOCK: usize = 4096;
const BLOCKS: usize = 192;
/// Connections that write, each its own blocks; one more flushes.
const WRITERS: usize = 4;
/// Of so many changes one is an erase, and one is forced to be durable.
const ERASE_EVERY: u64 = 7;
const FORCE_EVERY: u64 = 11;

/// How many kills; more by the environment, for a campaign.
fn kills() -> u64 {
    env::var("ONEFOLD_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(4)
}

/// What a block may be: numbers of the changes that were made of it, 0 for none yet.
struct Register {
    /// The last that is durable, then those that were begun since.
    possible: Vec<u64>,
    acknowledged: u64,
    next: u64,
}

impl Register {
    /// The number of the change that is about to be made.
    fn begin(&mut self) -> u64 {
        let change = self.next;
        self.next += 1;
        self.possible.push(change);
        change
    }

    /// Notes that `change` is durable, so that none before it can be there.
    fn keep(&mut self, change: u64) {
        if let Some(at) = self.possible.iter().position(|one| *one == change) {
            self.possible.drain(..at);
        }
    }
}

struct Registers(Mutex<Vec<Register>>);

/// What happened, as it goes into a record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Tally {
    rounds: u64,
    /// Kills that came while requests were under way.
    kills_under_load: u64,
    acknowledged_changes: u64,
    acknowledged_flushes: u64,
    acknowledged_forced_writes: u64,
    checked_blocks: u64,
    /// Blocks that had changes since their last flush: with the last of these, or an earlier one.
    unflushed_kept: u64,
    unflushed_lost: u64,
    /// Blocks that were none of what they could be: must be 0.
    wrong_blocks: u64,
}

/// Whether change number `change` of a block erases it.
fn is_erase(block: usize, change: u64) -> bool {
    (block as u64 + change).is_multiple_of(ERASE_EVERY)
}

/// What it makes of the block.
fn content(block: usize, change: u64) -> Vec<u8> {
    if change == 0 || is_erase(block, change) {
        return vec![0; BLOCK];
    }
    // half of them are also those of the neighbour, so that pages are shared
    let name = if change.is_multiple_of(2) { block as u64 / 2 } else { block as u64 };
    random((name << 32) | change, BLOCK)
}

impl Registers {
    fn new() -> Self {
        let register = || Register { possible: vec![0], acknowledged: 0, next: 1 };
        Self(Mutex::new((0..BLOCKS).map(|_| register()).collect()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Register>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes blocks until the server is gone; how many changes were acknowledged, and how many of
    /// these were forced.
    fn write(&self, mut client: Client, writer: usize, seed: u64) -> (u64, u64) {
        let mut numbers = SplitMix64::new(seed);
        let (mut changes, mut forced) = (0, 0);
        loop {
            let block = numbers.below(BLOCKS / WRITERS) * WRITERS + writer;
            let change = self.lock()[block].begin();
            let offset = (block * BLOCK) as u64;
            let is_erase = is_erase(block, change);
            let is_forced = !is_erase && (block as u64 + change).is_multiple_of(FORCE_EVERY);
            let done = if is_erase {
                client.trim(offset, BLOCK as u32)
            } else if is_forced {
                client.write_durably(offset, &content(block, change))
            } else {
                client.write(offset, &content(block, change))
            };
            if done.is_err() {
                return (changes, forced);
            }
            changes += 1;
            let mut registers = self.lock();
            registers[block].acknowledged = change;
            if is_forced {
                forced += 1;
                registers[block].keep(change);
            }
        }
    }

    /// Flushes until the server is gone; how many were acknowledged.
    fn flush(&self, mut client: Client, seed: u64) -> u64 {
        let mut numbers = SplitMix64::new(seed);
        let mut flushes = 0;
        loop {
            let before: Vec<u64> = self.lock().iter().map(|one| one.acknowledged).collect();
            if client.flush().is_err() {
                return flushes;
            }
            flushes += 1;
            for (register, change) in self.lock().iter_mut().zip(before) {
                register.keep(change);
            }
            thread::sleep(Duration::from_micros(numbers.below(4000) as u64));
        }
    }

    /// Holds each block to what it may be, and goes on from what it is.
    fn check(&self, client: &mut Client, tally: &mut Tally) {
        let mut found = vec![0; BLOCK];
        for (block, register) in self.lock().iter_mut().enumerate() {
            client.read((block * BLOCK) as u64, &mut found).unwrap();
            tally.checked_blocks += 1;
            let is_it = |change: &&u64| content(block, **change) == found;
            let Some(change) = register.possible.iter().rev().find(is_it).copied() else {
                println!("block {block} is none of the changes {:?}", register.possible);
                tally.wrong_blocks += 1;
                continue;
            };
            if register.possible.len() > 1 {
                let is_last = register.possible.last() == Some(&change);
                let count =
                    if is_last { &mut tally.unflushed_kept } else { &mut tally.unflushed_lost };
                *count += 1;
            }
            (register.possible, register.acknowledged) = (vec![change], change);
        }
    }

    /// Loads the server until `end` has made an end of it.
    fn load(&self, served: &Served, seed: u64, tally: &mut Tally, end: impl FnOnce()) {
        let clients: Vec<Client> = (0..WRITERS).map(|_| served.client("disk")).collect();
        let flusher = served.client("disk");
        thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .zip(clients)
                .map(|(writer, client)| {
                    scope.spawn(move || self.write(client, writer, seed ^ writer as u64))
                })
                .collect();
            let flusher = scope.spawn(|| self.flush(flusher, seed));
            end();
            let before = tally.acknowledged_changes;
            for writer in writers {
                let (changes, forced) = writer.join().unwrap();
                tally.acknowledged_changes += changes;
                tally.acknowledged_forced_writes += forced;
            }
            tally.kills_under_load += u64::from(tally.acknowledged_changes > before);
            tally.acknowledged_flushes += flusher.join().unwrap();
        });
        tally.rounds += 1;
    }
}

/// Kills the server in the middle, `kills` times.
fn killed(kills: u64) -> Tally {
    let lab = Lab::new();
    lab.ok(&format!("volume create --pool pool --size {} disk", BLOCKS * BLOCK));
    let (registers, mut tally, mut numbers) =
        (Registers::new(), Tally::default(), SplitMix64::new(5));
    let mut served = Served::start(&lab);
    for _ in 0..kills {
        let (pause, seed) = (5 + numbers.below(200) as u64, numbers.next_u64());
        let pid = served.pid();
        registers.load(&served, seed, &mut tally, || {
            thread::sleep(Duration::from_millis(pause));
            rustix::process::kill_process(pid, Signal::KILL).unwrap();
        });
        assert_eq!(served.signal(Signal::KILL), -1, "it ended by itself");
        served = Served::start(&lab);
        registers.check(&mut served.client("disk"), &mut tally);
    }
    assert_eq!(served.signal(Signal::TERM), 0);
    assert!(lab.ok("volume check --pool pool").stdout.contains("no problems"));
    assert!(lab.ok("volume scrub --pool pool").stdout.contains(" 0 are not"));
    tally
}

/// Cuts the power under the server, `kills` times: what was not synced is lost, left or torn.
fn cut(kills: u64, ignores_syncs: bool) -> Tally {
    const LINE: &str = "serve --pool mnt/pool --unix socket";
    let lab = Lab::new();
    let mut mounted = Mounted::new(&lab, Disk::new());
    lab.ok(&format!("volume create --pool mnt/pool --size {} disk", BLOCKS * BLOCK));
    let (registers, mut tally, mut numbers) =
        (Registers::new(), Tally::default(), SplitMix64::new(6));
    for _ in 0..kills {
        let (steps, seed) = (40 + numbers.below(400) as u64, numbers.next_u64());
        let mut served = Served::start_with(&lab, LINE).unwrap();
        mounted.unsynced.disk().ignores_syncs = ignores_syncs;
        registers.load(&served, seed, &mut tally, || {
            mounted.unsynced.stop_after(steps, served.pid());
        });
        served.signal(Signal::KILL);
        let disk = mounted.end();
        let seed = if ignores_syncs { NOTHING_KEPT } else { numbers.next_u64() };
        let mut disk = disk.after_power_cut(seed);
        disk.ignores_syncs = false;
        mounted = Mounted::new(&lab, disk);
        let mut served = Served::start_with(&lab, LINE).unwrap();
        registers.check(&mut served.client("disk"), &mut tally);
        assert_eq!(served.signal(Signal::TERM), 0);
    }
    if !ignores_syncs {
        assert!(lab.ok("volume check --pool mnt/pool").stdout.contains("no problems"));
        assert!(lab.ok("volume scrub --pool mnt/pool").stdout.contains(" 0 are not"));
    }
    drop(mounted);
    tally
}

fn judge(tally: &Tally, rounds: u64) {
    println!("{tally:?}");
    assert_eq!((tally.wrong_blocks, tally.rounds), (0, rounds));
    let acknowledged = [tally.acknowledged_flushes, tally.acknowledged_forced_writes];
    assert!(tally.kills_under_load > 0 && !acknowledged.contains(&0), "{tally:?}");
}

#[test]
fn a_disk_that_ignores_syncs_is_caught() {
    if can_mount() {
        let tally = cut(1, true);
        assert!(tally.wrong_blocks > 0, "nothing was noticed: {tally:?}");
    }
}

/// Half of the volume that fio writes.
const FIO_HALF: usize = 4 << 20;

/// Lets fio write and flush one half of a volume, kills the server while fio writes to the other
/// half, and lets fio verify the first: `kills` times.
fn verified_by_fio(kills: u64) -> u64 {
    let lab = Lab::new();
    lab.ok(&format!("volume create --pool pool --size {} disk", 2 * FIO_HALF));
    let mut numbers = SplitMix64::new(7);
    for round in 0..kills {
        let mut served = Served::start(&lab);
        // each half in turn
        let flushed = round as usize % 2 * FIO_HALF;
        let job = |served: &Served, offset: usize, more: &[&str]| -> Vec<String> {
            let of_round = [
                format!("--uri={}", served.uri("disk")),
                format!("--randseed={round}"),
                format!("--offset={offset}"),
                format!("--size={FIO_HALF}"),
            ];
            #[rustfmt::skip]
            let always = [
                "--name=kill", "--ioengine=nbd", "--rw=randwrite", "--bs=4k", "--iodepth=16",
                "--verify=crc32c", "--verify_state_save=0", "--serialize_overlap=1",
                "--verify_fatal=1", "--dedupe_percentage=30",
            ];
            let words = always.iter().chain(more).map(|word| (*word).to_owned());
            // the options of an engine come behind it
            words.chain(of_round).collect()
        };
        let fio = |job: Vec<String>| {
            run("fio", &job.iter().map(String::as_str).collect::<Vec<_>>());
        };
        fio(job(&served, flushed, &["--do_verify=0", "--fsync=64", "--end_fsync=1"]));
        // one that has enough to do until the kill
        let endless = ["--do_verify=0", "--fsync=64", "--time_based", "--runtime=600"];
        let other = FIO_HALF - flushed;
        let mut client = served.client("disk");
        let mut read = || {
            let mut found = vec![0; FIO_HALF];
            client.read(other as u64, &mut found).unwrap();
            found
        };
        let before = read();
        let mut child = Command::new("fio")
            .args(job(&served, other, &endless))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while read() == before {
            assert!(child.try_wait().unwrap().is_none(), "fio ended by itself");
        }
        thread::sleep(Duration::from_millis(numbers.below(60) as u64));
        assert!(child.try_wait().unwrap().is_none(), "fio ended by itself");
        served.signal(Signal::KILL);
        assert_ne!(ended(&mut child), 0, "fio wrote until the server was killed");
        let served = Served::start(&lab);
        fio(job(&served, flushed, &["--verify_only"]));
        assert!(lab.ok("volume check --pool pool").stdout.contains("no problems"));
    }
    kills
}

/// What was tried, and what came of it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Results {
    killed: Tally,
    power_cut: Option<Tally>,
    /// Kills under a fio that wrote, after which another one verified what it had flushed.
    fio_rounds: Option<u64>,
}

/// `cargo xtask campaign serve-kill` has more kills, and says where a record goes.
#[test]
fn what_was_acknowledged_is_there_after_kills_and_power_cuts_under_load() {
    let kills = kills();
    let results = Results {
        killed: killed(kills),
        power_cut: can_mount().then(|| cut(kills, false)),
        fio_rounds: have(&["fio"]).then(|| verified_by_fio(kills)),
    };
    judge(&results.killed, kills);
    results.power_cut.iter().for_each(|tally| judge(tally, kills));
    if let Some(out) = env::var_os("ONEFOLD_SERVE_KILL_RECORD") {
        record(Path::new(&out), kills, results);
    }
}

fn record(out: &Path, kills: u64, results: Results) {
    let line = format!("cargo xtask campaign serve-kill --kills {kills}");
    let mut header = Header::here(out, line, "no measurement of speed").unwrap();
    // what is built for tests does not know its commit
    let commit = env::var("ONEFOLD_SERVE_KILL_COMMIT").unwrap_or("unknown dirty".into());
    let (id, state) = commit.split_once(' ').unwrap_or((&commit, "clean"));
    header.commit = Commit { id: id.to_owned(), dirty: state == "dirty" };
    header.notes = vec![
        format!(
            "a volume of {BLOCKS} blocks of 4 KiB, {WRITERS} connections that write and erase, one \
             that flushes; kills come after 5 to 205 ms, power cuts after 40 to 440 steps of the \
             disk"
        ),
        format!(
            "in each of fio_rounds fio wrote and flushed {FIO_HALF} bytes, half of a volume, the server was \
             killed while another fio wrote the other half, and then fio verified the first"
        ),
        "wrong_blocks are neither what an acknowledged flush or FUA covered nor what was begun to \
         be written since"
            .into(),
        "power is cut on a FUSE file system that forgets, keeps or tears what was not synced"
            .into(),
        "the server is built as the tests are, with overflow checks and debug assertions".into(),
    ];
    Record { header, results }.write(out).unwrap();
}
