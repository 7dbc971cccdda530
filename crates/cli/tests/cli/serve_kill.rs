//! The server is killed under load, and power cut under it: what a flush or FUA acknowledged is
//! there afterwards, and every other block is as some write left it.
//!
//! | file | what it is |
//! | --- | --- |
//! | registers.rs | which writes each block may have, and the clients that write |
//! | damage.rs | copies of what a kill left, with the end of the journal damaged |
//! | operations.rs | kills in the midst of whatever else is done to a pool |

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use onefold_bench::{Commit, Header, Record};
use onefold_testkit::SplitMix64;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use self::damage::{Damaged, Left};
use self::operations::{Operations, killed_in_the_midst};
use self::registers::{BLOCK, BLOCKS, Registers, WRITERS};
use crate::lab::Lab;
use crate::mount::can_mount;
use crate::power_cut::Mounted;
use crate::served::{Served, ended, have, run};
use crate::unsynced::{Disk, NOTHING_KEPT};

mod damage;
mod operations;
mod registers;

/// How many kills; more by the environment, for a campaign.
fn kills() -> u64 {
    env::var("ONEFOLD_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(4)
}

/// The rounds between two in which the server rests before the kill, and between two in which the test
/// damages copies of what the server left. Each round with a rest is one of the latter.
const REST_EVERY: u64 = 4;
const DAMAGE_EVERY: u64 = 2;

/// For this many kills under load, each operation is killed once.
const OPERATE_EVERY: u64 = 4;

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

/// What became of pools that were killed, or lost their power, and of damaged copies of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Crashed {
    #[serde(flatten)]
    tally: Tally,
    damaged: Damaged,
}

/// Whether the server rests in a round, counted from 0, and whether copies are damaged after it.
fn kind_of(round: u64) -> (bool, bool) {
    let is_each = |every| (round + 1).is_multiple_of(every);
    (is_each(REST_EVERY), is_each(DAMAGE_EVERY))
}

/// Kills the server in the middle, `kills` times.
fn killed(kills: u64) -> Crashed {
    let lab = Lab::new();
    lab.ok(&format!("volume create --pool pool --size {} disk", BLOCKS * BLOCK));
    let (registers, mut numbers) = (Registers::new(), SplitMix64::new(5));
    let Crashed { mut tally, mut damaged } = Crashed::default();
    let mut served = Served::start(&lab);
    for round in 0..kills {
        let (pause, seed) = (5 + numbers.below(200) as u64, numbers.next_u64());
        let pause = Duration::from_millis(pause);
        let (has_rested, is_damaged) = kind_of(round);
        let pid = served.pid();
        if has_rested {
            registers.load_for(&served, seed, &mut tally, pause);
            damage::rest(&lab.path("pool"), &mut damaged);
        } else {
            let is_loaded = registers.load(&served, seed, &mut tally, || {
                thread::sleep(pause);
                rustix::process::kill_process(pid, Signal::KILL).unwrap();
            });
            tally.kills_under_load += u64::from(is_loaded);
        }
        assert_eq!(served.signal(Signal::KILL), -1, "it ended by itself");
        if is_damaged {
            let (lab, registers) = (&lab, &registers);
            let left = Left { lab, pool: "pool", registers, has_rested, is_power_cut: false };
            left.damage_copies(&mut numbers, &mut damaged);
        }
        served = Served::start(&lab);
        registers.check(&mut served.client("disk"), &mut tally);
    }
    assert_eq!(served.signal(Signal::TERM), 0);
    assert!(lab.ok("volume check --pool pool").stdout.contains("no problems"));
    assert!(lab.ok("volume scrub --pool pool").stdout.contains(" 0 are not"));
    Crashed { tally, damaged }
}

/// Cuts the power under the server, `kills` times: what was not synced is lost, left or torn.
fn cut(kills: u64, ignores_syncs: bool) -> Crashed {
    const LINE: &str = "serve --pool mnt/pool --unix socket";
    let lab = Lab::new();
    let mut mounted = Mounted::new(&lab, Disk::new());
    lab.ok(&format!("volume create --pool mnt/pool --size {} disk", BLOCKS * BLOCK));
    let (registers, mut numbers) = (Registers::new(), SplitMix64::new(6));
    let Crashed { mut tally, mut damaged } = Crashed::default();
    for round in 0..kills {
        let (steps, seed) = (40 + numbers.below(400) as u64, numbers.next_u64());
        let pause = Duration::from_millis(numbers.below(300) as u64);
        let (has_rested, is_damaged) = kind_of(round);
        let mut served = Served::start_with(&lab, LINE).unwrap();
        mounted.unsynced.disk().ignores_syncs = ignores_syncs;
        if has_rested {
            registers.load_for(&served, seed, &mut tally, pause);
            damage::rest(&lab.path("mnt/pool"), &mut damaged);
        } else {
            let is_loaded = registers.load(&served, seed, &mut tally, || {
                thread::sleep(pause);
                mounted.unsynced.stop_after(steps, served.pid());
            });
            tally.kills_under_load += u64::from(is_loaded);
        }
        served.signal(Signal::KILL);
        let disk = mounted.end();
        let seed = if ignores_syncs { NOTHING_KEPT } else { numbers.next_u64() };
        let mut disk = disk.after_power_cut(seed);
        disk.ignores_syncs = false;
        mounted = Mounted::new(&lab, disk);
        if is_damaged {
            let (lab, registers) = (&lab, &registers);
            let left = Left { lab, pool: "mnt/pool", registers, has_rested, is_power_cut: true };
            left.damage_copies(&mut numbers, &mut damaged);
        }
        let mut served = Served::start_with(&lab, LINE).unwrap();
        registers.check(&mut served.client("disk"), &mut tally);
        assert_eq!(served.signal(Signal::TERM), 0);
    }
    if !ignores_syncs {
        assert!(lab.ok("volume check --pool mnt/pool").stdout.contains("no problems"));
        assert!(lab.ok("volume scrub --pool mnt/pool").stdout.contains(" 0 are not"));
    }
    drop(mounted);
    Crashed { tally, damaged }
}

fn judge(crashed: &Crashed, rounds: u64) {
    println!("{crashed:?}");
    let Crashed { tally, damaged } = crashed;
    assert_eq!((tally.wrong_blocks, tally.rounds), (0, rounds));
    let acknowledged = [tally.acknowledged_flushes, tally.acknowledged_forced_writes];
    assert!(tally.kills_under_load > 0 && !acknowledged.contains(&0), "{tally:?}");
    assert_eq!((damaged.silent, damaged.invented_blocks), (0, 0));
    assert_eq!(damaged.refused, damaged.repaired);
    assert!(rounds < REST_EVERY || damaged.rested_copies > 0, "{damaged:?}");
}

fn judge_operations(operations: &Operations) {
    println!("{operations:?}");
    assert_eq!((operations.wrong_volumes, operations.under_load.wrong_blocks), (0, 0));
    let in_the_midst: u64 = operations.kills.values().map(|kills| kills.in_the_midst).sum();
    assert!(in_the_midst > 0, "every kill came too late");
}

#[test]
fn a_disk_that_ignores_syncs_is_caught() {
    if can_mount() {
        let tally = cut(1, true).tally;
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
    killed: Crashed,
    power_cut: Option<Crashed>,
    operations: Operations,
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
        operations: killed_in_the_midst(kills.div_ceil(OPERATE_EVERY)),
        fio_rounds: have(&["fio"]).then(|| verified_by_fio(kills)),
    };
    judge(&results.killed, kills);
    results.power_cut.iter().for_each(|crashed| judge(crashed, kills));
    judge_operations(&results.operations);
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
             that flushes; kills come after 5 to 205 ms, power cuts after up to 300 ms and then \
             40 to 440 steps of the disk"
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
        format!(
            "each of copies is what a kill or a power cut left, with the last frame of its journal \
             damaged, cut or gone, or all of the journal; silent opened though the damage had to be \
             noticed; in_the_window lost what was acknowledged and not noted yet, in a tenth of a \
             second before the kill and the time that the disk took for the note; in every \
             {REST_EVERY}th round the server rested for 1.5 s before the kill, and the window is empty"
        ),
        "a kill is in_the_midst if the server or the command had begun and had neither ended nor \
         answered; by the server it is under load"
            .into(),
        "the server is built as the tests are, with overflow checks and debug assertions".into(),
    ];
    Record { header, results }.write(out).unwrap();
}
