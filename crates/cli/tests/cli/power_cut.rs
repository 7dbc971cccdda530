//! The binary is killed in the middle of a backup or a prune, and the power goes with it: what was
//! not synced is lost, torn or left, on a file system that is made for this.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::time::UNIX_EPOCH;

use fuser::{BackgroundSession, Config, MountOption, SessionACL};
use onefold_testkit::{SplitMix64, random};
use rustix::process::Pid;

use crate::lab::{Lab, Ran};
use crate::mount::can_mount;
use crate::tree_equality::assert_same_tree;
use crate::unsynced::{Disk, NOTHING_KEPT, Unsynced};

/// How many kills; more by the environment, for a campaign.
fn kills() -> u64 {
    env::var("ONEFOLD_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(6)
}

/// The disk, mounted on `mnt` of the lab; unmounted when dropped.
pub(crate) struct Mounted {
    pub(crate) unsynced: Unsynced,
    session: Option<BackgroundSession>,
}

impl Mounted {
    pub(crate) fn new(lab: &Lab, disk: Disk) -> Self {
        fs::create_dir_all(lab.path("mnt")).unwrap();
        let unsynced = Unsynced::new(disk);
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("unsynced".into())];
        config.acl = SessionACL::Owner;
        let session = fuser::spawn_mount(unsynced.clone(), lab.path("mnt"), &config).unwrap();
        Self { unsynced, session: Some(session) }
    }

    /// Ends it and gives the disk as it was.
    pub(crate) fn end(mut self) -> Disk {
        if let Some(session) = self.session.take() {
            session.umount_and_join().unwrap();
        }
        self.unsynced.disk().clone()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let _ = session.umount_and_join();
        }
    }
}

/// Runs a command, whose process is killed after so many steps; whether it ended before that.
fn run_until(lab: &Lab, mounted: &Mounted, line: &str, steps: u64) -> Option<Ran> {
    let mut command = lab.command(line);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It has not opened the repository yet: it takes longer to start than this.
    mounted.unsynced.stop_after(steps, Pid::from_child(&child));
    let ran = Ran::of(line, child.wait_with_output().unwrap());
    (ran.code != 128 + 9).then_some(ran)
}

/// The disk as it was once, and a client that remembers nothing later.
fn gone_back(lab: &Lab, base: &Disk) -> Mounted {
    fs::remove_dir_all(lab.path("state")).unwrap();
    Mounted::new(lab, base.clone())
}

/// Which kind of object was being written or deleted.
fn phase(disk: &Disk) -> String {
    disk.last().split(' ').next().unwrap_or_default().to_owned()
}

/// What a repository of these tests is made with, and opened with.
struct Kind {
    init: &'static str,
    open: &'static str,
    /// Of how many kills one is done.
    share: u64,
}

const PLAIN: Kind =
    Kind { init: "init mnt/repo --no-encryption", open: "--repo mnt/repo", share: 1 };

/// Each command spends a while on the password.
const ENCRYPTED: Kind = Kind {
    init: "init mnt/repo --password-file secret",
    open: "--repo mnt/repo --password-file secret",
    share: 3,
};

#[test]
fn whatever_a_kill_with_a_power_cut_leaves_is_whole_and_goes_on() {
    kill_in_the_middle(&PLAIN);
}

#[test]
fn whatever_a_kill_with_a_power_cut_leaves_of_an_encrypted_repository_is_whole_and_goes_on() {
    kill_in_the_middle(&ENCRYPTED);
}

fn kill_in_the_middle(kind: &Kind) {
    if !can_mount() {
        return;
    }
    let (lab, repo) = (Lab::new(), kind.open);
    lab.write("secret", "correct horse battery staple\n");
    lab.write("before/a", random(1, 300_000));
    lab.write("before/below/b", "b");
    lab.write("new/a", [random(1, 150_000), random(2, 300_000)].concat());
    lab.write("new/c", random(3, 200_000));
    let mounted = Mounted::new(&lab, Disk::new());
    lab.ok(kind.init);
    lab.ok(&format!("backup {repo} --tag before before"));
    lab.settle();
    // What was acknowledged is durable: nothing more is kept of it.
    let first = mounted.end().after_power_cut(NOTHING_KEPT);
    let mounted = Mounted::new(&lab, first.clone());
    lab.ok(&format!("backup {repo} --tag new new"));
    let both = mounted.end().after_power_cut(NOTHING_KEPT);

    let backup = format!("backup {repo} --tag new new");
    let prune =
        format!("forget {repo} --keep-tag before --unsafe-allow-remove-all --prune --max-unused 0");
    let mut phases: BTreeMap<(&str, String), u64> = BTreeMap::new();
    let (mut numbers, mut counted) = (SplitMix64::new(7), 0);
    let each = kills().div_ceil(kind.share);
    for (what, line, base) in [("backup", backup, first), ("prune", prune, both)] {
        // How long it takes without a kill.
        let mounted = gone_back(&lab, &base);
        lab.ok(&line);
        let steps = mounted.unsynced.disk().steps();
        drop(mounted);
        assert!(steps > 10, "{what}: {steps} steps");
        for kill in 0..each {
            let stop = 1 + numbers.below(steps as usize - 1) as u64;
            let mounted = gone_back(&lab, &base);
            let ended = run_until(&lab, &mounted, &line, stop);
            let disk = mounted.end();
            // A kill counts if it came between the first write and the end.
            if ended.is_none() {
                *phases.entry((what, phase(&disk))).or_default() += 1;
                counted += 1;
            }
            let seed = numbers.next_u64();
            let at =
                format!("{what} {kill}, killed after step {stop} ({}), seed {seed}", disk.last());
            let mounted = Mounted::new(&lab, disk.after_power_cut(seed));
            println!("{at}");
            lab.ok(&format!("check {repo} --read-data"));
            let listed = lab.ok(&format!("snapshots {repo} --json --tag before")).json();
            let id = listed[0]["id"].as_str().unwrap_or_else(|| panic!("{at}: lost")).to_owned();
            lab.ok(&format!("restore {repo} {id} --target out"));
            assert_same_tree(&lab.path("before"), &lab.path("out"));
            fs::remove_dir_all(lab.path("out")).unwrap();
            // Whatever was left, the same succeeds now, and lasts.
            lab.ok(&line);
            let disk = mounted.end();
            let mounted = Mounted::new(&lab, disk.after_power_cut(NOTHING_KEPT));
            lab.ok(&format!("check {repo} --read-data"));
            if what == "backup" {
                lab.ok(&format!("restore {repo} latest --target out"));
                assert_same_tree(&lab.path("new"), &lab.path("out"));
                fs::remove_dir_all(lab.path("out")).unwrap();
            }
            drop(mounted);
        }
    }
    println!(
        "{}: {counted} kills between the first write and the end, by the step before: {phases:?}",
        kind.init
    );
    assert!(counted >= each, "{counted} of {} kills counted", 2 * each);
}

/// A source of files that a restore gives their length before all of their bytes: one with a hole,
/// and one of several pieces. The disk of these tests knows no times, so the files have none.
fn make_long_files(lab: &Lab) {
    lab.write("src/long", random(1, 9 << 20));
    lab.write("src/sparse", random(2, 300_000));
    let sparse = File::options().write(true).open(lab.path("src/sparse")).unwrap();
    sparse.set_len(3 << 20).unwrap();
    sparse.write_all_at(&random(3, 100_000), 2 << 20).unwrap();
    for name in ["src/long", "src/sparse"] {
        File::open(lab.path(name)).unwrap().set_modified(UNIX_EPOCH).unwrap();
    }
}

/// Restores to a disk of which the power is cut, and once more with `if-changed`; whether every file
/// is as it was then.
fn is_restored_after_power_cuts(lab: &Lab, ignores_syncs: bool, stop: u64, seed: u64) -> bool {
    let mut disk = Disk::new();
    disk.ignores_syncs = ignores_syncs;
    let line = "restore --repo repo latest --target mnt/out";
    let mounted = Mounted::new(lab, disk);
    run_until(lab, &mounted, line, stop);
    let mut left = mounted.end().after_power_cut(seed);
    left.ignores_syncs = false;
    let _mounted = Mounted::new(lab, left);
    lab.ok(&format!("{line} --overwrite if-changed"));
    let is_same = |name: &str| {
        fs::read(lab.path("src").join(name)).unwrap()
            == fs::read(lab.path("mnt/out").join(name)).unwrap()
    };
    is_same("long") && is_same("sparse")
}

#[test]
fn what_a_power_cut_leaves_of_a_restore_is_not_taken_for_whole() {
    if !can_mount() {
        return;
    }
    let lab = Lab::with_repository();
    make_long_files(&lab);
    lab.ok("backup --repo repo src");
    let mounted = Mounted::new(&lab, Disk::new());
    lab.ok("restore --repo repo latest --target mnt/out");
    let steps = mounted.end().steps();
    let mut numbers = SplitMix64::new(11);
    for _ in 0..kills() {
        // At any step, or after the last.
        let stop = 1 + numbers.below(steps as usize + 10) as u64;
        let seed = numbers.next_u64();
        assert!(is_restored_after_power_cuts(&lab, false, stop, seed), "step {stop}, seed {seed}");
    }
    // Without syncs it would be.
    let mut ignored =
        (0..40).map(|seed| is_restored_after_power_cuts(&lab, true, steps + 10, seed));
    assert!(ignored.any(|is_whole| !is_whole));
}

#[test]
fn a_disk_that_ignores_syncs_loses_what_was_acknowledged() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    lab.write("src/a", random(1, 100_000));
    let mounted = Mounted::new(&lab, Disk::new());
    lab.ok(PLAIN.init);
    let made = mounted.end().after_power_cut(NOTHING_KEPT);
    for ignores_syncs in [false, true] {
        let mut disk = made.clone();
        disk.ignores_syncs = ignores_syncs;
        let mounted = Mounted::new(&lab, disk);
        lab.ok(&format!("backup {} src", PLAIN.open));
        let left = mounted.end().after_power_cut(NOTHING_KEPT);
        let _mounted = Mounted::new(&lab, left);
        // The client was told, and remembers.
        let listed = lab.run(&format!("snapshots {} --json", PLAIN.open));
        let listed = listed.expect(if ignores_syncs { 13 } else { 0 }).json();
        fs::remove_dir_all(lab.path("state")).unwrap();
        assert_eq!(listed.as_array().unwrap().len(), usize::from(!ignores_syncs));
    }
}
