//! Clients that are slow, some of them on purpose, and what others notice of it.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use onefold_nbd::Limits;
use onefold_testkit::random;

use crate::client::*;
use crate::device::Watched;
use crate::server::{Lab, MIB, eventually};

/// What a slow client takes or sends at a time, and how long it rests then: 1.25 MiB a second.
const SLICE: usize = 64 << 10;
const REST: Duration = Duration::from_millis(50);

fn lab(limits: Limits) -> Lab {
    Lab::with(Watched::new(16 * MIB), |mut config| {
        config.limits = limits;
        config
    })
}

#[test]
fn a_client_that_takes_no_replies_leaves_memory_to_others() {
    let (max_request, buffers) = (MIB as u32, 4 * MIB);
    let lab = lab(Limits { max_request, buffers, ..Limits::default() });
    let data = random(5, MIB as usize);
    assert_eq!(lab.client().write(0, 0, &data), 0);
    let mut slow = lab.client();
    for cookie in 0..8 {
        slow.send_request((READ, 0), cookie, 0, MIB as u32);
    }
    eventually("it has what it may have", || (lab.device.calls().len() >= 2).then_some(()));
    thread::sleep(REST);
    let mut other = lab.client();
    assert!(other.read(0, 0, MIB as u32).unwrap() == data);
    assert_eq!(other.write(0, 0, &data), 0);
    // nothing of it is lost to the slow one
    for cookie in 0..8 {
        assert!(slow.read_reply(cookie, 0, MIB as u32).unwrap() == data);
    }
}

#[test]
fn a_request_of_no_bytes_waits_for_no_memory() {
    let (max_request, buffers) = (MIB as u32, MIB);
    let lab = lab(Limits { max_request, buffers, ..Limits::default() });
    lab.device.hold("read");
    let mut greedy = lab.client();
    greedy.send_request((READ, 0), 1, 0, MIB as u32);
    lab.device.wait_for(1);
    assert_eq!(lab.client().write(0, 0, &[]), 0);
    lab.device.release();
    assert!(greedy.read_reply(1, 0, MIB as u32).is_ok());
}

#[test]
fn a_client_that_takes_replies_more_slowly_than_it_must_is_ended() {
    let (stall, least_rate) = (Duration::from_millis(500), 16 << 20);
    let lab = lab(Limits { stall, least_rate, ..Limits::default() });
    let mut slow = lab.client();
    slow.send_request((READ, 0), 1, 0, 16 << 20);
    let mut slice = vec![0; SLICE];
    // it never stops for long
    while slow.wire.read_exact(&mut slice).is_ok() {
        thread::sleep(REST);
    }
    let ended = lab.next_end().expect("before it had all");
    assert!(ended.starts_with("taking a reply took longer than"), "{ended}");
}

#[test]
fn a_client_that_sends_a_write_more_slowly_than_it_must_is_ended() {
    let (stall, least_rate) = (Duration::from_millis(500), 16 << 20);
    for offset in [0, u64::MAX] {
        let lab = lab(Limits { stall, least_rate, ..Limits::default() });
        let mut slow = lab.client();
        slow.send_request((WRITE, 0), 1, offset, 8 << 20);
        let slice = vec![7; SLICE];
        let all = (0..8 * MIB as usize / SLICE).all(|_| {
            thread::sleep(REST);
            slow.wire.write_all(&slice).is_ok()
        });
        assert!(!all, "it could send all");
        let ended = lab.next_end().expect("an error");
        assert!(ended.starts_with("a write took longer than"), "{ended}");
        assert_eq!(lab.device.calls(), []);
    }
}

#[test]
fn a_client_on_a_slow_link_gets_what_it_asks_for() {
    let (stall, least_rate) = (Duration::from_millis(500), 256 << 10);
    let lab = lab(Limits { stall, least_rate, ..Limits::default() });
    let data = random(6, 2 << 20);
    let mut slow = lab.client();
    slow.send_request((WRITE, 0), 1, 0, data.len() as u32);
    for slice in data.chunks(SLICE) {
        slow.send(slice);
        thread::sleep(REST);
    }
    assert_eq!(slow.outcome(1), 0);
    slow.send_request((READ, 0), 2, 0, data.len() as u32);
    let head = slow.bytes(28);
    assert_eq!(u32_at(&head, 16) as usize, 8 + data.len());
    for slice in data.chunks(SLICE) {
        assert!(slow.bytes(slice.len()) == slice);
        thread::sleep(REST);
    }
    assert_eq!(slow.ask((FLUSH, 0), 0, 0), 0);
}
