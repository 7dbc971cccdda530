//! `cargo xtask cluster-demo`: a cluster of Ceph and gateways of a pool of volumes on this machine, to try.
//!
//! All of it ends with this process, killed or not: Ceph's processes and the gateways are in a group that a
//! guard kills, and the guard removes the folder.

use std::env;
use std::path::Path;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use onefold_testkit::ceph::{Ceph, Gateways, write_and_read};

/// How many gateways there are. The first one that a client asks has the volume, and the others pass connections
/// on to it; when it dies one of them takes over.
const GATEWAYS: usize = 3;

/// The volume.
const VOLUME: &str = "disk";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (onefold, is_once) = match words[..] {
        [onefold] => (onefold, false),
        [onefold, "--once"] => (onefold, true),
        _ => {
            eprintln!("usage: cluster_demo ONEFOLD [--once]");
            return ExitCode::FAILURE;
        }
    };
    let begun = Instant::now();
    println!("starting Ceph: a monitor, a manager and three servers of objects");
    let ceph = match Ceph::start() {
        Ok(ceph) => ceph,
        Err(reason) => {
            eprintln!("error: {reason}");
            return ExitCode::FAILURE;
        }
    };
    println!("making a pool of volumes, and starting {GATEWAYS} gateways");
    let mut gateways = Gateways::new(ceph, Path::new(onefold));
    gateways.onefold(0, &["volume", "create", VOLUME, "--size", "1GiB"]);
    for number in 0..GATEWAYS {
        gateways.start(number, &[]);
        if let Err(ended) = gateways.wait_until_it_listens(number) {
            eprintln!("error: gateway {number} ended, {}: {}", ended.status, ended.said);
            return ExitCode::FAILURE;
        }
    }
    if is_once {
        // the first one takes the volume, and the others pass connections on to it
        (0..GATEWAYS).for_each(|number| write_and_read(&gateways.uri(number, VOLUME)));
        print!("{}", gateways.status(&[]));
        println!("written, and read again, after {:.0} s", begun.elapsed().as_secs_f64());
        return ExitCode::SUCCESS;
    }
    tell(&gateways, onefold);
    let mut runs = [true; GATEWAYS];
    loop {
        for (number, runs) in runs.iter_mut().enumerate() {
            if *runs && let Some(ended) = gateways.ended(number) {
                println!("gateway {number} ended, {}: {}", ended.status, ended.said);
                *runs = false;
            }
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Says how to use it.
fn tell(gateways: &Gateways, onefold: &str) {
    let (location, conf) = (gateways.location(), gateways.ceph().conf());
    let conf = conf.display();
    println!("\nVolume '{VOLUME}' of 1 GiB is served. To write to it and read it:\n");
    let uri = gateways.uri(0, VOLUME);
    println!("  qemu-io -f raw -c 'write -P 7 0 1M' -c flush -c 'read -P 7 0 1M' '{uri}'");
    println!(
        "  fio --name=try --ioengine=nbd --uri='{uri}' --rw=randwrite --bs=4k --iodepth=16 --size=64m"
    );
    println!(
        "  sudo nbd-client -unix {} -N {VOLUME} /dev/nbd0      # a disk, after `sudo modprobe nbd`",
        gateways.socket(0).display()
    );
    println!("\nTo see who serves, and what Ceph says:\n");
    println!("  {onefold} cluster status {location} --ceph-conf {conf}");
    println!("  ceph --conf {conf} status");
    println!("\nTo see volumes, as on the machine of gateway 0:\n");
    println!(
        "  XDG_STATE_HOME={} {onefold} volume list --cluster {location} --ceph-conf {conf}",
        gateways.state(0).display()
    );
    println!(
        "\nTo let another gateway take over, kill the one that has the volume; processes and addresses:\n"
    );
    for number in 0..GATEWAYS {
        let process = gateways.process(number).map_or("ended".to_owned(), |id| id.to_string());
        println!("  kill -9 {process:<8} {}", gateways.uri(number, VOLUME));
    }
    println!("\nCtrl-C ends everything and removes what it stored.");
}
