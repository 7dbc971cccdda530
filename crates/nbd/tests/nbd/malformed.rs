//! Bytes that are not the protocol: the connection ends, nothing else does.

use std::time::Duration;

use onefold_nbd::{Config, Limits};

use crate::client::*;
use crate::device::Watched;
use crate::server::{Lab, MIB};

#[test]
fn flags_that_were_not_offered_end_the_connection() {
    let lab = Lab::new();
    // the old newstyle, an unknown flag, and no newstyle at all
    for flags in [2, 4 | 3, 1 << 31 | 1, 0] {
        Client::greet_with(lab.connect(), flags).expect_end();
        assert!(lab.next_end().unwrap().contains("the client's flags"));
    }
}

#[test]
fn an_option_without_its_mark_ends_the_connection() {
    let lab = Lab::new();
    let mut client = Client::greet(lab.connect());
    client.send(&[b"IHAVEOPS".as_slice(), &[0; 8]].concat());
    client.expect_end();
    assert!(lab.next_end().unwrap().contains("the head of an option"));
}

#[test]
fn an_option_that_is_too_long_is_refused_and_ends_the_connection() {
    let lab = Lab::new();
    for (option, len) in [(LIST, 65_537), (GO, u32::MAX), (999, 1 << 20)] {
        let mut client = Client::greet(lab.connect());
        let head = [&b"IHAVEOPT"[..], &u32::to_be_bytes(option), &u32::to_be_bytes(len)].concat();
        client.send(&head);
        let answer = client.bytes(20);
        assert_eq!(u32_at(&answer, 12), ERR_TOO_BIG);
        let words = client.bytes(u32_at(&answer, 16) as usize);
        assert!(words.ends_with(b"bytes"), "{words:?}");
        client.expect_end();
        assert!(lab.next_end().unwrap().contains("the length of an option"));
    }
    let mut client = Client::greet(lab.connect());
    let head = [&b"IHAVEOPT"[..], &EXPORT_NAME.to_be_bytes(), &u32::MAX.to_be_bytes()].concat();
    client.send(&head);
    client.expect_end();
}

#[test]
fn a_client_that_haggles_for_ever_is_ended() {
    let lab = Lab::new();
    let mut client = Client::greet(lab.connect());
    for _ in 0..1024 + 16 {
        assert_eq!(client.answer(999, &[]), ERR_UNSUP);
    }
    client.expect_end();
    assert!(lab.next_end().unwrap().contains("more than 1040 options"));
}

#[test]
fn a_request_without_its_mark_ends_the_connection() {
    let lab = Lab::new();
    for magic in [0x2560_9514_u32, 0x6744_6698, 0] {
        let mut client = lab.client();
        let mut bytes = request((FLUSH, 0), 1, 0, 0);
        bytes[..4].copy_from_slice(&magic.to_be_bytes());
        client.send(&bytes);
        client.expect_end();
        assert!(lab.next_end().unwrap().contains("the head of a request"));
    }
    assert_eq!(lab.device.calls(), []);
}

#[test]
fn a_client_that_says_farewell_gets_what_it_asked_for_before() {
    let lab = Lab::new();
    let mut client = lab.client();
    lab.device.hold("read");
    client.send_request((READ, 0), 1, 0, 4096);
    client.send_request((DISCONNECT, 0), 2, 0, 0);
    lab.device.wait_for(1);
    lab.device.release();
    assert_eq!(client.read_reply(1, 0, 4096), Ok(vec![0; 4096]));
    client.expect_end();
    drop(client);
    assert_eq!(lab.next_end(), None);
}

#[test]
fn a_client_that_goes_without_farewell_between_requests_is_nothing_special() {
    let lab = Lab::new();
    drop(lab.client());
    assert_eq!(lab.next_end(), None);
    drop(Client::greet(lab.connect()));
    assert_eq!(lab.next_end().unwrap(), "the client disconnected in the middle of the handshake");
}

#[test]
fn a_write_of_a_client_that_disappears_never_reaches_the_device() {
    let lab = Lab::new();
    for len in [1_usize, 100, 5000, 300_000] {
        for sent in [0, len / 2, len - 1] {
            let mut client = lab.client();
            client.send_request((WRITE, 0), 1, 0, len as u32);
            client.send(&vec![7; sent]);
            drop(client);
            let ended = lab.next_end().unwrap();
            assert_eq!(ended, "the client disconnected in the middle of a write");
        }
    }
    // in the middle of a head
    let mut client = lab.client();
    client.send(&request((WRITE, 0), 1, 0, 1)[..27]);
    drop(client);
    assert_eq!(lab.next_end().unwrap(), "the client disconnected in the middle of a request");
    assert_eq!(lab.device.calls(), []);
}

/// A server that gives clients little time.
fn impatient(change: impl FnOnce(&mut Limits)) -> Lab {
    Lab::with(Watched::new(32 * MIB), |mut config: Config| {
        change(&mut config.limits);
        config
    })
}

const SHORT: Duration = Duration::from_millis(200);

#[test]
fn a_handshake_that_takes_too_long_is_ended() {
    let lab = impatient(|limits| limits.handshake = SHORT);
    let mut client = Client::greet(lab.connect());
    client.expect_end();
    assert_eq!(lab.next_end().unwrap(), "the handshake took longer than 200ms");
    // byte by byte is no way out
    let mut client = Client::greet(lab.connect());
    for byte in b"IHAVEOPT" {
        if std::io::Write::write_all(&mut client.wire, &[*byte]).is_err() {
            break;
        }
        std::thread::sleep(SHORT / 4);
    }
    assert_eq!(lab.next_end().unwrap(), "the handshake took longer than 200ms");
}

#[test]
fn a_client_that_stops_in_the_middle_is_ended_and_one_that_is_silent_is_not() {
    let lab = impatient(|limits| limits.stall = SHORT);
    let mut silent = lab.client();
    for (bytes, what) in [
        (request((READ, 0), 1, 0, 1)[..10].to_vec(), "a request"),
        (request((WRITE, 0), 1, 0, 9), "a write"),
        ([request((WRITE, 0), 1, 0, 200_000), vec![1; 100_000]].concat(), "a write"),
        // one that will be refused
        ([request((WRITE, 0), 1, u64::MAX, 200_000), vec![1; 100_000]].concat(), "a write"),
    ] {
        let mut client = lab.client();
        client.send(&bytes);
        client.expect_end();
        assert_eq!(lab.next_end().unwrap(), format!("{what} took longer than 200ms"));
    }
    assert_eq!(silent.read(0, 0, 1), Ok(vec![0]));
}

#[test]
fn a_client_that_takes_no_replies_is_ended() {
    let lab = impatient(|limits| limits.stall = SHORT);
    let mut client = lab.client();
    client.send_request((READ, 0), 1, 0, 32 << 20);
    assert_eq!(lab.next_end().unwrap(), "taking a reply took longer than 200ms");
    // its buffer is free again
    assert_eq!(lab.client().read(0, 0, 1), Ok(vec![0]));
}
