//! What the tests of clusters share: the options that reach one, gateways, clients, and what lies in Ceph.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use onefold_lab::nbd::{Client, Place, Uri};
use onefold_testkit::ceph::{Ceph, REPLICATED};
use onefold_testkit::random;

use crate::lab::Lab;
use crate::served::Served;

pub(crate) const BLOCK: usize = 4096;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a take-over may take.
pub(crate) const TAKEN_OVER: Duration = Duration::from_secs(15);

/// The options that reach the volumes of a namespace.
pub(crate) fn at(ceph: &Ceph) -> String {
    format!("--cluster ceph:{REPLICATED}/volumes --ceph-conf {}", ceph.conf().display())
}

pub(crate) fn init(ceph: &Ceph, place: &str) -> String {
    format!("cluster init ceph:{place} --ceph-conf {}", ceph.conf().display())
}

pub(crate) fn page(n: u64) -> Vec<u8> {
    random(n, BLOCK)
}

/// A lab whose state is its own.
pub(crate) fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("state/.there", "");
    lab
}

/// A gateway that listens on a port, and on the socket `socket`.
pub(crate) fn start(lab: &Lab, ceph: &Ceph, socket: &str) -> Served {
    start_with(lab, ceph, socket, "")
}

pub(crate) fn start_with(lab: &Lab, ceph: &Ceph, socket: &str, options: &str) -> Served {
    let at = at(ceph);
    let line =
        format!("serve {at} --listen 127.0.0.1:0 --unix {socket} --metrics 127.0.0.1:0 {options}");
    Served::start_at(lab, &line, socket).unwrap()
}

/// A connection to a volume, if there is one.
pub(crate) fn try_client(served: &Served, volume: &str) -> Option<Client> {
    let uri = Uri { place: Place::Unix(served.socket().to_owned()), export: volume.into() };
    Client::connect(&uri).ok()
}

pub(crate) fn expect_pages(client: &mut Client, pages: impl IntoIterator<Item = (u64, u64)>) {
    let mut found = vec![0; BLOCK];
    for (block, number) in pages {
        client.read(block * BLOCK as u64, &mut found).unwrap();
        assert!(found == page(number), "block {block}");
    }
}

#[track_caller]
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(200));
    }
}

/// A metric of a gateway.
pub(crate) fn metric(served: &Served, name: &str) -> Option<f64> {
    let line = served.hears("metrics at http://");
    let (_, rest) = line.split_once("http://").unwrap();
    let (address, _) = rest.split_once("/metrics").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
    lines.find(|(found, _)| *found == name).and_then(|(_, value)| value.parse().ok())
}

/// What `rados` says in the namespace of pool `pool`.
pub(crate) fn rados(ceph: &Ceph, pool: &str, arguments: &[&OsStr]) -> String {
    try_rados(ceph, pool, arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

fn try_rados(ceph: &Ceph, pool: &str, arguments: &[&OsStr]) -> Result<String, String> {
    let mut command = Command::new("rados");
    command.arg("-c").arg(ceph.conf()).args(["-p", pool, "-N", "volumes"]).args(arguments);
    let output = command.output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// How long an object is; none if it is gone.
fn size_of(ceph: &Ceph, pool: &str, object: &str) -> Option<u64> {
    match try_rados(ceph, pool, &["stat".as_ref(), object.as_ref()]) {
        Ok(shown) => Some(shown.trim().rsplit(' ').next().unwrap().parse().unwrap()),
        Err(error) if error.contains("No such file") => None,
        Err(error) => panic!("stat {object}: {error}"),
    }
}

/// The containers in pool `pool`, and their bytes.
pub(crate) fn containers(ceph: &Ceph, pool: &str) -> Vec<(String, u64)> {
    let listed = rados(ceph, pool, &["ls".as_ref()]);
    let containers = listed.lines().filter(|name| name.contains(".container."));
    // gateways remove some meanwhile
    containers.filter_map(|name| Some((name.to_owned(), size_of(ceph, pool, name)?))).collect()
}
