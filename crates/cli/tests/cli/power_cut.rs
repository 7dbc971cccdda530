//! The binary is killed in the middle of a backup or a prune, and the power goes with it: what was
//! not synced is lost, torn or left, on a file system that is made for this.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::process::Stdio;

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
struct Mounted {
    unsynced: Unsynced,
    session: Option<BackgroundSession>,
}

impl Mounted {
    fn new(lab: &Lab, disk: Disk) -> Self {
        fs::create_dir_all(lab.path("mnt")).unwrap();
        let unsynced = Unsynced::new(disk);
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("unsynced".into())];
        config.acl = SessionACL::Owner;
        let session = fuser::spawn_mount(unsynced.clone(), lab.path("mnt"), &config).unwrap();
        Self { unsynced, session: Some(session) }
    }

    /// Ends it and gives the disk as it was.
    fn end(mut self) -> Disk {
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

const REPO: &str = "--repo mnt/repo";

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

#[test]
fn whatever_a_kill_with_a_power_cut_leaves_is_whole_and_goes_on() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    lab.write("before/a", random(1, 300_000));
    lab.write("before/below/b", "b");
    lab.write("new/a", [random(1, 150_000), random(2, 300_000)].concat());
    lab.write("new/c", random(3, 200_000));
    let mounted = Mounted::new(&lab, Disk::new());
    lab.ok("init mnt/repo --no-encryption");
    lab.ok(&format!("backup {REPO} --tag before before"));
    lab.settle();
    // What was acknowledged is durable: nothing more is kept of it.
    let first = mounted.end().after_power_cut(NOTHING_KEPT);
    let mounted = Mounted::new(&lab, first.clone());
    lab.ok(&format!("backup {REPO} --tag new new"));
    let both = mounted.end().after_power_cut(NOTHING_KEPT);

    let backup = format!("backup {REPO} --tag new new");
    let prune =
        format!("forget {REPO} --keep-tag before --unsafe-allow-remove-all --prune --max-unused 0");
    let mut phases: BTreeMap<(&str, String), u64> = BTreeMap::new();
    let (mut numbers, mut counted) = (SplitMix64::new(7), 0);
    for (what, line, base) in [("backup", backup, first), ("prune", prune, both)] {
        // How long it takes without a kill.
        let mounted = gone_back(&lab, &base);
        lab.ok(&line);
        let steps = mounted.unsynced.disk().steps();
        drop(mounted);
        assert!(steps > 10, "{what}: {steps} steps");
        for kill in 0..kills() {
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
            lab.ok(&format!("check {REPO} --read-data"));
            let listed = lab.ok(&format!("snapshots {REPO} --json --tag before")).json();
            let id = listed[0]["id"].as_str().unwrap_or_else(|| panic!("{at}: lost")).to_owned();
            lab.ok(&format!("restore {REPO} {id} --target out"));
            assert_same_tree(&lab.path("before"), &lab.path("out"));
            fs::remove_dir_all(lab.path("out")).unwrap();
            // Whatever was left, the same succeeds now, and lasts.
            lab.ok(&line);
            let disk = mounted.end();
            let mounted = Mounted::new(&lab, disk.after_power_cut(NOTHING_KEPT));
            lab.ok(&format!("check {REPO} --read-data"));
            if what == "backup" {
                lab.ok(&format!("restore {REPO} latest --target out"));
                assert_same_tree(&lab.path("new"), &lab.path("out"));
                fs::remove_dir_all(lab.path("out")).unwrap();
            }
            drop(mounted);
        }
    }
    println!("{counted} kills between the first write and the end, by the step before: {phases:?}");
    assert!(counted >= kills(), "{counted} of {} kills counted", 2 * kills());
}

#[test]
fn a_disk_that_ignores_syncs_loses_what_was_acknowledged() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    lab.write("src/a", random(1, 100_000));
    let mounted = Mounted::new(&lab, Disk::new());
    lab.ok("init mnt/repo --no-encryption");
    let made = mounted.end().after_power_cut(NOTHING_KEPT);
    for ignores_syncs in [false, true] {
        let mut disk = made.clone();
        disk.ignores_syncs = ignores_syncs;
        let mounted = Mounted::new(&lab, disk);
        lab.ok(&format!("backup {REPO} src"));
        let left = mounted.end().after_power_cut(NOTHING_KEPT);
        let _mounted = Mounted::new(&lab, left);
        // The client was told, and remembers.
        let listed = lab.run(&format!("snapshots {REPO} --json"));
        let listed = listed.expect(if ignores_syncs { 13 } else { 0 }).json();
        fs::remove_dir_all(lab.path("state")).unwrap();
        assert_eq!(listed.as_array().unwrap().len(), usize::from(!ignores_syncs));
    }
}
